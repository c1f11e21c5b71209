"""Nodes seen over the network: ssh, etcd, ARP and the cluster's own API."""
