from pathlib import Path

import pytest

from rackless.daemon.evidence import BootChain, read_console, read_lease
from rackless.lab.network_boot import Answered


def test_a_failure_tells_how_far_the_server_came() -> None:
    chain = BootChain("on", "http://x/boot.iso", None, [], ["BdsDxe: No bootable option or device was found."])
    assert chain.describe() == (
        "seen so far: power on; virtual media http://x/boot.iso; DHCP was not asked; no file fetched; "
        "last on the console:\n  BdsDxe: No bootable option or device was found."
    )


def test_a_server_that_said_nothing_is_said_to_have_said_nothing() -> None:
    assert BootChain("off", None, None, [], []).describe().endswith("nothing on the console")


@pytest.mark.parametrize(
    ("boot", "words"),
    [
        (Answered(), "on the provisioning network DHCP was not asked"),
        (Answered(asked=True), "on the provisioning network DHCP was asked and had nothing to offer"),
        (Answered(True, "172.22.0.20"), "DHCP offered 172.22.0.20; nothing fetched by TFTP"),
        (Answered(True, "172.22.0.20", ("snponly.efi",)), "DHCP offered 172.22.0.20; TFTP sent snponly.efi"),
    ],
)
def test_of_network_boot_it_is_told_at_which_step_it_ended(boot: Answered, words: str) -> None:
    told = BootChain("on", None, None, ["/boot.ipxe"], [], boot).describe()
    assert words in told and "fetched /boot.ipxe" in told and "virtual media" not in told


def test_the_console_is_read_without_colours_and_without_the_agents_tokens(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_bytes(b"old\n" * 9000 + b"\x1b[2J\x1b[0;32mOK\x1b[0m started\r\n\r\nPOST /v1?agent_token=s3cret - 200\n")
    assert read_console(log, 2) == ["OK started", "POST /v1?agent_token=… - 200"]
    assert read_console(tmp_path / "none") == []


def test_the_lease_of_a_server_is_found_by_its_mac(tmp_path: Path) -> None:
    status = tmp_path / "virbr0.status"
    assert read_lease(status, "02:00:00:00:00:01") is None
    status.write_text('[{"ip-address": "192.168.111.20", "mac-address": "02:00:00:00:00:01"}]')
    assert read_lease(status, "02:00:00:00:00:01") == "192.168.111.20"
    status.write_text("")
    assert read_lease(status, "02:00:00:00:00:01") is None
