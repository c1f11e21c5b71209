"""What the processes of a lab see of the file system: mounts in the mount namespace that a process has for itself."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Mounts(Protocol):
    def keep_inside(self) -> None:
        """From now on what is mounted on the computer comes in here, and what is mounted here stays here."""
        ...

    def resolve(self, path: Path) -> Path:
        """Where a path of the computer leads, links followed; it need not exist."""
        ...

    def exists(self, path: Path) -> bool: ...

    def read(self, file: Path) -> str: ...

    def bind(self, source: Path, target: Path, *, tree: bool = False) -> None:
        """Show `source` at the place of `target`; `tree`, with what is mounted below it. Folders that are missing are made;
        files must be there."""
        ...

    def mount_sysfs(self, target: Path) -> None:
        """The kernel's objects as they are in our network namespace."""
        ...

    def open_device(self, device: Path, scratch: Path) -> None:
        """Let every user open a device, seen from here; nothing where there is none, or it is open. `scratch` is a folder
        that does not exist. Raises OSError where making devices is forbidden.
        """
        ...

    def work_in(self, folder: Path) -> None:
        """This process's working folder, as it is to be seen from now on; silent when it is not there."""
        ...
