"""What types alone cannot say: rules between the fields of a lab. Pure; returns every problem it finds.

A rule names the fields that its finding rests on. When one of those could not be read, the finding is left out: it would be
about a default that nobody asked for. All other findings are told, so that a person mends a file once.

The rules about networks and addresses are in `network_rules`; those about servers, images and the install are here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rackless.errors import Problem
from rackless.spec import network_rules as network
from rackless.spec.cluster import InstallPayload, Method, OpenshiftSpec
from rackless.spec.discover import Discover
from rackless.spec.images import image_problems
from rackless.spec.lab import LabSpec, Role
from rackless.spec.network_rules import PLACES, Found
from rackless.spec.networks import Provisioning
from rackless.spec.places import INSTALLERS, each_member, members, numbers
from rackless.spec.servers import GIB, BmcProtocol, BmcScheme, ServerFirmware, WayToBoot
from rackless.spec.units import render_size

LIVE_MEMORY = 3 * GIB
"""A bootstrap VM takes 1.5 GiB; one without a disk has the payload and all that it writes in memory, too."""


def find_problems(spec: LabSpec, unsure: Collection[tuple[str, ...]] = ()) -> Iterator[Problem]:
    """`unsure` are the paths of fields that could not be read: the spec has their defaults."""
    for rule in _RULES:
        for problem, needs in rule(spec):
            if not any(_concerns(tuple(need.split(".")), path) for need in needs for path in unsure):
                yield problem


def _concerns(need: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether one path lies within the other; `*` in `need` stands for any name."""
    return all(wanted in ("*", part) for wanted, part in zip(need, path, strict=False))


def _places(spec: LabSpec) -> Iterator[Found]:
    taken: dict[int, str] = {}
    names = [
        name for prefix, group in spec.servers.items() for name in (*group.names(prefix), *group.elastic_names(prefix))
    ]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem("servers", f"there are several servers {name}", hint="give each its own name"), ("servers",)
    for name, number in numbers(spec).items():
        if number in taken:
            path = f"servers.{_group_of(spec, name)}.first"
            words = f"{name} would have the number {number} of {taken[number]}"
            yield Problem(path, words, hint="let the groups begin further apart"), PLACES
            return
        taken[number] = name


def _group_of(spec: LabSpec, name: str) -> str:
    return next(
        prefix for prefix, group in spec.servers.items() if name in (*group.names(prefix), *group.elastic_names(prefix))
    )


def _images(spec: LabSpec) -> Iterator[Found]:
    if spec.image is not None:
        yield from ((problem, ()) for problem in image_problems(spec.image, "image"))
    for name, group in spec.servers.items():
        if group.image is not None:
            yield from ((problem, ()) for problem in image_problems(group.image, f"servers.{name}.image"))


def _groups(spec: LabSpec) -> Iterator[Found]:
    if members(spec):
        return  # the servers of an existing site are described one by one: its number of control planes is not ours to judge
    control_planes = sum(group.count for group in spec.servers.values() if group.role is Role.CONTROL_PLANE)
    if control_planes not in (0, 1, 3, 5):
        problem = Problem(
            "servers",
            f"{control_planes} control planes cannot form a quorum that survives a loss",
            hint="use 1, 3 or 5, or none",
        )
        yield problem, ("servers.*.count", "servers.*.role", "profile")


def _elastic(spec: LabSpec) -> Iterator[Found]:
    for name, group in spec.servers.items():
        if group.elastic is None:
            continue
        path = f"servers.{name}.elastic"
        if group.role is Role.CONTROL_PLANE:
            yield (
                Problem(
                    path,
                    "control planes are not made on demand",
                    hint="make a group of workers or spare servers elastic",
                ),
                (f"servers.{name}.role",),
            )
        if group.members:
            yield Problem(path, "a site has the servers it has", hint="leave out elastic, or members"), ()
        elif group.elastic.max <= group.count:
            problem = Problem(
                f"{path}.max", f"the group has {group.count} servers already", hint=f"say {group.count + 1} or more"
            )
            yield problem, (f"servers.{name}.count",)
        if group.image is not None or spec.image is not None:
            yield Problem(path, "Machines give their hosts the node image", hint="leave out elastic, or image"), ()


def _firmware(spec: LabSpec) -> Iterator[Found]:
    for name, group in spec.servers.items():
        if group.secure_boot and group.firmware is ServerFirmware.BIOS:
            path = f"servers.{name}.secure_boot"
            yield Problem(path, "a BIOS has no secure boot", hint="use firmware: uefi"), (f"servers.{name}.firmware",)


def _names(spec: LabSpec) -> Iterator[Found]:
    for name, group in spec.servers.items():
        names = [*group.names(name), *group.elastic_names(name)] or [f"{name}-0"]
        longest = max(reversed(names), key=len) + f".{spec.name}.{spec.domain}"
        if len(longest) > 64:
            problem = Problem(
                f"servers.{name}",
                f"the host name {longest} has {len(longest)} characters; Linux takes 64",
                hint="shorten the group, the lab or the domain",
            )
            yield problem, ("name", "domain", f"servers.{name}.count")


def _discover(spec: LabSpec) -> Iterator[Found]:
    wanted = spec.networks.provisioning
    if wanted.discover is Discover.OFF:
        return
    path = "networks.provisioning.discover"
    if wanted.mode is not Provisioning.MANAGED:
        words = f"nobody could boot from a network whose mode is {wanted.mode}"
        yield Problem(path, words, hint="make the mode managed"), ("networks.provisioning.mode",)
    if spec.provisioner is not None:
        words = "servers are discovered by the lab's own Ironic, and provisioner names another"
        yield Problem(path, words, hint="leave it out"), ("provisioner",)


def _network_boot(spec: LabSpec) -> Iterator[Found]:
    mode = spec.networks.provisioning.mode
    for name, group in spec.servers.items():
        if group.boot is WayToBoot.MEDIA:
            if group.bmc is BmcProtocol.IPMI:
                words = "IPMI knows no virtual media"
                problem = Problem(
                    f"servers.{name}.boot", words, hint=f"use boot: {WayToBoot.NETWORK}, or bmc: {BmcProtocol.REDFISH}"
                )
                yield problem, (f"servers.{name}.bmc",)
            continue
        media = f"boot: {WayToBoot.MEDIA}"
        own = (
            spec.cluster.method is Method.DIRECT and not group.members
        )  # with the lab's Ironic, which answers DHCP itself
        if mode is Provisioning.DISABLED or (mode is Provisioning.UNMANAGED and own):
            problem = Problem(
                f"servers.{name}.boot",
                f"{name} boots over the network, and networks.provisioning.mode is {mode}",
                hint=f"leave the mode out or make it managed, or use {media}",
            )
            yield problem, ("networks.provisioning.mode", "cluster.method")
        if spec.provisioner is not None:
            problem = Problem(
                f"servers.{name}.boot",
                f"{name} boots over the network with the lab's own Ironic, and provisioner names another",
                hint=f"use {media}",
            )
            yield problem, ("provisioner",)
        if group.secure_boot:
            problem = Problem(
                f"servers.{name}.secure_boot",
                f"{name} boots over the network by iPXE, which is not signed",
                hint=f"use {media}",
            )
            yield problem, (f"servers.{name}.bmc", f"servers.{name}.boot")


def _install(spec: LabSpec) -> Iterator[Found]:
    """What our bootstrap machine cannot do yet."""
    if spec.cluster.method is not Method.IPI:
        return
    needs = ("cluster.method",)
    if not any(group.role is Role.CONTROL_PLANE and group.names(name) for name, group in spec.servers.items()):
        yield Problem("servers", "an install needs a control plane", hint="give a group the role control-plane"), needs
    if spec.provisioner is not None:
        yield Problem("provisioner", "an install brings its own Ironic", hint="leave it out"), needs
    own = spec.networks.provisioning
    if own.mode is not Provisioning.DISABLED and own.gateway in {own.cidr[number] for number in INSTALLERS}:
        path, words = "networks.provisioning.gateway", f"an install takes {own.gateway} for its own Ironic"
        hint = f"leave it out, or choose another of {own.cidr}"
        yield (
            Problem(path, words, hint=hint),
            (*needs, path, "networks.provisioning.cidr", "networks.provisioning.mode"),
        )


def _openshift(spec: LabSpec) -> Iterator[Found]:
    """What an installer of OpenShift needs."""
    needs, wanted = ("cluster", "servers", "networks.provisioning.mode"), spec.cluster.openshift
    if spec.cluster.method is not Method.OPENSHIFT:
        if wanted != OpenshiftSpec():
            words = f"nobody runs an installer with cluster.method: {spec.cluster.method}"
            yield Problem("cluster.openshift", words, hint=f"say method: {Method.OPENSHIFT}, or leave it out"), needs
        return
    path = "cluster.openshift"
    if wanted.installer is None:
        words = "which openshift-install is to be run?"
        yield Problem(f"{path}.installer", words, hint="installer: ./openshift-install"), needs
    if not any(group.role is Role.CONTROL_PLANE and group.names(name) for name, group in spec.servers.items()):
        yield Problem("servers", "an install needs a control plane", hint="give a group the role control-plane"), needs
    if spec.provisioner is not None:
        yield Problem("provisioner", "an install brings its own Ironic", hint="leave it out"), needs
    if wanted.payload is not InstallPayload.REAL:
        for field in ("pull_secret", "release_image", "oc"):
            if getattr(wanted, field):
                words = f"nothing is pulled with payload: {wanted.payload}"
                yield (
                    Problem(f"{path}.{field}", words, hint=f"leave it out, or say payload: {InstallPayload.REAL}"),
                    needs,
                )


def _bootstrap_on(spec: LabSpec) -> Iterator[Found]:
    """A server can be the bootstrap machine only if it boots from virtual media and has the memory to run without a disk."""
    on = spec.cluster.bootstrap.on
    if on is None:
        return
    path, needs = "cluster.bootstrap.on", ("cluster", "servers", "networks.provisioning.mode")
    group = next((group for name, group in spec.servers.items() if on in group.names(name)), None)
    if spec.cluster.method is not Method.IPI:
        yield (
            Problem(path, f"nothing boots a bootstrap with cluster.method: {spec.cluster.method}", hint="leave it out"),
            needs,
        )
    elif group is None or group.role is not Role.WORKER:
        words = f"{on} is no worker of the lab" if group is not None else f"the lab has no server {on}"
        yield Problem(path, words, hint="name a worker: it becomes one when the control plane is there"), needs
    else:
        checks = (
            (group.scheme is BmcScheme.REDFISH_VIRTUALMEDIA, "does not boot by virtual media", "boot: media"),
            (group.firmware is ServerFirmware.UEFI, "has no UEFI", "firmware: uefi"),
            (not group.secure_boot, "starts only what is signed, which the bootstrap is not", "secure_boot: false"),
            (
                group.memory >= LIVE_MEMORY,
                "has too little memory for a bootstrap",
                f"memory: {render_size(LIVE_MEMORY)}",
            ),
        )
        for good, why, instead in checks:
            if not good:
                yield Problem(path, f"{on} {why}", hint=f"say {instead}"), needs
        if spec.networks.provisioning.mode is not Provisioning.DISABLED:
            words = "a bootstrap on a server has no NIC on the provisioning network yet"
            yield Problem(path, words, hint="leave networks.provisioning out, or have the bootstrap in a VM"), needs


def _metal(spec: LabSpec) -> Iterator[Found]:
    """Hosts of metal need names, BMC addresses and MACs that no server of the lab and no other host has."""
    servers = {
        name for prefix, group in spec.servers.items() for name in (*group.names(prefix), *group.elastic_names(prefix))
    }
    macs: dict[str, str] = {member.mac: member.name for _, member in each_member(spec) if member.mac is not None}
    bmcs: dict[str, str] = {}
    for name, host in spec.hosts.items():
        path = f"hosts.{name}"
        if name in servers:
            yield Problem(path, f"{name} is a server of the lab already", hint="call one of them otherwise"), PLACES
        for key, value, taken in (("mac", host.mac, macs), ("bmc", host.bmc, bmcs)):
            if value in taken:
                yield Problem(f"{path}.{key}", f"{value} is already that of {taken[value]}"), (f"{path}.{key}",)
            taken.setdefault(value, name)
        if spec.cluster.method is not Method.DIRECT:
            problem = Problem(
                path, "an install that is not the lab's own takes the lab's own servers only", hint="leave `hosts` out"
            )
            yield problem, ("cluster.method",)


def _storage(spec: LabSpec) -> Iterator[Found]:
    if spec.storage is not None and not spec.storage.is_absolute():
        yield Problem("storage", f"{spec.storage} is not an absolute path"), ()


_RULES = (
    network.overlaps, network.room, _places, network.addresses, network.dhcp_range, network.member_addresses,
    network.member_macs, network.doors, network.routes, network.extra, _groups,
    _elastic, _firmware, _names, _network_boot, _discover, _install, _openshift, _bootstrap_on, _images, _storage,
    network.uplink, network.attach, network.no_dhcp, _metal,
)  # fmt: skip
