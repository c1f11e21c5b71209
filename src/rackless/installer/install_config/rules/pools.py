"""controlPlane, arbiter and compute; two control planes need fencing or an arbiter."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.installer.install_config import go_url
from rackless.installer.install_config.config import Config, Credential, MachinePool
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import load_rule
from rackless.installer.install_config.values import parse_mac

_TWO_NODES = Release(4, 19)
_MIXED_ARCHITECTURES = Release(4, 20)


def _pools(config: Config) -> Iterator[MachinePool]:
    yield config.control_plane
    if config.arbiter:
        yield config.arbiter
    yield from config.compute


def every_pool(config: Config) -> Iterator[RuleProblem]:
    for pool in _pools(config):
        if pool.replicas < 0:
            yield RuleProblem(f"{pool.path}.replicas", "the number of replicas must not be negative", "write 0 or more")
        if pool.hyperthreading not in ("Enabled", "Disabled"):
            yield RuleProblem(
                f"{pool.path}.hyperthreading",
                f"{pool.hyperthreading!r} is not Enabled or Disabled",
                "write one of the two",
            )
        if pool.architecture not in ("amd64", "arm64", "ppc64le", "s390x"):
            yield RuleProblem(
                f"{pool.path}.architecture",
                f"{pool.architecture!r} is not amd64, arm64, ppc64le or s390x",
                "write one of them",
            )
        for name in pool.platforms:
            if name != config.platform and name not in ("none", "external"):
                yield RuleProblem(
                    f"{pool.path}.platform.{name}",
                    f"the pool is for {name}, the cluster for {config.platform or 'no platform'}",
                    f"remove platform.{name} from the pool",
                )


def control_plane(config: Config) -> Iterator[RuleProblem]:
    if config.control_plane.replicas == 0:
        yield RuleProblem("controlPlane.replicas", "there must be a control plane", "write 3")
    if config.control_plane.management == "ClusterAPI" and config.platform == "baremetal":
        yield RuleProblem("controlPlane.management", "ClusterAPI is not possible on bare metal", "remove it")


def arbiter(config: Config) -> Iterator[RuleProblem]:
    pool = config.arbiter
    if pool is None:
        return
    if config.platform not in ("baremetal", "external", "none"):
        yield RuleProblem(
            "arbiter.platform", "an arbiter is possible only on bare metal", "remove arbiter", at="arbiter"
        )
    if pool.name != "arbiter":
        yield RuleProblem(
            "arbiter.name", f"the pool must be called arbiter, not {pool.name!r}", "write name: arbiter", at="arbiter"
        )
    if pool.replicas == 0:
        yield RuleProblem(
            "arbiter.replicas", "an arbiter pool needs at least one replica", "write replicas: 1", at="arbiter"
        )
    if config.control_plane.replicas < 2:
        yield RuleProblem(
            "arbiter.replicas",
            "an arbiter goes with at least two control planes",
            "raise controlPlane.replicas",
            at="arbiter",
        )


def compute(config: Config) -> Iterator[RuleProblem]:
    seen: set[str] = set()
    for pool in config.compute:
        if pool.name not in ("worker", "edge") or (pool.name == "edge" and config.platform != "aws"):
            yield RuleProblem(
                f"{pool.path}.name",
                f"the pool must be called worker, not {pool.name!r}",
                "write name: worker",
                at=pool.path,
            )
        if pool.name in seen:
            yield RuleProblem(f"{pool.path}.name", f"there are two pools called {pool.name}", "keep one")
        seen.add(pool.name)
        if pool.fencing:
            yield RuleProblem(f"{pool.path}.fencing", "fencing belongs to the control plane", "move it to controlPlane")


def architectures(config: Config) -> Iterator[RuleProblem]:
    own = config.control_plane.architecture
    for pool in config.compute:
        if pool.architecture == own:
            continue
        mixed = (own, pool.architecture) == ("amd64", "arm64") and config.release >= _MIXED_ARCHITECTURES
        if not mixed:
            yield RuleProblem(
                f"{pool.path}.architecture",
                f"{pool.architecture} workers cannot be mixed with an {own} control plane on bare metal",
                "use one architecture (or arm64 workers with an amd64 control plane)",
                at=pool.path,
            )


def fencing_count(config: Config) -> Iterator[RuleProblem]:
    pool, count = config.control_plane, len(config.control_plane.credentials)
    with_arbiter = config.arbiter is not None and config.arbiter.replicas > 0
    if pool.replicas == 2 and not with_arbiter:
        if count != 2:
            yield RuleProblem(
                "controlPlane.fencing.credentials",
                f"two control planes need exactly two fencing credentials, or an arbiter; there are {count}",
                "add fencing credentials for both nodes, an arbiter, or a third control plane",
                at="controlPlane",
            )
    elif count:
        yield RuleProblem(
            "controlPlane.fencing.credentials",
            f"fencing is only for two control planes, not for {pool.replicas}",
            "remove controlPlane.fencing",
        )


def fencing_platform(config: Config) -> Iterator[RuleProblem]:
    if config.control_plane.credentials and config.platform not in ("baremetal", "external", "none"):
        yield RuleProblem("controlPlane.fencing", "fencing is possible only on bare metal", "remove it")


def fencing_credentials(config: Config) -> Iterator[RuleProblem]:
    credentials = config.control_plane.credentials
    for index, one in enumerate(credentials):
        for name, value in (("username", one.username), ("password", one.password), ("address", one.address)):
            if not value:
                yield RuleProblem(
                    f"{one.path}.{name}", f"the fencing credential has no {name}", f"add {name}", at=one.path
                )
        if not one.host_name and not one.mac:
            yield RuleProblem(
                f"{one.path}.hostName", "it must say which node it is for", "add hostName (or macAddress)", at=one.path
            )
        if one.mac and parse_mac(one.mac) is None:
            yield RuleProblem(f"{one.path}.macAddress", f"{one.mac!r} is not a MAC address", "write a MAC address")
        if one.certificate_verification not in ("", "Enabled", "Disabled"):
            yield RuleProblem(
                f"{one.path}.certificateVerification", "it must be Enabled or Disabled", "write one of the two"
            )
        yield from _repeats(one, credentials[:index])
        if one.address:
            yield from _fencing_address(one)


def _repeats(one: Credential, before: tuple[Credential, ...]) -> Iterator[RuleProblem]:
    for name, attribute in (("hostName", "host_name"), ("macAddress", "mac"), ("address", "address")):
        value = getattr(one, attribute)
        if value and any(getattr(other, attribute) == value for other in before):
            yield RuleProblem(
                f"{one.path}.{name}", f"{value} is also that of the other credential", "every node has its own"
            )


def _fencing_address(one: Credential) -> Iterator[RuleProblem]:
    path = f"{one.path}.address"
    if "redfish" not in one.address.lower():
        yield RuleProblem(path, "nodes are fenced by Redfish only, not by IPMI", "write the Redfish address of the BMC")
    try:
        url = go_url.parse(one.address)
    except go_url.UrlError as error:
        yield RuleProblem(
            path, f"it is not an address ({error})", "write it as redfish+https://HOST/redfish/v1/Systems/ID"
        )
        return
    if not url.port and not any(word in url.scheme for word in ("http", "redfish")):
        yield RuleProblem(path, "it has neither a port nor a scheme that implies one", "add the port")


RULES = (
    load_rule("pool", every_pool),
    load_rule("control-plane", control_plane),
    load_rule("arbiter", arbiter),
    load_rule("compute", compute),
    load_rule("architectures", architectures),
    load_rule("fencing-count", fencing_count, since=_TWO_NODES),
    load_rule("fencing-platform", fencing_platform, since=_TWO_NODES),
    load_rule("fencing-credentials", fencing_credentials, since=_TWO_NODES),
)
