"""The networks of a lab, made real: cluster network, `baremetal` bridge with its cable, provisioning, BMC, extra ones."""

from __future__ import annotations

from rackless.events import Bus
from rackless.plan.model import LabPlan
from rackless.ports.fabric import Links, Network, Networks


async def ensure_networks(plan: LabPlan, links: Links, networks: Networks, bus: Bus) -> None:
    with bus.step("networks") as step:
        changed = await links.ensure_bridge(plan.baremetal)
        if plan.bmc_site.router is None:
            changed |= await links.ensure_bridge(plan.bmc)
        changed |= await _ensure_network(plan.cluster, links, networks)
        # libvirt makes the bridge of the cluster network, so the cable comes after it
        changed |= await links.ensure_veth(plan.cable)
        changed |= await networks.ensure_bridge_network("baremetal", plan.baremetal.name)
        if plan.provisioning is not None:
            changed |= await links.ensure_bridge(plan.provisioning)
            changed |= await networks.ensure_bridge_network("provisioning", plan.provisioning.name)
        if plan.provisioning_dhcp is not None:
            changed |= await _ensure_network(plan.provisioning_dhcp, links, networks)
        for bridge in plan.extra:
            changed |= await links.ensure_bridge(bridge)
        for vlan in plan.vlans:
            changed |= await links.ensure_vlan(vlan)
        if not changed:
            step.unchanged()


async def _ensure_network(network: Network, links: Links, networks: Networks) -> bool:
    """A changed network is started anew on a new bridge; running servers are plugged into that and go on."""
    plugged = await links.ports(network.bridge) if await networks.differs(network) else set()
    changed = await networks.ensure_network(network)
    if plugged:
        await links.plug(network.bridge, sorted(plugged))
    return changed
