"""A file → Twin, or why there is none. The lab that comes of it is held against the rules of labs before it is written."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from rackless.errors import InputError, SpecError
from rackless.installer.install_config.checking import read_config
from rackless.installer.install_config.config import Config
from rackless.installer.install_config.release import NEWEST, Release
from rackless.installer.twin import rendering
from rackless.installer.twin.site import NoTwin, Twin, Wishes, make_twin
from rackless.spec import load


def read_site(source: Path, release: Release = NEWEST) -> Config:
    try:
        text = source.read_bytes().decode("utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise InputError(f"{source} cannot be read", why=error.strerror or str(error)) from error
    config = read_config(text, release)
    if config is None:
        raise InputError(f"{source} is no install-config", why="it is not a mapping of fields")
    return config


def read_twin(source: Path, wishes: Wishes, release: Release = NEWEST) -> Twin:
    """Raises InputError, of which NoTwin says what a lab cannot be."""
    twin = make_twin(read_site(source, release), wishes)
    text = rendering.render(twin, source.name, PurePosixPath("/nowhere"))
    try:
        load.parse(text, f"the twin of {source.name}")
    except SpecError as error:
        raise NoTwin(
            f"{source.name} cannot have a twin",
            why="\n".join(f"{problem.path}: {problem.message}" for problem in error.problems),
            hint="`rackless check install-config` may tell what is wrong with the site",
        ) from error
    return twin
