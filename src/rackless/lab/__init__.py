"""The metal: namespaces, networks, servers and the services they need."""
