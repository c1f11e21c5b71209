"""A twin: a lab made after the install-config of a real site, with its addresses, MACs, BMC paths and accounts.

    nmstate    what a host's networkConfig says of its addresses
    root_disks which disk gets the system, as far as a lab's can be it
    places     who gets which address where the file does not say
    site       Config → Twin: what the lab is to be, what was decided for the file, what differs
    rendering  Twin → lab.yaml, with a comment on every decision, and the passwords apart

All of it is pure. A pull secret is not read here.
"""
