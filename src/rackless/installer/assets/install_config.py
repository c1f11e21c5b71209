"""The first assets: the install-config as a person wrote it, and the completed one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import lru_cache

from rackless.errors import InputError
from rackless.installer.assets import documents
from rackless.installer.assets.asset import Asset, Given, Mistake, Parts, as_is, only
from rackless.installer.assets.completing import Tree, complete
from rackless.installer.install_config.checking import check, read_config
from rackless.installer.install_config.config import Config
from rackless.installer.install_config.findings import Severity
from rackless.installer.install_config.release import NEWEST
from rackless.installer.install_config.site import DEFAULT_BRIDGES, Site

FILE = "install-config.yaml"


class NoInstallConfig(InputError):
    """There is no install-config in the folder."""


def _missing(given: Given) -> Parts:
    raise NoInstallConfig(
        f"there is no {FILE} in the folder",
        why="everything else is made of it",
        hint="write one there: `rackless install-config -o DIR/install-config.yaml` does so for a lab, "
        "`rackless explain install-config` tells the fields",
    )


def _mistakes(path: str, text: str) -> Iterator[Mistake]:
    """All that the installer rejects in either of its phases, and what it accepts and then dies of."""
    for finding in check(text, NEWEST, _site(text)).findings:
        if finding.severity is not Severity.WARNING:
            where = f"{finding.path}: " if finding.path else ""
            yield Mistake(path, finding.line, f"{where}{finding.message}", finding.fix)
    config = read_config(text, NEWEST)
    if config is not None and config.platform not in ("", "baremetal"):
        yield Mistake(path, 1, f"platform: only bare metal is installed here, not {config.platform}")


def doubts(text: str) -> tuple[str, ...]:
    """Warnings about an install-config. None about the pull secret: rackless's own install pulls nothing with it."""
    found = [one for one in check(text, NEWEST, _site(text)).findings if one.path != "pullSecret"]
    return tuple(f"{FILE}:{one.line}: {one.path}: {one.message}" for one in found if one.severity is Severity.WARNING)


def _site(text: str) -> Site:
    """The bridges that the file names are taken to be there: whether they are is a question of another computer."""
    config = read_config(text, NEWEST)
    metal = config.metal if config is not None else None
    return Site(DEFAULT_BRIDGES | {metal.external_bridge, metal.provisioning_bridge} if metal else DEFAULT_BRIDGES)


GIVEN = Asset("given-install-config", "Install Config", _missing, only, files=(FILE,), check=_mistakes, input=True)


def _make_macs(given: Given) -> Parts:
    """In the range that virtual machines of an installer have: sites reserve addresses and routes by it."""
    first, second = secrets.token_bytes(3), secrets.token_bytes(3)
    while first == second:
        second = secrets.token_bytes(3)
    return {"external": f"52:54:00:{first.hex(':')}", "provisioning": f"52:54:00:{second.hex(':')}"}


MACS = Asset("bootstrap-macs", "Bootstrap MACs", _make_macs, as_is, chance=True)


def _complete(given: Given) -> Parts:
    macs = given.of(MACS)
    config = _config(given.of(GIVEN))
    return {FILE: documents.render(complete(config, macs["external"], macs["provisioning"]))}


@lru_cache(maxsize=8)
def _config(text: str) -> Config:
    config = read_config(text, NEWEST)
    assert config is not None and config.metal is not None, "it was checked"
    return config


def _read(parts: Parts) -> Config:
    return _config(parts[FILE])


INSTALL_CONFIG = Asset("install-config", "Complete Install Config", _complete, _read, (GIVEN, MACS))


def tree(config: Config) -> Tree:
    return dict(config.values)
