"""The installer's bootstrap Ignition config as one of ours: what is taken over, what is made, and that an API takes all of it."""

from __future__ import annotations

import base64
import json
import ssl
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from rackless.api.process import ApiServer, ApiSettings
from rackless.cluster.bootstrap.manifests import apply, load_manifests
from rackless.cluster.openshift import ignition, site
from rackless.cluster.openshift.faults import PLAYED_AFTERWARDS, InstallFault
from rackless.cluster.openshift.ignition import NoIgnition
from rackless.cluster.openshift.translation import BootstrapNic, read_release, translate
from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.client import Client
from rackless.errors import InputError
from rackless.images.files.static_network import units
from rackless.installer.assets.release import ReleaseFile
from rackless.operations.bootstrap.parts import ApiObjects
from rackless.ports.api import Access
from rackless.provisioning.network_data import problem
from rackless.trust.kubeconfig_reading import read_kubeconfig
from tests.cluster.openshift.bootstrap_config import DOMAIN, HOME, Made
from tests.installer.twin.configs import nmstate

RELEASE = {
    "node": ReleaseFile("http://10.20.30.1:6180/node.qcow2", "a" * 64),
    "payload": ReleaseFile("http://10.20.30.1:6180/payload.img", "b" * 64),
    "root": ReleaseFile("http://10.20.30.1:6180/bootstrap.ext4", "c" * 64),
}
NIC = BootstrapNic(IPv4Interface("10.20.30.9/24"), "52:54:00:11:22:33")
Json = dict[str, Any]


def _translated(made: Made) -> tuple[dict[str, str], Json]:
    """The files by path, and the whole."""
    tree = json.loads(translate(site.read(ignition.read(made.text())), NIC, RELEASE))
    return {one["path"]: _text(one) for one in tree["storage"]["files"]}, tree


def _text(file: Json) -> str:
    return base64.b64decode(file["contents"]["source"].partition("base64,")[2]).decode()


@pytest.fixture
def made() -> Made:
    made = Made()
    made.add_installing()
    return made


def test_hosts_and_machines_get_the_reference_system_where_openshifts_would_be_installed(made: Made) -> None:
    files, _ = _translated(made)
    image = {"url": RELEASE["node"].url, "checksum": "a" * 64, "checksumType": "sha256"}
    for number in range(3):
        host = yaml.safe_load(files[f"{HOME}/openshift/99_openshift-cluster-api_hosts-{number}.yaml"])
        assert host["spec"]["image"] == image and "customDeploy" not in host["spec"]
        assert host["spec"]["bmc"]["disableCertificateVerification"] is True
        assert host["spec"]["userData"] == {"name": "master-user-data-managed"}
    machine = yaml.safe_load(files[f"{HOME}/openshift/99_openshift-cluster-api_master-machines-0.yaml"])
    assert machine["spec"]["providerSpec"]["value"]["image"] == image
    assert json.loads(files[f"{HOME}/release.json"]) == {
        name: {"url": RELEASE[name].url, "sha256": RELEASE[name].sha256} for name in ("node", "payload")
    }


def test_the_installers_certificates_are_the_apis_and_the_machine_config_servers(made: Made) -> None:
    files, tree = _translated(made)
    pki = "/etc/rackless/pki"
    for name, theirs in (("api", "kube-apiserver-lb-server"), ("api-int", "kube-apiserver-internal-lb-server")):
        assert files[f"{pki}/named/{name}.crt"] == made.files[f"{HOME}/tls/{theirs}.crt"]
        assert files[f"{pki}/named/{name}.key"] == made.files[f"{HOME}/tls/{theirs}.key"]
    assert files[f"{pki}/clients.crt"] == made.clients.certificate
    assert files[f"{HOME}/tls/machine-config-server.key"] == made.files[f"{HOME}/tls/machine-config-server.key"]
    modes = {one["path"]: one["mode"] for one in tree["storage"]["files"]}
    assert {modes[path] for path in files if path.endswith(".key")} == {0o600}
    units = [one["name"] for one in tree["systemd"]["units"]]
    assert {"etcd.service", "rackless-api.service", "rackless-metal3.service", "rackless-hand-over.service"} <= set(
        units
    )
    assert NIC.mac in files["/etc/systemd/network/10-cluster.link"]


def test_a_master_is_told_where_the_bootstrap_is_and_what_the_installer_waits_for(made: Made) -> None:
    files, _ = _translated(made)
    master = json.loads(files[f"{HOME}/machine-config/master.ign"])
    told = {one["path"]: _text(one) for one in master["storage"]["files"]}
    assert f"10.20.30.9 bootstrap.{DOMAIN} bootstrap\n" in told["/etc/hosts"]
    units = {one["name"]: one.get("contents", "") for one in master["systemd"]["units"]}
    assert f"rackless bootstrap operators --apps apps.{DOMAIN}" in units["rackless-rehearsal.service"]
    assert master["passwd"]["users"][0]["sshAuthorizedKeys"] == ["ssh-ed25519 AAAA me@here"]
    assert not any("PRIVATE KEY" in text for text in told.values())  # whoever reaches the server may read it
    worker = json.loads(files[f"{HOME}/machine-config/worker.ign"])
    assert "rackless-rehearsal.service" not in {one["name"] for one in worker["systemd"]["units"]}


def test_a_fixed_address_of_the_bootstrap_is_kept(made: Made) -> None:
    assert "/etc/systemd/network/10-cluster.network" not in _translated(made)[0]
    made.files["/etc/NetworkManager/system-connections/nmconnection"] = (
        "[ipv4]\nmethod=manual\naddress1=10.20.30.9/24\ngateway=10.20.30.1\ndns=10.20.30.2;\n"
    )
    network = _translated(made)[0]["/etc/systemd/network/10-cluster.network"]
    assert "Address=10.20.30.9/24\nGateway=10.20.30.1\nDNS=10.20.30.2\n" in network


async def test_an_api_takes_all_manifests_and_is_the_installers_to_who_calls_it_by_name(
    made: Made, tmp_path: Path
) -> None:
    files, _ = _translated(made)
    for path, text in files.items():
        (tmp_path / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path.lstrip("/")).write_text(text)
    clock, refused = SystemClock(), []
    settings = ApiSettings(f"sqlite:{tmp_path / 'objects'}", tmp_path / "etc/rackless/pki", port=0)
    async with ApiServer(settings) as api:
        port = api.url.rpartition(":")[2]
        own, _ = read_kubeconfig(tmp_path / "opt/openshift/auth/kubeconfig-loopback", tmp_path)
        client = Client(Access(f"https://localhost:{port}", own.ca, own.certificate, own.key), clock, 5.0)
        try:
            manifests = load_manifests(tmp_path / "opt/openshift")
            await apply(manifests, ApiObjects(client), clock, lambda told: refused.append(told) if "refused" in told else None,
                        within=5.0)  # fmt: skip
        finally:
            await client.close()
        assert refused == []
        for name in ("api", "api-int"):
            said = await _ask(made, tmp_path, f"https://127.0.0.1:{port}", f"{name}.{DOMAIN}")
            assert said["spec"] == {"channel": "stable"}


async def _ask(made: Made, folder: Path, url: str, name: str) -> Json:
    """As the installer does: by a name, with its own client certificate, believing nobody but its CA."""
    context = ssl.create_default_context(cadata=made.root.certificate)
    (folder / "admin.pem").write_text("".join(made.admin))
    context.load_cert_chain(folder / "admin.pem")
    path = "/apis/config.openshift.io/v1/clusterversions/version"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url + path, ssl=context, server_hostname=name) as answer,
    ):
        assert answer.status == 200
        found: Json = await answer.json()
        return found


def test_what_the_bootstrap_cannot_install_is_refused() -> None:
    made = Made(bmc="redfish+https://192.0.2.{n}/redfish/v1/Systems/1")
    made.add_installing("Disabled")
    with pytest.raises(InputError, match="cannot install m-0") as refused:
        _translated(made)
    assert "boots by PXE, and with provisioningNetwork: Disabled nobody" in refused.value.why
    made = Made(bmc="irmc://192.0.2.{n}")
    made.add_installing("Managed")
    with pytest.raises(InputError, match="cannot install m-0") as refused:
        _translated(made)
    assert "reached by irmc, which Ironic" in refused.value.why


@pytest.mark.parametrize(
    ("bmc", "wanted"),
    [("ipmi://192.0.2.{n}:6230", "ipmi://192.0.2.1:6230"), ("192.0.2.{n}:623", "ipmi://192.0.2.1:623"),
     ("libvirt://192.0.2.{n}", "ipmi://192.0.2.1")],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["Managed", "Unmanaged"])
def test_hosts_with_ipmi_are_driven_by_it(bmc: str, wanted: str, mode: str) -> None:
    made = Made(bmc=bmc)
    made.add_installing(mode)
    _change(made, 1, bootMode="legacy")
    assert _host(_translated(made)[0], 1)["spec"]["bmc"]["address"] == wanted


def _change(made: Made, number: int, **spec: object) -> None:
    path = f"{HOME}/openshift/99_openshift-cluster-api_hosts-{number}.yaml"
    host = yaml.safe_load(made.files[path])
    host["spec"] |= spec
    made.files[path] = yaml.safe_dump(host)


def _host(files: dict[str, str], number: int) -> Json:
    found: Json = yaml.safe_load(files[f"{HOME}/openshift/99_openshift-cluster-api_hosts-{number}.yaml"])
    return found


@pytest.mark.parametrize("mode", ["Managed", "Unmanaged"])
def test_a_bootstrap_stands_on_the_network_that_hosts_boot_from(mode: str) -> None:
    made = Made(bmc="redfish-virtualmedia://192.0.2.{n}/redfish/v1/Systems/1")
    made.add_installing(mode)
    files, tree = _translated(made)
    assert "MACAddress=52:54:00:aa:00:02\n" in files["/etc/systemd/network/10-provisioning.link"]
    network = files["/etc/systemd/network/10-provisioning.network"]
    assert "Name=provision0\n" in network and "DHCP=no" in network and "Address=172.22.0.2/24\n" in network
    units = {one["name"]: one.get("contents", "") for one in tree["systemd"]["units"]}
    assert "--provisioning provision0" in units["rackless-metal3.service"]


def test_without_such_a_network_there_is_one_nic(made: Made) -> None:
    files, tree = _translated(made)
    assert not [path for path in files if "provisioning.link" in path or "provisioning.network" in path]
    assert "--provisioning" not in json.dumps(tree["systemd"])


def test_bmcs_are_addressed_in_the_engines_words(made: Made) -> None:
    """The twin's speak plain Redfish, whatever the site's are."""
    made.add_installing("Managed")
    place = "10.9.9.11:8443/redfish/v1/Systems/System.Embedded.1"
    wanted = {
        "idrac-virtualmedia+https": "redfish-virtualmedia+https", "ilo5-virtualmedia": "redfish-virtualmedia",
        "idrac-redfish+http": "redfish+http", "ilo5-redfish": "redfish", "redfish-virtualmedia+http": "redfish-virtualmedia+http",
    }  # fmt: skip
    for theirs, ours in wanted.items():
        _change(made, 1, bmc={"address": f"{theirs}://{place}", "credentialsName": "m-1-bmc-secret"})
        assert _host(_translated(made)[0], 1)["spec"]["bmc"] == {
            "address": f"{ours}://{place}", "credentialsName": "m-1-bmc-secret", "disableCertificateVerification": True,
        }  # fmt: skip


def _fixed(made: Made, number: int, config: Json) -> None:
    _change(
        made,
        number,
        preprovisioningNetworkDataName=f"m-{number}-network-config-secret",
        bootMACAddress=f"52:54:00:00:00:1{number}",
    )
    body = {"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": f"m-{number}-network-config-secret", "namespace": "openshift-machine-api"},
            "data": {"nmstate": base64.b64encode(yaml.safe_dump(config).encode()).decode()}}  # fmt: skip
    made.files[f"{HOME}/openshift/99_openshift-cluster-api_host-network-config-secrets-{number}.yaml"] = yaml.safe_dump(
        body
    )


def _network_data(files: dict[str, str], number: int) -> Json:
    secret = yaml.safe_load(
        files[f"{HOME}/openshift/99_openshift-cluster-api_host-network-config-secrets-{number}.yaml"]
    )
    assert set(secret["data"]) == {"networkData"}
    found: Json = json.loads(base64.b64decode(secret["data"]["networkData"]))
    return found


def test_fixed_addresses_are_told_in_the_format_that_agent_and_node_read(made: Made) -> None:
    _fixed(made, 0, nmstate("10.20.30.200", "10.20.30.254"))
    files, _ = _translated(made)
    data = _network_data(files, 0)
    assert problem(data) == ""
    route = {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.20.30.254"}
    (network,) = data["networks"]
    known = {"id": "cluster", "type": "ipv4", "link": "nic"}
    assert network == {
        **known,
        "ip_address": "10.20.30.200",
        "netmask": "255.255.255.0",
        "routes": [route],
    }  # as Ironic demands
    assert data["links"] == [{"id": "nic", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:10"}]
    (unit,) = units(data).values()
    assert "Address=10.20.30.200/24" in unit and "Gateway=10.20.30.254" in unit and "DNS=10.20.30.254" in unit
    assert _host(files, 0)["spec"]["preprovisioningNetworkDataName"] == "m-0-network-config-secret"


def test_a_host_that_boots_over_the_network_gets_its_fixed_address_with_its_system(made: Made) -> None:
    """Its agent has one by DHCP, where it boots from; and iPXE is not signed."""
    made.add_installing("Managed")
    _fixed(made, 1, nmstate("10.20.30.201", "10.20.30.254", "0C-42-A1-99-00-01"))
    _change(made, 1, bootMode="UEFISecureBoot",
            bmc={"address": "redfish://192.0.2.1/redfish/v1/Systems/1", "credentialsName": "m-1-bmc-secret"})  # fmt: skip
    files, _ = _translated(made)
    spec = _host(files, 1)["spec"]
    assert "preprovisioningNetworkDataName" not in spec and spec["bootMode"] == "UEFI"
    assert spec["networkData"] == {"name": "m-1-network-config-secret", "namespace": "openshift-machine-api"}
    assert _network_data(files, 1)["links"][0]["ethernet_mac_address"] == "0c:42:a1:99:00:01"


@pytest.mark.parametrize(
    ("mode", "config"),
    [("Disabled", nmstate("10.20.30.200", "10.20.30.254", vlan=120)), ("Managed", nmstate("10.20.30.200", "10.20.30.254")),
     ("Disabled", {"interfaces": []}), ("Disabled", [])],
)  # fmt: skip
def test_addresses_that_agent_and_node_would_not_understand_are_left_to_dhcp(
    made: Made, mode: str, config: Any
) -> None:
    made.add_installing(mode)
    _fixed(made, 0, config)
    path = f"{HOME}/openshift/99_openshift-cluster-api_host-network-config-secrets-0.yaml"
    files, _ = _translated(made)
    assert yaml.safe_load(files[path]) == yaml.safe_load(made.files[path])
    assert not {"preprovisioningNetworkDataName", "networkData"} & set(_host(files, 0)["spec"])


def test_an_arbiter_is_a_control_plane(made: Made) -> None:
    assert f"{HOME}/machine-config/arbiter.ign" not in _translated(made)[0]
    made.add_installing(arbiter=True)
    made.files[f"{HOME}/openshift/99_openshift-machineconfig_99-arbiter-own.yaml"] = yaml.safe_dump({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "99-arbiter-own", "labels": {"machineconfiguration.openshift.io/role": "arbiter"}},
        "spec": {"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": [{"path": "/etc/own", "contents": {}}]}}},
    })  # fmt: skip
    files, _ = _translated(made)
    arbiter, master = (json.loads(files[f"{HOME}/machine-config/{role}.ign"]) for role in ("arbiter", "master"))
    assert arbiter["systemd"] == master["systemd"] and arbiter["passwd"] == master["passwd"]
    paths = [{one["path"] for one in each["storage"]["files"]} for each in (arbiter, master)]
    assert paths[0] - paths[1] == {"/etc/own"}


def _translated_to_fail(made: Made, fault: InstallFault) -> tuple[dict[str, str], Json]:
    tree = json.loads(translate(site.read(ignition.read(made.text())), NIC, RELEASE, fault))
    return {one["path"]: _text(one) for one in tree["storage"]["files"]}, tree


def test_what_is_to_fail_after_the_bootstrap_is_told_to_who_writes_it(made: Made) -> None:
    for fault in InstallFault:
        files, tree = _translated_to_fail(made, fault)
        master = json.loads(files[f"{HOME}/machine-config/master.ign"])
        (unit,) = [one["contents"] for one in master["systemd"]["units"] if one["name"] == "rackless-rehearsal.service"]
        assert (f"--fail {fault.value}\n" in unit) == (fault in PLAYED_AFTERWARDS)
        names = {one["name"] for one in tree["systemd"]["units"]}
        assert ("rackless-hand-over.service" in names) == (fault is not InstallFault.CONFIG_MAP_MISSING)


def test_a_host_that_is_to_be_in_error_has_a_wrong_password_and_the_others_their_own(made: Made) -> None:
    files, _ = _translated_to_fail(made, InstallFault.HOST_ERROR)
    passwords = []
    for number in range(3):
        secret = yaml.safe_load(files[f"{HOME}/openshift/99_openshift-cluster-api_host-bmc-secrets-{number}.yaml"])
        passwords.append(base64.b64decode(secret["data"]["password"]).decode())
    assert passwords == ["wrong-as-asked-for-by-fail", "very-secret", "very-secret"]


def test_names_that_contradict_each_other_and_a_damaged_list_are_told(made: Made) -> None:
    with pytest.raises(NoIgnition, match="release server's list"):
        read_release('{"node": {"url": "http://x"}}')
    path = f"{HOME}/manifests/cluster-config.yaml"
    config = yaml.safe_load(made.files[path])
    config["data"]["install-config"] = config["data"]["install-config"].replace("name: site", "name: other")
    made.files[path] = yaml.safe_dump(config)
    with pytest.raises(NoIgnition, match=r"in one manifest and api\.other\.example\.net in another"):
        _translated(made)
