"""Who may talk to the BMCs: nftables in the lab's own namespaces. The rules are made by pure functions."""

from __future__ import annotations

from pathlib import Path

from rackless.plan.model import LabPlan
from rackless.ports.process import Processes

TABLE = "rackless"


def render_lab(plan: LabPlan) -> str:
    """In the lab: nothing is forwarded to routed BMCs, so that who has no route has no way; direct ones may have a list."""
    rules = [f"table ip {TABLE}", f"delete table ip {TABLE}", f"table ip {TABLE} {{"]
    site = plan.bmc_site
    if site.router is not None:
        rules += _chain("forward", [f"ip daddr {site.network} counter drop"])
    elif site.allow:
        allowed = ", ".join(str(network) for network in site.allow)
        rules += _chain(
            "input",
            ["iif lo accept", f"ip daddr {site.network} ip saddr != {{ {allowed} }} counter drop"],
        )
    return "\n".join([*rules, "}", ""])


def render_bmcs(plan: LabPlan) -> str:
    """Beside the routed BMCs: the lab itself and the listed may enter."""
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


async def ensure_rules(rules: str, processes: Processes, namespace: Path | None = None) -> None:
    """Replace our table at once, here or in another network namespace."""
    enter = ["nsenter", f"--net={namespace}", "--"] if namespace is not None else []
    await processes.run([*enter, "nft", "-f", "-"], input=rules.encode())
