"""nftables rules in the lab's own namespaces: which clients may connect to the BMCs, and between which networks nothing is
forwarded. Pure."""

from __future__ import annotations

from rackless.plan.model import LabPlan

TABLE = "rackless"


def render_lab(plan: LabPlan) -> str:
    """In the lab: nothing is forwarded to routed BMCs: a guest needs the static route. Direct BMCs may have a list of clients.

    Nothing is forwarded into the provisioning network or out of it, as at sites where it has no router.
    """
    rules = [f"table ip {TABLE}", f"delete table ip {TABLE}", f"table ip {TABLE} {{"]
    site = plan.bmc_site
    forward: list[str] = []
    if (bridge := _provisioning(plan)) is not None:
        # not what stays on its bridge: where the kernel shows bridged frames to these rules, guests there would not meet
        for one, other in (("iifname", "oifname"), ("oifname", "iifname")):
            forward.append(f'{one} "{bridge}" {other} != "{bridge}" counter drop')
    if site.router is not None:
        forward.append(f"ip daddr {site.network} counter drop")
    elif site.allow:
        allowed = ", ".join(str(network) for network in site.allow)
        rules += _chain(
            "input",
            ["iif lo accept", f"ip daddr {site.network} ip saddr != {{ {allowed} }} counter drop"],
        )
    if forward:
        rules += _chain("forward", forward)
    return "\n".join([*rules, "}", ""])


def _provisioning(plan: LabPlan) -> str | None:
    """The bridge of the provisioning network."""
    if plan.provisioning is not None:
        return plan.provisioning.name
    return plan.provisioning_dhcp.bridge if plan.provisioning_dhcp is not None else None


def render_bmcs(plan: LabPlan) -> str:
    """In the BMCs' own namespace: only the lab and the listed clients may connect."""
    rules = [f"table ip {TABLE}", f"delete table ip {TABLE}", f"table ip {TABLE} {{"]
    if plan.bmc_site.allow:
        allowed = ", ".join([str(plan.gateway.ip), *(str(network) for network in plan.bmc_site.allow)])
        rules += _chain("input", ["iif lo accept", f"ip saddr != {{ {allowed} }} counter drop"])
    return "\n".join([*rules, "}", ""])


def _chain(hook: str, rules: list[str]) -> list[str]:
    return [
        f"  chain {hook} {{",
        f"    type filter hook {hook} priority filter; policy accept;",
        *(f"    {rule}" for rule in rules),
        "  }",
    ]
