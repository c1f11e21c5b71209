"""MachineConfigs: what machines of a role are told, as objects; ours, and those that people add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from rackless.installer.assets.asset import Asset, Given, Mistake, Parts, as_is
from rackless.installer.assets.documents import render
from rackless.installer.assets.ignition.parts import ssh_user
from rackless.installer.assets.install_config import INSTALL_CONFIG
from rackless.installer.assets.manifests import checking
from rackless.installer.assets.manifests.objects import Json, thing
from rackless.installer.assets.pointers import VERSION

API_VERSION, KIND = "machineconfiguration.openshift.io/v1", "MachineConfig"
ROLE = "machineconfiguration.openshift.io/role"
_PREFIX = "openshift/99_openshift-machineconfig_"
_BEYOND = ("kernelArguments", "kernelType", "extensions", "osImageURL", "fips")
"""What only an operating system of OpenShift's can be told."""


def _make(given: Given) -> Parts:
    config = given.of(INSTALL_CONFIG)
    keys = config.text("sshKey")
    if not keys.strip():
        return {}
    roles = ["master", "worker", *(["arbiter"] if config.arbiter else [])]
    return {f"{_PREFIX}99-{role}-ssh.yaml": render(_ssh(role, keys)) for role in roles}


def _ssh(role: str, keys: str) -> Json:
    config = {"ignition": {"version": VERSION}, "passwd": {"users": [ssh_user(keys)]}}
    return thing(API_VERSION, KIND, f"99-{role}-ssh", labels={ROLE: role}, spec={"config": config})


def mistakes(path: str, text: str) -> Iterator[Mistake]:
    found = list(checking.mistakes(path, text))
    yield from found
    if found:
        return
    for number, each in enumerate(checking.objects(text)):
        if each["kind"] == KIND and each["apiVersion"] == API_VERSION:
            yield from _machine_config(path, text, number, each)


def _machine_config(path: str, text: str, number: int, each: Json) -> Iterator[Mistake]:
    spec = each.get("spec") or {}
    config = spec.get("config") or {}
    version = (config.get("ignition") or {}).get("version", "")
    if config and not str(version).startswith("3."):
        line = checking.line_in(text, number, "spec.config")
        yield Mistake(path, line, f"spec.config.ignition.version is {version or 'missing'}", "write 3.2.0 or newer")
    for field in _BEYOND:
        if spec.get(field):
            line = checking.line_in(text, number, f"spec.{field}")
            yield Mistake(path, line, f"spec.{field}: nodes here cannot be told this", "remove it")


MACHINE_CONFIG_MANIFESTS = Asset(
    "machine-config-manifests", "Machine Configs", _make, as_is, (INSTALL_CONFIG,), files=(f"{_PREFIX}*.yaml",),
    check=mistakes,
)  # fmt: skip

_ENDS = ("yaml", "yml", "json")
EXTRA_MANIFESTS = Asset(
    "extra-manifests", "Extra Manifests", lambda given: {}, as_is,
    files=tuple(f"{folder}/*.{end}" for folder in ("manifests", "openshift") for end in _ENDS), check=mistakes,
)  # fmt: skip
"""Whatever else people put into the two folders."""


def configs_of(role: str, manifests: Mapping[str, str]) -> list[dict[str, Any]]:
    """The Ignition configs that MachineConfigs have for a role, in the order of their names."""
    found: list[tuple[str, Json]] = []
    for text in manifests.values():
        try:
            objects = checking.objects(text)
        except yaml.YAMLError:  # pragma: no cover - it was checked
            continue
        for each in objects:
            labels = each["metadata"].get("labels") or {}
            if each["kind"] == KIND and each["apiVersion"] == API_VERSION and labels.get(ROLE) == role:
                found.append((each["metadata"]["name"], (each.get("spec") or {}).get("config") or {}))
    return [config for _, config in sorted(found, key=lambda one: one[0])]
