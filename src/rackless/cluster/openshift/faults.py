"""Ways in which an installation fails, on demand: to train people, and to see what the installer makes of them."""

from __future__ import annotations

from enum import StrEnum


class InstallFault(StrEnum):
    API_NEVER_UP = "api-never-up"
    HOST_ERROR = "host-error"
    CONFIG_MAP_MISSING = "configmap-missing"
    ETCD_STAYS = "etcd-stays"
    OPERATOR_DEGRADED = "operator-degraded"
    OPERATOR_UNSTABLE = "operator-unstable"
    NO_CONSOLE = "no-console"
    ISO_MISSING = "iso-missing"
    ISO_DAMAGED = "iso-damaged"
    BOOTSTRAP_OFF = "bootstrap-off"
    INTERRUPTED = "interrupted"


STORIES = {
    InstallFault.API_NEVER_UP: "the bootstrap boots and never serves the API; the installer waits 20 minutes, then 5",
    InstallFault.HOST_ERROR: "a control plane's host is in error; the installer waits an hour, then 5",
    InstallFault.CONFIG_MAP_MISSING: "nobody says that bootstrapping is complete; the installer waits an hour, then 5",
    InstallFault.ETCD_STAYS: "etcd keeps the bootstrap's member; the installer waits without a limit",
    InstallFault.OPERATOR_DEGRADED: "a cluster operator is degraded; the installer waits an hour, then 6",
    InstallFault.OPERATOR_UNSTABLE: "a cluster operator does not come to rest; the installer waits half an hour, then 7",
    InstallFault.NO_CONSOLE: "there is no route to the console; the installer warns and ends with 0",
    InstallFault.ISO_MISSING: "the live ISO is not where the installer looks; it ends with 4",
    InstallFault.ISO_DAMAGED: "the live ISO is not what it should be; the installer ends with 4",
    InstallFault.BOOTSTRAP_OFF: "the bootstrap machine is switched off while the installer waits for it; it ends with 1",
    InstallFault.INTERRUPTED: "somebody interrupts the installer while it waits for the API; it ends with 8",
}
"""What happens at the site, and how the installer ends when nobody stops it."""
PATIENCE_SECONDS = 20.0
"""How long the installer is left waiting in vain before it is interrupted, unless its own patience is to run out."""
EXPECTED = {
    InstallFault.NO_CONSOLE: 0,
    InstallFault.ISO_MISSING: 4,
    InstallFault.ISO_DAMAGED: 4,
    InstallFault.BOOTSTRAP_OFF: 1,
}
"""How it ends when it is not interrupted first; the others end with 8, by an interrupt, at the wait's first line."""
EXPECTED_IN_FULL = {InstallFault.NO_CONSOLE: 0, InstallFault.ISO_MISSING: 4, InstallFault.ISO_DAMAGED: 4}
"""The same in a full rehearsal: without its bootstrap machine nobody installs anything, and the installer waits in vain."""
RUNS_OUT = {
    InstallFault.API_NEVER_UP: 5,
    InstallFault.HOST_ERROR: 5,
    InstallFault.CONFIG_MAP_MISSING: 5,
    InstallFault.OPERATOR_DEGRADED: 6,
    InstallFault.OPERATOR_UNSTABLE: 7,
    InstallFault.BOOTSTRAP_OFF: 5,
}
"""How those end that are left waiting until the installer's own patience has run out."""
PLAYED_AFTERWARDS = (
    InstallFault.ETCD_STAYS, InstallFault.OPERATOR_DEGRADED, InstallFault.OPERATOR_UNSTABLE, InstallFault.NO_CONSOLE,
)  # fmt: skip
"""Failures of who writes what the installer waits for after its bootstrap: in a full rehearsal one of its control planes."""
