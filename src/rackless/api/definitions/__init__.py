"""The kinds of the field, as definitions of our own: Metal3's hosts, OpenShift's machines."""
