"""How a field of an install-config is described."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as _dataclass_field

from rackless.installer.install_config.release import FIRST, Release

STRING, BOOL, INT32, INT64, UINT32 = "string", "bool", "int32", "int64", "uint32"
CIDR, DURATION, ANY = "cidr", "duration", "any"


@dataclass(frozen=True, slots=True)
class Items:
    """A list; `null_panics` where the installer dereferences an entry without looking."""

    of: FieldType
    null_panics: bool = False


@dataclass(frozen=True, slots=True)
class Struct:
    name: str
    fields: tuple[ConfigField, ...]
    open: bool = False
    """Keys that are not in the table are not judged: they belong to something else than bare metal."""
    by_key: dict[str, ConfigField] = _dataclass_field(init=False, compare=False, hash=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_key", {one.name.lower(): one for one in self.fields})


FieldType = str | Items | Struct


@dataclass(frozen=True, slots=True)
class ConfigField:
    name: str
    type: FieldType
    meaning: str
    since: Release = FIRST
    until: Release | None = None
    """The last release that has it."""
    default: str = ""
    rules: tuple[str, ...] = ()
    deprecated: Release | None = None
    instead: str = ""
    vital: bool = False
    """A release that does not know the field, and ignores it, installs something that cannot work."""
    secret: bool = False


def field(
    name: str,
    type: FieldType,
    meaning: str,
    *rules: str,
    since: str = "",
    until: str = "",
    default: str = "",
    deprecated: str = "",
    instead: str = "",
    vital: bool = False,
    secret: bool = False,
) -> ConfigField:
    return ConfigField(
        name, type, meaning, _release(since) or FIRST, _release(until), default, rules,
        _release(deprecated), instead, vital, secret,
    )  # fmt: skip


def _release(text: str) -> Release | None:
    if not text:
        return None
    major, _, minor = text.partition(".")
    return Release(int(major), int(minor))
