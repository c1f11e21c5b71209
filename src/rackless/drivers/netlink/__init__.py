"""Links and addresses by netlink."""
