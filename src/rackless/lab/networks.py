"""The networks of a lab, made real: cluster network, `baremetal` bridge with its cable, BMC network."""

from __future__ import annotations

from rackless.events import Bus
from rackless.plan.addressing import LabPlan
from rackless.ports.fabric import Links, Networks


async def ensure_networks(plan: LabPlan, links: Links, networks: Networks, bus: Bus) -> None:
    with bus.step("networks") as step:
        changed = await links.ensure_bridge(plan.baremetal)
        changed |= await links.ensure_bridge(plan.bmc)
        changed |= await networks.ensure_network(plan.cluster)
        # libvirt makes the bridge of the cluster network, so the cable comes after it
        changed |= await links.ensure_veth(plan.cable)
        changed |= await networks.ensure_bridge_network("baremetal", plan.baremetal.name)
        if not changed:
            step.unchanged()
