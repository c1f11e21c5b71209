"""A shim in Ironic's process: caches a costly key derivation (PBKDF2), and shortens a polling interval that Ironic's
configuration cannot.

Python loads this file because its folder is on PYTHONPATH; `IronicService(shim=False)` leaves it out, and Ironic runs
exactly as published.
"""

import gc
import hashlib
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

# Ironic derives a key with 600,000 rounds of PBKDF2 whenever it looks up its session with a BMC (about 0.4 s of processor
# time, dozens of times per host) only to compare it with the one it already has. This remembers the results, by a keyed
# digest, so that no password is kept that was not kept before.
_plain = hashlib.pbkdf2_hmac
_key = os.urandom(32)
_known: dict[bytes, bytes] = {}
_LIMIT = 4096


def _remembering(hash_name: str, password: Any, salt: Any, iterations: int, dklen: int | None = None) -> bytes:
    parts = (hash_name.encode(), bytes(password), bytes(salt), str(iterations).encode(), str(dklen).encode())
    digest = hashlib.blake2b(b"".join(len(part).to_bytes(8, "big") + part for part in parts), key=_key).digest()
    if digest not in _known:
        if len(_known) >= _LIMIT:
            _known.clear()
        _known[digest] = _plain(hash_name, password, salt, iterations, dklen)
    return _known[digest]


hashlib.pbkdf2_hmac = _remembering


def _look_every_second() -> None:
    """Ironic reads this setting while it is imported, before it reads its configuration: six seconds, whatever is written
    there, between two looks at a boot loader that is installed in three."""
    from ironic.conf import CONF  # type: ignore[import-not-found]

    CONF.set_default("command_wait_interval", 1, group="agent")


def _read_nodes_alone() -> None:
    """With every node that Ironic reads, hundreds of times for a host, it also asks for the node's tags and traits, which nobody
    gives to nodes here: three questions to the database instead of one."""
    import ironic.command  # type: ignore[import-not-found]  # noqa: F401  # says first how threads are made
    import sqlalchemy  # type: ignore[import-not-found]
    from ironic.db.sqlalchemy import api, models  # type: ignore[import-not-found]
    from sqlalchemy.orm import noload  # type: ignore[import-not-found]

    alone = sqlalchemy.select(models.Node).options(noload(models.Node.tags), noload(models.Node.traits))
    api._get_node_select = lambda: alone


class _Unused(ModuleType):
    """In place of a module that Ironic loads and, as it is set up here, never calls; whatever is in it is one of these, too."""

    def __getattr__(self, name: str) -> ModuleType:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Unused(f"{self.__name__}.{name}")


def _load_less() -> None:
    """Half of Ironic's start is the loading of clients for clouds' services, of which there are none here, and of another way to
    have threads; and an eighth is Python looking for garbage among modules, which stay."""
    gc.set_threshold(100_000, 20, 20)
    sys.modules["eventlet"] = None  # type: ignore[assignment]
    for name in ("keystonemiddleware", "keystonemiddleware.audit", "keystonemiddleware.auth_token"):
        sys.modules[name] = _Unused(name)
    if (found := PathFinder.find_spec("openstack")) is None or found.submodule_search_locations is None:
        return
    sdk = ModuleType("openstack")  # without what its own `__init__` loads: config drives are made by one module of it
    sdk.__spec__, sdk.__path__ = found, list(found.submodule_search_locations)
    sys.modules["openstack"] = sdk
    from openstack import exceptions  # type: ignore[import-not-found]

    for name in ("openstack.connection", "openstack.image", "openstack.image.v2"):
        sys.modules[name] = _Unused(name)
    sys.modules["openstack.connection"].exceptions = exceptions  # type: ignore[attr-defined]


if any(Path(word).name == "ironic" for word in sys.orig_argv[1:2]):
    _load_less()
    _look_every_second()
    _read_nodes_alone()
