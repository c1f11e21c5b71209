"""Events in words. What is published has subjects, phases and numbers; what a person reads is made here."""

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
    "changes-unheard": "changes of {kind} are not heard of, and asked for again: {why}",
    "disk-low": "only {free_mib} MiB are free for the disks; servers pause when there is none left",
    "fault-added": "fault {id}: {text}",
    "host-failed": "{host}: {kind}: {why}",
    "host-let-go": "{host} is let go as it is: {why}",
    "network-revived": "nobody answered DHCP and DNS on the network {network}; started again",
    "network-unserved": "nobody answered DHCP and DNS on the network {network}; not started: {why}",
    "nodes-left-behind": "nodes of this lab may be left in its provisioner: {why}",
    "object-failed": "{name}: looking after it failed and is tried again: {why}",
    "part-ended": "{name} ended with {status}; starting it again in {pause_seconds:.1f} s (log: {log})",
    "record-unreadable": "{name}: its record cannot be read and is left alone: {why}",
    "restore-failed": "could not restore the lab: {why}",
    "server-keeps-hardware": "{server} runs on as it was; its new hardware counts from its next start",
    "server-resumed": "{server} goes on: there is room for its disk again",
}
"""The words for notes that have a code."""


def message(note: Note) -> str:
    """A note as a person reads it; one of a newer version with what it carries."""
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
