"""What is installed: install-configs, checked and written as the installer would."""
