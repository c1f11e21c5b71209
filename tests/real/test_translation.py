"""The real installer's own bootstrap config, translated: an API takes every manifest of it, and its kubeconfig opens that API.

It runs in a network namespace of its own, without any network; no guest is started.
"""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import subprocess
from collections.abc import Callable
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from rackless.api.process import ApiServer, ApiSettings
from rackless.cluster.bootstrap.manifests import apply, load_manifests
from rackless.cluster.bootstrap.provisioning_network import read_network
from rackless.cluster.openshift import ignition, site
from rackless.cluster.openshift.translation import BootstrapNic, translate
from rackless.drivers.clock import SystemClock
from rackless.drivers.ironic.bmc_address import find_driver
from rackless.drivers.kubernetes.client import Client
from rackless.installer.assets.release import ReleaseFile
from rackless.operations.bootstrap.parts import ApiObjects
from rackless.ports.api import Access
from rackless.ports.provisioner import BmcLogin
from rackless.provisioning.network_data import problem
from rackless.trust.kubeconfig_reading import read_kubeconfig
from tests.installer.twin.configs import config, host, masters, nmstate
from tests.real import openshift
from tests.real.test_stranger import KEY

pytestmark = pytest.mark.real

BMC = "redfish-virtualmedia://192.168.112.1{n}/redfish/v1/Systems/1"
NMSTATE = nmstate("10.20.30.200", "10.20.30.254")
SITES = {
    "compact": config(masters(BMC), provisioningNetwork="Disabled", top={"sshKey": KEY}),
    "workers and nmstate": config(
        [*masters(BMC, networkConfig=NMSTATE), host(0, BMC.format(n=7), "worker"), host(1, BMC.format(n=8), "worker")],
        provisioningNetwork="Disabled", additionalNTPServers=["10.20.30.254"],
        top={"sshKey": KEY, "additionalTrustBundle": "", "fips": False},
    ),
    "a network to boot from, fixed addresses, an arbiter": config(
        [
            *masters("redfish+https://10.20.30.22{n}/redfish/v1/Systems/1")[:2],
            host(0, "idrac-virtualmedia://10.20.30.230/redfish/v1/Systems/System.Embedded.1", "arbiter",
                 networkConfig=nmstate("10.20.30.201", "10.20.30.254", "0c:42:a1:99:00:00"), bootMode="UEFISecureBoot"),
            host(0, BMC.format(n=7), "worker"),
        ],
        provisioningNetwork="Managed", provisioningMACAddress="52:54:00:11:22:34", externalMACAddress="52:54:00:11:22:33",
        bootstrapExternalStaticIP="10.20.30.90", bootstrapExternalStaticGateway="10.20.30.254",
        bootstrapExternalStaticDNS="10.0.0.53",
        top={"sshKey": KEY, "controlPlane": {"name": "master", "replicas": 2}, "arbiter": {"name": "arbiter", "replicas": 1}},
    ),
    "somebody else's DHCP on that network": config(
        masters(BMC), provisioningNetwork="Unmanaged", provisioningNetworkCIDR="172.23.0.0/24", top={"sshKey": KEY},
    ),
}  # fmt: skip
RELEASE = {
    "node": ReleaseFile("http://10.20.30.1:6180/node.qcow2", "a" * 64),
    "payload": ReleaseFile("http://10.20.30.1:6180/payload.img", "b" * 64),
}


def _made(text: str, folder: Path) -> Path:
    """The folder in which the installer has made its Ignition configs."""
    program = openshift.installer()
    assert shutil.which("unshare")
    (folder / "theirs").mkdir()
    (folder / "theirs/install-config.yaml").write_text(text)
    ran = subprocess.run(
        ["unshare", "--net", str(program), "create", "ignition-configs", "--dir", str(folder / "theirs")],
        capture_output=True, text=True, timeout=300,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": openshift.RELEASE,
             "OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE": "http://127.0.0.1:1/rehearsal.iso"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return folder / "theirs"


@pytest.mark.parametrize("name", list(SITES))
async def test_an_api_takes_the_installers_manifests_and_its_kubeconfig(name: str, tmp_path: Path) -> None:
    theirs = _made(SITES[name], tmp_path)
    known = site.read(ignition.read((theirs / "bootstrap.ign").read_bytes()))
    nic = BootstrapNic(IPv4Interface("10.20.30.9/24"), "52:54:00:11:22:33")
    tree = json.loads(translate(known, nic, RELEASE))
    for look in LOOKS.get(name, ()):
        look(known, {file["path"]: _text(file) for file in tree["storage"]["files"]})
    for file in tree["storage"]["files"]:
        place = tmp_path / "root" / file["path"].lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_text(file))
    clock, refused = SystemClock(), []
    settings = ApiSettings(f"sqlite:{tmp_path / 'objects'}", tmp_path / "root/etc/rackless/pki", port=0)
    async with ApiServer(settings) as api:
        port = api.url.rpartition(":")[2]
        root = tmp_path / "root/opt/openshift"
        own, _ = read_kubeconfig(root / "auth/kubeconfig-loopback", tmp_path)
        client = Client(Access(f"https://localhost:{port}", own.ca, own.certificate, own.key), clock, 5.0)
        try:
            manifests = load_manifests(root)
            await apply(manifests, ApiObjects(client), clock,
                        lambda told: refused.append(told) if "refused" in told else None, within=5.0)  # fmt: skip
        finally:
            await client.close()
        assert refused == []
        hosts = await _ask(theirs / "auth/kubeconfig", port, "/apis/metal3.io/v1alpha1/baremetalhosts")
    found = {one["metadata"]["name"]: one["spec"] for one in hosts["items"]}
    assert set(found) == {one.name for one in known.hosts}
    for one in known.hosts:
        assert found[one.name].get("image", {}).get("url") == (RELEASE["node"].url if one.control_plane else None)
        assert find_driver(BmcLogin(found[one.name]["bmc"]["address"], "user", "password", None)).name == "redfish"


def _text(file: dict[str, Any]) -> str:
    return base64.b64decode(file["contents"]["source"].partition("base64,")[2]).decode()


def _look_managed(known: site.ClusterSite, files: dict[str, str]) -> None:
    assert known.static is not None and str(known.static.address) == "10.20.30.90/24"
    assert known.static.mac == "52:54:00:11:22:33" and known.static.dns == ("10.0.0.53",)
    assert "Gateway=10.20.30.254\nDNS=10.0.0.53\n" in files["/etc/systemd/network/10-cluster.network"]
    assert "52:54:00:11:22:34" in files["/etc/systemd/network/10-provisioning.link"]
    assert "Address=172.22.0.2/24\n" in files["/etc/systemd/network/10-provisioning.network"]
    provisioning = yaml.safe_load(files["/opt/openshift/openshift/99_baremetal-provisioning-config.yaml"])
    boots = read_network(provisioning)
    assert boots is not None and str(boots.address) == "172.22.0.3/24"
    assert boots.pool is not None and str(boots.pool.first) == "172.22.0.10"
    (secret,) = [text for path, text in files.items() if "network-config-secrets" in path]
    told = json.loads(base64.b64decode(yaml.safe_load(secret)["data"]["networkData"]))
    network = told["networks"][0]
    assert (network["ip_address"], network["netmask"]) == ("10.20.30.201", "255.255.255.0") and problem(told) == ""
    assert "/opt/openshift/machine-config/arbiter.ign" in files


def _look_unmanaged(known: site.ClusterSite, files: dict[str, str]) -> None:
    assert "Address=172.23.0.2/24\n" in files["/etc/systemd/network/10-provisioning.network"]


def _look_fixed(known: site.ClusterSite, files: dict[str, str]) -> None:
    """The NIC that has a host's address is the one that it boots from."""
    secrets = [text for path, text in files.items() if "network-config-secrets" in path]
    told = [json.loads(base64.b64decode(yaml.safe_load(text)["data"]["networkData"])) for text in secrets]
    assert [one["links"][0]["ethernet_mac_address"] for one in told] == [
        host.mac for host in known.hosts if host.control_plane
    ]


Look = Callable[[site.ClusterSite, dict[str, str]], None]
LOOKS: dict[str, tuple[Look, ...]] = {
    "workers and nmstate": (_look_fixed,),
    "a network to boot from, fixed addresses, an arbiter": (_look_managed,),
    "somebody else's DHCP on that network": (_look_unmanaged,),
}


async def _ask(kubeconfig: Path, port: str, path: str) -> dict[str, Any]:
    """By the kubeconfig, but for the address that its name stands for."""
    tree = yaml.safe_load(kubeconfig.read_text())
    cluster, user = tree["clusters"][0]["cluster"], tree["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    pair = kubeconfig.with_name("admin.pem")
    pair.write_bytes(b"\n".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
    context.load_cert_chain(pair)
    name = cluster["server"].partition("://")[2].partition(":")[0]
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}{path}", ssl=context, server_hostname=name) as answer,
    ):
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found
