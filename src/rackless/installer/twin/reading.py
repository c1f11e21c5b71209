"""A file → Twin, or why there is none. The lab that comes of it is held against the rules of labs before it is written."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from rackless.errors import InputError, SpecError
from rackless.installer.install_config.checking import check, read_config
from rackless.installer.install_config.config import Config
from rackless.installer.install_config.release import NEWEST, Release
from rackless.installer.twin import rendering
from rackless.installer.twin.site import NoTwin, Twin, Wishes, make_twin
from rackless.spec import load


def read_site(source: Path, release: Release = NEWEST) -> Config:
    try:
        text = source.read_bytes().decode("utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise InputError(f"{source} cannot be read", why=error.strerror or str(error)) from error
    config = read_config(text, release)
    if config is None:
        wrong = [f"line {one.line}: {one.message}" for one in check(text, release).findings if one.rule == "yaml"]
        raise InputError(f"{source} is no install-config", why="\n".join(wrong[:3]) or "it is not a mapping of fields")
    return config


def read_twin(source: Path, wishes: Wishes, release: Release = NEWEST) -> Twin:
    """Raises InputError, of which NoTwin says what a lab cannot be."""
    twin = make_twin(read_site(source, release), wishes)
    text = rendering.render(twin, source.name, PurePosixPath("/nowhere"))
    try:
        load.parse(text, f"the twin of {source.name}")
    except SpecError as error:
        raise NoTwin(
            f"{source.name} cannot have a twin",
            why="\n".join(site_words(f"{problem.path}: {problem.message}", twin) for problem in error.problems),
            hint="`rackless check install-config` may tell what is wrong with the site",
        ) from error
    return twin


_MEMBER = re.compile(r"servers\.([^.\s]+)\.members\.(\d+)(?:\.([a-z_.]+))?")
_FIELDS = {
    "mac": "bootMACAddress", "cluster_mac": "the mac-address in networkConfig", "address": "the address", "name": "the name",
    "bmc.address": "the BMC", "bmc.port": "the port of the BMC", "bmc.http": "the transport of the BMC",
}  # fmt: skip
_WORDS = {
    "networks.cluster.bootstrap.address": "the bootstrap's address",
    "networks.cluster.bootstrap.range": "the addresses for the bootstrap",
    "networks.cluster.bootstrap.mac": "externalMACAddress",
    "networks.cluster.api_vip": "the API VIP",
    "networks.cluster.ingress_vip": "the ingress VIP",
    "networks.cluster.gateway": "the gateway",
    "networks.cluster.bridge": "externalBridge",
    "networks.cluster.cidr": "the machine network",
    "networks.provisioning.cidr": "the provisioning network",
    "networks.provisioning.bridge": "provisioningBridge",
    "networks.bmc.cidr": "the network of the BMCs",
    "domain:": "baseDomain:",
}


def site_words(told: str, twin: Twin) -> str:
    """What a rule of labs says, in the words of the file that the lab was made after."""

    def member(found: re.Match[str]) -> str:
        group = next((one for one in twin.groups if one.name == found[1]), None)
        if group is None or int(found[2]) >= len(group.servers):
            return found[0]
        name = group.servers[int(found[2])].name
        return f"{_FIELDS.get(found[3], found[3])} of {name}" if found[3] else name

    told = _MEMBER.sub(member, told)
    for ours, theirs in _WORDS.items():
        told = told.replace(ours, theirs)
    return told
