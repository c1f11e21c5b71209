"""The set of a lab's workers."""

from __future__ import annotations

from rackless.cluster.reference.machines import worker_set
from rackless.controllers.machines.selectors import matches
from rackless.ports.provisioner import Image
from rackless.provisioning.baremetalhost import strange_host


def test_the_labs_own_workers_are_no_metal_that_it_did_not_make() -> None:
    made = worker_set(1, Image("http://192.0.2.1/node.qcow2", "0" * 64))
    selector = made["spec"]["template"]["spec"]["providerSpec"]["value"]["hostSelector"]
    host = strange_host("rack1-u7", "ipmi://192.0.2.7", "02:00:00:00:07:07")
    assert matches(selector, {}) and not matches(selector, host["metadata"]["labels"])
