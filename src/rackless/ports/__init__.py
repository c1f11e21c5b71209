"""Ports: what rackless needs from the outside (libvirt, links, nftables, processes, Ironic, Kubernetes), as small protocols
without logic."""
