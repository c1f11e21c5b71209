"""Makes the networks of a lab: cluster network, `baremetal` bridge with its veth pair, provisioning, BMC, extra ones."""

from __future__ import annotations

from pathlib import Path

from rackless.events import Bus
from rackless.plan.model import LabPlan
from rackless.ports.fabric import Links, Network, Networks
from rackless.run.files import write


async def ensure_networks(plan: LabPlan, links: Links, networks: Networks, memory: Path, bus: Bus) -> None:
    """`memory` is a folder for the names of bridge ports that must be plugged in again after a kill in between."""
    with bus.step("networks") as step:
        changed = await links.ensure_bridge(plan.baremetal)
        if plan.bmc_site.router is None:
            changed |= await links.ensure_bridge(plan.bmc)
        changed |= await _ensure_network(plan.cluster, links, networks, memory)
        changed |= await links.impair(plan.cluster.bridge, plan.impairment)
        # libvirt makes the bridge of the cluster network, so the cable comes after it
        changed |= await links.ensure_veth(plan.cable)
        changed |= await networks.ensure_bridge_network("baremetal", plan.baremetal.name)
        changed |= await _plug_attached(plan, links)
        for route in plan.routes:
            changed |= await links.ensure_route(route)
        if plan.provisioning is not None:
            changed |= await links.ensure_bridge(plan.provisioning)
            changed |= await networks.ensure_bridge_network("provisioning", plan.provisioning.name)
        if plan.provisioning_dhcp is not None:
            changed |= await _ensure_network(plan.provisioning_dhcp, links, networks, memory)
        for bridge in plan.extra:
            changed |= await links.ensure_bridge(bridge)
        for vlan in plan.vlans:
            changed |= await links.ensure_vlan(vlan)
        # an installer asks libvirt for its bridge as soon as we are done, and libvirt lists what is operational
        await links.await_up(_link_names(plan))
        if not changed:
            step.unchanged()


async def unplugged(plan: LabPlan, links: Links) -> list[str]:
    """Devices of the hypervisor that are in the lab's namespace and not in its bridge."""
    if not plan.attached:
        return []
    here = set(plan.attached) & await links.names()
    return sorted(here - await links.ports(plan.baremetal.name))


async def _plug_attached(plan: LabPlan, links: Links) -> bool:
    """Plug attached devices into `baremetal`, the bridge that stays when the cluster network is restarted."""
    late = await unplugged(plan, links)
    if late:
        await links.plug(plan.baremetal.name, late)
    return bool(late)


def _link_names(plan: LabPlan) -> list[str]:
    """Names of the bridges and of the VLAN links on them."""
    networks = [network.bridge for network in (plan.cluster, plan.provisioning_dhcp) if network is not None]
    bridges = [
        bridge.name for bridge in (plan.baremetal, plan.bmc, plan.provisioning, *plan.extra) if bridge is not None
    ]
    return [*networks, *bridges, *(vlan.name for vlan in plan.vlans)]


async def _ensure_network(network: Network, links: Links, networks: Networks, memory: Path) -> bool:
    """A changed network is restarted on a new bridge; running servers are plugged into that bridge and keep running."""
    note = memory / f"{network.bridge}.unplugged"
    if await networks.differs(network):
        write(note, "\n".join(sorted(await links.ports(network.bridge))))
    changed = await networks.ensure_network(network)
    changed |= await networks.revive(network.name)
    if note.exists():
        await links.plug(network.bridge, note.read_text().split())
        note.unlink()
    return changed
