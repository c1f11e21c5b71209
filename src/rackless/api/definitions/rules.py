"""What is refused beyond the schema, by definition."""

from __future__ import annotations

from rackless.api.definitions.companion_rules import COMPANIONS, Rule
from rackless.api.definitions.host_rules import host_problems
from rackless.api.definitions.machine_rules import health_check_problems, machine_problems, machine_set_problems
from rackless.api.definitions.provisioning_rules import provisioning_problems

RULES: dict[str, Rule] = {
    "baremetalhosts.metal3.io": host_problems,
    "provisionings.metal3.io": provisioning_problems,
    "machines.machine.openshift.io": machine_problems,
    "machinesets.machine.openshift.io": machine_set_problems,
    "machinehealthchecks.machine.openshift.io": health_check_problems,
    **COMPANIONS,
}
