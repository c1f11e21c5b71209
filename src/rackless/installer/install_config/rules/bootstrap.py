"""The bootstrap VM: libvirt, bridges, MACs, images, its fixed address. The installer checks it only in `create cluster`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackless.installer.install_config import go_url
from rackless.installer.install_config.config import METAL, Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import cluster_rule, doubt_rule
from rackless.installer.install_config.values import is_multicast_mac, parse_mac

_STATIC_DNS = Release(4, 14)


def libvirt_uri(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    try:
        absolute = bool(go_url.parse(metal.libvirt_uri).scheme)
    except go_url.UrlError:
        absolute = False
    if not absolute:
        yield RuleProblem(
            f"{METAL}.libvirtURI", f"{metal.libvirt_uri!r} is not an absolute URI", "write qemu:///system"
        )


def bridges(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    wanted = [("externalBridge", metal.external_bridge)]
    if not metal.disabled:
        wanted.append(("provisioningBridge", metal.provisioning_bridge))
    for name, bridge in wanted:
        if bridge not in config.site.bridges:
            known = ", ".join(sorted(config.site.bridges))
            yield RuleProblem(
                f"{METAL}.{name}",
                f"no bridge {bridge!r} is known (only {known}); the installer wants to find it in libvirt",
                f"correct the name, or say `--bridge {bridge}` if the provisioning host has it",
            )


def macs(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    for name, mac in (("externalMACAddress", metal.external_mac), ("provisioningMACAddress", metal.provisioning_mac)):
        if not mac:
            continue
        parsed = parse_mac(mac)
        if parsed is None:
            yield RuleProblem(f"{METAL}.{name}", f"{mac!r} is not a MAC address", "write it as 52:54:00:12:34:56")
        elif is_multicast_mac(parsed):
            yield RuleProblem(f"{METAL}.{name}", f"{mac} is a multicast address", "make the first byte even, e.g. 52")
    if metal.provisioning_mac and metal.provisioning_mac.lower() == metal.external_mac.lower():
        yield RuleProblem(f"{METAL}.provisioningMACAddress", "it is also externalMACAddress", "use two addresses")


def images(config: Config) -> Iterator[RuleProblem]:
    for name, url in config.metal.images.items() if config.metal else ():
        reason = image_problem(url)
        if reason:
            yield RuleProblem(f"{METAL}.{name}", reason, "remove it: the release brings its own image")
        elif config.site.image_answers(url) is False:
            yield RuleProblem(
                f"{METAL}.{name}",
                "the image cannot be had: HEAD is not answered with 200",
                "remove it: the release brings its own image",
            )


def images_not_asked(config: Config) -> Iterator[RuleProblem]:
    for name, url in config.metal.images.items() if config.metal else ():
        if not image_problem(url) and config.site.image_answers(url) is None:
            yield RuleProblem(
                f"{METAL}.{name}",
                "the installer asks for this image with HEAD and wants 200; this was not tried",
                "check it with --live, or remove the field",
            )


def image_problem(text: str) -> str:
    try:
        url = go_url.parse(text, request=True)
    except go_url.UrlError as error:
        return f"it is not a URL ({error})"
    if url.scheme not in ("http", "https"):
        return "it must be an http or https URL"
    digest = re.search(r"(?:^|&)sha256=([^&]*)", url.query)
    if not digest or not digest[1]:
        return "its sha256 parameter is missing"
    return "its sha256 parameter must have 64 digits" if len(digest[1]) != 64 else ""


def static_address(config: Config) -> Iterator[RuleProblem]:
    """The installer names the first thing missing only; so do we."""
    metal = config.metal
    if metal is None:
        return
    given = {"bootstrapExternalStaticIP": metal.static_ip, "bootstrapExternalStaticGateway": metal.static_gateway}
    if config.release >= _STATIC_DNS:
        given["bootstrapExternalStaticDNS"] = metal.static_dns
    missing = [name for name, value in given.items() if not value]
    if missing and len(missing) < len(given):
        have = next(name for name, value in given.items() if value)
        yield RuleProblem(
            METAL,
            f"{have} is set, so {' and '.join(missing)} must be set too",
            f"add {' and '.join(missing)}",
            at=f"{METAL}.{have}",
        )


RULES = (
    cluster_rule("libvirt-uri", libvirt_uri),
    cluster_rule("bridges", bridges),
    cluster_rule("bootstrap-macs", macs, since=Release(4, 7)),
    cluster_rule("os-images", images),
    doubt_rule("os-images-not-asked", images_not_asked),
    cluster_rule("static-bootstrap", static_address, since=Release(4, 11)),
)
