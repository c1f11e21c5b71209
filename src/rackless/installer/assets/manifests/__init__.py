"""Manifests: the objects that a new cluster is given, in OpenShift's and Metal3's own shapes, one file each.

`manifests/` is about the cluster as a whole, `openshift/` about its hosts and machines; file names are the installer's.
"""
