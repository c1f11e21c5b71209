"""Why a host does not come to where it is wanted: from the error in its record, and what was seen of its boot.

A host's error says first what it means in words of ours (`drivers/ironic/reasons.py`), then Ironic's own, then the boot chain
(`evidence.py`); the patterns below are those words. The first that fits is the cause: what a server did is more than a time-out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.rule import CauseRule, Depth, Evidence, RootCause

_CONSOLE = "`rackless console {host}` shows all of it"

PATTERNS: tuple[tuple[str, Depth, str, str, str], ...] = (
    ("host/no-room", Depth.HYPERVISOR, r"there is no room left on this computer",
     "{host} stopped because this computer's disk is full", "make room; it goes on by itself"),
    ("host/server-off", Depth.HOST, r"the server went off, and stayed off",
     "{host} was switched off while it was being installed, and stayed off",
     "`rackless power {host} on`, then `rackless host retry {host}`; `rackless events` says who switched it"),
    ("host/bmc-login", Depth.BMC, r"the BMC does not let us in",
     "the BMC of {host} does not take the user name and password in its record",
     "compare them with the BMC's own (they are in the Secret that the host's record names), then `rackless host retry {host}`"),
    ("host/bmc-silent", Depth.BMC, r"the BMC does not answer",
     "the BMC of {host} does not answer",
     "try its address from inside the lab (`rackless exec -- curl -k ADDRESS`): a missing route and a firewall look the same"),
    ("host/media-refused", Depth.BMC, r"could not take in the image that the server is to boot from",
     "the BMC of {host} could not fetch or mount the boot image",
     "the BMC fetches it itself: it must reach the image's address, and have a free drive"),
    ("host/bmc-error", Depth.BMC, r"the BMC answers with an error of its own",
     "the BMC of {host} answers with an error of its own", "its log may say why; many need a moment after a restart"),
    ("host/power", Depth.BMC, r"did not switch although its BMC was told to",
     "{host} did not switch although its BMC was told to",
     "`rackless power {host} on` by hand; `rackless events` shows what it was told"),
    ("host/checksum", Depth.HOST, r"the image is not the one its checksum says",
     "the image for {host} is not the one its checksum says", "compute the checksum again over the file that the URL serves"),
    ("host/image-memory", Depth.HOST, r"not enough memory to take the image in",
     "{host} has not enough memory to take the image in", "give it more memory, or a raw image, which is written as it arrives"),
    ("host/disk-small", Depth.HOST, r"disk is too small for the image",
     "the disk of {host} is too small for the image", "give it a larger disk, or name a larger one with rootDeviceHints"),
    ("host/no-root-device", Depth.HOST, r"no disk like the one its rootDeviceHints describe",
     "{host} has no disk like the one its rootDeviceHints describe", "compare them with `rackless host show {host}`"),
    ("host/image-format", Depth.HOST, r"image cannot be read as what it is said to be",
     "the image for {host} is not in the format it is said to be", "`qemu-img info` tells what the file is"),
    ("host/image-fetch", Depth.NETWORK, r"the image could not be fetched|stopped in the middle of it",
     "the image for {host} could not be fetched", "open its URL from inside the lab (`rackless exec -- curl -I URL`)"),
    ("host/dhcp-nothing-to-offer", Depth.NETWORK, r"DHCP was asked and had nothing to offer",
     "{host} asked for an address on the provisioning network, and DHCP had none for it",
     "the pool is used up or the MAC is not the one in the host's record: compare `bootMACAddress` with the server's"),
    ("host/dhcp-not-asked", Depth.NETWORK, r"on the provisioning network DHCP was not asked(?=.*no kernel on the console)",
     "{host} never asked for an address on the provisioning network: it booted from something else",
     "boot order, or a NIC that is on another network. " + _CONSOLE),
    ("host/no-kernel", Depth.HOST, r"no kernel on the console",
     "{host} is on, but no kernel ever started: the firmware did not boot what it was given",
     "boot mode (UEFI or BIOS), Secure Boot, or an image that is not bootable. " + _CONSOLE),
    ("host/agent-silent", Depth.HOST, r"a kernel started; the agent never called",
     "{host} booted a kernel, and its agent never called Ironic",
     "it has no address, no route to Ironic, or a wrong clock or certificate. " + _CONSOLE),
    ("host/agent-lost", Depth.HOST, r"a kernel started; the agent last called",
     "the agent on {host} called, and then was not heard of in time", "the server hangs or is very slow. " + _CONSOLE),
)  # fmt: skip
"""(rule, depth, pattern, sentence, remedy) in the order in which they are tried."""


def _errors(seen: LabEvidence) -> Iterator[tuple[str, dict[str, Any], str]]:
    """(host, status, error) of hosts that are in error."""
    for record in seen.hosts:
        host: dict[str, Any] = dict(record)
        status = host.get("status") or {}
        if status.get("errorType"):
            yield host["metadata"]["name"], status, str(status.get("errorMessage") or "")


def _first(error: str) -> str | None:
    return next((name for name, _, pattern, _, _ in PATTERNS if re.search(pattern, error, re.DOTALL)), None)


def _evidence(status: dict[str, Any], error: str) -> tuple[Evidence, ...]:
    at = str(status.get("lastUpdated") or "")
    lines = [line for line in error.splitlines() if line.strip()]
    source = f"the host's record, {status['errorType']}"
    return tuple(Evidence(source, line.strip(), at if number == 0 else "") for number, line in enumerate(lines))


def _rule(name: str, depth: Depth, sentence: str, remedy: str) -> CauseRule[LabEvidence]:
    def find(seen: LabEvidence) -> Iterator[RootCause]:
        for host, status, error in _errors(seen):
            if _first(error) == name:
                yield RootCause(
                    f"host/{host}", sentence.format(host=host), _evidence(status, error), remedy.format(host=host)
                )

    return CauseRule(name, sentence.format(host="a host"), depth, find)


def _other(seen: LabEvidence) -> Iterator[RootCause]:
    for host, status, error in _errors(seen):
        if _first(error) is None:
            said = error.splitlines()[0] if error else "no reason was given"
            yield RootCause(
                f"host/{host}", f"{host} is in error: {status['errorType']}: {said}", _evidence(status, error),
                f"`rackless host show {host}`, then `rackless host retry {host}`",
            )  # fmt: skip


RULES: tuple[CauseRule[LabEvidence], ...] = (
    *(_rule(name, depth, sentence, remedy) for name, depth, _, sentence, remedy in PATTERNS),
    CauseRule("host/error", "a host is in error", Depth.HOST, _other),
)
