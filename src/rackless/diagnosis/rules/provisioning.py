"""Why a host does not come to where it is wanted: from the error in its record, and what was seen of its boot.

A host's error says first what it means in words of ours (`drivers/ironic/reasons.py`), then Ironic's own, then the boot chain
(`evidence.py`); the patterns below are those words. The first that fits is the cause: what a server did is more than a time-out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rackless.diagnosis.blackouts import FULL
from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.remedy import Cure
from rackless.diagnosis.rule import CauseRule, Depth, Evidence, RootCause

_CONSOLE = "`rackless console {host}` shows all of it"
_RETRY = "then `rackless host retry {host}`"
_LONGEST = 16384
"""Letters of an error that are searched: an archive may claim one of any length."""


@dataclass(frozen=True, slots=True)
class ErrorPattern:
    rule: str
    depth: Depth
    pattern: str
    sentence: str
    """`{host}`, and the names of groups in the pattern."""
    remedy: str
    cure: Cure | None = None
    untried: str = ""


PATTERNS: tuple[ErrorPattern, ...] = (
    ErrorPattern("host/no-room", Depth.HYPERVISOR, r"there is no room left on this computer",
        "{host} stopped because this computer's disk is full",
        "free disk space (`df -h` shows where); the host goes on by itself", Cure.RETRY_HOST),
    ErrorPattern("host/server-off", Depth.HOST, r"the server went off, and stayed off",
        "{host} was switched off while it was being installed, and stayed off",
        "`rackless power {host} on`, " + _RETRY + "; `rackless events` says who switched it", untried="on fakes only"),
    ErrorPattern("host/image-permission", Depth.HYPERVISOR, r"Could not open '(?P<file>[^']+)': Permission denied",
        "{host} does not start: QEMU may not read {file}",
        "the servers run as a user of their own, who must be able to read the file and to enter every folder above it "
        "(`namei -l {file}`), " + _RETRY, Cure.RETRY_HOST, "QEMU's own words; not seen through libvirt and a BMC"),
    ErrorPattern("host/image-confined", Depth.HYPERVISOR,
        r"(apparmor=\"DENIED\"|avc:  denied)(?=[^\n]*(qemu|libvirt))",
        "{host} does not start: this computer's security module (AppArmor or SELinux) denies QEMU a file",
        "`dmesg | grep -e DENIED -e avc:` names the file and the profile; put the images where the profile allows them",
        untried="neither AppArmor nor SELinux is active here"),
    ErrorPattern("host/bmc-locked", Depth.BMC, r"the BMC does not let us in(?=.*the BMC has locked the account)",
        "the BMC of {host} has locked the account after wrong passwords",
        "correct the password in the Secret that the host's record names, and wait until the BMC unlocks the account, or unlock "
        "it (`Locked: false` on the account by another administrator), " + _RETRY, Cure.RETRY_HOST),
    ErrorPattern("host/bmc-login", Depth.BMC, r"the BMC does not let us in",
        "the BMC of {host} refuses the user name and password in the host's record",
        "compare them with the BMC's own accounts (they are in the Secret that the record names), " + _RETRY
        + "; a BMC may also lock an account for a while after wrong passwords"),
    ErrorPattern("host/bmc-certificate", Depth.BMC, r"the BMC does not answer(?=.*certificate verify failed)",
        "the certificate of the BMC of {host} is not trusted",
        "let its record say `disableCertificateVerification: true`, or give the BMC a certificate of the lab's CA"),
    ErrorPattern("host/bmc-refused", Depth.BMC, r"the BMC does not answer(?=.*Connection refused)",
        "nothing listens at the address and port of the BMC of {host}",
        "correct the address or the port in the host's record if it is another machine's; else the BMC's web server is off, and a "
        "restart of the BMC helps", Cure.RETRY_HOST),
    ErrorPattern("host/bmc-no-route", Depth.NETWORK, r"the BMC does not answer(?=.*(No route to host|Network is unreachable))",
        "there is no way to the BMC of {host}",
        "nobody has its address, or a route is missing: `rackless exec -- ip route get ADDRESS`", Cure.RETRY_HOST),
    ErrorPattern("host/bmc-ipmi", Depth.BMC, r"the BMC does not answer by IPMI",
        "the BMC of {host} does not answer by IPMI, or refuses the login",
        "try it from inside the lab: `rackless exec -- ipmitool -I lanplus -H ADDRESS -U USER power status`", Cure.RETRY_HOST),
    ErrorPattern("host/bmc-silent", Depth.BMC, r"the BMC does not answer",
        "the BMC of {host} does not answer",
        "try its address from inside the lab (`rackless exec -- curl -k ADDRESS`): a firewall that drops looks the same",
        Cure.RETRY_HOST),
    ErrorPattern("host/media-slow", Depth.NETWORK,
        r"could not take in the image that the server is to boot from(?=.*(it took too long|[Tt]imed? ?out))",
        "the BMC of {host} gave up fetching the boot image: its server, or the way there, is too slow",
        "fetch the image yourself from inside the lab and look at the rate (`rackless exec -- curl -o /dev/null URL`), " + _RETRY,
        Cure.RETRY_HOST),
    ErrorPattern("host/media-refused", Depth.BMC, r"could not take in the image that the server is to boot from",
        "the BMC of {host} could not fetch or mount the boot image",
        "the BMC fetches the image itself: it must reach the image's address, and have a free virtual drive (`rackless bmc show "
        "{host}`)",
        Cure.RETRY_HOST),
    ErrorPattern("host/bmc-error", Depth.BMC, r"the BMC answers with an error of its own",
        "the BMC of {host} answers with an error of its own",
        "the BMC's own log may say why; many need a minute after a restart, " + _RETRY, Cure.RETRY_HOST),
    ErrorPattern("host/power", Depth.BMC, r"did not switch although its BMC was told to",
        "{host} was not switched on or off although its BMC was told to",
        "switch it by hand (`rackless power {host} on`); `rackless events` shows what the BMC was told", Cure.RETRY_HOST),
    ErrorPattern("host/checksum", Depth.HOST, r"the image is not the one its checksum says",
        "the image for {host} does not have the checksum that its record gives",
        "compute the checksum of the file that the URL serves again (`sha256sum`), or put the file there again if it is cut off"),
    ErrorPattern("host/image-memory", Depth.HOST, r"not enough memory to take the image in",
        "{host} has not enough memory for its image while it is converted",
        "give it more memory, or a raw image, which is written as it arrives"),
    ErrorPattern("host/disk-small", Depth.HOST, r"disk is too small for the image",
        "the disk of {host} is too small for the image", "give it a larger disk, or name a larger one with rootDeviceHints"),
    ErrorPattern("host/no-root-device", Depth.HOST, r"no disk like the one its rootDeviceHints describe",
        "{host} has no disk that fits its rootDeviceHints",
        "compare them with the disks that inspection found: `rackless host show {host}`"),
    ErrorPattern("host/image-format", Depth.HOST, r"image cannot be read as what it is said to be",
        "the image for {host} is not in the format that its record names",
        "look at the file with `qemu-img info`, and correct `image.format` in the record"),
    ErrorPattern("host/image-fetch", Depth.NETWORK, r"the image could not be fetched|stopped in the middle of it",
        "the image for {host} could not be fetched", "open its URL from inside the lab (`rackless exec -- curl -I URL`)"),
    ErrorPattern("host/dhcp-wrong-network", Depth.NETWORK, r"DHCP had no range for the network that it was asked on",
        "{host} asked for an address on a network for which DHCP has no range",
        "its NIC is on another network than its record says, or the range is of another network: compare with "
        "`rackless exec -- ip address`"),
    ErrorPattern("host/dhcp-leased-to-another", Depth.NETWORK, r"address (?P<address>\S+) is leased to (?P<mac>[0-9a-f:]{17})",
        "the address {address} of {host} is leased to another machine, {mac}",
        "find the machine with that MAC and give it another address, or wait until its lease ends"),
    ErrorPattern("host/dhcp-reserved", Depth.NETWORK, r"the address (?P<address>\S+) that it asks for is reserved for another MAC",
        "{host} asks for the address {address}, which DHCP keeps for another MAC",
        "was its network card changed, or another server given its address? Compare `bootMACAddress` in its record with the "
        "server's own; a server that holds on to an address asks for a new one after a restart", Cure.RESTART_SERVER),
    ErrorPattern("host/dhcp-no-address", Depth.NETWORK, r"nothing to offer: no address available",
        "{host} asked for an address on the provisioning network, and DHCP has no free one for its MAC",
        "the pool is used up, or the MAC is not the one in the host's record: compare `bootMACAddress` with the server's"),
    ErrorPattern("host/dhcp-nothing-to-offer", Depth.NETWORK, r"DHCP was asked and had nothing to offer",
        "{host} asked for an address on the provisioning network, and DHCP offered none",
        "`rackless logs network-boot` has what dnsmasq said; a MAC that it is told to ignore, or does not know, gets nothing"),
    ErrorPattern("host/dhcp-silent", Depth.NETWORK,
        r"the firmware says: (?P<what>No configuration methods succeeded|no address: [^;\n]*)",
        "{host} asks for an address to boot with, and nobody answers: {what}",
        "nobody answers on that network, or nothing of it comes through: its NIC is on another network, or a filter or a link "
        "is in between (`rackless capture {host} --cycle`)", Cure.RESTART_SERVER),
    ErrorPattern("host/pxe-timeout", Depth.NETWORK,
        r"the firmware says: (?P<what>[^;\n]*(Connection timed out|Server response timeout)[^;\n]*)",
        "{host} gave up fetching what it is to boot over the network: {what}",
        "firmware waits for seconds only, and on a busy computer that is short: let others end first, " + _RETRY
        + "; a silent server or a filter before it looks the same (`rackless logs network-boot`, `rackless capture {host}`)",
        Cure.RESTART_SERVER),
    ErrorPattern("host/secure-boot", Depth.HOST, r"no kernel on the console(?=.*(: Access Denied|Security Violation))",
        "Secure Boot on {host} denies what it was given to boot: it is not signed by a key that the firmware knows",
        "boot a signed loader (shim), or switch Secure Boot off for the server. " + _CONSOLE),
    ErrorPattern("host/not-bootable", Depth.HOST,
        r"no kernel on the console(?=.*(No bootable option or device was found|No bootable device|Boot failed: not a bootable disk"
        r"|Could not read from CDROM|Shell> ?$))",
        "the firmware of {host} found nothing that it can boot",
        "an image for the other boot mode (UEFI or BIOS) looks like this, and so does an empty drive. " + _CONSOLE),
    ErrorPattern("host/boot-order", Depth.HOST,
        r"was not heard of in time(?=.*the firmware says: it starts from (?P<what>[^;\n]*))",
        "{host} was told to boot the agent, and its firmware started from {what}: the boot order was not followed",
        "let the BMC set the device for the next start again (a retry does), and look at the boot order in the firmware: some "
        "follow their own list after a failed start. " + _CONSOLE, Cure.RESTART_SERVER),
    ErrorPattern("host/dhcp-not-asked", Depth.NETWORK,
        r"on the provisioning network DHCP was not asked(?=.*no kernel on the console)",
        "{host} never asked for an address on the provisioning network: it booted from something else",
        "look at the boot order, and whether its NIC is on the provisioning network. " + _CONSOLE, Cure.RESTART_SERVER),
    ErrorPattern("host/no-kernel", Depth.HOST, r"no kernel on the console",
        "{host} is on, but no kernel ever started: the firmware did not boot what it was given",
        "look at the boot mode (UEFI or BIOS), at Secure Boot, and whether the image is bootable. " + _CONSOLE,
        Cure.RESTART_SERVER),
    ErrorPattern("host/memory", Depth.HOST,
        r"the kernel says: (?P<why>Out of memory[^;\n]*|Initramfs unpacking failed[^;\n]*)",
        "{host} has too little memory for the agent's system: {why}",
        "give the server more memory in lab.yaml. " + _CONSOLE),
    ErrorPattern("host/agent-clock", Depth.HOST,
        r"the agent says: no way to (?P<url>\S+): certificate verify failed: certificate (is not yet valid|has expired)",
        "the clock of {host} is wrong, or Ironic's certificate has expired: its agent finds the certificate at {url} not valid now",
        "set the server's clock (its BMC or firmware); the agent asks the time server that DHCP names. `rackless why` of the lab "
        "tells whether a certificate expired", Cure.RESTART_SERVER),
    ErrorPattern("host/agent-certificate", Depth.HOST, r"the agent says: no way to (?P<url>\S+): certificate verify failed",
        "the agent on {host} does not trust the certificate at {url}",
        "another server answers there, or the agent was given another CA: boot it again with the lab's own image",
        Cure.RESTART_SERVER),
    ErrorPattern("host/agent-address", Depth.NETWORK, r"the agent says: no way to (?P<url>\S+): (?P<why>[^;\n]+)",
        "the agent on {host} calls {url}, and Ironic is not there: {why}",
        "compare the address with Ironic's (`rackless status`); a firewall or a route between them looks the same",
        Cure.RESTART_SERVER),
    ErrorPattern("host/agent-token", Depth.HOST, r"the agent last called heartbeat [^;]*and was refused with (?P<code>4\d\d)",
        "Ironic refuses the token of the agent on {host} ({code}): it is of an earlier start, or another machine calls in its name",
        "restart the server: it gets a new token with its boot image. Two machines with one MAC look the same",
        Cure.RESTART_SERVER),
    ErrorPattern("host/agent-silent", Depth.HOST, r"a kernel started; the agent never called",
        "{host} booted a kernel, but its agent never called Ironic",
        "it has no address, no route to Ironic (a firewall looks the same), or a wrong clock or certificate. " + _CONSOLE,
        Cure.RESTART_SERVER),
    ErrorPattern("host/agent-lost", Depth.HOST, r"a kernel started; the agent last called",
        "the agent on {host} called Ironic, and then fell silent", "the server hangs or is very slow. " + _CONSOLE,
        Cure.RESTART_SERVER, "no agent was made to hang; it is as an agent that never called, but for its last call"),
)  # fmt: skip
"""In the order in which they are tried."""


def _errors(seen: LabEvidence) -> Iterator[tuple[str, dict[str, Any], str]]:
    """(host, record, error) of hosts that are in error."""
    for record in seen.hosts:
        host: dict[str, Any] = dict(record)
        status = host.get("status") or {}
        if status.get("errorType"):
            yield host["metadata"]["name"], host, str(status.get("errorMessage") or "")[:_LONGEST]


def _first(error: str) -> tuple[ErrorPattern, re.Match[str]] | None:
    for one in PATTERNS:
        if found := re.search(one.pattern, error, re.DOTALL):
            return one, found
    return None


def _evidence(status: dict[str, Any], error: str) -> tuple[Evidence, ...]:
    at = str(status.get("lastUpdated") or "")
    lines = [line for line in error.splitlines() if line.strip()]
    source = f"the host's record, {status['errorType']}"
    return tuple(Evidence(source, line.strip(), at if number == 0 else "") for number, line in enumerate(lines))


def _change(host: dict[str, Any], rule: str) -> str:
    """What a person, or time, may change about a failed host: its description, its phase, and whether it was well meanwhile."""
    status = host.get("status") or {}
    provisioning = status.get("provisioning") or {}
    history = status.get("operationHistory") or {}
    ended = [str((history.get(phase) or {}).get("end") or "") for phase in ("register", "inspect", "provision")]
    return f"{rule} {host['metadata'].get('generation', '')} {provisioning.get('state', '')} {' '.join(ended)}".strip()


def _gone(rule: str, host: str, seen: LabEvidence) -> bool:
    """Whether what stopped a host may be over: trying again before that is in vain."""
    if rule == "host/no-room":
        return seen.free_bytes is None or seen.free_bytes >= FULL
    faults = seen.status.faults if seen.status is not None else ()
    return not any(fault.server in (None, host) for fault in faults)


def _rule(one: ErrorPattern) -> CauseRule[LabEvidence]:
    def find(seen: LabEvidence) -> Iterator[RootCause]:
        for host, record, error in _errors(seen):
            if (first := _first(error)) is not None and first[0] is one:
                words = {"host": host, **first[1].groupdict()}
                yield RootCause(
                    f"host/{host}", one.sentence.format(**words), _evidence(record["status"], error),
                    one.remedy.format(**words), _change(record, one.rule), _gone(one.rule, host, seen),
                )  # fmt: skip

    symptom = re.sub(r"\{(\w+)\}", lambda found: "a host" if found[1] == "host" else found[1].upper(), one.sentence)
    return CauseRule(one.rule, symptom, one.depth, find, one.untried, one.cure)


def _other(seen: LabEvidence) -> Iterator[RootCause]:
    for host, record, error in _errors(seen):
        if _first(error) is None:
            said = error.splitlines()[0] if error else "no reason was given"
            status = record["status"]
            yield RootCause(
                f"host/{host}", f"{host} is in error: {status['errorType']}: {said}", _evidence(status, error),
                f"`rackless host show {host}`, then `rackless host retry {host}`",
            )  # fmt: skip


RULES: tuple[CauseRule[LabEvidence], ...] = (
    *map(_rule, PATTERNS),
    CauseRule("host/error", "a host is in error", Depth.HOST, _other),
)
