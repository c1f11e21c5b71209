"""Install-configs of sites that nobody has, as different as real ones."""

from __future__ import annotations

import yaml

COMMON = """\
apiVersion: v1
baseDomain: example.net
metadata: {name: %(name)s}
networking:
  machineNetwork: [{cidr: %(machine)s}]
controlPlane: {name: master, replicas: 3}
compute: [{name: worker, replicas: %(workers)s}]
pullSecret: '{"auths":{"nowhere.invalid":{"auth":"c2VjcmV0LXNlY3JldA=="}}}'
"""


def config(hosts: list[dict[str, object]], *, name: str = "site", machine: str = "10.20.30.0/24", vips: tuple[str, str] = (
    "10.20.30.5", "10.20.30.4"), top: dict[str, object] | None = None, **metal: object) -> str:  # fmt: skip
    workers = sum(host.get("role") == "worker" for host in hosts)
    tree = yaml.safe_load(COMMON % {"name": name, "machine": machine, "workers": workers})
    tree["platform"] = {"baremetal": {"apiVIPs": [vips[0]], "ingressVIPs": [vips[1]], "hosts": hosts, **metal}}
    return yaml.safe_dump({**tree, **(top or {})})


def host(number: int, address: str, role: str = "master", **more: object) -> dict[str, object]:
    return {
        "name": f"{role}-{number}",
        "role": role,
        "bootMACAddress": f"0c:42:a1:00:{ord(role[0]):02x}:{number:02x}",
        "bmc": {"address": address, "username": f"user{number}", "password": f"very-secret-{role}-{number}"},
        **more,
    }


def nmstate(address: str, gateway: str, mac: str = "", vlan: int | None = None) -> dict[str, object]:
    wire: dict[str, object] = {"name": "eno1", "type": "ethernet", "state": "up"}
    if mac:
        wire["mac-address"] = mac
    four = {"enabled": True, "dhcp": False, "address": [{"ip": address, "prefix-length": 24}]}
    interfaces = [wire]
    if vlan is None:
        wire["ipv4"] = four
    else:
        interfaces.append(
            {"name": f"eno1.{vlan}", "type": "vlan", "vlan": {"base-iface": "eno1", "id": vlan}, "ipv4": four}
        )
    routes = {"config": [{"destination": "0.0.0.0/0", "next-hop-address": gateway, "next-hop-interface": "eno1"}]}
    return {"interfaces": interfaces, "routes": routes, "dns-resolver": {"config": {"server": [gateway]}}}


def masters(address: str, **more: object) -> list[dict[str, object]]:
    return [{**host(number, address.format(n=number)), **more} for number in range(3)]
