from pathlib import Path

import pytest

from rackless.drivers.ironic.bmc_address import BadAddress, find_driver
from rackless.ports.provisioner import BmcLogin

CA = Path("/lab/ca.crt")


@pytest.mark.parametrize(
    ("address", "redfish", "system"),
    [
        ("redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1", "https://192.0.2.1", "/redfish/v1/Systems/1"),
        ("redfish-virtualmedia+https://bmc.lab:8443/redfish/v1/Systems/1/", "https://bmc.lab:8443", "/redfish/v1/Systems/1"),
        ("redfish-virtualmedia+http://192.0.2.1:8000/redfish/v1/Systems/a", "http://192.0.2.1:8000", "/redfish/v1/Systems/a"),
        ("redfish-virtualmedia://[2001:db8::1]:443/redfish/v1/Systems/1", "https://[2001:db8::1]:443", "/redfish/v1/Systems/1"),
        ("redfish-virtualmedia://192.0.2.1", "https://192.0.2.1", None),
        ("redfish-virtualmedia://192.0.2.1/redfish/v1/", "https://192.0.2.1", None),
    ],
)  # fmt: skip
def test_a_metal3_address_becomes_a_redfish_service_and_a_system(
    address: str, redfish: str, system: str | None
) -> None:
    info = find_driver(BmcLogin(address, "admin", "secret", CA)).info
    assert (info["redfish_address"], info.get("redfish_system_id")) == (redfish, system)
    assert info["redfish_verify_ca"] == "/lab/ca.crt"


@pytest.mark.parametrize(
    ("ca", "verify", "expected"), [(CA, True, "/lab/ca.crt"), (CA, False, False), (None, True, True)]
)
def test_who_is_trusted_is_the_ca_the_system_or_anyone(ca: Path | None, verify: bool, expected: str | bool) -> None:
    address = "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1"
    assert find_driver(BmcLogin(address, "admin", "secret", ca, verify)).info["redfish_verify_ca"] == expected


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("", "an empty address"),
        ("idrac-redfish://192.0.2.1", "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1"),
        ("ipmi+https://192.0.2.1", "ipmi://host[:port]"),
        ("ipmi://192.0.2.1/redfish/v1/Systems/1", "ipmi://host[:port]"),
        ("redfish://192.0.2.1/redfish/v1/Systems/1?x=y", "scheme://host"),
        ("redfish-virtualmedia+ftp://192.0.2.1", "neither +http nor +https"),
        ("redfish-virtualmedia:///redfish/v1/Systems/1", "scheme://host"),
        ("redfish-virtualmedia://admin:secret@192.0.2.1", "scheme://host"),
        ("redfish-virtualmedia://192.0.2.1:port", "not a BMC address"),
    ],
)
def test_an_address_that_cannot_work_says_what_would(address: str, says: str) -> None:
    with pytest.raises(BadAddress) as error:
        find_driver(BmcLogin(address, "admin", "secret"))
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("address", "driver", "boot", "tool"),
    [
        ("redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1", "redfish", "redfish-virtual-media", "redfish"),
        ("ilo5-virtualmedia://192.0.2.1/redfish/v1/Systems/1", "redfish", "redfish-virtual-media", "redfish"),
        ("redfish://192.0.2.1/redfish/v1/Systems/1", "redfish", "ipxe", "redfish"),
        ("redfish+http://192.0.2.1/redfish/v1/Systems/1", "redfish", "ipxe", "redfish"),
        ("ilo5-redfish://192.0.2.1/redfish/v1/Systems/1", "redfish", "ipxe", "redfish"),
        ("ipmi://192.0.2.1", "ipmi", "ipxe", "ipmitool"),
        ("192.0.2.1:6230", "ipmi", "ipxe", "ipmitool"),
        ("libvirt://192.0.2.1:6230", "ipmi", "ipxe", "ipmitool"),
    ],
)
def test_the_scheme_chooses_driver_and_boot_as_it_does_in_metal3(
    address: str, driver: str, boot: str, tool: str
) -> None:
    found = find_driver(BmcLogin(address, "admin", "secret"))
    assert (found.name, found.boot, found.over_network) == (driver, boot, boot == "ipxe")
    assert found.interfaces == {
        "boot_interface": boot,
        "deploy_interface": "direct",
        "inspect_interface": "agent",
        "management_interface": tool,
        "power_interface": tool,
    }


def test_an_ipmi_address_says_host_port_and_privilege() -> None:
    plain = find_driver(BmcLogin("ipmi://192.0.2.1", "admin", "secret")).info
    assert plain == {
        "ipmi_address": "192.0.2.1",
        "ipmi_port": 623,
        "ipmi_username": "admin",
        "ipmi_password": "secret",
        "ipmi_priv_level": "ADMINISTRATOR",
        "deploy_forces_oob_reboot": True,
    }
    other = find_driver(BmcLogin("ipmi://[2001:db8::1]:6230?privilegelevel=OPERATOR", "admin", "secret")).info
    assert (other["ipmi_address"], other["ipmi_port"], other["ipmi_priv_level"]) == ("2001:db8::1", 6230, "OPERATOR")


def test_a_driver_does_not_show_its_password() -> None:
    assert "secret" not in repr(find_driver(BmcLogin("ipmi://192.0.2.1", "admin", "secret")))
