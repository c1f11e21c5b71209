"""Machines and MachineSets over BareMetalHosts, in the words of OpenShift's Machine API and of Metal3's provider for it.

    MachineSet ─▶ Machine ─▶ claims a BareMetalHost ─▶ the host is provisioned ─▶ its system joins as a Node

What is decided is decided by pure functions of what is seen (`choosing`, `living`, `deleting`, `counting`); the
controllers read from caches and carry out.
"""
