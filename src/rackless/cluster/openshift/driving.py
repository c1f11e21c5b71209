"""The installer's hosts so that a rehearsal's engine can drive and write them: BMC addresses, boot modes, fixed addresses. Pure."""

from __future__ import annotations

import base64
import json
from ipaddress import IPv4Network
from typing import Any

import yaml

from rackless.cluster.openshift.payload import Json
from rackless.errors import InputError
from rackless.installer.install_config.config import DISABLED
from rackless.installer.install_config.values import parse_mac
from rackless.installer.twin import nmstate

BY_MEDIA, BY_NETWORK, IPMI = "redfish-virtualmedia", "redfish", "ipmi"
DRIVEN = {
    "redfish-virtualmedia": BY_MEDIA, "ilo5-virtualmedia": BY_MEDIA, "idrac-virtualmedia": BY_MEDIA,
    "redfish": BY_NETWORK, "ilo5-redfish": BY_NETWORK, "idrac-redfish": BY_NETWORK, "ipmi": IPMI, "libvirt": IPMI,
}  # fmt: skip
"""What a BMC of each scheme is asked as: the twin's speak plain Redfish, whatever the site's are."""
_SECURE = "UEFISecureBoot"


def refuse_host(name: str, bmc: str, mode: str) -> None:
    """Raises InputError for a host that the rehearsal's bootstrap cannot install; `mode` is `provisioningNetwork`."""
    if (scheme := _scheme(bmc)) not in DRIVEN:
        why = f"its BMC is reached by {scheme}, which Ironic on the rehearsal's bootstrap does not speak"
    elif boots_by_network(bmc) and mode == DISABLED:
        why = f"it boots by PXE, and with provisioningNetwork: {mode} nobody in the twin leads it to the agent"
    else:
        return
    raise InputError(f"a full rehearsal cannot install {name}", why=why, hint="rehearse it with --quick")


def boots_by_network(bmc: str) -> bool:
    return DRIVEN.get(_scheme(bmc)) in (BY_NETWORK, IPMI)


def _scheme(bmc: str) -> str:
    scheme, found, _ = bmc.partition("://")
    return scheme.partition("+")[0] if found else IPMI


def drivable(host: Json, *, told: bool) -> None:
    """Changes its spec in place; `told` says that its fixed address is known to agent and node."""
    spec = host["spec"]
    if not told:
        spec.pop("preprovisioningNetworkDataName", None)
    if not isinstance(bmc := spec.get("bmc"), dict):
        return
    bmc["disableCertificateVerification"] = True  # a twin's BMCs have certificates of the lab's CA
    address = str(bmc.get("address") or "")
    scheme, _, place = address.partition("://") if "://" in address else (IPMI, "", address)
    name, plus, transport = scheme.partition("+")
    bmc["address"] = f"{DRIVEN.get(name, name)}{plus}{transport}://{place}"
    if boots_by_network(bmc["address"]):
        if spec.get("bootMode") == _SECURE:
            spec["bootMode"] = "UEFI"  # iPXE is not signed
        if (secret := spec.pop("preprovisioningNetworkDataName", None)) is not None:
            # the agent has its address by DHCP on the network that it boots from; the system gets the fixed one
            spec["networkData"] = {"name": secret, "namespace": host["metadata"]["namespace"]}


def readdress(secret: Json, host: Json, machine: IPv4Network, mode: str) -> Json | None:
    """A host's Secret with NMState as one in the format that our agent and our nodes read. None for what they do not know (bonds,
    VLANs) and for a NIC that nobody knows the MAC of: DHCP is asked then."""
    if (found := nmstate_of(secret)) is None:
        return secret
    # with several networks the NIC that a host boots from is not the one that has its address
    at = nmstate.read(found, machine)
    mac = at.mac if mode != DISABLED else str(host["spec"].get("bootMACAddress") or "")
    if at.address is None or at.kind != "ethernet" or parse_mac(mac) is None:
        return None
    # in Ironic's own words, which refuses a host whose network it does not understand
    netmask = IPv4Network(f"0.0.0.0/{at.prefix or machine.prefixlen}").netmask
    network: dict[str, Any] = {
        "id": "cluster", "type": "ipv4", "link": "nic", "ip_address": str(at.address), "netmask": str(netmask), "routes": [],
    }  # fmt: skip
    if at.gateway is not None:
        network["routes"].append({"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": str(at.gateway)})
    link = {"id": "nic", "type": "phy", "ethernet_mac_address": parse_mac(mac)}
    told = {
        "links": [link],  # an MTU is the site's: the twin's links have the usual one
        "networks": [network],
        "services": [{"type": "dns", "address": str(server)} for server in at.name_servers],
    }
    body = {name: value for name, value in secret.items() if name not in ("data", "stringData")}
    return {**body, "data": {"networkData": base64.b64encode(json.dumps(told).encode()).decode()}}


def nmstate_of(secret: Json) -> Any:
    """What a Secret says of a host's network; None where it says something else."""
    if text := (secret.get("stringData") or {}).get("nmstate"):
        return yaml.safe_load(text)
    encoded = (secret.get("data") or {}).get("nmstate")
    return yaml.safe_load(base64.b64decode(encoded)) if encoded else None
