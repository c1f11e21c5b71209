"""Ignition configs and certificates: what each machine is told, and nothing more."""

import base64
import datetime
import json
import re
from typing import Any

import click
import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rackless.cli.main import cli
from rackless.installer.assets import certificates as trust
from rackless.installer.assets.asset import Asset
from rackless.installer.assets.ignition.merging import merge
from rackless.installer.assets.signing import KeyPair
from rackless.installer.assets.store import Fetched
from tests.installer.assets.conftest import SSH_KEY, install_config
from tests.installer.assets.test_manifests import bootstrap_files, make

STATIC = """\
    bootstrapExternalStaticIP: 192.168.111.9
    bootstrapExternalStaticGateway: 192.168.111.1
    bootstrapExternalStaticDNS: 192.168.111.1
"""


@pytest.fixture(scope="module")
def made() -> Fetched:
    return make("ignition-configs", {"install-config.yaml": install_config()})


def pair(made: Fetched, asset: Asset[KeyPair]) -> KeyPair:
    return asset.read(made.state.entries[asset.name].parts)


def certificate(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate.encode())


def test_every_certificate_is_of_its_own_authority_and_of_no_other(made: Fetched) -> None:
    roots = {asset.name: certificate(pair(made, asset)) for asset in (trust.ROOT_CA, trust.ETCD_CA, trust.API_CA)}
    signed = {
        "root-ca": [trust.MACHINE_CONFIG_SERVER],
        "etcd-ca": [trust.ETCD_MEMBER, trust.ETCD_CLIENT],
        "api-ca": [trust.ADMIN_CERTIFICATE],
    }
    for name, assets in signed.items():
        for asset in assets:
            leaf = certificate(pair(made, asset))
            leaf.verify_directly_issued_by(roots[name])
            for other in roots.keys() - {name}:
                with pytest.raises(Exception):  # noqa: B017  (one of several, by what differs first)
                    leaf.verify_directly_issued_by(roots[other])


def test_certificates_live_as_long_as_the_reference_clusters(made: Fetched) -> None:
    for asset in (trust.ROOT_CA, trust.API_CA, trust.MACHINE_CONFIG_SERVER, trust.ADMIN_CERTIFICATE, trust.ETCD_MEMBER):
        found = certificate(pair(made, asset))
        assert found.not_valid_after_utc - found.not_valid_before_utc >= datetime.timedelta(days=3649), asset.name


def test_the_administrator_is_one_and_a_server_certificate_opens_nothing(made: Fetched) -> None:
    admin = certificate(pair(made, trust.ADMIN_CERTIFICATE))
    assert admin.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:admin"
    assert admin.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:masters"
    server = certificate(pair(made, trust.MACHINE_CONFIG_SERVER))
    uses = server.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [ExtendedKeyUsageOID.SERVER_AUTH]
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["api-int.ostest.example.com"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["192.168.111.5"]


def test_a_pointer_sends_a_machine_to_its_roles_config_and_says_whom_to_believe(made: Fetched) -> None:
    for role in ("master", "worker"):
        found = json.loads(made.write[f"{role}.ign"])["ignition"]
        assert found["config"]["merge"] == [{"source": f"https://192.168.111.5:22623/config/{role}"}]
        (believed,) = found["security"]["tls"]["certificateAuthorities"]
        assert (
            base64.b64decode(believed["source"].partition("base64,")[2]).decode()
            == pair(made, trust.ROOT_CA).certificate
        )


def test_rendered_configs_hold_no_key_of_an_authority(made: Fetched) -> None:
    """Whoever reaches the machine-config server may read them."""
    for text in made.state.entries["rendered"].parts.values():
        contents = "".join(bootstrap_files(text).values())
        assert "PRIVATE KEY" not in contents and "hunter2" not in contents
        assert SSH_KEY in text


def test_a_machine_config_of_a_persons_own_is_in_the_config_of_its_role_only() -> None:
    first = make("manifests", {"install-config.yaml": install_config()})
    files = [{"path": "/etc/mine", "contents": {"source": "data:,mine"}}]
    config = {"ignition": {"version": "3.2.0"}, "storage": {"files": files}}
    extra = {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": "50-mine", "labels": {"machineconfiguration.openshift.io/role": "worker"}},
        "spec": {"config": config},
    }
    disk = {**first.write, "openshift/mine.yaml": yaml.safe_dump(extra)}
    made = make("ignition-configs", disk, first.handed)
    rendered = made.state.entries["rendered"].parts
    assert "/etc/mine" in rendered["worker"] and "/etc/mine" not in rendered["master"]
    assert (
        bootstrap_files(made.write["bootstrap.ign"])["/opt/openshift/openshift/mine.yaml"]
        == disk["openshift/mine.yaml"]
    )


def test_the_bootstrap_holds_every_manifest_as_it_was_left() -> None:
    first = make("manifests", {"install-config.yaml": install_config()})
    path = "manifests/cluster-scheduler-02-config.yml"
    edited = first.write[path].replace("false", "true")
    disk = {**first.write, path: edited}
    del disk["openshift/99_openshift-cluster-api_worker-machineset-0.yaml"]
    files = bootstrap_files(make("ignition-configs", disk, first.handed).write["bootstrap.ign"])
    kept = {name.removeprefix("/opt/openshift/"): text for name, text in files.items() if "/opt/openshift/" in name}
    assert {name: text for name, text in kept.items() if name.startswith(("manifests/", "openshift/"))} == disk


def test_the_bootstraps_keys_are_for_their_owners_only(made: Fetched) -> None:
    config = json.loads(made.write["bootstrap.ign"])
    texts = bootstrap_files(made.write["bootstrap.ign"])
    holders = [file for file in config["storage"]["files"] if "PRIVATE KEY" in texts[file["path"]]]
    assert len(holders) >= 5 and all(file["mode"] == 0o600 for file in holders)


def test_the_bootstraps_units_start_programs_that_there_are_with_options_that_there_are(made: Fetched) -> None:
    units = {unit["name"]: unit for unit in json.loads(made.write["bootstrap.ign"])["systemd"]["units"]}
    assert list(units) == [
        "etcd.service", "rackless-api.service", "haproxy.service", "rackless-vip.service", "rackless-manifests.service",
        "rackless-machine-config.service", "rackless-hand-over.service",
    ]  # fmt: skip
    for unit in units.values():
        if not unit["name"].startswith("rackless-") or unit["name"] == "rackless-vip.service":  # no verb of ours
            continue
        (line,) = re.findall(r"ExecStart=((?:.|\\\n)*?[^\\])\n", unit["contents"])
        program, group_name, verb, *words = line.replace("\\\n", " ").split()
        assert program == "/usr/bin/rackless"
        group = cli.get_command(click.Context(cli), group_name)
        assert isinstance(group, click.Group)
        options = {name for parameter in group.commands[verb].params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_on_the_bootstrap_nothing_that_is_needed_later_starts_beside_the_api(made: Fetched) -> None:
    """Its processors are all that the API and Ironic have to come up with."""
    units = {
        unit["name"]: unit.get("contents", "") for unit in json.loads(made.write["bootstrap.ign"])["systemd"]["units"]
    }
    later = [
        name for name, text in units.items() if "rackless-manifests.service" in "".join(re.findall("After=(.*)", text))
    ]
    assert later == ["rackless-machine-config.service", "rackless-hand-over.service"]


def test_a_masters_config_starts_programs_that_there_are_and_a_workers_makes_no_control_plane(made: Fetched) -> None:
    rendered = made.state.entries["rendered"].parts
    units = {
        role: {unit["name"]: unit for unit in json.loads(text)["systemd"]["units"]} for role, text in rendered.items()
    }
    assert set(units["worker"]) == {"rackless-node.service"}
    assert set(units["master"]) == {"rackless-node.service", "rackless-control-plane.service"}
    (line,) = re.findall(r"ExecStart=(.*)", units["master"]["rackless-control-plane.service"]["contents"])
    group = cli.get_command(click.Context(cli), "bootstrap")
    assert isinstance(group, click.Group) and line.split()[:3] == ["/usr/bin/rackless", "bootstrap", "join"]
    options = {name for parameter in group.commands["join"].params for name in parameter.opts}
    assert {word for word in line.split() if word.startswith("--")} <= options


def test_the_bootstraps_units_name_files_that_it_has(made: Fetched) -> None:
    files = bootstrap_files(made.write["bootstrap.ign"])
    units = json.loads(made.write["bootstrap.ign"])["systemd"]["units"]
    named = {path for unit in units for path in re.findall(r"/opt/openshift/[\w./-]+", unit.get("contents", ""))}
    assert named
    assert {path for path in named if path not in files and not any(f.startswith(f"{path}/") for f in files)} == set()


def test_the_bootstraps_api_answers_on_loopback_and_has_the_vip_only_when_it_is_ready(made: Fetched) -> None:
    files = bootstrap_files(made.write["bootstrap.ign"])
    assert "server bootstrap 127.0.0.1:6444" in files["/etc/haproxy/haproxy.cfg"]
    assert "vip.main 192.168.111.5 cluster0 6445 /etc/rackless/etcd\n" in vip_unit(made)
    etcd = files["/etc/default/etcd"]
    assert (
        'ETCD_LISTEN_PEER_URLS="https://0.0.0.0:2380"' in etcd
    )  # control planes join it, at an address that nobody knows yet
    assert 'ETCD_INITIAL_CLUSTER="bootstrap=https://bootstrap.ostest.example.com:2380"' in etcd
    assert "127.0.1.1 bootstrap.ostest.example.com" in files["/etc/hosts"]
    macs = made.state.entries["bootstrap-macs"].parts
    assert f"MACAddress={macs['external']}" in files["/etc/systemd/network/10-cluster.link"]


def test_a_bootstrap_with_a_fixed_address_asks_no_dhcp() -> None:
    files = bootstrap_files(
        make("ignition-configs", {"install-config.yaml": install_config(more=STATIC)}).write["bootstrap.ign"]
    )
    network = files["/etc/systemd/network/10-cluster.network"]
    assert "DHCP=no" in network and "Address=192.168.111.9/24" in network
    assert "Gateway=192.168.111.1" in network and "DNS=192.168.111.1" in network


def test_a_managed_provisioning_network_gives_the_bootstrap_its_well_known_address() -> None:
    text = install_config().replace("provisioningNetwork: Disabled", "provisioningNetwork: Managed")
    made = make("ignition-configs", {"install-config.yaml": text})
    files = bootstrap_files(made.write["bootstrap.ign"])
    assert "Address=172.22.0.2/24" in files["/etc/systemd/network/10-provisioning.network"]
    assert (
        made.state.entries["bootstrap-macs"].parts["provisioning"] in files["/etc/systemd/network/10-provisioning.link"]
    )
    assert json.loads(made.write["metadata.json"])["baremetal"]["provisioningHostIP"] == "172.22.0.3"


@pytest.mark.parametrize(("mode", "there"), [("Managed", True), ("Unmanaged", True), ("Disabled", False)])
def test_the_bootstrap_has_ironic_on_the_provisioning_network_where_there_is_one(mode: str, there: bool) -> None:
    text = install_config().replace("provisioningNetwork: Disabled", f"provisioningNetwork: {mode}")
    release = {"payload": {"url": "http://192.168.111.1:6180/payload.img", "sha256": "0" * 64}}
    made = make("ignition-configs", {"install-config.yaml": text, "release.json": json.dumps(release)})
    units = json.loads(made.write["bootstrap.ign"])["systemd"]["units"]
    (metal3,) = [each["contents"] for each in units if each["name"] == "rackless-metal3.service"]
    assert ("--provisioning provision0" in metal3) is there


def test_an_ipv6_vip_is_written_as_one() -> None:
    text = install_config().replace("192.168.111.0/24", "fd00:7::/64").replace("[192.168.111.5]", "['fd00:7::5']")
    text = text.replace("[192.168.111.4]", "['fd00:7::4']").replace(
        "compute:", "  serviceNetwork: ['fd02::/112']\ncompute:"
    )
    text = text.replace("  serviceNetwork", "  clusterNetwork: [{cidr: 'fd01::/48', hostPrefix: 64}]\n  serviceNetwork")
    made = make("ignition-configs", {"install-config.yaml": text})
    assert "https://[fd00:7::5]:22623/config/master" in made.write["master.ign"]
    assert "vip.main fd00:7::5 cluster0 " in vip_unit(made)


def vip_unit(made: Fetched) -> str:
    units = json.loads(made.write["bootstrap.ign"])["systemd"]["units"]
    (found,) = [str(each["contents"]) for each in units if each["name"] == "rackless-vip.service"]
    return found


@pytest.mark.parametrize(
    ("text", "said"), [("{", "JSON"), ("{}", "version"), ('{"ignition": {"version": "2.2.0"}}', "version")]
)
def test_an_ignition_config_of_a_persons_own_must_be_one(text: str, said: str, made: Fetched) -> None:
    with pytest.raises(Exception, match=said):
        make("ignition-configs", {**made.write, "master.ign": text}, made.handed)


def _config(**more: Any) -> dict[str, Any]:
    return {"ignition": {"version": "3.2.0"}, **more}


def test_merging_replaces_files_lays_units_over_and_adds_keys() -> None:
    parent = _config(
        storage={"files": [{"path": "/a", "mode": 1, "user": {"name": "x"}}, {"path": "/b"}]},
        systemd={"units": [{"name": "u", "enabled": True, "dropins": [{"name": "1", "contents": "old"}]}]},
        passwd={"users": [{"name": "core", "sshAuthorizedKeys": ["k1"], "shell": "/bin/sh"}]},
    )
    child = _config(
        storage={"files": [{"path": "/a", "mode": 2}, {"path": "/c"}]},
        systemd={
            "units": [{"name": "u", "contents": "new", "dropins": [{"name": "1", "contents": "new"}, {"name": "2"}]}]
        },
        passwd={"users": [{"name": "core", "sshAuthorizedKeys": ["k1", "k2"]}]},
    )
    made = merge(parent, child)
    assert made["storage"]["files"] == [{"path": "/a", "mode": 2}, {"path": "/b"}, {"path": "/c"}]
    assert made["systemd"]["units"] == [
        {"name": "u", "enabled": True, "contents": "new", "dropins": [{"name": "1", "contents": "new"}, {"name": "2"}]}
    ]
    assert made["passwd"]["users"] == [{"name": "core", "sshAuthorizedKeys": ["k1", "k2"], "shell": "/bin/sh"}]
    assert merge(parent, _config()) == parent
