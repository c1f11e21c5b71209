"""How the user's installer is called, what its lines tell of its way, and what its exit codes mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from rackless.errors import InputError

EXIT_CODES: Mapping[int, str] = {
    0: "done",
    1: "failed",
    2: "a crash of the installer",
    3: "the install-config is wrong",
    4: "the infrastructure could not be made",
    5: "the bootstrap did not come to its end",
    6: "the installation did not come to its end",
    7: "operators are not stable",
    8: "interrupted",
}
COMPLETE = "Install complete!"
NO_RELEASE = f"rehearsal.invalid/release@sha256:{'0' * 64}"
"""Nothing is pulled in a rehearsal; without a name the installer would look its own up."""
_NO_PULL_SECRET = '{"auths":{"rehearsal.invalid":{"auth":"bm90OmEtc2VjcmV0"}}}'

PHASES: tuple[tuple[str, str], ...] = (
    ("config", "Consuming Install Config from target directory"),
    ("infrastructure", "Creating infrastructure resources"),
    ("api", "for the Kubernetes API"),
    ("api up", "API v"),
    ("bootstrapping", "for bootstrapping to complete"),
    ("bootstrap destroyed", "Destroying the bootstrap resources"),
    ("initializing", "to initialize"),
    ("operators", "to ensure each operator has finished progressing"),
    ("console", "for the openshift-console route"),
    ("complete", COMPLETE),
)
"""By words of the installer's lines, in their order."""
_MESSAGE = re.compile(r'level=(\w+) msg="?(.*?)"?$')


@dataclass(frozen=True, slots=True)
class Line:
    level: str
    message: str

    @property
    def phase(self) -> str | None:
        return next((name for name, words in PHASES if words in self.message), None)


OLDEST = (4, 22)
"""Since this release the bootstrap machine boots a live ISO."""


def refuse_release(said: str) -> str:
    """What `openshift-install version` says is its release; raises InputError for one that a rehearsal is not possible with."""
    word = said.splitlines()[0].split()[-1] if said.strip() else ""  # behind the name it was called by
    found = re.match(r"v?(\d+)\.(\d+)(?:\.\S+)?", word)
    if found is None:
        return word
    release = int(found[1]), int(found[2])
    if release < (4, 16):
        why = "up to 4.15 it drives an Ironic on the bootstrap itself, by terraform"
    elif release < OLDEST:
        why = (
            "up to 4.21 its bootstrap boots a disk image with its config from the firmware, which is not built here yet"
        )
    else:
        return found[0]
    raise InputError(
        f"this installer is of {found[0]}, and a rehearsal needs {OLDEST[0]}.{OLDEST[1]} or later",
        why=why,
        hint="`rackless check install-config --version` checks its config without running it",
    )


def is_secret(message: str) -> bool:
    """Whether a line is not for a screen or a report: the installer tells its last password at the end."""
    return "password" in message.lower()


def read_line(text: str) -> Line:
    found = _MESSAGE.search(text)
    return Line(found[1], found[2].replace('\\"', '"')) if found else Line("info", text)


def environment(iso: str, folder: Path, *, kvm: bool) -> dict[str, str]:
    return {
        "OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE": iso,
        "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": NO_RELEASE,
        "XDG_CACHE_HOME": str(folder / "cache"),
        "HOME": str(folder),
        "TMPDIR": str(folder / "tmp"),
        **({} if kvm else {"TERRAFORM_LIBVIRT_TEST_DOMAIN_TYPE": "qemu"}),
    }


def command(installer: Path, folder: Path) -> list[str]:
    return [str(installer), "create", "cluster", "--dir", str(folder), "--log-level=debug"]


def prepare_config(text: str, libvirt: str) -> tuple[str, list[str]]:
    """The site's install-config as the installer is given it, and what was changed in it."""
    tree = yaml.safe_load(text)
    if not isinstance(tree, dict) or not isinstance(tree.get("platform"), dict):
        raise InputError(
            "the install-config is not one of a bare-metal cluster", hint="`rackless check install-config`"
        )
    metal = tree["platform"].get("baremetal")
    if not isinstance(metal, dict):
        raise InputError("the install-config has no platform.baremetal", hint="a rehearsal is for bare metal")
    changes = []
    if libvirt and metal.get("libvirtURI") != libvirt:
        metal["libvirtURI"] = libvirt
        changes.append("libvirtURI leads to the lab's libvirt, through a proxy that asks for an emulated processor")
    elif not libvirt and metal.pop("libvirtURI", "qemu:///system") != "qemu:///system":
        changes.append("libvirtURI was left out: the lab's own libvirt is used")
    if not tree.get("pullSecret"):
        tree["pullSecret"] = _NO_PULL_SECRET
        changes.append("pullSecret is a made-up one: nothing is pulled")
    return yaml.safe_dump(tree, sort_keys=False), changes
