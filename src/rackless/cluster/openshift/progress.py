"""How far the installer of a lab with `method: openshift` came, in a file of the lab: for `status`, and for the next `up`."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

from rackless.codec import BadValue, decode, encode
from rackless.ports.process import ProcessTable
from rackless.protocol.messages import InstallStatus
from rackless.run.files import write
from rackless.run.paths import LabPaths


def note_install(paths: LabPaths, status: InstallStatus) -> None:
    write(paths.installer_state, json.dumps(encode(status)) + "\n")


def describe_install(paths: LabPaths, processes: ProcessTable) -> InstallStatus | None:
    """None where no installer was run; one that says that it runs and does not was cut off."""
    try:
        told = paths.installer_state.read_text()
    except FileNotFoundError:
        return None
    with suppress(ValueError, BadValue):
        found = decode(InstallStatus, json.loads(told))
        if found.state == "running" and processes.find(paths.installer_pid) is None:
            return replace(found, state="cut off")
        return found
    return None
