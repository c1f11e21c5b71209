"""Our own wheel, made from the package that is running: what a node runs is what its hypervisor runs.

Python reads it where it lies, without unpacking; byte code for the node's Python is in it beside the sources. The
fingerprint is of the sources alone, so that it is known without building anything.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib import resources
from pathlib import Path

from rackless import __version__
from rackless.images import python
from rackless.images.cache import key_of
from rackless.ports.process import Processes

_EPOCH = (1980, 1, 1, 0, 0, 0)
_INFO = f"rackless-{__version__}.dist-info"
_METADATA = f"Metadata-Version: 2.1\nName: rackless\nVersion: {__version__}\nRequires-Python: >=3.11\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: rackless\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def load_sources() -> dict[str, bytes]:
    """The files of this package, by their place in the wheel."""
    with resources.as_file(resources.files("rackless")) as package:
        return {
            f"rackless/{path.relative_to(package)}": path.read_bytes()
            for path in sorted(package.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
        }


def fingerprint(sources: dict[str, bytes]) -> str:
    return key_of(part for name, content in sources.items() for part in (name, content))


async def build(
    processes: Processes, root: Path, sources: dict[str, bytes], place: str, scratch: Path, target: Path
) -> None:
    """Write the wheel to `target`; `root` has the node's Python, and `place` is where it will lie there."""
    tree = scratch / "wheel"
    for name, content in sources.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    words = ("-m", "compileall", "-q", "-b", "--invalidation-mode", "unchecked-hash")
    # tracebacks show the place, not this tree
    await python.run(processes, root, *words, "-s", tree, "-p", place, tree)
    files = {str(path.relative_to(tree)): path.read_bytes() for path in sorted(tree.rglob("*")) if path.is_file()}
    files |= {f"{_INFO}/METADATA": _METADATA.encode(), f"{_INFO}/WHEEL": _WHEEL.encode()}
    files[f"{_INFO}/RECORD"] = _record(files)
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            # byte code as it is, because a slow node reads it at every start; sources are for people
            packed = zipfile.ZIP_STORED if name.endswith(".pyc") else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, packed)


def _record(files: dict[str, bytes]) -> bytes:
    rows = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    return "\n".join([*rows, f"{_INFO}/RECORD,,", ""]).encode()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
