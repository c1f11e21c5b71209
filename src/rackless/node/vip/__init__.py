"""`rackless-vip`: the API's address (VIP) on the one control plane that may have it.

A record in etcd says who that is. Whoever has it renews the record every few seconds, and the kernel forgets the address when that
was not done in time: also where this program, or the whole machine, was stopped. Others take the record only after that. VRRP,
which such addresses usually move by, cannot promise it: a control plane that hears no adverts takes the address, whoever has it.
"""
