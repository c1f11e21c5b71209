"""Events in words. Events have subjects, phases and numbers; here they become what a person reads."""

from __future__ import annotations

from typing import Any

from rackless import events
from rackless.events import Event, Note, StepStarted, count


def title(event: StepStarted) -> str:
    """`ctrl-0: inspecting`, `networks`, `4 servers`."""
    if event.phase in event.numbers:
        return count(int(event.numbers[event.phase]), event.phase.removesuffix("s"))
    name = event.subject.partition("/")[2]
    return f"{name}: {event.phase}" if name else event.phase


NOTES = {
    "api-away": "the lab's API does not answer: {why}",
    "audit-unwritten": "who changed what at the BMCs cannot be written down: {why}",
    "bmc-change-missed": "{server} could not follow a change ({change}): {why}",
    "bmcs-blind": "the BMCs cannot see their servers: {why}",
    "boot-chosen": "{server}: boot device {device}, {how}",
    "bridge-filtered": "frames over {device} pass this computer's firewall (br_netfilter), which has to let the lab's through; "
    "rackless does not edit it",
    "bootstrap-address": "the bootstrap is at {address} on the provisioning network, and {dhcp}",
    "bootstrap-said": "{said}",
    "changes-unheard": "changes of {kind} are not heard of, and asked for again: {why}",
    "computer-small": "{why}",
    "controllers-ended": "ended",
    "controllers-ready": "{controllers}: ready",
    "disk-low": "only {free_mib} MiB are free for the disks; servers pause when there is none left",
    "fault-added": "fault {id}: {text}",
    "faults-cleared": "faults taken back: {count}",
    "faults-unavailable": "faults cannot be asked for: {socket}: {why}",
    "folder-left": "{folder} is left: look at it, and remove it by hand if nothing in it is wanted",
    "hardware-not-taken-over": "{host}: what is known of its hardware is not taken over: {why}",
    "host-discovered": "a server that nobody has described booted here: {host} is an unmanaged host now",
    "watch-failed": "{what}: something that nobody expected ({why}); it is tried again",
    "stranger-refused": "a server that nobody has described booted here, {mac}, and what it tells of itself cannot be read ({why})",
    "host-failed": "{host}: {kind}: {why}",
    "host-let-go": "{host} is let go as it is: {why}",
    "install-doubt": "{why}",
    "ipmi-failed": "IPMI at {server}: {request}: {why}",
    "lab-files-deleted": "{what}",
    "leader-is": "{leader} leads",
    "machine-config-fetched": "machine-config of {role} fetched by {client}",
    "machines-without-hosts": "{why}",
    "media-ejected": "{server}: its virtual drive is empty",
    "media-inserted": "{server}: {image} is in its virtual drive",
    "network-revived": "nobody answered DHCP and DNS on the network {network}; started again",
    "network-unserved": "nobody answered DHCP and DNS on the network {network}; not started: {why}",
    "node-not-dismissed": "the cluster's API was not told that {host} is gone: {why}",
    "nodes-left-behind": "nodes of this lab may be left in its provisioner: {why}",
    "object-failed": "{name}: looking after it failed and is tried again: {why}",
    "part-not-started": "{name} cannot be started now, and is tried again: {why}",
    "part-ended": "{name} ended with {status}; starting it again in {pause_seconds:.1f} s (log: {log})",
    "payload-away": "the payload is not here yet: {why}",
    "power-pressed": "{server}: power {action}",
    "host-collected": "{name}: its record was deleted by force; the engine has forgotten it",
    "remedy-possible": "it would help to {what}: {why}; with remediation: auto the lab does that",
    "record-unreadable": "{name}: its record cannot be read and is left alone: {why}",
    "redfish-failed": "{method} {path} at {bmc}: {why}",
    "redfish-receiver-silent": "a receiver of Redfish events does not answer: {destination}",
    "remedy-applied": "{did}, because {why} ({by}, {rule})",
    "remedy-failed": "{did} was tried and failed: {why}",
    "remedy-in-vain": "{did} is not tried again: {why}",
    "restore-failed": "could not restore the lab: {why}",
    "server-keeps-hardware": "{server} runs on as it was; its new hardware counts from its next start",
    "server-not-restarted": "{server} could not be started again: {why}",
    "server-not-shut-down": "{server} did not shut down within {seconds:.0f} s when asked to restart",
    "server-not-started": "{server} could not be started when it was its turn: {why}",
    "server-resumed": "{server} goes on: there is room for its disk again",
    "socket-deleted": "somebody deleted {socket}; it is made again",
}
"""The words for notes that have a code."""


def message(note: Note) -> str:
    """A note as a person reads it; for a note of a newer version, its code with the values that it carries."""
    if not note.code:
        return note.message
    try:
        return NOTES[note.code].format(**note.values)
    except (KeyError, ValueError):
        return " ".join((note.code, *(f"{name}={value}" for name, value in note.values.items())))


def to_json(event: Event) -> dict[str, Any]:
    """An event for a program, with the title or the message that a person would read."""
    match event:
        case StepStarted():
            return events.to_json(event) | {"title": title(event)}
        case Note():
            return events.to_json(event) | {"message": message(event)}
    return events.to_json(event)
