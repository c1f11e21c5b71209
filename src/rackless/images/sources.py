"""Where the packages of images come from: Debian 12, whatever this computer runs.

A Debian 12's own apt is asked as it is. Elsewhere apt gets sources and lists of our own, in the image cache: Debian 12's
suites, from the computer's own mirror of Debian or one that is named. Proxies and the like stay as apt is configured here. This
module does not know which packages an image wants.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rackless.errors import CommandFailed, HypervisorError, RacklessError
from rackless.images.cache import key_of, locked
from rackless.ports.process import Processes

MIRROR = "RACKLESS_DEBIAN_MIRROR"
"""The variable that names another mirror. When it is set, the apt sources of a Debian 12 are not used either."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
KEYRING_PACKAGE = "debian-archive-keyring"
_DAY, _HOUR = 86400.0, 3600.0
_OS_RELEASE = Path("/etc/os-release")
_LISTS = Path("/var/lib/apt/lists")
_TARGET = "$(CREATED_BY)|$(COMPONENT)|$(ORIGIN)|$(LABEL)|$(RELEASE)|$(REPO_URI)"
_CONFIGURATION = """\
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "{folder}/lists/";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Default-Release "";
APT::Get::List-Cleanup "true";
APT::Sandbox::User "root";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""
"""Which of the computer's apt settings are not used: its sources, its preferences, and its hooks after an update."""


@dataclass(frozen=True, slots=True)
class Sources:
    lists: Path
    own: Path | None = None
    """The folder with an apt state of our own; None when the computer's own apt is asked."""

    @property
    def options(self) -> tuple[str, ...]:
        """The options that make apt use this state."""
        return ("-c", f"{self.own}/apt.conf") if self.own else ()

    def identity(self) -> str:
        """What apt knows at the moment, as one value: the signed release files of all sources."""
        releases = sorted(path for path in self.lists.glob("*Release") if path.is_file())
        return key_of(part for path in releases for part in (path.name, path.read_bytes()))


def of_computer(cache: Path) -> Sources:
    system = load_system()
    if (system.get("ID"), system.get("VERSION_ID")) == ("debian", "12") and not os.environ.get(MIRROR):
        return Sources(_LISTS)
    return Sources(cache / "apt/lists", cache / "apt")


def load_system() -> dict[str, str]:
    """What this computer says it runs."""
    if not _OS_RELEASE.exists():
        return {}
    lines = (line.partition("=") for line in _OS_RELEASE.read_text().splitlines() if "=" in line)
    return {name: value.strip("\"'") for name, _, value in lines}


async def refresh(processes: Processes, sources: Sources, *, now: bool = False) -> str:
    """Have lists of our own that are at most a day old, or with `now` an hour. The computer's own lists are left as they are.

    When newer lists cannot be fetched, the ones that are here stay in use, and the answer says so.
    """
    if sources.own is None:
        return ""
    listed, stamp = sources.own / "sources.list", sources.own / "updated"
    async with locked(sources.own / "lock"):
        known = stamp.exists() and any(sources.lists.glob("*Release"))
        try:
            wanted = render(await choose_mirrors(processes, load_system(), os.environ))
            known = known and listed.read_text() == wanted
            if known and 0 <= time.time() - stamp.stat().st_mtime < (_HOUR if now else _DAY):
                return ""
            if not known:
                stamp.unlink(missing_ok=True)
            (sources.lists / "partial").mkdir(parents=True, exist_ok=True)
            (sources.own / "apt.conf").write_text(_CONFIGURATION.format(folder=sources.own))
            listed.write_text(wanted)
            await _update(processes, sources, wanted)
        except RacklessError as error:
            if not known:
                raise
            return f"with older package lists: {error.what}"
        stamp.touch()
        return ""


async def _update(processes: Processes, sources: Sources, listed: str) -> None:
    if not KEYRING.exists():
        raise HypervisorError(
            "the keys of Debian's archive are not here",
            why=f"images are made of Debian 12's packages, which are checked against {KEYRING}",
            hint=f"apt-get install {KEYRING_PACKAGE}",
        )
    try:
        # without this mode apt-get update succeeds although it could fetch nothing
        await processes.run(
            ["apt-get", *sources.options, "-o", "APT::Update::Error-Mode=any", "--quiet", "update"], within=900
        )
    except CommandFailed as error:
        raise HypervisorError(
            "Debian 12's package lists cannot be fetched",
            why=f"{error.why}\nsources:\n{listed}",
            hint=f"check apt's proxy, or name a mirror that has Debian 12: {MIRROR}=URL",
        ) from error


@dataclass(frozen=True, slots=True)
class Mirrors:
    main: str
    security: str


def render(mirrors: Mirrors) -> str:
    how = f"arch=amd64 lang=none target=Packages pdiffs=no signed-by={KEYRING}"
    suites = (
        (mirrors.main, "bookworm"), (mirrors.main, "bookworm-updates"), (mirrors.security, "bookworm-security"),
    )  # fmt: skip
    return "".join(f"deb [{how}] {uri} {suite} main\n" for uri, suite in suites)


async def choose_mirrors(processes: Processes, system: Mapping[str, str], environment: Mapping[str, str]) -> Mirrors:
    """The mirrors that are asked for; or the computer's own, if its apt has one of Debian."""
    if asked := environment.get(MIRROR, "").split():
        return Mirrors(asked[0].rstrip("/"), asked[-1].rstrip("/") if asked[1:] else f"{asked[0].rstrip('/')}-security")
    done = await processes.run(["apt-get", "indextargets", "--format", _TARGET], check=False)
    found = _archives(done.stdout, system)
    if (main := found.get("Debian")) is None:
        raise HypervisorError(
            "no mirror of Debian is known on this computer",
            why="images are made of Debian 12's packages, and none of apt's sources here has them",
            hint=f"name one near you, as Debian's web site lists them: {MIRROR}=URL",
        )
    return Mirrors(main, found.get("Debian-Security", f"{main}-security"))


def _archives(targets: str, system: Mapping[str, str]) -> dict[str, str]:
    """Debian's archives among the computer's sources, by their label."""
    found: dict[str, str] = {}
    codename = system.get("VERSION_CODENAME") if system.get("ID") == "debian" else None
    # before the first update apt knows no labels, only what the sources say
    labels = {codename: "Debian", f"{codename}-security": "Debian-Security"} if codename else {}
    for line in targets.splitlines():
        created_by, component, origin, label, release, uri = line.split("|", 5)
        if (created_by, component) != ("Packages", "main") or uri.startswith("cdrom:"):
            continue
        if origin != "Debian":
            label = labels.get(release, "") if origin.startswith("$(") else ""
        found.setdefault(label, direct(uri.rstrip("/")))
    return found


def direct(uri: str) -> str:
    """Debian's cloud images name a file with mirrors in it, through which single files cannot be fetched: its first one."""
    scheme, _, rest = uri.partition(":")
    if scheme != "mirror+file":
        return uri
    path = Path("/", rest.lstrip("/"))
    for place in (path, *path.parents):
        if place.is_file():
            first = next(line for line in place.read_text().splitlines() if line and not line.startswith("#"))
            below = path.relative_to(place)
            return first.split()[0].rstrip("/") + (f"/{below}" if below != Path(".") else "")
    return uri
