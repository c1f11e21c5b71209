"""Screenshot, console log and ssh keys of servers, for a lab's owner who is not root.

Only files of the lab's own are opened here, found by the name of a server that the lab has.
"""

from __future__ import annotations

import base64
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rackless.cluster.reference.keys import Keys
from rackless.errors import LabError
from rackless.lab.screen import ppm_to_png
from rackless.ports.process import Processes
from rackless.protocol.messages import ConsoleSeen, Screen, SshKeys
from rackless.run.paths import LabPaths

_PICTURE_WITHIN = 30.0
_MOST_LINES = 10_000
_TAIL = 4 << 20
"""Bytes of a console's log that are read for its last lines."""


@dataclass(frozen=True, slots=True)
class LabShowing:
    paths: LabPaths
    processes: Processes

    async def screen(self, server: str) -> Screen:
        """`server` is one that the lab has."""
        scratch = self.paths.run / f"{server}.{secrets.token_hex(4)}.shown"  # two may ask at the same time
        try:
            command = ["virsh", "--quiet", "screenshot", server, str(scratch)]
            done = await self.processes.run(command, check=False, within=_PICTURE_WITHIN)
            if done.code:
                hint = f"`rackless power {server} on` first"
                raise LabError(f"{server} shows no picture", why=done.stderr.strip(), hint=hint)
            data = scratch.read_bytes()
        finally:
            scratch.unlink(missing_ok=True)
        png = data if data.startswith(b"\x89PNG") else ppm_to_png(data)
        return Screen(base64.b64encode(png).decode())

    async def console(self, server: str, lines: int) -> ConsoleSeen:
        command = ["virsh", "--quiet", "ttyconsole", server]
        done = await self.processes.run(command, check=False, within=_PICTURE_WITHIN)
        terminal = done.stdout.strip() if done.code == 0 else ""
        log = self.paths.console(server)
        return ConsoleSeen(str(log), terminal or None, tuple(_last_lines(log, min(lines, _MOST_LINES))))

    def ssh_keys(self) -> SshKeys:
        """The lab's ssh key and the nodes' host keys; those of nodes that an install made are not known here."""
        keys = Keys(self.paths.cluster_keys)
        installed = self.paths.install_kubeconfig.exists()
        if not keys.admin.exists() or not (installed or keys.known_hosts.exists()):
            raise LabError("no node has a system yet", hint="`rackless up` provisions them")
        return SshKeys(keys.admin.read_text(), "" if installed else keys.known_hosts.read_text())


def _last_lines(log: Path, count: int) -> list[str]:
    with suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        return file.read().decode(errors="replace").splitlines()[-count:] if count else []
    return []
