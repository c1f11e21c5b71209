"""Clusters of every kind, as input for the writer; all of them are sensible."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from rackless.installer.install_config.cluster_input import (
    BootstrapInput,
    ClusterInput,
    HostAddressing,
    HostInput,
    Mirror,
    ProvisioningInput,
    ProxyInput,
)

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f nobody@example"
PULL_SECRET = (
    '{"auths":{"cloud.openshift.com":{"auth":"dTpw"},"quay.io":{"auth":"dTpw"},"registry.redhat.io":{"auth":"dTpw"}}}'
)
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBeTCCAR+gAwIBAgIUYbZq4/ErR94LCgKTEIG9PhN/BoAwCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGbm9ib2R5MCAXDTI2MTExNjAxMjc0MFoYDzIxMjYxMDIzMDEy
NzQwWjARMQ8wDQYDVQQDDAZub2JvZHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AATwlwnx/VirfQ4Es2nr0Y7P607tLNKO1yASChEVLQwlKlvD1rFmObDOPpEuqvWa
MLBfr1zHpB4+6ULMCWDyn47po1MwUTAdBgNVHQ4EFgQUU30vH9xCSoR4vfLUkgYv
O708l7YwHwYDVR0jBBgwFoAUU30vH9xCSoR4vfLUkgYvO708l7YwDwYDVR0TAQH/
BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiEAi/EXSL7zyAlIXQIw90VmhlqMPnrW
5tbu40xMyLvu5FsCIDiwNx5TGmfH0PZ+RgqTtF6L/CmDUrujSXD/kaOllZxH
-----END CERTIFICATE-----
"""
VMEDIA = "redfish-virtualmedia+https://192.168.112.{n}/redfish/v1/Systems/1"
REDFISH = "redfish+https://192.168.112.{n}/redfish/v1/Systems/1"
IPMI = "ipmi://192.168.112.{n}"


def hosts(masters: int = 3, workers: int = 0, arbiters: int = 0, address: str = VMEDIA) -> tuple[HostInput, ...]:
    roles = ["master"] * masters + ["arbiter"] * arbiters + ["worker"] * workers
    counts: dict[str, int] = {}
    made = []
    for number, role in enumerate(roles, 20):
        index = counts[role] = counts.get(role, -1) + 1
        made.append(
            HostInput(
                name=f"{role}-{index}",
                role=role,
                boot_mac=f"02:00:00:00:00:{number:02x}",
                bmc_address=address.format(n=number),
                bmc_username="admin",
                bmc_password="not a secret",
                verify_certificate=not address.startswith("redfish"),
            )
        )
    return tuple(made)


def compact() -> ClusterInput:
    return ClusterInput(
        name="lab",
        base_domain="example.com",
        machine_networks=("192.168.111.0/24",),
        api_vips=("192.168.111.5",),
        ingress_vips=("192.168.111.4",),
        hosts=hosts(),
        pull_secret=PULL_SECRET,
        ssh_key=SSH_KEY,
        bootstrap=BootstrapInput(mac="52:54:00:00:00:01"),
    )


def _addressed(host: HostInput, vlan: int | None) -> HostInput:
    number = int(host.boot_mac[-2:], 16)
    network = HostAddressing(
        "enp1s0", host.boot_mac, f"192.168.111.{number}", 24, "192.168.111.1", ("192.168.111.1",), vlan, 9000
    )
    return replace(host, network=network)


def modes() -> dict[str, ClusterInput]:
    base = compact()
    managed = ProvisioningInput("Managed", dhcp_range="172.22.0.10,172.22.0.200", mac="52:54:00:00:00:02")
    bundle = replace(base, trust_bundle=CERTIFICATE, trust_always=True)
    return {
        "compact": base,
        "three-and-two": replace(base, hosts=hosts(3, 2)),
        "managed-ipmi": replace(base, hosts=hosts(3, 2, address=IPMI), provisioning=managed),
        "managed-redfish": replace(
            base, hosts=hosts(3, 1, address=REDFISH), provisioning=replace(managed, gateway="172.22.0.1")
        ),
        "unmanaged-redfish": replace(
            base,
            hosts=hosts(address=REDFISH),
            provisioning=ProvisioningInput("Unmanaged", bootstrap_ip="172.22.0.7", cluster_ip="172.22.0.8"),
        ),
        "arbiter": replace(base, hosts=hosts(2, 0, 1)),
        "fencing": replace(base, hosts=hosts(2)),
        "static-bootstrap": replace(
            base,
            bootstrap=BootstrapInput(
                "baremetal", "52:54:00:00:00:01", "192.168.111.9", "192.168.111.1", "192.168.111.1"
            ),
        ),
        "static-hosts": replace(base, hosts=tuple(_addressed(host, None) for host in hosts())),
        "vlan-hosts": replace(base, hosts=tuple(_addressed(host, 40) for host in hosts())),
        "proxy": replace(
            bundle,
            proxy=ProxyInput(
                "http://proxy.example.com:3128", "http://proxy.example.com:3128", (".example.com", "192.168.111.0/24")
            ),
        ),
        "mirrors": replace(
            bundle,
            mirrors=(
                Mirror("quay.io/openshift-release-dev/ocp-release", ("mirror.example.com:5000/ocp/release",)),
                Mirror("quay.io/openshift-release-dev/ocp-v4.0-art-dev", ("mirror.example.com:5000/ocp/release",)),
            ),
            pull_secret='{"auths":{"mirror.example.com:5000":{"auth":"dTpw"}}}',
        ),
        "dual-stack": replace(
            base,
            machine_networks=("192.168.111.0/24", "fd2e:6f44:5dd8:c956::/120"),
            cluster_networks=(("10.128.0.0/14", 23), ("fd01::/48", 64)),
            service_networks=("172.30.0.0/16", "fd02::/112"),
            api_vips=("192.168.111.5", "fd2e:6f44:5dd8:c956::5"),
            ingress_vips=("192.168.111.4", "fd2e:6f44:5dd8:c956::4"),
            ntp_servers=("ntp.example.com", "192.168.111.1"),
        ),
        "own-load-balancer": replace(
            base, api_vips=("10.1.1.1",), ingress_vips=("10.1.1.1",), user_managed_load_balancer=True
        ),
    }


@pytest.fixture(scope="session")
def every_mode() -> dict[str, ClusterInput]:
    return modes()


@pytest.fixture(scope="session")
def make_compact() -> Callable[[], ClusterInput]:
    return compact


@pytest.fixture(scope="session")
def make_hosts() -> Callable[..., tuple[HostInput, ...]]:
    return hosts
