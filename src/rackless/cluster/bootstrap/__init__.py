"""The bootstrap machine of an install: the VM it stands in, and what runs on it until the control plane takes over.

`vm` makes it and takes it away, from the lab's side. Everything else here runs on it, each part as a unit of its own, and
tells on the serial console how it goes (`telling`): that is all the lab sees of a machine whose network may not work.
"""
