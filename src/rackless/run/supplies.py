"""What was made ready on the hypervisor and is used inside a lab: written down by `up`, read by labd."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rackless.run.files import write


@dataclass(frozen=True, slots=True)
class Supplies:
    """What was made ready on the host and is used inside the lab."""

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
