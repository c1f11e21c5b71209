"""The installer's manifests as the rehearsal's bootstrap applies them. Pure.

Hosts and machines that OpenShift's deploy step would write get the reference system; BMCs and addresses are told in the words of
the rehearsal's engine (`driving`). Before all there is what OpenShift's payload would bring: namespaces, definitions.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import yaml

from rackless.api.definitions.hosts import HOSTS
from rackless.api.definitions.machines import MACHINES
from rackless.api.kinds.builtin import BUILTIN
from rackless.cluster.openshift import driving, payload
from rackless.cluster.openshift.faults import InstallFault
from rackless.cluster.openshift.ignition import NoIgnition
from rackless.cluster.openshift.payload import Json
from rackless.cluster.openshift.site import HOME, ClusterSite
from rackless.installer.assets.documents import render
from rackless.installer.assets.manifests.definitions import DEFINITIONS
from rackless.installer.assets.manifests.images import METHOD
from rackless.installer.assets.manifests.objects import thing
from rackless.installer.assets.release import ReleaseFile

_GROUND = "manifests/00_rehearsal.yaml"
_ENDINGS = (".yaml", ".yml", ".json")
WRONG_PASSWORD = "wrong-as-asked-for-by-fail"


class _Texts(yaml.SafeLoader):
    """Dates stay texts, as JSON has them and as the installer means them."""


_Texts.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in listed if tag != "tag:yaml.org,2002:timestamp"]
    for first, listed in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def translate_manifests(site: ClusterSite, node: ReleaseFile, fault: InstallFault | None = None) -> dict[str, str]:
    """By path."""
    read = dict(_read(site))
    networks = dict(_networks(read, site))
    spoilt = _spoilt(site) if fault is InstallFault.HOST_ERROR else None
    found: dict[str, str] = {}
    objects: list[Json] = []
    for path, things in read.items():
        changed = [_with_system(each, node) for each in things]
        for number, each in enumerate(changed):
            if each["kind"] == "Secret":
                changed[number] = networks.get(_place(each)) or each
                if each["metadata"]["name"] == spoilt:
                    each.pop("stringData", None)
                    each["data"]["password"] = base64.b64encode(WRONG_PASSWORD.encode()).decode()
            elif each["kind"] == "BareMetalHost":
                driving.drivable(each, told=networks.get(_network_secret(things[number])) is not None)
        found[path] = render(*changed)
        objects += changed
    return {_GROUND: render(*_ground(objects)), **found}


def _networks(read: dict[str, list[Json]], site: ClusterSite) -> Iterator[tuple[tuple[str, str], Json | None]]:
    """By the Secret that has a host's addresses: what it is to be; None where they cannot be told."""
    mode = str((provisioning(site).get("spec") or {}).get("provisioningNetwork"))
    things = [one for listed in read.values() for one in listed]
    secrets = {_place(each): each for each in things if each["kind"] == "Secret"}
    for host in (each for each in things if each["kind"] == "BareMetalHost"):
        if (secret := secrets.get(_network_secret(host))) is not None:
            yield _place(secret), driving.readdress(secret, host, site.machine_network, mode)


def _network_secret(host: Json) -> tuple[str, str]:
    return _place(host)[0], str(host["spec"].get("preprovisioningNetworkDataName") or "")


def _read(site: ClusterSite) -> Iterator[tuple[str, list[Json]]]:
    for path, data in sorted(site.bootstrap.files.items()):
        if not path.startswith(f"{HOME}/"):
            continue
        folder, _, name = path.removeprefix(f"{HOME}/").partition("/")
        if folder in ("manifests", "openshift") and "/" not in name and name.endswith(_ENDINGS):
            if things := [each for each in yaml.load_all(data, _Texts) if each]:
                yield f"{folder}/{name}", things


def _place(each: Json) -> tuple[str, str]:
    return str(each["metadata"].get("namespace") or ""), str(each["metadata"]["name"])


def _spoilt(site: ClusterSite) -> str | None:
    """The Secret of the account that is to be refused: the first control plane's."""
    first = next((host for host in site.hosts if host.control_plane), None)
    return str(first.manifest["spec"]["bmc"]["credentialsName"]) if first is not None else None


def _with_system(each: Json, node: ReleaseFile) -> Json:
    """`install_coreos` as an image to be written; what only another API server would take is left out."""
    each = deepcopy(each)
    if each["kind"] == "ClusterVersion":
        each["metadata"].pop("namespace", None)  # it has none, whatever its manifest says
    if each["kind"] == "Provisioning":
        each["spec"]["provisioningOSDownloadURL"] = (
            ""  # the live ISO's, from the installer's environment: no system for hosts
        )
    steps = _SPECS.get(each["kind"])
    if steps is None:
        return each
    spec: Any = each
    for step in steps:
        spec = spec.get(step) or {}
    if (spec.get("customDeploy") or {}).get("method") == METHOD:
        del spec["customDeploy"]
        spec["image"] = {"url": node.url, "checksum": node.sha256, "checksumType": "sha256"}
    return each


_SPECS = {
    "BareMetalHost": ("spec",),
    "Machine": ("spec", "providerSpec", "value"),
    "MachineSet": ("spec", "template", "spec", "providerSpec", "value"),
}
"""Where an object says what is put on a host."""


def _ground(objects: list[Json]) -> list[Json]:
    """Namespaces and definitions of all kinds that the objects are of and no API of ours has by itself."""
    spaces = {str(each["metadata"].get("namespace") or "") for each in objects} | set(payload.NAMESPACES)
    known = {("" if not each.group else each.group, each.kind) for each in BUILTIN}
    ours = (*HOSTS, *MACHINES)  # the API server has these from its start
    known |= {(each["spec"]["group"], each["spec"]["names"]["kind"]) for each in ours}
    made = [*DEFINITIONS]
    for each in (*payload.definitions(), *(_free_definition(one) for one in objects if "/" in one["apiVersion"])):
        place = each["spec"]["group"], each["spec"]["names"]["kind"]
        if place not in known and place not in {(one["spec"]["group"], one["spec"]["names"]["kind"]) for one in made}:
            made.append(each)
    there = ("", "default", "kube-system", "kube-public", "kube-node-lease")
    return [*(thing("v1", "Namespace", name) for name in sorted(spaces) if name not in there), *made]


def _free_definition(each: Json) -> Json:
    group, _, version = each["apiVersion"].rpartition("/")
    kind = each["kind"]
    plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
    return payload.definition(group, version, kind, plural, bool(each["metadata"].get("namespace")))


def provisioning(site: ClusterSite) -> Json:
    """The cluster's Provisioning. Raises NoIgnition."""
    for path, data in site.bootstrap.files.items():
        if path.startswith(f"{HOME}/openshift/") and b"kind: Provisioning" in data:
            found: Json = yaml.safe_load(data)
            return found
    raise NoIgnition("the installer's config has no Provisioning")
