"""Settings that the installer accepts, that may even work, and that hardly anybody means."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.installer.install_config import pull_secret as pulling
from rackless.installer.install_config.config import METAL, OVN, Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import doubt_rule, fatal_rule
from rackless.installer.install_config.rules.vips import fields
from rackless.installer.install_config.values import is_domain, parse_ip

_PLUGINS = (OVN, "OpenShiftSDN")


def network_type(config: Config) -> Iterator[RuleProblem]:
    written, kind = config.networking.written_type, config.networking.type
    if kind not in _PLUGINS:
        yield RuleProblem(
            "networking.networkType",
            f"{kind!r} is not a network plug-in of the release; without its manifests no node becomes ready",
            f"use {OVN}, or add that plug-in's manifests",
        )
    elif written and written != kind:
        yield RuleProblem(
            "networking.networkType", f"it is spelt {kind}; the installer forgives {written}", f"write {kind}"
        )


def one_vip_in_dual_stack(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None or not config.networking.dual_stack:
        return
    for field, vips in zip(fields(config), (metal.api_vips, metal.ingress_vips), strict=True):
        if len(vips) == 1:
            yield RuleProblem(
                field,
                "a dual-stack cluster with one VIP is reached by one family only",
                "add a VIP of the other family",
            )


def vip_of_another_family(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None or len(config.networking.families) != 1:
        return
    (family,) = config.networking.families
    for field, vips in zip(fields(config), (metal.api_vips, metal.ingress_vips), strict=True):
        for vip in vips:
            address = parse_ip(vip)
            if address and address.version != family:
                yield RuleProblem(
                    field,
                    f"{vip} is IPv{address.version}, but the cluster's own networks are IPv{family} only",
                    "remove it, or make the networks dual stack",
                )


def user_managed_vips(config: Config) -> Iterator[RuleProblem]:
    """With a load balancer of one's own nothing on the nodes answers for the VIPs."""
    metal = config.metal
    if metal is None or not metal.user_managed:
        return
    for what, field, vips in zip(("API", "ingress"), fields(config), (metal.api_vips, metal.ingress_vips), strict=True):
        for vip in vips:
            address = parse_ip(vip)
            inside = any(address in one for one in config.networking.machine_cidrs)
            where = "inside" if inside else "outside"
            yield RuleProblem(
                field,
                f"the {what} VIP {vip} ({where} the machine networks) must be on your load balancer before the "
                "installation begins",
                "make sure it answers there, and no host or DHCP range has it",
            )


def ssh_key(config: Config) -> Iterator[RuleProblem]:
    if not config.text("sshKey").strip():
        yield RuleProblem(
            "sshKey", "without a key there is no way into a host that fails", "add the content of an id_….pub file"
        )


def pull_secret(config: Config) -> Iterator[RuleProblem]:
    secret = pulling.read(config.text("pullSecret"))
    if secret.problem:
        return
    if secret.nameless:
        yield RuleProblem(
            "pullSecret", f"the auth for {', '.join(secret.nameless)} is not user:password", "download it again"
        )
    if secret.lacking and not config.values.get("imageDigestSources") and not config.values.get("imageContentSources"):
        yield RuleProblem(
            "pullSecret",
            f"it has no entry for {', '.join(secret.lacking)}",
            "take the whole pull secret, unless everything comes from a mirror or this is OKD",
        )


def pull_secret_works(config: Config) -> Iterator[RuleProblem]:
    secret = pulling.read(config.text("pullSecret"))
    if secret.undecodable:
        yield RuleProblem(
            "pullSecret",
            f"the auth for {', '.join(secret.undecodable)} is not base64 of user:password",
            "download the pull secret again",
        )
    if secret.expired:
        yield RuleProblem(
            "pullSecret", f"the token for {', '.join(secret.expired)} has expired", "download the pull secret again"
        )


def control_plane_size(config: Config) -> Iterator[RuleProblem]:
    count = config.control_plane.replicas
    if count in (0, 2, 3, 5) or count < 0:
        return
    words = {
        1: "one control plane on bare metal is not supported with a bootstrap VM",
        4: "four control planes survive no more failures than three",
    }
    yield RuleProblem(
        "controlPlane.replicas", words.get(count, f"{count} control planes are not a supported number"), "use 3 (or 5)"
    )


def two_without_quorum(config: Config) -> Iterator[RuleProblem]:
    if config.control_plane.replicas == 2:
        yield RuleProblem(
            "controlPlane.replicas",
            "two control planes have no quorum when one is away, and this release knows neither arbiter nor fencing",
            "use 3",
        )


def disabled_leftovers(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None or not metal.disabled:
        return
    leftovers = [
        ("provisioningNetworkCIDR", metal.written_cidr, "it ends up in the cluster's Provisioning object all the same"),
        ("provisioningDHCPRange", bool(metal.dhcp_range), "nobody serves it, and nobody checks it"),
        ("provisioningNetworkGateway", bool(metal.gateway), "nobody uses it"),
    ]
    for name, there, why in leftovers:
        if there:
            yield RuleProblem(
                f"{METAL}.{name}", f"without a provisioning network this makes no sense: {why}", "remove it"
            )
    for index, one in enumerate(metal.ntp_servers):
        if parse_ip(one) is None and not is_domain(one):
            yield RuleProblem(
                f"{METAL}.additionalNTPServers[{index}]",
                f"{one!r} is neither an address nor a domain name (not looked at when Disabled)",
                "correct it",
            )


def words_of_the_api(config: Config) -> Iterator[RuleProblem]:
    """Values the installer copies into objects whose API knows only these."""
    metal = config.metal
    if metal and metal.dns_records not in ("", "Internal", "External"):
        yield RuleProblem(
            f"{METAL}.dnsRecordsType", f"{metal.dns_records!r} is not Internal or External", "write one of the two"
        )
    mode = config.text("cpuPartitioningMode")
    if mode not in ("", "None", "AllNodes"):
        yield RuleProblem("cpuPartitioningMode", f"{mode!r} is not None or AllNodes", "write one of the two")


def vip_of_the_router(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None or metal.user_managed or metal.static_gateway:
        return
    first = {cidr.network[1] for cidr in config.networking.machine_cidrs if cidr.network.num_addresses > 2}
    for field, vips in zip(fields(config), (metal.api_vips, metal.ingress_vips), strict=True):
        for vip in vips:
            if parse_ip(vip) in first:
                yield RuleProblem(
                    field,
                    f"{vip} is the first address of its network, which is mostly the router's",
                    "make sure nobody has it",
                )


def hidden_platform(config: Config) -> Iterator[RuleProblem]:
    for name in config.platforms:
        if name != config.platform and name in ("none", "external"):
            yield RuleProblem(
                f"platform.{name}", f"{name} beside {config.platform} is overlooked by the installer", "remove it"
            )


def single_label(config: Config) -> Iterator[RuleProblem]:
    domain = config.base_domain.removesuffix(".")
    if domain and "." not in domain and is_domain(domain):
        yield RuleProblem(
            "baseDomain",
            f"{domain!r} is a single label; resolvers may not look such names up",
            "use a domain such as example.com",
        )


def single_node(config: Config) -> Iterator[RuleProblem]:
    if config.metal and "bootstrapInPlace" in config.values:
        yield RuleProblem(
            "bootstrapInPlace",
            "a single node is not installed this way on bare metal (4.23 rejects it)",
            "use platform none, or the agent-based installer",
        )


RULES = (
    doubt_rule("network-type-known", network_type),
    doubt_rule("vip-one-family", one_vip_in_dual_stack),
    doubt_rule("vip-other-family", vip_of_another_family),
    doubt_rule("vip-user-managed", user_managed_vips),
    doubt_rule("ssh-key-missing", ssh_key),
    doubt_rule("pull-secret-complete", pull_secret),
    fatal_rule("pull-secret-works", pull_secret_works),
    doubt_rule("control-plane-size", control_plane_size),
    fatal_rule("two-without-quorum", two_without_quorum, until=Release(4, 18)),
    doubt_rule("disabled-leftovers", disabled_leftovers),
    fatal_rule("words-of-the-api", words_of_the_api),
    doubt_rule("vip-of-the-router", vip_of_the_router),
    doubt_rule("hidden-platform", hidden_platform),
    doubt_rule("single-label-domain", single_label),
    doubt_rule("single-node-in-place", single_node, until=Release(4, 22)),
)
