"""The reference of `rackless why`: every rule, generated from the rules themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rackless.diagnosis.remedy import OFFERS
from rackless.diagnosis.rule import CauseRule
from rackless.diagnosis.rules import bootstrap, cluster, installer, lab, logs, provisioning, surroundings

_TOP = (
    """# What `rackless why` knows

Generated from the rules. A rule is silent unless its evidence is there; what is nearest to the root is told first.
*Untried* says why a fault was never planted in a real program: what a rule knows of it comes from reading, or from a lab of fakes.

What has a cure is offered by `rackless why --fix`, and done by the lab itself with `remediation: auto` in lab.yaml; it is
written down before it is begun, told as an event, and not done again before something has changed:

"""
    + "".join(f"- `{cure}`: {offer.format(name='NAME')}\n" for cure, offer in OFFERS.items())
    + "\n"
)
FAMILIES: tuple[tuple[str, tuple[CauseRule[Any], ...]], ...] = (
    ("The lab's own parts", lab.RULES),
    ("Around the lab", surroundings.RULES),
    ("Hosts", provisioning.RULES),
    ("What nodes write", logs.RULES),
    ("The cluster", cluster.RULES),
    (
        "An install that a bootstrap machine leads (`rackless install`, or `--archive` of its `gather bootstrap`)",
        bootstrap.RULES,
    ),
    ("A run of openshift-install (`--installer-dir`)", installer.RULES),
)


def reference() -> str:
    return _TOP + "\n".join(f"## {title}\n\n{_table(rules)}" for title, rules in FAMILIES)


def _table(rules: Iterable[CauseRule[Any]]) -> str:
    rows = [
        f"| `{rule.name}` | {rule.symptom} | {rule.depth.name.lower()} | {rule.cure or ''} | {rule.untried} |"
        for rule in rules
    ]
    return "\n".join(
        [
            "| rule | what a person notices | told as a matter of | `--fix` | untried |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )
