"""Names, domains, publishing: who the cluster is."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.installer.install_config.config import Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.rule import load_rule
from rackless.installer.install_config.values import is_domain, is_subdomain

_NAME_LIMIT = 54
"""63 of a DNS label less the nine characters of an escaped `*.apps.` before it."""
_RFC1123 = "lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"


def cluster_name(config: Config) -> Iterator[RuleProblem]:
    reason = _name_problem(config)
    if reason:
        yield RuleProblem("metadata.name", reason, "choose a short name of lower-case letters, digits and '-'")


def _name_problem(config: Config) -> str:
    name = config.name
    if "." in name and config.platform in ("baremetal", "vsphere", "openstack", "nutanix"):
        return "the cluster's name must not contain a dot"
    if len(name) > _NAME_LIMIT:
        return f"the cluster's name has {len(name)} characters, at most {_NAME_LIMIT} fit into its DNS names"
    if not is_subdomain(name):
        return f"{name!r} is not a DNS name ({_RFC1123})" if name else "the cluster has no name"
    return ""


def base_domain(config: Config) -> Iterator[RuleProblem]:
    domain = config.base_domain
    if not is_domain(domain):
        what = f"{domain!r} is not a domain name ({_RFC1123})" if domain else "the base domain is missing"
        yield RuleProblem("baseDomain", what, "write the domain under which the cluster's names will live")
    elif not _name_problem(config) and not is_domain(f"{config.name}.{domain}"):
        yield RuleProblem(
            "baseDomain",
            f"{config.name}.{domain} is longer than the 253 characters of a DNS name",
            "shorten the name or the domain",
        )


def publish(config: Config) -> Iterator[RuleProblem]:
    value = config.text("publish") or "External"
    if value not in ("External", "Internal", "Mixed"):
        yield RuleProblem("publish", f"{value!r} is not one of External, Internal, Mixed", "remove it")
    elif value != "External" and config.platform in ("baremetal", "none", "external", ""):
        yield RuleProblem("publish", f"{value} is not possible on bare metal", "remove it: External is the default")
    if "operatorPublishingStrategy" in config.values and value != "Mixed":
        yield RuleProblem("operatorPublishingStrategy", "this goes only with publish: Mixed", "remove it")


def credentials_mode(config: Config) -> Iterator[RuleProblem]:
    if config.text("credentialsMode") and config.platform in ("baremetal", "none", "external", "vsphere", ""):
        yield RuleProblem(
            "credentialsMode", "this cannot be set on bare metal: there are no cloud credentials", "remove it"
        )


RULES = (
    load_rule("cluster-name", cluster_name),
    load_rule("base-domain", base_domain),
    load_rule("publish", publish),
    load_rule("credentials-mode", credentials_mode),
)
