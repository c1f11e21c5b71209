"""Feature sets and gates: fields that only exist for those who asked for previews."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rackless.installer.install_config.building import texts
from rackless.installer.install_config.config import METAL, Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import load_rule

TECH, DEV, CUSTOM = "TechPreviewNoUpgrade", "DevPreviewNoUpgrade", "CustomNoUpgrade"
_SETS = ("", "Default", TECH, DEV, CUSTOM)
_TRUE = frozenset("1 t T TRUE true True".split())
_BOOLS = _TRUE | frozenset("0 f F FALSE false False".split())


@dataclass(frozen=True, slots=True)
class FeatureGate:
    previews: tuple[str, ...]
    general: Release | None = None
    """On by default from here on."""


GATES = {
    "OnPremDNSRecords": FeatureGate((TECH, DEV)),
    "BGPBasedVIPManagement": FeatureGate((DEV,)),
    "DualReplica": FeatureGate((TECH, DEV), general=Release(5, 0)),
    "HighlyAvailableArbiter": FeatureGate((TECH, DEV), general=Release(4, 20)),
    "MultiDiskSetup": FeatureGate((TECH, DEV)),
    "OSStreams": FeatureGate((TECH, DEV)),
    "ConfigurablePKI": FeatureGate((TECH, DEV)),
}


def enabled(config: Config, name: str) -> bool:
    gate, chosen = GATES[name], config.text("featureSet")
    by_default = gate.general is not None and config.release >= gate.general
    if chosen == CUSTOM:
        for one in texts(config.values, "featureGates"):
            key, _, value = one.partition("=")
            if key == name:
                return value in _TRUE
        return by_default
    return by_default or chosen in gate.previews


def feature_set(config: Config) -> Iterator[RuleProblem]:
    chosen = config.text("featureSet")
    if chosen not in _SETS:
        yield RuleProblem(
            "featureSet", f"{chosen!r} is not a feature set", f"use one of {', '.join(_SETS[2:])}, or none"
        )
    gates = texts(config.values, "featureGates")
    if gates and chosen != CUSTOM:
        yield RuleProblem(
            "featureGates",
            f"gates can be set only with featureSet {CUSTOM}",
            f"add featureSet: {CUSTOM}, or remove them",
        )
    for index, one in enumerate(gates):
        _, equals, value = one.partition("=")
        if not equals or "=" in value or value not in _BOOLS:
            yield RuleProblem(f"featureGates[{index}]", f"{one!r} is not NAME=true or NAME=false", "write it so")


def gated_fields(config: Config) -> Iterator[RuleProblem]:
    if any(feature_set(config)):
        return
    for gate, path in _used(config):
        if not enabled(config, gate):
            sets = " or ".join(GATES[gate].previews)
            yield RuleProblem(
                path,
                f"this is behind the feature gate {gate}, which is off",
                f"set featureSet: {sets} (no upgrades then), or remove it",
            )


def _used(config: Config) -> Iterator[tuple[str, str]]:
    metal = config.metal
    if metal and metal.dns_records == "External":
        yield "OnPremDNSRecords", f"{METAL}.dnsRecordsType"
    if metal and (metal.bgp or any(host.bgp_peers for host in config.hosts)):
        yield "BGPBasedVIPManagement", f"{METAL}.bgpVIPConfig"
    if config.control_plane.fencing:
        yield "DualReplica", "controlPlane.fencing"
    if config.control_plane.disk_setup:
        yield "MultiDiskSetup", "controlPlane.diskSetup"
    if any(pool.disk_setup for pool in config.compute):
        yield "MultiDiskSetup", "compute.diskSetup"
    stream = config.text("osImageStream")
    if stream and stream != ("rhel-10" if config.release >= Release(5, 0) else "rhel-9"):
        yield "OSStreams", "osImageStream"
    if "pki" in config.values:
        yield "ConfigurablePKI", "pki"
    if config.arbiter:
        yield "HighlyAvailableArbiter", "arbiter"


def image_stream(config: Config) -> Iterator[RuleProblem]:
    if config.text("osImageStream") not in ("", "rhel-9", "rhel-10"):
        yield RuleProblem("osImageStream", "it must be rhel-9 or rhel-10", "write one of the two, or remove it")


RULES = (
    load_rule("feature-set", feature_set),
    load_rule("gated-fields", gated_fields),
    load_rule("os-image-stream", image_stream),
)
