"""The real OpenShift installer, run to its end in a lab.

ignition        the bootstrap Ignition config that the installer writes: files, and where they are in its ISO
site            what it says of the cluster: names, VIPs, certificates, hosts and their BMCs
payload         the objects the installer waits for, in its order; pure
serving         the embedded Kubernetes API with the cluster's own certificates
rehearsal       what the stand-in of a bootstrap does, and what stands in for the cluster after it
translation     that config as one of ours, for a bootstrap that installs
libvirt_proxy   between the installer and a libvirt that has no KVM
installer       how the installer is called, and what its lines and exit codes mean
progress        how far the installer of a lab came, for who asks
faults          ways to fail on demand
report          what was proven, what was not, how long it took
"""
