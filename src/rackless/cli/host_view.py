"""One host as a person reads it: its state, how it got there, its hardware."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.text import Text

_GIB = 1 << 30


def render(record: Mapping[str, Any]) -> Iterator[Text]:
    spec, status = record["spec"], record.get("status") or {}
    for name, value in _facts(record["metadata"]["name"], spec, status):
        yield _line(name, value)
    if status.get("errorType"):
        yield Text.assemble(
            ("error", "bold red"), f"      {status['errorType']}, {status.get('errorCount', 0)} in a row"
        )
        yield from (Text(f"  {line}") for line in str(status.get("errorMessage", "")).splitlines())
    if history := list(_history(status.get("operationHistory") or {})):
        yield Text("history", style="bold")
        yield from (Text(f"  {line}") for line in history)
    if hardware := status.get("hardware"):
        yield Text("hardware", style="bold")
        yield from (_line(f"  {name}", value) for name, value in _hardware(hardware))


def _line(name: str, value: str) -> Text:
    return Text.assemble((f"{name:<11}", "dim"), value)


def _facts(name: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    provisioning = status.get("provisioning") or {}
    yield "host", name
    yield "state", provisioning.get("state") or "new"
    wanted = "on" if spec.get("online") else "off"
    yield "power", f"{'on' if status.get('poweredOn') else 'off'}, wanted {wanted}"
    yield "BMC", (spec.get("bmc") or {}).get("address", "none")
    yield "boot MAC", spec.get("bootMACAddress", "")
    for title, image in (("image", spec.get("image")), ("on disk", provisioning.get("image"))):
        if image:
            yield title, f"{image['url']} ({image.get('format') or 'format unknown'})"
            if image.get("checksum"):
                yield "", f"{image.get('checksumType') or 'checksum'} {image['checksum']}"
        if spec.get("image") == provisioning.get("image"):
            break
    if spec.get("externallyProvisioned"):
        yield "installed", "by somebody else; only its power is managed"
    if hints := spec.get("rootDeviceHints"):
        yield "root disk", ", ".join(f"{hint} {value}" for hint, value in hints.items())


def _history(history: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, span in history.items():
        start, end = span.get("start"), span.get("end")
        if start and end:
            yield f"{name:<12} {start}  took {_seconds(start, end)}"
        elif start:
            yield f"{name:<12} {start}  since then"


def _seconds(start: str, end: str) -> str:
    spent = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return f"{spent.total_seconds():.0f} s"


def _hardware(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    vendor = found.get("systemVendor") or {}
    named = " ".join(str(vendor[key]) for key in ("manufacturer", "productName", "serialNumber") if vendor.get(key))
    if named:
        yield "system", named
    cpu = found.get("cpu") or {}
    yield "CPU", f"{cpu.get('count', '?')} × {cpu.get('model') or cpu.get('arch') or 'unknown'}"
    yield "memory", f"{found.get('ramMebibytes', 0)} MiB"
    bios = (found.get("firmware") or {}).get("bios") or {}
    if any(bios.values()):
        yield "firmware", " ".join(str(bios[key]) for key in ("vendor", "version", "date") if bios.get(key))
    for disk in found.get("storage") or ():
        size = f"{disk.get('sizeBytes', 0) / _GIB:.1f} GiB"
        about = [
            size,
            disk.get("type", ""),
            disk.get("vendor", ""),
            disk.get("model", ""),
            disk.get("serialNumber", ""),
        ]
        yield "disk", f"{(disk.get('alternateNames') or [disk.get('name', '?')])[0]}  {' '.join(filter(None, about))}"
    for nic in found.get("nics") or ():
        about = [nic.get("mac", ""), nic.get("ip", ""), "boots from it" if nic.get("pxe") else ""]
        yield "NIC", f"{nic.get('name', '?')}  {' '.join(filter(None, about))}"
