"""Ready-made sets of servers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from rackless.spec.servers import GIB, Role, ServerGroup


class Profile(StrEnum):
    TINY = "tiny"
    COMPACT = "compact"
    FULL = "full"


_OPENSHIFT_CONTROL = ServerGroup(role=Role.CONTROL_PLANE, count=3, memory=16 * GIB, vcpus=4, disk=120 * GIB)
_OPENSHIFT_WORKER = ServerGroup(role=Role.WORKER, count=2, memory=8 * GIB, vcpus=2, disk=120 * GIB)

PROFILES: Mapping[Profile, Mapping[str, ServerGroup]] = {
    Profile.TINY: {
        "ctrl": ServerGroup(role=Role.CONTROL_PLANE, count=3),
        "worker": ServerGroup(role=Role.WORKER, count=1),
    },
    Profile.COMPACT: {"ctrl": _OPENSHIFT_CONTROL},
    Profile.FULL: {"ctrl": _OPENSHIFT_CONTROL, "worker": _OPENSHIFT_WORKER},
}
