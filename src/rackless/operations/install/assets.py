"""`rackless install create …`: writes the files of a target (install-config, manifests, Ignition configs) into a folder, with a
state file from which later targets go on.

The state is written before the files, and consumed files are deleted last: after a kill at any point, the next command finds
everything. Files in the folder may hold keys, so only its owner can read them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from rackless import __version__
from rackless.errors import HypervisorError, InputError, RacklessError
from rackless.events import Bus
from rackless.installer.assets import state as states
from rackless.installer.assets.asset import Asset
from rackless.installer.assets.catalogue import GRAPH
from rackless.installer.assets.graph import Graph
from rackless.installer.assets.install_config import FILE, INSTALL_CONFIG, doubts
from rackless.installer.assets.release import FILE as RELEASE_FILE
from rackless.installer.assets.release import RELEASE
from rackless.installer.assets.signing import KeyPair
from rackless.installer.assets.state import FolderState
from rackless.installer.assets.store import Fetched, fetch
from rackless.installer.install_config.checking import read_config
from rackless.installer.install_config.config import Config
from rackless.installer.install_config.release import NEWEST
from rackless.run.files import write_secret

STATE = ".rackless_install_state.json"
LOG = ".rackless_install.log"
HANDED_OVER = ".rackless_handed_over"
"""This file is in the folder of an install once its bootstrap machine has handed over to the control plane."""
_LARGEST = 8 << 20
"""Bytes of a file that is read: a manifest has some thousand, the largest bootstrap config a few hundred thousand."""


def create(folder: Path, target: str, bus: Bus, graph: Graph = GRAPH) -> tuple[Path, ...]:
    """Write a target's files into the folder; returns the folders that they are in."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _alone(folder), _logged(folder, f"create {target}") as log:
            state, disk = _load_state(folder), _read(folder, graph)
            if FILE in disk:
                for doubt in doubts(disk[FILE]):
                    log("warning", doubt)
                    bus.warn(doubt)
            fetched = fetch(graph.target(target), graph, state, disk)
            for note in fetched.notes:
                log(note.level, note.text)
                if note.level != "debug":
                    bus.warn(note.text) if note.level == "warning" else bus.info(note.text)
            _apply(folder, fetched)
            places = tuple(dict.fromkeys(folder / Path(path).parent for path in sorted(fetched.write)))
            log("info", f"{graph.target(target).title} created in: {', '.join(str(place) for place in places)}")
            return places
    except OSError as error:
        raise HypervisorError(f"the folder {folder} cannot be used", why=str(error)) from error


def find_cluster_name(folder: Path) -> str:
    """The name of the cluster that the install in the folder, or its install-config, is for. Raises InputError."""
    entry = _load_state(folder).entries.get(INSTALL_CONFIG.name)
    given = folder / FILE
    if entry is None and given.exists():
        config = read_config(given.read_text(encoding="utf-8"), NEWEST)
        if config is not None and config.name:
            return config.name
    return load_install_config(folder).name


def is_begun(folder: Path) -> bool:
    """Whether the folder has an install-config, or an install that came from one."""
    return (folder / FILE).exists() or INSTALL_CONFIG.name in _load_state(folder).entries


def has_release(folder: Path) -> bool:
    """Whether the folder has a release.json, or consumed one: the node image and payload that its install uses."""
    entry = _load_state(folder).entries.get(RELEASE.name)
    return (folder / RELEASE_FILE).exists() or (entry is not None and RELEASE_FILE in entry.parts)


def load_install_config(folder: Path) -> Config:
    """The install-config, with all defaults, that the folder's assets were made of. Raises InputError."""
    entry = _load_state(folder).entries.get(INSTALL_CONFIG.name)
    if entry is None:
        raise InputError(f"no install was begun in {folder}", hint="`rackless install create manifests --dir DIR`")
    return INSTALL_CONFIG.read(entry.parts)


def load_pair(folder: Path, asset: Asset[KeyPair]) -> KeyPair:
    """A certificate and its key, of an install whose assets were made."""
    return asset.read(_load_state(folder).entries[asset.name].parts)


def has_handed_over(folder: Path) -> bool:
    return (folder / HANDED_OVER).exists()


def note_hand_over(folder: Path) -> None:
    """Note that the bootstrap has handed over. From here on no other bootstrap machine is made, also while the cluster's API does
    not answer: it would reinstall the control plane."""
    if not has_handed_over(folder):
        write_secret(folder / HANDED_OVER, "")


def forget(folder: Path) -> None:
    """Delete what `install create` made in the folder, the state file last; the log stays, and files of others."""
    handed = [Path(path) for path in _load_state(folder).handed]
    for path in handed:
        (folder / path).unlink(missing_ok=True)
    for emptied in {path.parent for path in handed} - {Path()}:
        with suppress(OSError):  # something else is in it
            (folder / emptied).rmdir()
    (folder / HANDED_OVER).unlink(missing_ok=True)
    (folder / STATE).unlink(missing_ok=True)


def _apply(folder: Path, fetched: Fetched) -> None:
    write_secret(folder / STATE, fetched.state.render())
    for path, text in fetched.write.items():
        write_secret(folder / path, text)
    for path in fetched.consume:
        (folder / path).unlink(missing_ok=True)
    for emptied in {Path(path).parent for path in fetched.consume} - {Path()}:
        with suppress(OSError):  # something else is in it
            (folder / emptied).rmdir()
    write_secret(folder / STATE, fetched.handed.render())


def _load_state(folder: Path) -> FolderState:
    try:
        text = (folder / STATE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return FolderState()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{folder / STATE} is damaged", why=str(error), hint="begin again in an empty folder"
        ) from error
    return states.load(text, str(folder / STATE))


def _read(folder: Path, graph: Graph) -> dict[str, str]:
    """The files in the folder that some asset reads; other files are ignored."""
    found: dict[str, str] = {}
    for pattern in sorted({pattern for asset in graph.assets for pattern in asset.files}):
        for path in folder.glob(pattern):
            if not path.is_file():
                continue
            name = str(path.relative_to(folder))
            if path.stat().st_size > _LARGEST:
                raise InputError(f"{path} is too large", why=f"it has more than {_LARGEST >> 20} MiB")
            try:
                found[name] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise InputError(f"{path} is not a text", why=str(error), hint="save it as UTF-8") from error
    return found


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder (flock): one command at a time."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another command works in {folder}", hint="wait until it has ended") from None
        yield
    finally:
        os.close(handle)


class _Log:
    """The install's log, in the line format of openshift-install's. Values such as passwords are never in it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __call__(self, level: str, text: str) -> None:
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        os.write(self._handle, f'time="{moment}" level={level} msg="{quoted}"\n'.encode())


@contextmanager
def _logged(folder: Path, command: str) -> Iterator[_Log]:
    handle = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    log = _Log(handle)
    try:
        log("debug", f"rackless {__version__}: install {command}")
        yield log
    except RacklessError as error:
        log("fatal", str(error))
        raise
    finally:
        os.close(handle)
