"""The field table in words: one field for `rackless explain`, all of them for the reference page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from rackless.errors import InputError
from rackless.installer.install_config import schema
from rackless.installer.install_config.release import FIRST
from rackless.installer.install_config.schema_fields import ConfigField, Items, Struct

_TYPES = {
    "string": "text", "bool": "true or false", "int32": "number", "int64": "number", "uint32": "number",
    "cidr": "network, e.g. 192.168.111.0/24", "duration": "duration, e.g. 90s", "any": "free form",
}  # fmt: skip


def explain(path: str, *, recursive: bool = False) -> str:
    """`platform.baremetal.apiVIPs`, with or without `[]` and indexes, in any case; '' is the whole file. Below a map are listed its
    fields, or with `recursive` also theirs, and so on."""
    wanted = re.sub(r"\[\w*\]", "", path).strip(".").lower()
    if not wanted:
        title = "install-config.yaml: what the installer must be told"
        return "\n".join([title, "", *_children(schema.ROOT, recursive=recursive)])
    fields = {plain(name).lower(): (name, one) for name, one in schema.walk()}
    if wanted not in fields:
        raise InputError(f"an install-config has no field {path}", hint=_suggestion(wanted, list(fields)))
    name, one = fields[wanted]
    return "\n".join(_lines(name, one, recursive=recursive))


def plain(name: str) -> str:
    return name.replace("[]", "")


def _suggestion(wanted: str, names: list[str]) -> str:
    """By the whole path, and by the last word of it: people know the field, not where it stands."""
    last = wanted.rsplit(".", 1)[-1]
    near = [name for name in names if name.rsplit(".", 1)[-1] == last] or get_close_matches(wanted, names, n=3)
    spelt = {plain(name).lower(): plain(name) for name, _ in schema.walk()}
    if near:
        return "did you mean " + " or ".join(f"install-config.{spelt[name]}" for name in near[:3]) + "?"
    return "`rackless explain install-config` lists the fields"


def _lines(name: str, one: ConfigField, *, recursive: bool) -> Iterator[str]:
    yield f"{name}: {type_words(one)}"
    yield ""
    yield one.meaning
    yield ""
    yield f"since:      {one.since if one.since > FIRST else f'{FIRST} or earlier'}"
    if one.deprecated:
        yield f"deprecated: since {one.deprecated}" + (f", use {one.instead}" if one.instead else ", remove it")
    if one.default:
        yield f"default:    {one.default}"
    for number, rule in enumerate(one.rules):
        yield f"{'rules:' if not number else '':<11} {rule}"
    inner = one.type.of if isinstance(one.type, Items) else one.type
    if isinstance(inner, Struct) and inner.fields:
        yield ""
        yield from _children(inner, recursive=recursive)


def _children(struct: Struct, *, recursive: bool) -> Iterator[str]:
    found = schema.walk(struct) if recursive else ((child.name, child) for child in struct.fields)
    for name, child in found:
        if child.meaning != "Not used.":
            yield f"  {name:<30} {_first_sentence(child.meaning)}"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;])\s", text, maxsplit=1)[0].rstrip(";")


def type_words(one: ConfigField) -> str:
    if isinstance(one.type, Items):
        of = one.type.of
        return "list of maps" if isinstance(of, Struct) else f"list of {_TYPES[str(of)].split(',')[0]}s"
    return "map" if isinstance(one.type, Struct) else _TYPES[one.type]


def reference() -> str:
    """docs/reference/install-config.md; a test keeps the page equal to this."""
    lines = [
        "# install-config.yaml, field by field",
        "",
        "Made from the table the check uses (by `scripts/docs`); the same words are printed by",
        "`rackless explain install-config.FIELD`. Only bare metal is described.",
        "",
        "| field | since | default | meaning and rules |",
        "|---|---|---|---|",
    ]
    for name, one in schema.walk():
        if one.meaning == "Not used." or "not bare metal" in one.meaning:
            continue
        since = str(one.since) if one.since > FIRST else ""
        words = [one.meaning, *(f"• {rule}" for rule in one.rules)]
        if one.deprecated:
            words.append(f"**Deprecated since {one.deprecated}**" + (f": use {one.instead}" if one.instead else ""))
        cell = "<br>".join(words).replace("|", "\\|")
        lines.append(f"| `{name}` | {since} | {one.default.replace('|', '')} | {cell} |")
    return "\n".join([*lines, ""])
