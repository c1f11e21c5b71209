"""The installer's inputs: install-configs, checked by the installer's rules and written; assets and Ignition configs; twins of
sites."""
