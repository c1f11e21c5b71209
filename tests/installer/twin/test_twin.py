"""The twin of a site: what an install-config says is what the lab is; what it cannot say is a comment; the rest is refused."""

from __future__ import annotations

import json
import stat
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from rackless.cli.main import cli
from rackless.errors import InputError, SpecError
from rackless.installer.install_config.checking import check
from rackless.installer.twin.reading import read_twin
from rackless.installer.twin.site import NoTwin, Wishes
from rackless.plan.addressing import plan_lab
from rackless.plan.model import LabPlan
from rackless.spec import load
from rackless.spec.networks import BmcAccess
from rackless.spec.servers import BmcScheme
from tests.installer.twin.configs import config, host, masters, nmstate

VENDOR = "idrac-virtualmedia+https://10.9.9.1{n}/redfish/v1/Systems/System.Embedded.1"
SUSHY = "redfish-virtualmedia+http://10.20.30.1:8000/redfish/v1/Systems/node-{n}"
IPMI = "ipmi://10.20.30.1:623{n}"


def twin(folder: Path, text: str, *options: str) -> tuple[LabPlan, str]:
    """Written by the command and read back as any lab.yaml is."""
    (folder / "install-config.yaml").write_text(text)
    arguments = ["init", "--from", str(folder / "install-config.yaml"), "-o", str(folder / "lab.yaml"), *options]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "very-secret" not in done.output and "c2VjcmV0" not in done.output
    written = (folder / "lab.yaml").read_text()
    assert "very-secret" not in written and "c2VjcmV0" not in written
    return plan_lab(load.load(folder / "lab.yaml")), written


def test_a_site_with_a_vendors_bmcs_on_a_network_of_their_own(tmp_path: Path) -> None:
    text = config([*masters(VENDOR), host(0, VENDOR.format(n=9), "worker")], provisioningNetwork="Disabled",
                  externalMACAddress="52:54:00:11:22:33", externalBridge="br-ex")  # fmt: skip
    plan, _ = twin(tmp_path, text)
    assert [server.name for server in plan.servers] == ["master-0", "master-1", "master-2", "worker-0"]
    first = plan.servers[0]
    assert first.mac == first.boot_nic.mac == "0c:42:a1:00:6d:00"
    assert first.bmc_address == IPv4Address("10.9.9.10")
    assert first.bmc is not None and (first.bmc.port, first.bmc.http, first.bmc.alone) == (443, False, True)
    assert first.bmc_url == "redfish-virtualmedia://10.9.9.10/redfish/v1/Systems/System.Embedded.1"
    assert plan.baremetal.name == "br-ex" and plan.cable.peer_bridge == "br-ex"
    assert plan.bootstrap_mac == "52:54:00:11:22:33"
    assert (plan.api_vip, plan.ingress_vip) == (IPv4Address("10.20.30.5"), IPv4Address("10.20.30.4"))
    assert plan.domain == "site.example.net"
    assert str(plan.bmc_site.network) == "10.9.9.0/24"
    assert {str(one.ip) for one in plan.bmc.addresses} >= {f"10.9.9.1{n}" for n in (0, 1, 2, 9)}


def test_bmcs_on_the_gateways_address_by_path_and_by_port(tmp_path: Path) -> None:
    plan, _ = twin(tmp_path, config(masters(SUSHY), provisioningNetwork="Disabled"))
    assert {str(server.bmc_address) for server in plan.servers} == {str(plan.gateway.ip)} == {"10.20.30.1"}
    assert [server.bmc.system for server in plan.servers if server.bmc] == ["node-0", "node-1", "node-2"]
    assert plan.servers[1].bmc_url == "redfish-virtualmedia+http://10.20.30.1:8000/redfish/v1/Systems/node-1"
    assert all(str(one.ip) != "10.20.30.1" for one in plan.bmc.addresses), "the gateway has its address already"
    plan, _ = twin(tmp_path, config(masters(IPMI)), "--force")
    assert [server.bmc_url for server in plan.servers] == [f"ipmi://10.20.30.1:623{n}" for n in range(3)]
    assert all(server.bmc_scheme is BmcScheme.IPMI for server in plan.servers)
    assert plan.servers[0].nics[0].network == "provisioning" and plan.servers[0].nics[0].mac == "0c:42:a1:00:6d:00"


def test_passwords_are_in_files_of_their_own_for_their_owner_only(tmp_path: Path) -> None:
    twin(tmp_path, config(masters(VENDOR), provisioningNetwork="Disabled"))
    folder = tmp_path / "lab.passwords"
    files = sorted(folder.iterdir())
    assert [file.read_text() for file in files] == [f"very-secret-master-{n}\n" for n in range(3)]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    spec = load.load(tmp_path / "lab.yaml")
    assert spec.servers["master"].members[0].bmc.password_file == files[0]


def test_what_nmstate_says_of_addresses_nics_and_the_gateway_counts(tmp_path: Path) -> None:
    hosts = [
        host(n, VENDOR.format(n=n), networkConfig=nmstate(f"10.20.30.20{n}", "10.20.30.254", f"0C-42-A1-99-00-0{n}"))
        for n in range(3)
    ]
    plan, text = twin(tmp_path, config(hosts))
    assert [str(server.address) for server in plan.servers] == ["10.20.30.200", "10.20.30.201", "10.20.30.202"]
    assert str(plan.gateway.ip) == "10.20.30.254" and "# the default route of master-0" in text
    assert plan.servers[0].mac == "0c:42:a1:99:00:00" and plan.servers[0].nics[0].mac == "0c:42:a1:00:6d:00"


def test_a_small_network_is_used_to_its_last_address(tmp_path: Path) -> None:
    text = config(masters(VENDOR), machine="10.20.30.0/28", vips=("10.20.30.14", "10.20.30.13"),
                  provisioningNetwork="Disabled")  # fmt: skip
    plan, _ = twin(tmp_path, text)
    taken = [plan.gateway.ip, plan.api_vip, plan.ingress_vip, plan.bootstrap_address]
    taken += [server.address for server in plan.servers]
    assert len(set(taken)) == 7 and all(address in plan.gateway.network for address in taken)


def test_names_of_bmcs_proxies_mirrors_and_time_servers_resolve(tmp_path: Path) -> None:
    text = config(
        masters("redfish-virtualmedia://bmc-{n}.oob.example.net/redfish/v1/Systems/1"),
        provisioningNetwork="Disabled",
        additionalNTPServers=["ntp.example.net", "10.0.0.1"],
        top={
            "proxy": {"httpProxy": "http://proxy.example.net:3128"},
            "imageDigestSources": [{"source": "a.invalid/x", "mirrors": ["mirror.example.net:5000/x"]}],
        },
    )
    plan, _ = twin(tmp_path, text)
    names = {name: record.address for record in plan.cluster.records for name in record.names}
    assert names["bmc-0.oob.example.net"] == plan.servers[0].bmc_address != plan.servers[1].bmc_address
    assert {names[f"{one}.example.net"] for one in ("ntp", "proxy", "mirror")} == {plan.gateway.ip}


def test_a_lab_of_another_name_still_answers_to_the_clusters(tmp_path: Path) -> None:
    plan, _ = twin(tmp_path, config(masters(VENDOR), provisioningNetwork="Disabled"), "--name", "try")
    names = {name: record.address for record in plan.cluster.records for name in record.names}
    assert plan.name == "try" and names["api.site.example.net"] == plan.api_vip
    assert names["*.apps.site.example.net"] == plan.ingress_vip


def test_firmware_and_schemes_make_groups(tmp_path: Path) -> None:
    hosts = [
        host(0, VENDOR.format(n=0), bootMode="UEFISecureBoot"),
        host(1, VENDOR.format(n=1), bootMode="legacy"),
        host(2, "redfish+https://10.9.9.12:8443/redfish/v1/Systems/1"),
    ]
    plan, _ = twin(tmp_path, config(hosts))
    assert [server.group for server in plan.servers] == ["master-1", "master-2", "master-3"]
    assert plan.servers[0].secure_boot and plan.servers[1].firmware == "bios"
    assert plan.servers[2].bmc_url == "redfish://10.9.9.12:8443/redfish/v1/Systems/1"


def test_what_differs_from_the_site_is_told(tmp_path: Path) -> None:
    hosts = [
        host(n, VENDOR.format(n=n), networkConfig=nmstate(f"10.20.30.3{n}", "10.20.30.1", vlan=120),
             rootDeviceHints={"deviceName": "/dev/disk/by-path/pci-0000:01"}) for n in range(3)
    ]  # fmt: skip
    _, text = twin(tmp_path, config(hosts, provisioningNetwork="Disabled", libvirtURI="qemu+ssh://root@hv/system"))
    for words in ("VLAN 120", "by-path/pci-0000:01", "libvirtURI", "idrac-virtualmedia"):
        assert words in text


def test_root_device_hints_make_the_disks_where_they_can(tmp_path: Path) -> None:
    hosts = [
        host(0, VENDOR.format(n=0), rootDeviceHints={"serialNumber": "S3XNNX0K10", "deviceName": "/dev/sda"}),
        host(1, VENDOR.format(n=1), rootDeviceHints={"deviceName": "/dev/vda"}),
        host(
            2,
            VENDOR.format(n=2),
            rootDeviceHints={"wwn": "0x5000c500a", "minSizeGigabytes": 120, "serialNumber": "with space"},
        ),
    ]
    plan, text = twin(tmp_path, config(hosts, provisioningNetwork="Disabled"))
    first, second, third = sorted(plan.servers, key=lambda server: server.name)
    assert (first.disk_serial, first.disk_bus, second.disk_bus) == ("S3XNNX0K10", "scsi", "virtio")
    assert (third.disk_serial, third.disk_bus) == ("", "scsi")
    (told,) = [line for line in text.splitlines() if "rootDeviceHints" in line and line.startswith("#")]
    assert "master-2: rootDeviceHints minSizeGigabytes 120, serialNumber with space, wwn 0x5000c500a:" in told


def test_name_servers_and_routers_that_are_nobody_in_the_twin_are_its_gateway_in_a_rehearsal(tmp_path: Path) -> None:
    networks: list[Any] = [nmstate(f"10.20.30.20{n}", f"10.20.30.25{n}") for n in range(3)]
    networks[0]["dns-resolver"]["config"]["server"] = ["10.0.0.53", "10.20.30.5", "10.20.30.200", "fd00::53"]
    hosts = [host(n, VENDOR.format(n=n), networkConfig=networks[n]) for n in range(3)]
    fixed: dict[str, Any] = {"bootstrapExternalStaticIP": "10.20.30.90", "bootstrapExternalStaticGateway": "10.20.30.253",
             "bootstrapExternalStaticDNS": "10.0.0.54,10.20.30.20"}  # fmt: skip
    source = tmp_path / "install-config.yaml"
    source.write_text(config(hosts, provisioningNetwork="Disabled", **fixed))
    found = read_twin(source, Wishes())
    assert str(found.gateway) == "10.20.30.250"
    wanted = ["10.0.0.54", "10.20.30.20", "10.20.30.253", "10.0.0.53", "10.20.30.251", "10.20.30.252"]
    assert [str(one) for one in found.aliases] == wanted
    assert not {server.address for server in found.servers} & set(found.aliases)
    assert any(line.startswith("10.0.0.54, 10.20.30.20, ") for line in found.deviations)
    _, text = twin(tmp_path, config(masters(VENDOR), provisioningNetwork="Disabled"))
    assert "gateway in a rehearsal" not in text


def test_an_mtu_of_the_site_is_told(tmp_path: Path) -> None:
    addressed: Any = nmstate("10.20.30.200", "10.20.30.254")
    addressed["interfaces"][0]["mtu"] = 9000
    _, text = twin(
        tmp_path, config([host(0, VENDOR.format(n=0), networkConfig=addressed)], provisioningNetwork="Disabled")
    )
    assert "master-0: its MTU is 9000; in the lab it is 1500" in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (config([]), "no hosts"),
        (config(masters("irmc://10.9.9.1{n}")), "irmc"),
        (config(masters("redfish://10.9.9.1{n}/weird/path")), "/weird/path"),
        (config(masters("redfish://[fd00::{n}]/redfish/v1/Systems/1")), "IPv4"),
        (config(masters(VENDOR), machine="fd00::/64", vips=("fd00::5", "fd00::4")), "IPv6"),
        (config(masters(VENDOR), vips=("10.1.1.5", "10.1.1.4")), "outside the machine network"),
        (config(masters(VENDOR), top={"controlPlane": {"name": "master", "replicas": 3, "architecture": "arm64"}}), "arm64"),
        (config([{**host(0, VENDOR.format(n=0)), "bootMACAddress": "nonsense"}]), "not a MAC"),
        (config(masters("redfish://10.9.9.10/redfish/v1/Systems/{n}"), provisioningNetwork="Managed",
                provisioningNetworkCIDR="172.22.0.0/24", ) .replace("user1", "user0"), "two passwords"),
        (config(masters("redfish-virtualmedia://10.20.30.5/redfish/v1/Systems/{n}").copy()), "10.20.30.5"),
        ("apiVersion: v1\nplatform: {none: {}}\n", "platform is none"),
    ],
)  # fmt: skip
def test_what_a_lab_cannot_be_is_refused_with_its_reason(tmp_path: Path, text: str, reason: str) -> None:
    source = tmp_path / "install-config.yaml"
    source.write_text(text)
    with pytest.raises(NoTwin) as refused:
        read_twin(source, Wishes())
    assert reason in refused.value.why and "very-secret" not in refused.value.why
    done = CliRunner().invoke(cli, ["init", "--from", str(source), "-o", str(tmp_path / "lab.yaml")])
    assert not (tmp_path / "lab.yaml").exists() and not (tmp_path / "lab.passwords").exists() and done.exit_code != 0


ONE_BMC = "redfish-virtualmedia://{at}/redfish/v1/Systems/{n}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (config(masters(ONE_BMC.format(at="10.20.30.5", n="{n}"))),
         "the BMC of master-0: 10.20.30.5 is the address of the API VIP, and a BMC needs its own"),
        (config(masters(ONE_BMC.format(at="10.20.30.1:6385", n="{n}"))), "the port of the BMC of master-2: port 6385"),
        (config(masters(VENDOR), externalMACAddress="0c:42:a1:00:6d:01"), "bootMACAddress of master-1: 0c:42:a1:00:6d:01"),
        (config([host(0, VENDOR.format(n=0), networkConfig=nmstate("10.20.30.5", "10.20.30.254"))]),
         "the API VIP: 10.20.30.5 is the address of the server master-0"),
        (config(masters(VENDOR), externalBridge="br-external-long"), "externalBridge: 'br-external-long' is too long"),
        (config(masters(VENDOR), externalBridge="virbr0"), "its externalBridge is virbr0, and a lab has a link of its own"),
        (config(masters(VENDOR), externalBridge="both", provisioningBridge="both"), "and provisioningBridge are both both"),
        (config(masters(VENDOR), vips=("10.20.30.5", "10.20.30.5"), loadBalancer={"type": "UserManaged"}),
         "API and ingress share the VIP 10.20.30.5 (a load balancer of the site's own)"),
        ("platform: {\nbaremetal", "line 3: not readable as YAML"),
        ("- a list\n", "it is not a mapping of fields"),
    ],
)  # fmt: skip
def test_reasons_are_told_in_the_words_of_the_install_config(tmp_path: Path, text: str, reason: str) -> None:
    source = tmp_path / "install-config.yaml"
    source.write_text(text)
    with pytest.raises(InputError) as refused:
        read_twin(source, Wishes())
    assert reason in refused.value.why and "networks." not in refused.value.why and ".members." not in refused.value.why


def test_what_differs_for_several_hosts_is_told_once(tmp_path: Path) -> None:
    _, text = twin(tmp_path, config(masters(VENDOR), provisioningNetwork="Disabled"))
    (told,) = [line for line in text.splitlines() if "idrac-virtualmedia" in line]
    assert told.startswith("#  - master-0, master-1, master-2: its BMC is of type")


def test_bmcs_in_the_machine_network_cannot_be_routed(tmp_path: Path) -> None:
    source = tmp_path / "install-config.yaml"
    source.write_text(config(masters(SUSHY), provisioningNetwork="Disabled"))
    with pytest.raises(NoTwin, match="router"):
        read_twin(source, Wishes(bmc_access=BmcAccess.ROUTED))


def test_two_members_with_one_bmc_are_no_lab() -> None:
    members = [{"name": f"a-{n}", "bmc": {"address": "10.9.9.9", "system": "1"}} for n in range(2)]
    text = json.dumps({"servers": {"a": {"members": members}}})
    with pytest.raises(SpecError) as refused:
        load.parse(text, "lab.yaml")
    assert "same address, port and system" in refused.value.why


_ABOVE = Path(__file__).parents[4:6]
GOOD = sorted(file for above in _ABOVE for file in above.glob("shared/data/install-config/good-*.yaml"))
REFUSED = ("bgp", "dual-stack", "arm64")


@pytest.mark.skipif(not GOOD, reason="the recorded verdicts of the installer are not at hand")
def test_every_config_that_an_installer_takes_has_a_twin_or_a_reason(tmp_path: Path) -> None:
    for source in GOOD:
        if any(word in source.name for word in REFUSED):
            with pytest.raises(NoTwin):
                read_twin(source, Wishes())
            continue
        plan, _ = twin(tmp_path, source.read_text(), "--force")
        written = yaml.safe_load(source.read_text())
        wanted = written["platform"]["baremetal"]["hosts"]
        assert [server.name for server in plan.servers] == [one["name"] for one in wanted]
        for server, one in zip(plan.servers, wanted, strict=True):
            assert server.nics[0].mac == one["bootMACAddress"] and server.bmc_url == one["bmc"]["address"]
        assert check(source.read_text()).accepted
