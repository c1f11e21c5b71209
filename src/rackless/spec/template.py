"""A commented lab.yaml for people to start from. Pure."""

from __future__ import annotations

from rackless.spec.cluster import Method
from rackless.spec.lab import LabSpec
from rackless.spec.profiles import PROFILES, Profile
from rackless.spec.servers import GIB, Role, ServerGroup
from rackless.spec.units import render_size

INSTALLING_MEMORY = 2 * GIB
"""Of a control plane that installs the cluster's workers: Ironic runs on it, too."""


def render(name: str, profile: Profile, why: str, method: Method = Method.DIRECT) -> str:
    default = LabSpec()
    groups = "\n".join(
        f"  {prefix}: {{role: {group.role}, count: {group.count}, memory: {render_size(_memory(group, method))}, "
        f"vcpus: {group.vcpus}, disk: {render_size(group.disk)}}}"
        for prefix, group in PROFILES[profile].items()
    )
    networks = default.networks
    return _aligned(f"""\
# A rackless lab. Every field may be left out; `rackless explain lab` tells of all of them.
# Profile {profile}: {why}
version: 1
name: {name}
domain: {default.domain}          # servers are NAME.{name}.{default.domain}

# Groups by name; role: control-plane, worker or spare. They boot by virtual media; `boot: network` boots
# them over the network, by iPXE on a managed provisioning network.
servers:
{groups}

cluster:
  method: {method}              # or ipi: a bootstrap installs the control plane, and that its workers, as on metal
                                # or openshift: your own openshift-install does; or none: the lab ends with its BMCs

networks:
  cluster:
    cidr: {networks.cluster.cidr}     # gateway .1, ingress .4, API .5, bootstrap .9, servers from .20
    dhcp: {networks.cluster.dhcp}               # or static-only: strangers get nothing; open; none
  bmc:
    cidr: {networks.bmc.cidr}     # every BMC at the number of its server, https and standard ports
    access: {networks.bmc.access}               # or routed: behind a router, a static route is needed
  provisioning:
    mode: {networks.provisioning.mode}               # or managed, unmanaged (DHCP of others): a network for PXE on the first NIC
  uplink: {networks.uplink.mode}                  # or nat: the lab reaches the outside through this computer
  # dns:
  #   records: {{registry: {networks.cluster.cidr[1]}}}
""")


def _memory(group: ServerGroup, method: Method) -> int:
    installs = method is Method.IPI and group.role is Role.CONTROL_PLANE
    return max(group.memory, INSTALLING_MEMORY) if installs else group.memory


def _aligned(text: str) -> str:
    """Comments behind values begin in one column."""
    lines = []
    for line in text.splitlines():
        value, hash, comment = line.partition(" # ")
        lines.append(f"{value.rstrip():<32}# {comment}" if hash and value.strip() else line)
    return "\n".join(lines) + "\n"
