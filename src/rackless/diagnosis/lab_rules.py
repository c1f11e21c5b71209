"""All rules about a lab, of every family: what `rackless why` asks, and the lab itself when it may help itself."""

from __future__ import annotations

from rackless.diagnosis.rules import cluster, lab, provisioning

LAB_RULES = (*lab.RULES, *provisioning.RULES, *cluster.RULES)
