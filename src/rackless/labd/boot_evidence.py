"""How far a server's boot came (firmware, DHCP lease, image, agent), for the diagnosis of a host that does not come up."""

from __future__ import annotations

from rackless.diagnosis.evidence import (
    BootChain,
    read_agent,
    read_complaint,
    read_console,
    read_kernel,
    read_lease,
    read_refusal,
)
from rackless.labd.bmcs import LabBmcs
from rackless.labd.hosts import LabHosts
from rackless.plan.model import LabPlan
from rackless.run.paths import LabPaths


def describe_boot(name: str, plan: LabPlan, paths: LabPaths, bmcs: LabBmcs, hosts: LabHosts) -> str:
    """How far the boot of this host's server came; empty for a host that is no server of the lab."""
    server = plan.server(name)
    if server is None:
        return ""
    bmc = bmcs.observe().get(name)
    addresses = [str(nic.address) for nic in server.nics if nic.address is not None]
    return BootChain(
        power=(bmc.power if bmc else None) or "unknown",
        media=bmc.media if bmc else None,
        leased=read_lease(paths.libvirt / "lib" / "dnsmasq" / f"{plan.cluster.bridge}.status", server.mac),
        fetched=hosts.files.fetched(*addresses),
        console=read_console(paths.console(name)),
        boot=hosts.answered(server),
        kernel=read_kernel(paths.console(name)),
        agent=read_agent(paths.logs / "ironic.log", addresses),
        complaint=read_complaint(paths.console(name)),
        locked=bmcs.is_locked(name),
        refused=read_refusal(paths.logs / "libvirt/qemu" / f"{name}.log", paths.logs / "libvirtd.log"),
    ).describe()
