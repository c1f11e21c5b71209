"""When the installer of a full rehearsal that is to fail begins to wait in vain, by what its bootstrap tells. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rackless.cluster.openshift.faults import InstallFault

LAST_PHASE = "provisioning"
"""Of a host; after it the installer waits for the ConfigMap."""


class VainWait:
    def __init__(self, fault: InstallFault | None, control_planes: Collection[str]) -> None:
        self._fault = fault
        self._left = {f"host/{name}" for name in control_planes}

    def hear(self, installs: Mapping[str, Any]) -> str:
        """What the installer waits for in vain from now on; empty while nothing speaks for it."""
        subject, ended = str(installs.get("subject") or ""), installs.get("ended")
        match self._fault:
            case InstallFault.HOST_ERROR if subject in self._left and installs.get("outcome") == "failed":
                return f"the control plane {subject.removeprefix('host/')}, which is in error: {installs.get('detail', '')}"
            case InstallFault.CONFIG_MAP_MISSING if ended == LAST_PHASE and installs.get("outcome") in (
                "done",
                "unchanged",
            ):
                waited = bool(self._left)
                self._left.discard(subject)
                if waited and not self._left:
                    return "the ConfigMap kube-system/bootstrap, which nobody writes"
            case InstallFault.ETCD_STAYS if installs.get("phase") == "complete":
                return "etcd to give up the bootstrap's member, which it never does"
        return ""
