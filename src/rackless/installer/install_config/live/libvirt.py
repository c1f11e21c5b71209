"""Bridges as the installer finds them: by libvirt, which knows less than the kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rackless.errors import CommandFailed, GaveUp, HypervisorError
from rackless.installer.install_config.config import METAL, Config
from rackless.installer.install_config.live.probe import Probe, failed, ok, unknown
from rackless.ports.process import Processes

_WITHIN = 15.0


@dataclass(frozen=True, slots=True)
class Bridges:
    names: frozenset[str] | None
    """None: libvirt could not be asked."""
    probes: tuple[Probe, ...]


async def observe(config: Config, processes: Processes) -> Bridges:
    metal = config.metal
    if metal is None:
        return Bridges(None, ())
    wanted = [("externalBridge", metal.external_bridge)]
    if not metal.disabled:
        wanted.append(("provisioningBridge", metal.provisioning_bridge))
    did = f"asked libvirt at {metal.libvirt_uri} for its interfaces and networks"
    try:
        names = await visible(metal.libvirt_uri, processes)
    except HypervisorError:
        return Bridges(None, (unknown("bridges", did, "virsh is not installed here", "install libvirt's clients"),))
    except (CommandFailed, GaveUp) as error:
        said = str(error).strip().splitlines()[-1]
        return Bridges(
            None, (failed("libvirt", did, said, "the installer needs a libvirt that answers", f"{METAL}.libvirtURI"),)
        )
    listed = ", ".join(sorted(names)) or "none"
    probes = [
        ok(f"bridge {bridge}", did, "it is there and active", f"{METAL}.{field}")
        if bridge in names
        else failed(f"bridge {bridge}", did, f"only these would be found: {listed}",
                    "define a libvirt network of the same name as its bridge and start it, or correct the "
                    "name", f"{METAL}.{field}")
        for field, bridge in wanted
    ]  # fmt: skip
    return Bridges(names, tuple(probes))


async def visible(uri: str, processes: Processes) -> frozenset[str]:
    """Active interfaces, and active networks that are called like their bridge."""

    async def virsh(*words: str) -> str:
        return (await processes.run(["virsh", "-q", "-c", uri, *words], within=_WITHIN)).stdout

    names: set[str] = set()
    try:
        for line in (await virsh("iface-list")).splitlines():
            words = line.split()
            if len(words) >= 2 and words[1] == "active":
                names.add(words[0])
    except CommandFailed:
        pass  # this libvirt has no interface driver; the installer then looks at networks only
    for name in (await virsh("net-list", "--name")).split():
        found = re.search(r"^Bridge:\s*(\S+)", await virsh("net-info", name), re.MULTILINE)
        if found and found[1] == name:
            names.add(name)
    return frozenset(names)
