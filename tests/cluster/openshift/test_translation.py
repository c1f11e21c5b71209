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
from rackless.cluster.openshift.ignition import NoIgnition
from rackless.cluster.openshift.translation import BootstrapNic, read_release, translate
from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.client import Client
from rackless.errors import InputError
from rackless.installer.assets.release import ReleaseFile
from rackless.operations.bootstrap_parts import ApiObjects
from rackless.ports.api import Access
from rackless.trust.kubeconfig_reading import read_kubeconfig
from tests.cluster.openshift.bootstrap_config import DOMAIN, HOME, Made

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


@pytest.mark.parametrize(
    ("bmc", "provisioning", "said"),
    [
        ("ipmi://192.0.2.{n}", "Disabled", "by ipmi, and"),
        ("redfish+https://192.0.2.{n}/redfish/v1/Systems/1", "Disabled", "by redfish, and"),
        ("redfish-virtualmedia://192.0.2.{n}/redfish/v1/Systems/1", "Managed", "and here it is Managed"),
    ],
)
def test_what_cannot_be_installed_by_virtual_media_is_refused(bmc: str, provisioning: str, said: str) -> None:
    made = Made(bmc=bmc)
    made.add_installing(provisioning)
    with pytest.raises(InputError, match=said):
        _translated(made)


def test_a_host_that_boots_in_legacy_mode_is_refused(made: Made) -> None:
    path = f"{HOME}/openshift/99_openshift-cluster-api_hosts-1.yaml"
    host = yaml.safe_load(made.files[path])
    host["spec"]["bootMode"] = "legacy"
    made.files[path] = yaml.safe_dump(host)
    with pytest.raises(InputError, match="cannot install m-1: it boots in legacy mode"):
        _translated(made)


def test_names_that_contradict_each_other_and_a_damaged_list_are_told(made: Made) -> None:
    with pytest.raises(NoIgnition, match="release server's list"):
        read_release('{"node": {"url": "http://x"}}')
    path = f"{HOME}/manifests/cluster-config.yaml"
    config = yaml.safe_load(made.files[path])
    config["data"]["install-config"] = config["data"]["install-config"].replace("name: site", "name: other")
    made.files[path] = yaml.safe_dump(config)
    with pytest.raises(NoIgnition, match=r"in one manifest and api\.other\.example\.net in another"):
        _translated(made)
