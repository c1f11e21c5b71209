from pathlib import Path

import pytest

from rackless.diagnosis.evidence import (
    BootChain,
    read_agent,
    read_complaint,
    read_console,
    read_kernel,
    read_lease,
    read_refusal,
    read_start,
)
from rackless.lab.network_boot import Answered

DATA = Path(__file__).parent / "data"


def test_a_failure_tells_how_far_the_server_came() -> None:
    chain = BootChain("on", "http://x/boot.iso", None, [], ["BdsDxe: No bootable option or device was found."])
    assert chain.describe() == (
        "seen so far: power on; virtual media http://x/boot.iso; DHCP was not asked; no file fetched; "
        "no kernel on the console; the agent never called; last on the console:\n  BdsDxe: No bootable option or device was found."
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


FIRMWARE = 'BdsDxe: loading Boot0002 "UEFI PXEv4"\n>>Start PXE over IPv4.\niPXE 1.0.0+git -- Open Source\n'
KERNEL = "[    0.000000] Linux version 6.1.0\n[    2.1] deploy started\n"


@pytest.mark.parametrize(
    ("console", "kernel"),
    [("", False), (FIRMWARE, False), (FIRMWARE + KERNEL, True), (FIRMWARE + KERNEL + FIRMWARE, False)],
)
def test_a_kernel_counts_only_when_it_came_after_the_firmware(tmp_path: Path, console: str, kernel: bool) -> None:
    log = tmp_path / "console.log"
    assert not read_kernel(log)
    log.write_text(console)
    assert read_kernel(log) is kernel


IRONIC = """\
2026-11-16 04:01:00.2 7 INFO ironic.api [req-1 - -] 172.22.0.20 - POST /v1/continue_inspection - 202 (42.4ms)
2026-11-16 04:01:01.3 7 INFO ironic.api [req-2 - -] 172.22.0.20 - POST /v1/heartbeat/0e2a - 202 (9ms)
2026-11-16 04:01:02.8 7 INFO ironic.api [req-3 admin -] 172.22.0.1 - GET /v1/nodes/u-0 - 200 (14.66ms)
2026-11-16 04:01:06.5 7 INFO ironic.api [req-4 - -] 172.22.0.21 - GET /v1/lookup?addresses=02:00 - 200 (9ms)
"""


def test_the_agents_last_call_is_found_by_its_address(tmp_path: Path) -> None:
    log = tmp_path / "ironic.log"
    assert read_agent(log, ["172.22.0.20"]) is None
    log.write_text(IRONIC)
    assert read_agent(log, ["192.168.111.20", "172.22.0.20"]) == "heartbeat at 04:01:01"
    assert read_agent(log, ["172.22.0.21"]) == "lookup at 04:01:06"
    assert read_agent(log, ["172.22.0.1"]) is None


def test_a_call_that_was_refused_is_told_with_its_code(tmp_path: Path) -> None:
    log = tmp_path / "ironic.log"
    log.write_text(IRONIC.replace("POST /v1/heartbeat/0e2a - 202", "POST /v1/heartbeat/0e2a - 400"))
    assert read_agent(log, ["172.22.0.20"]) == "heartbeat at 04:01:01, and was refused with 400"
    chain = BootChain("on", None, None, [], [], kernel=True, complaint="the agent says: no", locked=True)
    assert "the agent never called; the agent says: no; the BMC has locked the account" in chain.describe()


def test_only_the_last_start_of_a_server_counts(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    lost = (
        "Error detected while attempting to perform lookup with https://h:6385, retrying. "
        "Error: x (Caused by e('[Errno 111] no'))"
    )
    log.write_text(f"{FIRMWARE}{KERNEL}{lost}\n")
    assert read_complaint(log) == "the agent says: no way to https://h:6385: [Errno 111] no"
    log.write_text(f"{FIRMWARE}{KERNEL}{lost}\n{FIRMWARE}{KERNEL}")
    assert read_complaint(log) == "" and read_start(log)[-1] == "[    2.1] deploy started"
    log.write_text(f"{FIRMWARE}{KERNEL}[ 3.0] Initramfs unpacking failed: write error\n{lost}\n")
    assert read_complaint(log) == "the kernel says: Initramfs unpacking failed: write error"
    log.write_text(f"{FIRMWARE}{KERNEL}[ 3.0] Initramfs unpacking failed: Decoding failed\n[ 4.0] Run /init\n")
    assert read_complaint(log) == "", "a kernel says so of padding, and boots"
    assert read_complaint(tmp_path / "none") == "" and read_start(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tftp-silent-ipxe", "tftp://192.0.2.1/ipxe.efi: Connection timed out"),
        ("tftp-silent-ovmf", "PXE-E18: Server response timeout."),
        ("tftp-silent-bios", "tftp://192.0.2.1/undionly.kpxe: Connection timed out"),
        ("dhcp-silent-ovmf", "no address: PXE-E18: Server response timeout."),
        ("dhcp-silent-bios", "No configuration methods succeeded"),
    ],
)
def test_firmware_says_why_it_does_not_boot_over_a_network(name: str, words: str, tmp_path: Path) -> None:
    """As `tests/real/planting_pxe.py` recorded it; and not any more once a kernel has started."""
    recorded = Path(__file__).parent / f"data/console-{name}.log"
    assert read_complaint(recorded) == f"the firmware says: {words}"
    since = tmp_path / "console.log"
    since.write_text(recorded.read_text() + "\n[    0.000000] Linux version 6.1.0\n")
    assert read_complaint(since) == ""


@pytest.mark.parametrize(
    "words",
    [
        "perform lookup with x, retrying. Error: ", "perform lookup with x, retrying. Error: (Caused by ", "tftp://x A",
        "PXE-E18: ", "Failed looking up node with addresses x at ", "Booting from a ", 'BdsDxe: starting Boot0 "', "\x1b[",
        "Out of memory: Killed process ",
    ],
)  # fmt: skip
def test_a_guest_that_floods_its_console_with_words_that_we_look_for_is_read_all_the_same(
    words: str, tmp_path: Path
) -> None:
    """In one line, where some of these searches once took as long as the square of it: they did not end."""
    log = tmp_path / "console.log"
    log.write_text(words * ((256 << 10) // len(words)))
    read_console(log)
    read_start(log)
    read_complaint(log)


def test_why_a_start_failed_is_read_from_libvirts_logs_until_the_server_runs(tmp_path: Path) -> None:
    own, daemon = DATA / "libvirt-permission-qemu.log", DATA / "libvirt-permission.log"
    refused = read_refusal(own, daemon)
    assert refused.startswith(
        "libvirt says: Cannot access storage file '/var/lib/libvirt/servers/disks/node-0.qcow2' (as uid:"
    )
    later = tmp_path / "node-0.log"
    later.write_text(
        own.read_text() + "2026-11-19 04:30:00.000+0000: starting up libvirt version: 9.0.0\n-name guest\n"
    )
    assert read_refusal(later, daemon) == "", "it was started since"
    words = "qemu-system-x86_64: -blockdev {}: Could not open '/x': Permission denied\n"
    later.write_text(later.read_text() + words + "2026-11-19 04:30:01.000+0000: shutting down, reason=failed\n")
    assert read_refusal(later, daemon) == f"QEMU says: {words.strip()}"
    later.write_text(own.read_text().replace("04:23:16", "05:23:16"))
    assert read_refusal(later, daemon) == "", "what libvirtd said an hour before was of another start"
    assert read_refusal(tmp_path / "none", daemon) == "" and read_refusal(own, tmp_path / "none") == ""
