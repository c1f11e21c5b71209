"""What a lab describes becomes an install-config that its own check accepts, for every release that can do it."""

from typing import Any

import pytest
import yaml

from rackless.errors import InputError
from rackless.installer.install_config.checking import check
from rackless.installer.install_config.cluster_input import Mirror, ProxyInput
from rackless.installer.install_config.from_lab import BmcAccount, Options, from_lab
from rackless.installer.install_config.release import RELEASES, Release
from rackless.installer.install_config.site import Site
from rackless.installer.install_config.writing import render
from rackless.plan.addressing import plan_lab
from rackless.spec.load import parse

PULL_SECRET = '{"auths": {"quay.io": {"auth": "dXNlcjpwYXNz"}}}'
SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ6nVx0y0QzS1b2bB3Q3hX1T9o0l1Jm3k7hX6b0h5m0x me"
ROOMY = """\
servers:
  ctrl: {role: control-plane, count: 3, memory: 16GiB, vcpus: 4, disk: 100GiB}
  worker: {role: worker, count: 2, memory: 8GiB, vcpus: 2, disk: 100GiB}
memory_overcommit: true
"""
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def written(lab: str, options: Options) -> dict[str, Any]:
    plan = plan_lab(parse(lab, "lab.yaml"))
    accounts = {server.name: BmcAccount("admin", "secret") for server in plan.servers}
    text = render(from_lab(plan, accounts, PULL_SECRET, SSH_KEY, options))
    report = check(text, options.release, Site())
    assert report.accepted and report.clean, [(f.severity, f.path, f.message) for f in report.findings]
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@pytest.mark.parametrize("release", RELEASES, ids=str)
@pytest.mark.parametrize("mode", ["disabled", "managed", "unmanaged"])
def test_every_release_takes_every_kind_of_provisioning(release: Release, mode: str) -> None:
    lab = ROOMY + f"networks: {{provisioning: {{mode: {mode}}}}}\n"
    made = written(lab, Options(release))["platform"]["baremetal"]
    assert made.get("provisioningNetwork", "Managed").lower() == mode
    if mode != "disabled":
        plan = plan_lab(parse(lab, "lab.yaml"))
        assert made["hosts"][0]["bootMACAddress"] == plan.servers[0].nics[0].mac


@pytest.mark.parametrize(
    ("bmc", "scheme", "address"),
    [
        ("redfish-virtualmedia", "", "redfish-virtualmedia+https://192.168.112.20/redfish/v1/Systems/1"),
        ("redfish", "", "redfish+https://192.168.112.20/redfish/v1/Systems/1"),
        ("ipmi", "", "ipmi://192.168.112.20"),
        ("ipmi", "redfish", "redfish://192.168.112.20/redfish/v1/Systems/1"),
    ],
)
def test_the_bmc_address_is_the_one_of_the_servers_group_unless_it_is_said(bmc: str, scheme: str, address: str) -> None:
    made = written(ROOMY.replace("disk: 100GiB}", f"disk: 100GiB, bmc: {bmc}}}"), Options(scheme=scheme))
    assert made["platform"]["baremetal"]["hosts"][0]["bmc"]["address"] == address


def test_a_server_can_take_another_part_for_two_nodes_with_an_arbiter() -> None:
    made = written(ROOMY, Options(roles={"ctrl-2": "arbiter", "worker-0": "none", "worker-1": "none"}))
    roles = [host["role"] for host in made["platform"]["baremetal"]["hosts"]]
    assert roles == ["master", "master", "arbiter"]
    assert (made["controlPlane"]["replicas"], made["arbiter"]["replicas"]) == (2, 1)


def test_two_control_planes_alone_are_fenced() -> None:
    made = written(ROOMY, Options(roles={"ctrl-2": "none", "worker-0": "none", "worker-1": "none"}))
    assert len(made["controlPlane"]["fencing"]["credentials"]) == 2


def test_hosts_can_have_fixed_addresses_also_on_a_vlan() -> None:
    made = written(ROOMY, Options(static_hosts=True, vlan=7, static_bootstrap=True))
    baremetal = made["platform"]["baremetal"]
    assert baremetal["bootstrapExternalStaticIP"] == "192.168.111.9"
    nic, vlan = baremetal["hosts"][0]["networkConfig"]["interfaces"]
    assert nic["mac-address"] == baremetal["hosts"][0]["bootMACAddress"]
    assert (vlan["vlan"]["id"], vlan["ipv4"]["address"][0]["ip"]) == (7, "192.168.111.20")


def test_proxies_mirrors_and_their_certificates_are_taken_along() -> None:
    options = Options(
        proxy=ProxyInput("http://proxy.test:3128", "http://proxy.test:3128", (".test",)),
        mirrors=(Mirror("quay.io/openshift-release-dev/ocp-release", ("mirror.test:5000/ocp",)),),
    )
    made = written(ROOMY, options)
    assert made["proxy"]["httpProxy"] == "http://proxy.test:3128"
    assert made["imageDigestSources"][0]["mirrors"] == ["mirror.test:5000/ocp"]


@pytest.mark.parametrize("role", ["nobody=master", "ctrl-0=king", "ctrl-0"])
def test_a_part_or_a_server_that_is_not_there_is_refused(role: str) -> None:
    from rackless.cli.commands.install_config import _parts

    with pytest.raises(InputError):
        _parts((role,), ["ctrl-0"])
