"""All rules about a lab, of every family: what `rackless why` asks, and the lab itself when it may help itself."""

from __future__ import annotations

from rackless.diagnosis.rules import cluster, lab, logs, provisioning, surroundings

LAB_RULES = (*lab.RULES, *surroundings.RULES, *provisioning.RULES, *logs.RULES, *cluster.RULES)
