"""libvirt: servers and networks. Only `binding` imports it, only this package speaks it."""
