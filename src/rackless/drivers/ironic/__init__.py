"""Real Ironic as the provisioning engine: its environment, its configuration, its process and its API."""
