"""platform.baremetal.hosts, as the installer checks them on load; it checks their BMCs only in `create cluster`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rackless.installer.install_config import bmc_address
from rackless.installer.install_config.config import METAL, Config, HostEntry
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import cluster_rule, doubt_rule, load_rule
from rackless.installer.install_config.rules.capabilities import enabled
from rackless.installer.install_config.values import is_subdomain

_HOSTS = f"{METAL}.hosts"


def hosts_wanted(config: Config) -> bool:
    """The installer looks at hosts only where the Machine API is there to use them."""
    return config.metal is not None and "MachineAPI" in enabled(config)


def present(config: Config) -> Iterator[RuleProblem]:
    if hosts_wanted(config) and config.metal and config.metal.hosts is None:
        yield RuleProblem(_HOSTS, "there are no hosts", "list them under hosts", at=METAL)


def enough(config: Config) -> Iterator[RuleProblem]:
    if not hosts_wanted(config):
        return
    wanted = {
        "master": ("control plane", config.control_plane.replicas),
        "arbiter": ("arbiter", config.arbiter.replicas if config.arbiter else 0),
        "worker": ("compute", sum(pool.replicas for pool in config.compute)),
    }
    have = dict.fromkeys(wanted, 0)
    for host in config.hosts:
        role = host.role if host.role in have else next((r for r in wanted if have[r] < wanted[r][1]), "")
        if role:
            have[role] += 1
    for role, (what, count) in wanted.items():
        if have[role] < count:
            implied = role == "worker" and any(pool.added for pool in config.compute)
            why = " (without a pool `worker` the installer adds one with 3 replicas)" if implied else ""
            yield RuleProblem(
                _HOSTS,
                f"the {what} wants {count} hosts, but there are {have[role]}{why}",
                f"add hosts with role: {role}, or lower the replicas",
            )
            return  # the installer names the first only, and the next would be a consequence


def _unique(name: str, path: str, value: Callable[[HostEntry], str]) -> Callable[[Config], Iterator[RuleProblem]]:
    def check(config: Config) -> Iterator[RuleProblem]:
        seen: dict[str, HostEntry] = {}
        for host in config.hosts if hosts_wanted(config) or "bmc" in path else ():
            text = value(host)
            if not text:
                yield RuleProblem(
                    f"{host.path}.{path}",
                    f"the host {host.name or ''} has no {name}".replace("  ", " "),
                    f"add {path}",
                    at=f"{host.at}.{path}",
                )
            elif text in seen:
                yield RuleProblem(
                    f"{host.path}.{path}",
                    f"{name} {text} is also that of {seen[text].name}",
                    "every host has its own",
                    at=f"{host.at}.{path}",
                )
            else:
                seen[text] = host

    return check


def bmc_account(config: Config) -> Iterator[RuleProblem]:
    for host in config.hosts:
        for name, value in (("username", host.bmc_username), ("password", host.bmc_password)):
            if not value:
                yield RuleProblem(
                    f"{host.path}.bmc.{name}",
                    f"the BMC of {host.name} has no {name}",
                    f"add bmc.{name}",
                    at=f"{host.at}.bmc.{name}",
                )


def names(config: Config) -> Iterator[RuleProblem]:
    for host in config.hosts if hosts_wanted(config) else ():
        if host.name and not is_subdomain(host.name):
            yield RuleProblem(
                f"{host.path}.name",
                f"{host.name!r} is not a host name",
                "use lower-case letters, digits, '-' and '.'",
                at=f"{host.at}.name",
            )


def boot_mode(config: Config) -> Iterator[RuleProblem]:
    for host in config.hosts if hosts_wanted(config) else ():
        reason = ""
        if host.boot_mode not in ("", "UEFI", "UEFISecureBoot", "legacy"):
            reason = f"{host.boot_mode!r} is not UEFI, UEFISecureBoot or legacy"
        elif host.boot_mode == "UEFISecureBoot":
            scheme = _scheme(host)
            if scheme and not scheme.secure_boot:
                reason = f"the driver {scheme.driver} cannot switch on secure boot"
        if reason:
            yield RuleProblem(
                f"{host.path}.bootMode", reason, "use UEFI, or a Redfish address", at=f"{host.at}.bootMode"
            )


def _scheme(host: HostEntry) -> bmc_address.Scheme | None:
    try:
        return bmc_address.parse(host.bmc_address).scheme
    except bmc_address.BmcAddressError:
        return None


def root_device(config: Config) -> Iterator[RuleProblem]:
    for host in config.hosts if hosts_wanted(config) else ():
        name = host.device_name
        rest = name.removeprefix("/dev/")
        if name and (rest == name or "/" in rest.removeprefix("disk/by-path/")):
            yield RuleProblem(
                f"{host.path}.rootDeviceHints.deviceName",
                f"{name!r} is not /dev/NAME or /dev/disk/by-path/NAME",
                "write it as /dev/… or use another hint",
                at=f"{host.at}.rootDeviceHints.deviceName",
            )


def network_config(config: Config) -> Iterator[RuleProblem]:
    for host in config.hosts if hosts_wanted(config) else ():
        if host.network_config is not None and not isinstance(host.network_config, dict):
            yield RuleProblem(
                f"{host.path}.networkConfig",
                "it must be a map (NMState)",
                "write `interfaces:` and what follows below it",
                at=f"{host.at}.networkConfig",
            )


def network_mtu(config: Config) -> Iterator[RuleProblem]:
    for host in config.hosts if hosts_wanted(config) else ():
        for index, mtu in mtus(host):
            if isinstance(mtu, bool) or not isinstance(mtu, int | float):
                yield RuleProblem(
                    f"{host.path}.networkConfig.interfaces[{index}].mtu",
                    "mtu must be a number without quotes",
                    "remove the quotes",
                    at=f"{host.at}.networkConfig",
                )


def mtus(host: HostEntry) -> Iterator[tuple[int, object]]:
    interfaces = host.network_config.get("interfaces") if isinstance(host.network_config, dict) else None
    for index, one in enumerate(interfaces if isinstance(interfaces, list) else ()):
        if isinstance(one, dict) and "mtu" in one:
            yield index, one["mtu"]


def role_less(config: Config) -> Iterator[RuleProblem]:
    for host in config.hosts:
        if not host.has_role:
            what = (
                f"{host.role!r} is not a role; {host.name} is taken as a host without one"
                if host.role
                else f"{host.name} has no role"
            )
            yield RuleProblem(
                f"{host.path}.role",
                f"{what}: it becomes whatever is missing, in list order",
                "write role: master, arbiter or worker",
                at=f"{host.at}.role" if host.role else host.at,
            )


RULES = (
    load_rule("hosts-present", present),
    load_rule("hosts-enough", enough),
    load_rule("host-name", _unique("name", "name", lambda host: host.name)),
    load_rule("host-name-form", names, since=Release(4, 12)),
    load_rule("host-boot-mac", _unique("boot MAC", "bootMACAddress", lambda host: host.boot_mac)),
    load_rule("host-boot-mode", boot_mode),
    load_rule("host-root-device", root_device, since=Release(4, 14)),
    load_rule("host-network-config", network_config),
    load_rule("host-network-mtu", network_mtu, since=Release(4, 20)),
    doubt_rule("host-role", role_less),
    cluster_rule("bmc-address", _unique("BMC address", "bmc.address", lambda host: host.bmc_address)),
    cluster_rule("bmc-account", bmc_account),
)
