"""Files that a command writes where a person wants them (`-o FILE`): they are that person's, also behind sudo.

A plain file is replaced whole, and so is a link: root follows none that somebody else may have put there. A pipe or a terminal
(/dev/stdout, /dev/null) is written into and stays what it is, unless it is somebody else's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rackless.errors import InputError, known
from rackless.run.files import write

SECRET = 0o600


def write_output(path: Path, content: str | bytes, *, mode: int = SECRET) -> None:
    """Raises InputError for a place where the person cannot have it."""
    with _in_words(path):
        if _is_special(path):
            with path.open("wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
            return
        missing = [folder for folder in path.absolute().parents if not folder.exists()]
        write(path, content, mode=mode, owner=_caller())
        give_folders(missing)


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """For what is written bit by bit. Raises InputError for a place where the person cannot have it."""
    with _in_words(path):
        if os.geteuid() == 0 and not _is_special(path):
            path.unlink(missing_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            file: BinaryIO = os.fdopen(handle, "wb")
            if (caller := _caller()) is not None:
                os.fchown(handle, *caller)
        else:
            file = path.open("wb")
    with file:
        yield file


def give_folders(folders: Iterable[Path]) -> None:
    """Give folders that were made as root to the user behind sudo."""
    if (caller := _caller()) is None:
        return
    for folder in folders:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchown(handle, *caller)
        finally:
            os.close(handle)


def _caller() -> tuple[int, int] | None:
    """The user and group behind sudo; None where we are not root, or root is the person."""
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    return (int(user), int(group)) if os.geteuid() == 0 and user.isdigit() and group.isdigit() else None


def _is_special(path: Path) -> bool:
    """A pipe, a socket or a character device, or root's or the caller's own link to one."""
    try:
        found, owner = path.stat().st_mode, path.lstat().st_uid
    except OSError:
        return False
    own = owner in {0, os.geteuid(), *(_caller() or ())[:1]}
    return own and (stat.S_ISFIFO(found) or stat.S_ISCHR(found) or stat.S_ISSOCK(found))


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if known(error) is not None:  # a full disk is this computer's lack
            raise
        raise InputError(
            f"{path} cannot be written", why=error.strerror or str(error), hint="name another file with -o"
        ) from error
