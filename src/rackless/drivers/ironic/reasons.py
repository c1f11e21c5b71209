"""What Ironic's words for a failure mean, and what to do about it. Pure.

Ironic tells what a BMC answered or a program said on the server; the person in front wants to know which of their things
is wrong. The first line is for them, Ironic's own words follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    pattern: re.Pattern[str]
    meaning: str
    advice: str


def _reason(pattern: str, meaning: str, advice: str) -> Reason:
    return Reason(re.compile(pattern, re.IGNORECASE), meaning, advice)


REASONS: tuple[Reason, ...] = (
    _reason(
        r"\bhttps?://\S+/redfish/\S* returned code 40[13]",
        "the BMC does not let us in",
        "compare user name and password with the BMC's own; they are in the Secret that the host's record names",
    ),
    _reason(
        r"virtual media mount failed|inserting virtual media",
        "the BMC could not take in the image that the server is to boot from",
        "the BMC fetches it itself: it must reach the image's address, and have a drive that is free",
    ),
    _reason(
        r"\bhttps?://\S+/redfish/\S* returned code 5\d\d",
        "the BMC answers with an error of its own",
        "its own log may say why; many need a moment after a restart, some need one",
    ),
    _reason(
        r"redfish connection failed|unable to connect to https?://\S+/redfish",
        "the BMC does not answer",
        "try its address from inside the lab (`rackless exec -- curl -k ADDRESS`)",
    ),
    _reason(
        r"failed to set node power state",
        "the server did not switch although its BMC was told to",
        "switch it by hand (`rackless power HOST on`); `rackless events` shows what its BMC was told",
    ),
    _reason(
        r"ipmi call failed",
        "the BMC does not answer by IPMI, or does not let us in",
        "try it from inside the lab: `rackless exec -- ipmitool -I lanplus -H ADDRESS -U USER power status`",
    ),
    _reason(
        r"failed to verify against checksum|error verifying image checksum|checksum is invalid or does not match",
        "the image is not the one its checksum says",
        "compute it again over the file that the URL serves (sha256sum), or fetch the file again if it is cut off",
    ),
    _reason(
        r"checksum file|checksum algorithm|no valid checksum",
        "the image's checksum cannot be read",
        "give the checksum itself (md5, sha256 or sha512), or the URL of a file that names the image",
    ),
    _reason(
        r"no space left on device.*(/tmp|tmpfs)|(/tmp|tmpfs).*no space left on device|ran out of (disk )?space"
        r"|image download.*out ?of ?space",
        "the server has not enough memory to take the image in",
        "give it more memory, or a raw image, which is written as it arrives",
    ),
    _reason(
        r"smaller than input file|cannot .*grow device files|no space left on device"
        r"|all found block devices are smaller|device is too small|disk .*too small",
        "the server's disk is too small for the image",
        "give the server a larger disk, or name a larger one with rootDeviceHints",
    ),
    _reason(
        r"no suitable device was found|could not find .*root device|no device .*root device hints",
        "the server has no disk like the one its rootDeviceHints describe",
        "compare them with the disks that inspection found: `rackless host show HOST`",
    ),
    _reason(
        r"not valid for use|security: image|unable to safety check|failed safety check|multiple potential formats"
        r"|image is (actually|not)|image format .*(mismatch|does not match)|expected format|could not open .*: image is not"
        r"|not in \S+ format|disk_format|prohibited format|permitted format",
        "the image cannot be read as what it is said to be",
        "check with `qemu-img info` that the file is a disk image, and that `format` names its format",
    ),
    _reason(
        r"read timed out|timed out reading next chunk",
        "the server of the image stopped in the middle of it",
        "fetch the image yourself from inside the lab (`rackless exec -- curl -o /dev/null URL`), and see its server's log",
    ),
    _reason(
        r"download of image .* failed|error downloading image|validation of image href|imagerefvalidationfailed"
        r"|got http code|received status code|failed to (establish a new connection|connect)|image download timeout",
        "the image could not be fetched",
        "open its URL from inside the lab (`rackless exec -- curl -I URL`); outside addresses need an uplink",
    ),
    _reason(
        r"virtual usb slot|cannot attach (a )?config ?drive",
        "user data cannot be handed to a live ISO here",
        "put it into the ISO; the BMC has one virtual drive, and the ISO is in it",
    ),
    _reason(
        r"timeout reached while (waiting for callback|inspecting|cleaning)",
        "the agent on the server was not heard of in time",
        "what was seen of the server is below; its whole console: `rackless console HOST`",
    ),
)  # fmt: skip


def explain(message: str) -> str:
    """What it means and what to do, then the engine's words; those alone when they are not known."""
    for reason in REASONS:
        if reason.pattern.search(message):
            return f"{reason.meaning}: {reason.advice}\nIronic says: {message}"
    return message
