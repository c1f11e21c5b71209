"""A lab's servers in the formats of other tools: BareMetalHosts, enrolment of Ironic nodes, Ansible inventory, DHCP reservations.

Where BMCs and nodes are exposed (`operations/expose.py`), addresses and ports on the hypervisor can be exported instead of those
inside the lab. The output has passwords in it, but for the inventory, which names the files they are in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rackless.cluster.reference.keys import Keys
from rackless.errors import LabError
from rackless.lab.forwards import listed
from rackless.operations.access import USER, unknown_server
from rackless.operations.bmcs import BmcInfo, bmc_info, read_password
from rackless.operations.lab_registry import READING, current_plan, require_lab, require_root
from rackless.plan.exposure import Forward
from rackless.plan.model import PlannedServer
from rackless.ports.hypervisor import Firmware
from rackless.provisioning.baremetalhost import baremetalhost, secret
from rackless.run.ledger import Ledger
from rackless.run.paths import Roots
from rackless.spec.servers import BmcScheme

_GIB = 1 << 30
Document = dict[str, Any]
"""A document in another tool's format, whose field names are that tool's."""


@dataclass(frozen=True, slots=True)
class Exported:
    """One server with the addresses that are exported."""

    server: PlannedServer
    bmc: BmcInfo
    redfish: tuple[str, int] | None
    """Address and port at which its Redfish is reached."""
    ipmi: tuple[str, int] | None
    ssh: tuple[str, int]
    password: str = field(default="", repr=False)


def select(
    name: str, roots: Roots, *, servers: Sequence[str] = (), exposed: bool = False, secrets: bool = True
) -> list[Exported]:
    """These servers, or all; with their `exposed` addresses, or those inside the lab."""
    paths = require_lab(name, roots)
    if secrets:
        require_root("read the passwords of BMCs", why=READING)
    plan = current_plan(paths)
    if missing := set(servers) - {server.name for server in plan.servers}:
        raise unknown_server(name, sorted(missing), [server.name for server in plan.servers])
    found = []
    for server in plan.servers:
        if servers and server.name not in servers:
            continue
        bmc = bmc_info(server, paths)
        inside = Exported(
            server,
            bmc,
            (bmc.address, server.redfish_port) if server.redfish_port is not None else None,
            (bmc.address, server.ipmi_port) if server.ipmi_port is not None else None,
            (str(server.address), 22),
            read_password(bmc) if secrets else "",
        )
        found.append(_outside(inside, listed(Ledger(paths.ledger))) if exposed else inside)
    return found


def _outside(inside: Exported, forwards: Iterable[Forward]) -> Exported:
    own = [one for one in forwards if one.name == inside.server.name]
    at = {(one.what, one.protocol): (one.address, one.port) for one in own}
    redfish, ipmi = at.get(("bmc", "tcp")), at.get(("bmc", "udp"))
    if (redfish if inside.redfish else ipmi) is None:
        raise LabError(
            f"the BMC of {inside.server.name} is not exposed",
            hint="`rackless expose bmc` first, or leave --exposed out: the places inside the lab are told then",
        )
    return replace(inside, redfish=redfish, ipmi=ipmi, ssh=at.get(("ssh", "tcp"), inside.ssh))


def bmc_address(one: Exported) -> str:
    """As Metal3 writes it."""
    if one.server.bmc_scheme is BmcScheme.IPMI:
        assert one.ipmi is not None
        return f"ipmi://{_place(one.ipmi, 623)}"
    assert one.redfish is not None
    plain = one.server.bmc is not None and one.server.bmc.http
    transport = "+http" if plain else ""
    return f"{one.server.bmc_scheme}{transport}://{_place(one.redfish, 80 if plain else 443)}{_system(one)}"


def host_records(found: Iterable[Exported], namespace: str = "") -> list[Document]:
    """A Secret and a BareMetalHost for each, for any baremetal-operator.

    Certificates are not verified, as such an operator does not know the lab's CA.
    """
    records: list[Document] = []
    for one in found:
        server, name = one.server, f"{one.server.name}-bmc"
        records.append(secret(name, {"username": one.bmc.username, "password": one.password}))
        mode = "legacy" if server.firmware is Firmware.BIOS else "UEFISecureBoot" if server.secure_boot else "UEFI"
        host = baremetalhost(
            server.name,
            bmc_address(one),
            name,
            server.boot_nic.mac,
            boot_mode=mode,
            root_device=dict(server.root_device),
        )
        if server.bmc_scheme is not BmcScheme.IPMI:
            host["spec"]["bmc"]["disableCertificateVerification"] = True
        records.append(host)
    for record in records if namespace else ():
        record["metadata"]["namespace"] = namespace
    return records


def enrolment(found: Iterable[Exported]) -> Document:
    """What `openstack baremetal create FILE` reads."""
    return {"nodes": [_node(one) for one in found]}


def _node(one: Exported) -> Document:
    server = one.server
    bios = server.firmware is Firmware.BIOS
    secure = ",secure_boot:true" if server.secure_boot and not bios else ""
    return {
        "name": server.name,
        **_driver(one),
        "properties": {
            "cpus": server.vcpus,
            "memory_mb": server.memory_mib,
            "local_gb": server.disks[0] // _GIB if server.disks else 0,
            "cpu_arch": "x86_64",
            "capabilities": f"boot_mode:{'bios' if bios else 'uefi'}{secure}",
        },
        "ports": [{"address": nic.mac, "pxe_enabled": nic == server.boot_nic} for nic in server.nics],
    }


def _driver(one: Exported) -> Document:
    if one.server.bmc_scheme is BmcScheme.IPMI:
        assert one.ipmi is not None
        address, port = one.ipmi
        login = {"ipmi_username": one.bmc.username, "ipmi_password": one.password}
        return {"driver": "ipmi", "driver_info": {"ipmi_address": address, "ipmi_port": port, **login}}
    assert one.redfish is not None
    plain = one.server.bmc is not None and one.server.bmc.http
    info: Document = {
        "redfish_address": f"{'http' if plain else 'https'}://{_place(one.redfish, 80 if plain else 443)}",
        "redfish_system_id": _system(one),
        "redfish_username": one.bmc.username,
        "redfish_password": one.password,
        "redfish_verify_ca": False,
    }
    media = one.server.bmc_scheme is BmcScheme.REDFISH_VIRTUALMEDIA
    return {"driver": "redfish", **({"boot_interface": "redfish-virtual-media"} if media else {}), "driver_info": info}


def inventory(name: str, found: Sequence[Exported], roots: Roots) -> Document:
    """Groups as in lab.yaml, and by role; passwords are looked up in their files when they are needed."""
    keys = Keys(require_lab(name, roots).cluster_keys)
    groups: dict[str, Document] = {}
    for one in found:
        for group in (one.server.group, f"role_{one.server.role.value.replace('-', '_')}"):
            groups.setdefault(group, {"hosts": {}})["hosts"][one.server.name] = {}
    known = {
        "ansible_user": USER,
        "ansible_ssh_private_key_file": str(keys.admin),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={keys.known_hosts} -o HostKeyAlias={{{{ inventory_hostname }}}}",
    }
    hosts = {one.server.name: _variables(one) for one in found}
    return {"all": {"vars": known, "hosts": hosts, "children": groups}}


def reservations(name: str, roots: Roots) -> list[str]:
    """The addresses that a DHCP server of others has to keep for the lab, as lines of dnsmasq."""
    plan = current_plan(require_lab(name, roots))
    lines = [f"dhcp-host={server.mac},{server.address},{server.name}" for server in plan.places]
    return [*lines, f"dhcp-host={plan.bootstrap_mac},{plan.bootstrap_address},bootstrap"]


def _variables(one: Exported) -> Mapping[str, object]:
    redfish, ipmi = one.redfish, one.ipmi
    return {
        "ansible_host": one.ssh[0],
        "ansible_port": one.ssh[1],
        **({"bmc_redfish": f"{redfish[0]}:{redfish[1]}", "bmc_redfish_system": _system(one)} if redfish else {}),
        **({"bmc_ipmi_address": ipmi[0], "bmc_ipmi_port": ipmi[1]} if ipmi else {}),
        "bmc_user": one.bmc.username,
        "bmc_password": f"{{{{ lookup('file', '{one.bmc.password_file}') }}}}",
        "bmc_ca": one.bmc.ca,
        "boot_mac": one.server.boot_nic.mac,
    }


def _system(one: Exported) -> str:
    return f"/redfish/v1/Systems/{one.server.bmc.system if one.server.bmc is not None else '1'}"


def _place(at: tuple[str, int], usual: int) -> str:
    address = f"[{at[0]}]" if ":" in at[0] else at[0]
    return address if at[1] == usual else f"{address}:{at[1]}"
