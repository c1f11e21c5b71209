"""Redfish: a REST language for `bmc.chassis`. Resources are pure functions of state; `server` speaks HTTP."""
