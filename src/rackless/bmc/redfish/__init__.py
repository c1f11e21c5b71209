"""Redfish: a REST protocol for `bmc.core.chassis`. Resources are pure functions of state; `server` speaks HTTP."""
