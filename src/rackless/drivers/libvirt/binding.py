"""Finding libvirt's Python binding.

The distribution's package fits the distribution's daemon and needs no compiler; PyPI has only sources. It is installed
for the system's Python, outside our virtualenv, so these modules, and no others, are taken from there.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from rackless.errors import HypervisorError

_MODULES = ("libvirtmod", "libvirt", "libvirtmod_qemu", "libvirt_qemu")
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_PLACES = (
    "/usr/lib/python3/dist-packages",
    f"/usr/lib64/python{_VERSION}/site-packages",
    f"/usr/lib/python{_VERSION}/site-packages",
)


@cache
def libvirt() -> ModuleType:
    return _load("libvirt")


@cache
def libvirt_qemu() -> ModuleType:
    libvirt()
    return _load("libvirt_qemu")


def _load(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        pass
    for place in _PLACES:
        if Path(place, "libvirt.py").exists():
            for module in _MODULES:
                _load_from(place, module)
            return sys.modules[name]
    raise HypervisorError(
        "the Python binding of libvirt is not installed",
        why=f"no libvirt for Python {_VERSION} in this environment or in {', '.join(_PLACES)}",
        hint="install it: apt-get install python3-libvirt",
    )


def _load_from(place: str, name: str) -> None:
    spec = importlib.machinery.PathFinder.find_spec(name, [place])
    if spec is None or spec.loader is None:
        raise HypervisorError(
            f"{place} has libvirt's binding, but not for Python {_VERSION}",
            hint="use the system's Python: remove .venv and run ./rackless again; pipx and uv take --python /usr/bin/python3",
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
