"""Twin → lab.yaml with a comment on every decision, and the passwords in files of their own. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePosixPath

from rackless.installer.twin.site import Twin, TwinGroup, TwinServer
from rackless.spec.networks import Provisioning
from rackless.spec.servers import BmcProtocol, BmcScheme, Role, ServerFirmware, WayToBoot


def render(twin: Twin, source: str, passwords: PurePosixPath, *, installed: bool = False) -> str:
    """lab.yaml; `passwords` is the folder of the files that `password_files` names, as lab.yaml sees it. Servers that are
    `installed` get what they need for that."""
    return "\n".join(_lines(twin, source, passwords, installed=installed)) + "\n"


def password_files(twin: Twin) -> dict[str, str]:
    """By file name; for their owner only."""
    return {f"{server.name}.password": server.bmc.password + "\n" for server in twin.servers}


def _lines(twin: Twin, source: str, passwords: PurePosixPath, *, installed: bool) -> Iterator[str]:
    yield f"# The twin of the site in {source}: cluster {twin.domain}."
    yield "# Addresses, names, MACs and BMCs are the file's. What it does not say was decided as each comment tells."
    if twin.deviations:
        yield "#"
        yield "# Otherwise than at the site:"
        yield from (f"#  - {line}" for line in twin.deviations)
    yield "version: 1"
    yield f"name: {_text(twin.name)}"
    yield f"domain: {_text(twin.base_domain)}"
    yield ""
    yield "# Sizes are not in the file. A rehearsal needs no more than these; OpenShift needs 16GiB, 4 CPUs, 120GiB each."
    yield "servers:"
    for group in twin.groups:
        yield from _group(group, passwords, installed=installed)
    yield ""
    yield "networks:"
    yield from _cluster(twin)
    yield "  bmc:"
    yield f"    cidr: {twin.bmc_network}"
    yield f"    access: {twin.bmc_access}  # the file cannot tell; --bmc-access routed puts them behind a router of their own"
    yield from _provisioning(twin)
    yield "  uplink: none  # the twin reaches nothing outside"
    if twin.records:
        yield "  dns:"
        yield "    records:"
        yield from (f"      {_text(name)}: {address}  # {what}" for name, (address, what) in twin.records.items())


def _group(group: TwinGroup, passwords: PurePosixPath, *, installed: bool) -> Iterator[str]:
    yield f"  {group.name}:"
    yield f"    role: {group.role}"
    if installed and group.role is Role.CONTROL_PLANE:
        yield "    memory: 2GiB  # one of them runs metal3"
    yield f"    bmc: {BmcProtocol.IPMI if group.scheme is BmcScheme.IPMI else BmcProtocol.REDFISH}"
    yield f"    boot: {WayToBoot.NETWORK if group.scheme.boots_over_network else WayToBoot.MEDIA}"
    if group.firmware is ServerFirmware.BIOS:
        yield "    firmware: bios"
    if group.secure_boot:
        yield "    secure_boot: true"
    if group.extra_nics:
        yield f"    extra_nics: {min(group.extra_nics, 8)}"
    if group.virtio:
        yield "    disk_bus: virtio  # rootDeviceHints name /dev/vd…"
    yield "    members:"
    for server in group.servers:
        yield from _member(server, group.scheme, passwords)


def _member(server: TwinServer, scheme: BmcScheme, passwords: PurePosixPath) -> Iterator[str]:
    bmc = server.bmc
    yield f"    - name: {_text(server.name)}"
    yield f"      mac: {_text(server.mac)}"
    if server.cluster_mac:
        yield f"      cluster_mac: {_text(server.cluster_mac)}"
    yield f"      address: {server.address}"
    if server.disk_serial:
        yield f"      disk_serial: {_text(server.disk_serial)}"
    parts = [f"address: {bmc.address}", f"port: {bmc.port}"]
    if scheme is not BmcScheme.IPMI:
        parts += [f"http: {str(bmc.http).lower()}", f"system: {_text(bmc.system)}"]
    parts += [f"username: {_text(bmc.username)}"]
    parts += [f"password_file: {_text(str(passwords / f'{server.name}.password'))}"]
    yield f"      bmc: {{{', '.join(parts)}}}"


def _cluster(twin: Twin) -> Iterator[str]:
    yield "  cluster:"
    yield f"    cidr: {twin.machine}"
    yield f"    gateway: {twin.gateway}  # {twin.gateway_why}"
    yield f"    bridge: {_text(twin.bridge)}"
    yield f"    api_vip: {twin.api_vip}"
    yield f"    ingress_vip: {twin.ingress_vip}"
    yield f"    dhcp: {twin.dhcp}  # the file cannot tell; --dhcp static-only is a site without a pool, open one for everybody"
    yield "    bootstrap:"
    if twin.bootstrap_mac:
        yield f"      mac: {_text(twin.bootstrap_mac)}"
    else:
        yield "      # no externalMACAddress in the file: the installer takes a random one, which gets an address of `range`"
    yield f"      address: {twin.bootstrap_address}"
    yield f"      range: {twin.bootstrap_range[0]}-{twin.bootstrap_range[1]}"


def _provisioning(twin: Twin) -> Iterator[str]:
    provisioning = twin.provisioning
    yield "  provisioning:"
    yield f"    mode: {provisioning.mode}"
    if provisioning.mode is Provisioning.DISABLED:
        return
    yield f"    cidr: {provisioning.cidr}"
    if provisioning.gateway is not None:
        yield f"    gateway: {provisioning.gateway}  # the lab's own address there"
    yield f"    bridge: {_text(provisioning.bridge)}"


def _text(value: str) -> str:
    """Quoted as JSON, which is YAML too: what stood in somebody else's file is a text here, whatever is in it."""
    return json.dumps(value, ensure_ascii=False)
