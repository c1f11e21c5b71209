"""All rules about a lab, of every family: used by `rackless why` and by labd's automatic remediation."""

from __future__ import annotations

from rackless.diagnosis.rules import cluster, lab, logs, provisioning, surroundings

LAB_RULES = (*lab.RULES, *surroundings.RULES, *provisioning.RULES, *logs.RULES, *cluster.RULES)
