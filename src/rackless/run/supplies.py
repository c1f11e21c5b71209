"""Images and Ironic's virtualenv that `up` made ready on the hypervisor for a lab: `up` writes down which, labd reads it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rackless.run.files import write


@dataclass(frozen=True, slots=True)
class Supplies:
    """Which images, which Ironic, and whether KVM works, for one lab."""

    ironic: Path | None
    """Its virtualenv; None where somebody else's Ironic is used."""
    kernel: Path
    initramfs: Path
    esp: Path
    node: Path
    node_sha256: str
    kvm: bool


def save_supplies(path: Path, supplies: Supplies) -> None:
    write(path, json.dumps(asdict(supplies), default=str, indent=2) + "\n")


def load_supplies(path: Path) -> Supplies:
    found = json.loads(path.read_text())
    folders = {name: Path(found[name]) for name in ("kernel", "initramfs", "esp", "node")}
    ironic = Path(found["ironic"]) if found["ironic"] else None
    return Supplies(ironic, **folders, node_sha256=found["node_sha256"], kvm=found["kvm"])
