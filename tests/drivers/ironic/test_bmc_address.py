from pathlib import Path

import pytest

from rackless.drivers.ironic.bmc_address import BadAddress, driver_info
from rackless.ports.provisioner import BmcAccess

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
    info = driver_info(BmcAccess(address, "admin", "secret", CA))
    assert (info["redfish_address"], info.get("redfish_system_id")) == (redfish, system)
    assert info["redfish_verify_ca"] == "/lab/ca.crt"


@pytest.mark.parametrize(
    ("ca", "verify", "expected"), [(CA, True, "/lab/ca.crt"), (CA, False, False), (None, True, True)]
)
def test_who_is_trusted_is_the_ca_the_system_or_anyone(ca: Path | None, verify: bool, expected: str | bool) -> None:
    address = "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1"
    assert driver_info(BmcAccess(address, "admin", "secret", ca, verify))["redfish_verify_ca"] == expected


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("", "an empty address"),
        ("192.0.2.1", "redfish-virtualmedia://"),
        ("ipmi://192.0.2.1", "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1"),
        ("redfish://192.0.2.1/redfish/v1/Systems/1", "needs virtual media"),
        ("redfish-virtualmedia+ftp://192.0.2.1", "neither +http nor +https"),
        ("redfish-virtualmedia:///redfish/v1/Systems/1", "scheme://host"),
        ("redfish-virtualmedia://admin:secret@192.0.2.1", "scheme://host"),
        ("redfish-virtualmedia://192.0.2.1:port", "not a BMC address"),
    ],
)
def test_an_address_that_cannot_work_says_what_would(address: str, says: str) -> None:
    with pytest.raises(BadAddress) as error:
        driver_info(BmcAccess(address, "admin", "secret"))
    assert says in str(error.value)
