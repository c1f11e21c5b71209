"""How the user's installer is called, what its lines tell of its way, and what its exit codes mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
REMEDIES: Mapping[int, str] = {
    1: "mend what its last line names, or what failed above; a bootstrap machine that was off before its end leads here, too",
    2: "tell the installer's makers: `rackless check install-config` may find what it stumbled over",
    3: "`rackless check install-config` names the field and what to write",
    4: "mend what its last line names: its live ISO, libvirt's pool, volumes and machine",
    5: "see above which control plane, BMC or name it waited for",
    6: "see above which operator it waited for",
    7: "see above which operator did not come to rest",
    8: "somebody stopped it: run it again",
}
"""What to do about each exit code, where the report has no better word."""
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
    ("operators", "operator has finished progressing"),
    ("console", "Checking to see if there is a route at openshift-console/console"),
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


OLDEST = (4, 16)
"""Since this release the installer makes its bootstrap machine through libvirt alone."""
_LIVE_ISO = (4, 22)
"""Since this release that machine boots a live ISO."""
BY_DISK = (
    "an installer of 4.16 to 4.21 boots a disk image of ours: seen with a stand-in for such an installer, not with one"
)
_RELEASE = re.compile(r"v?(\d+)\.(\d+)(?:\.\S+)?")


def read_release(said: str) -> str:
    """The release that `openshift-install version` says it is of: the last word of its first line, behind the name it was called
    by."""
    word = said.splitlines()[0].split()[-1] if said.strip() else ""
    found = _RELEASE.match(word)
    return found[0] if found else word


def refuse_release(said: str) -> str:
    """The same; raises InputError for one that a rehearsal is not possible with."""
    release = read_release(said)
    if _is_before(release, OLDEST):
        raise InputError(
            f"this installer is of {release}, and a rehearsal needs {OLDEST[0]}.{OLDEST[1]} or later",
            why="up to 4.15 it drives an Ironic on the bootstrap itself, by terraform",
            hint="`rackless check install-config --version` checks its config without running it",
        )
    return release


def boots_disk(release: str) -> bool:
    """Whether its bootstrap machine boots a disk image, and has its config from the firmware. A release without numbers is new."""
    return _is_before(release, _LIVE_ISO)


def _is_before(release: str, other: tuple[int, int]) -> bool:
    found = _RELEASE.match(release)
    return found is not None and (int(found[1]), int(found[2])) < other


def is_secret(message: str) -> bool:
    """Whether a line is not for a screen or a report: the installer tells its last password at the end."""
    return "password" in message.lower()


def read_line(text: str) -> Line:
    found = _MESSAGE.search(text)
    return Line(found[1], found[2].replace('\\"', '"')) if found else Line("info", text)


def image(iso: str) -> dict[str, str]:
    """Where it gets the live ISO, or the disk image, of its bootstrap machine from."""
    return {"OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE": iso}


def environment(folder: Path, *, kvm: bool, release: str = NO_RELEASE) -> dict[str, str]:
    """`release` is a release image in place of the installer's own; empty leaves it its own."""
    return {
        **({"OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": release} if release else {}),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "HOME": str(folder),
        "TMPDIR": str(folder / "tmp"),
        **({} if kvm else {"TERRAFORM_LIBVIRT_TEST_DOMAIN_TYPE": "qemu"}),
    }


def command(installer: Path, folder: Path) -> list[str]:
    return [str(installer), "create", "cluster", "--dir", str(folder), "--log-level=debug"]


def wait_command(installer: Path, folder: Path) -> list[str]:
    """Goes on where the bootstrap machine is gone already."""
    return [str(installer), "wait-for", "install-complete", "--dir", str(folder), "--log-level=debug"]


def prepare_config(
    text: str, libvirt: str, pull_secret: str = "", without: Mapping[str, Sequence[str]] | None = None
) -> tuple[str, list[str]]:
    """The site's install-config as the installer is given it, and what was changed in it. `pull_secret` takes the place of its own;
    `without` are root device hints that no disk of the lab fits, by host."""
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
        changes.append(
            "libvirtURI leads to the lab's libvirt, through a proxy that mends the bootstrap machine's definition"
        )
    elif not libvirt and metal.pop("libvirtURI", "qemu:///system") != "qemu:///system":
        changes.append("libvirtURI was left out: the lab's own libvirt is used")
    for host in metal.get("hosts") or ():
        if isinstance(host, dict) and (names := (without or {}).get(str(host.get("name")), ())):
            hints = {name: value for name, value in host["rootDeviceHints"].items() if name not in names}
            host["rootDeviceHints"] = hints or None
            changes.append(
                f"{host['name']}: rootDeviceHints {', '.join(names)} were left out: no disk of the lab fits them"
            )
    if pull_secret:
        tree["pullSecret"] = pull_secret
    elif not tree.get("pullSecret"):
        tree["pullSecret"] = _NO_PULL_SECRET
        changes.append("pullSecret is a made-up one: nothing is pulled")
    return yaml.safe_dump(tree, sort_keys=False), changes
