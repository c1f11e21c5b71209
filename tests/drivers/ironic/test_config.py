import configparser
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

from rackless.drivers.ironic.config import IronicConfig
from rackless.spec.discover import Discover

GOLDEN = Path(__file__).parent / "ironic.conf"
CONFIG = IronicConfig(
    state=Path("/lab/ironic"),
    address=IPv4Address("192.0.2.1"),
    certificate=Path("/lab/tls/ironic.crt"),
    key=Path("/lab/tls/ironic.key"),
    ca=Path("/lab/tls/ca.crt"),
    username="admin",
    password="do not show",
    http_url="http://192.0.2.1:6180",
    http_root=Path("/lab/files"),
    kernel=Path("/cache/deploy/kernel"),
    ramdisk=Path("/cache/deploy/initramfs"),
    esp=Path("/cache/esp/esp.img"),
)


def test_the_configuration_is_the_one_that_was_read_by_people() -> None:
    assert CONFIG.render() == GOLDEN.read_text()


def test_the_password_is_neither_in_the_file_nor_in_what_is_printed() -> None:
    assert "do not show" not in CONFIG.render() + repr(CONFIG)


def test_files_may_be_read_only_where_the_ramdisk_is_and_in_the_own_state() -> None:
    parsed = configparser.RawConfigParser()
    parsed.read_string(CONFIG.render())
    assert parsed["conductor"]["file_url_allowed_paths"] == "/cache/deploy,/cache/esp,/lab/ironic"


def test_kernel_parameters_reach_the_boot_iso() -> None:
    assert (
        "kernel_append_params = quiet mitigations=off\n"
        in replace(CONFIG, kernel_params=("quiet", "mitigations=off")).render()
    )


def test_servers_that_are_not_known_are_left_alone_unless_it_is_said() -> None:
    plain, told = CONFIG.render(), replace(CONFIG, discover=Discover.URL).render()
    assert "auto_discovery" not in plain and "fallback" not in plain
    parsed = configparser.RawConfigParser()
    parsed.read_string(told)
    found = parsed["auto_discovery"]
    assert (found["enabled"], found["driver"]) == ("True", "redfish")
    assert parsed["pxe"]["ipxe_fallback_script"] == "discover.ipxe" and "mdns" not in told


def test_an_agent_that_nobody_knows_is_told_where_ironic_is_or_asks_for_it() -> None:
    by_url = replace(CONFIG, discover=Discover.URL).discover_script
    assert by_url.startswith("#!ipxe\nkernel http://192.0.2.1:6180/discover.kernel ")
    assert "ipa-inspection-callback-url=https://192.0.2.1:6385/v1/continue_inspection" in by_url
    asking = replace(CONFIG, discover=Discover.MDNS)
    assert "ipa-api-url=mdns ipa-lookup-timeout" in asking.discover_script, (
        "the agent looks for another service to report to"
    )
    parsed = configparser.RawConfigParser()
    parsed.read_string(asking.render())
    assert parsed["conductor"]["enable_mdns"] == "True" and parsed["mdns"]["interfaces"] == "192.0.2.1"
    assert parsed["mdns"]["params"] == 'ipa_inspection_callback_url:"https://192.0.2.1:6385/v1/continue_inspection"'
