"""Optional components: which there are, and which bare metal cannot do without."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.installer.install_config.building import struct, text, texts
from rackless.installer.install_config.config import Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import cluster_rule, load_rule

_ADDED: tuple[tuple[Release, tuple[str, ...]], ...] = (
    (Release(4, 11), ("baremetal", "marketplace", "openshift-samples", "MachineAPI")),
    (Release(4, 12), ("Console", "Insights", "Storage", "CSISnapshot")),
    (Release(4, 13), ("NodeTuning",)),
    (Release(4, 14), ("Build", "DeploymentConfig", "ImageRegistry")),
    (Release(4, 15), ("OperatorLifecycleManager", "CloudCredential")),
    (Release(4, 16), ("Ingress", "CloudControllerManager")),
    (Release(4, 18), ("OperatorLifecycleManagerV1",)),
    (Release(5, 0), ("ClusterAPI", "CompatibilityRequirements")),
)
_LAST_NAMED_SET = Release(4, 18)
_FIRST = Release(4, 11)


def known(release: Release) -> frozenset[str]:
    return frozenset(name for since, names in _ADDED if since <= release for name in names)


def sets(release: Release) -> dict[str, frozenset[str]]:
    named = (
        [Release(4, minor) for minor in range(11, min(release, _LAST_NAMED_SET).minor + 1)] if release >= _FIRST else []
    )
    return {"None": frozenset(), **{f"v{one}": known(one) for one in named}, "vCurrent": known(release)}


def enabled(config: Config) -> frozenset[str]:
    """Before there were capabilities, everything was there."""
    if config.release < _FIRST:
        return known(Release(4, 18))
    values = struct(config.values, "capabilities")
    baseline = sets(config.release).get(text(values, "baselineCapabilitySet") or "vCurrent", frozenset())
    return baseline | set(texts(values, "additionalEnabledCapabilities"))


def names(config: Config) -> Iterator[RuleProblem]:
    if "capabilities" not in config.values:
        return
    values = struct(config.values, "capabilities")
    baseline = text(values, "baselineCapabilitySet")
    if baseline not in sets(config.release):
        yield RuleProblem(
            "capabilities.baselineCapabilitySet",
            f"{baseline!r} is not one of {', '.join(sets(config.release))}",
            "write vCurrent",
            at="capabilities",
        )
    for index, one in enumerate(texts(values, "additionalEnabledCapabilities")):
        if one not in known(config.release):
            yield RuleProblem(
                f"capabilities.additionalEnabledCapabilities[{index}]",
                f"there is no capability {one!r}",
                f"known: {', '.join(sorted(known(config.release)))}",
            )


def needed(config: Config) -> Iterator[RuleProblem]:
    if "capabilities" not in config.values:
        return
    have = enabled(config)
    baseline = text(struct(config.values, "capabilities"), "baselineCapabilitySet")
    if "marketplace" in have and "OperatorLifecycleManager" not in have and config.release >= Release(4, 15):
        yield RuleProblem(
            "additionalEnabledCapabilities",
            "marketplace needs OperatorLifecycleManager",
            "add OperatorLifecycleManager",
            at="capabilities",
        )
    if config.platform == "baremetal" and baseline == "None" and "baremetal" not in have:
        yield RuleProblem(
            "additionalEnabledCapabilities",
            "the platform needs the capability baremetal",
            "add baremetal",
            at="capabilities",
        )
    if "Ingress" not in have and config.release >= Release(4, 16):
        yield RuleProblem("capabilities", "Ingress cannot be left out", "add Ingress to additionalEnabledCapabilities")


def machine_api(config: Config) -> Iterator[RuleProblem]:
    if config.platform == "baremetal" and "capabilities" in config.values and "MachineAPI" not in enabled(config):
        yield RuleProblem(
            "capabilities",
            "hosts are installed through the Machine API, which is left out",
            "add MachineAPI to additionalEnabledCapabilities",
        )


RULES = (
    load_rule("capability-names", names, since=_FIRST),
    load_rule("capability-needed", needed, since=_FIRST),
    cluster_rule("capability-machine-api", machine_api, since=_FIRST),
)
