"""The reference of `rackless why`: every rule, generated from the rules themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rackless.diagnosis.rule import CauseRule
from rackless.diagnosis.rules import cluster, installer, lab, provisioning

_TOP = """# What `rackless why` knows

Generated from the rules. A rule is silent unless its evidence is there; what is nearest to the root is told first.
*Untried* says why a fault was never planted: its words come from reading, not from seeing it.

"""
FAMILIES: tuple[tuple[str, tuple[CauseRule[Any], ...]], ...] = (
    ("The lab's own parts", lab.RULES),
    ("Hosts", provisioning.RULES),
    ("The cluster", cluster.RULES),
    ("A run of openshift-install (`--installer-dir`)", installer.RULES),
)


def reference() -> str:
    return _TOP + "\n".join(f"## {title}\n\n{_table(rules)}" for title, rules in FAMILIES)


def _table(rules: Iterable[CauseRule[Any]]) -> str:
    rows = [f"| `{rule.name}` | {rule.symptom} | {rule.depth.name.lower()} | {rule.untried} |" for rule in rules]
    return "\n".join(
        ["| rule | what a person notices | told as a matter of | untried |", "|---|---|---|---|", *rows, ""]
    )
