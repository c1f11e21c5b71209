"""Which kernel modules must come along: the ones asked for and everything they depend on, in loading order.

Reads the modules themselves (`.modinfo`), because a kernel package brings no index and the hypervisor has no depmod.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rackless.errors import RacklessError
from rackless.images import elf

_INDEXES = ("modules.builtin", "modules.builtin.modinfo", "modules.order")


@dataclass
class Kernel:
    """The module tree of one kernel: `/usr/lib/modules/<release>` in some root."""

    tree: Path
    _paths: dict[str, Path] = field(default_factory=dict)
    _builtin: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._paths = {_name(path.name): path for path in sorted((self.tree / "kernel").rglob("*.ko"))}
        builtin = self.tree / "modules.builtin"
        lines = builtin.read_text().splitlines() if builtin.exists() else []
        self._builtin = frozenset(_name(Path(line).name) for line in lines)

    @property
    def release(self) -> str:
        return self.tree.name

    def closure(self, wanted: Iterable[str]) -> list[Path]:
        """Paths relative to the tree; each module comes after what it needs."""
        ordered: dict[str, Path] = {}
        for name in wanted:
            self._add(_name(name), ordered, wanted_by="")
        return [path.relative_to(self.tree) for path in ordered.values()]

    def _add(self, name: str, ordered: dict[str, Path], wanted_by: str) -> None:
        if name in ordered or name in self._builtin:
            return
        path = self._paths.get(name)
        if path is None:
            raise RacklessError(
                f"kernel {self.release} has no module {name}",
                why=f"it is needed by {wanted_by or 'the image'}, and it is neither a file nor built in",
            )
        for dependency in dependencies(path):
            # A soft dependency may be missing; a hard one may not.
            if dependency.hard or dependency.name in self._paths:
                self._add(dependency.name, ordered, wanted_by=name)
        ordered.setdefault(name, path)


def of_root(root: Path) -> Kernel:
    """The kernel in a root; there must be exactly one."""
    trees = sorted((root / "usr/lib/modules").iterdir())
    if len(trees) != 1:
        raise RacklessError(f"expected one kernel in the unpacked packages and found {len(trees)}")
    return Kernel(trees[0])


def place(kernel: Kernel, chosen: Iterable[Path], root: Path) -> None:
    """Link the chosen modules, and what depmod wants to know about the kernel, into another root."""
    target = root / "usr/lib/modules" / kernel.release
    for relative in (*chosen, *map(Path, _INDEXES)):
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        (target / relative).hardlink_to(kernel.tree / relative)


@dataclass(frozen=True, slots=True)
class Dependency:
    name: str
    hard: bool = True


def dependencies(module: Path) -> list[Dependency]:
    found = elf.sections(module, frozenset({".modinfo"}))
    if ".modinfo" not in found:
        return []
    result = []
    for line in found[".modinfo"].data.decode(errors="replace").split("\0"):
        kind, _, value = line.partition("=")
        if kind == "depends":
            result += [Dependency(_name(name)) for name in value.split(",") if name]
        elif kind == "softdep" and value.startswith("pre:"):
            result += [Dependency(_name(name), hard=False) for name in value[4:].partition("post:")[0].split()]
    return result


def _name(file: str) -> str:
    return file.removesuffix(".ko").replace("-", "_")
