"""`rackless explain PATH`: what a field means, since when, its default, its rules, and what a change of it does."""

from __future__ import annotations

import click

from rackless.cli.completing import fields as complete_fields
from rackless.cli.options import json_option, print_json
from rackless.errors import InputError


@click.command(name="explain")
@click.argument("path", default="lab", shell_complete=complete_fields)
@click.option("--recursive", is_flag=True, help="Everything below it, too, and not only the next fields.")
@json_option()
def explain(path: str, recursive: bool, as_json: bool) -> None:
    """Explain a field: networks.bmc of a lab (or lab.networks.bmc), or install-config.platform.baremetal.apiVIPs.

    A name of your own choice may be left out: servers.memory is servers.NAME.memory.
    """
    subject, _, rest = path.partition(".")
    if subject == "install-config":
        from rackless.installer.install_config import explaining

        text = explaining.explain(rest, recursive=recursive)
        print_json({"path": rest, "text": text}) if as_json else click.echo(text)
    else:
        _explain_lab(rest if subject in ("lab", "lab-yaml") else path, recursive, as_json)


def _is_below(field: str, path: str) -> bool:
    return field == path or field.startswith((f"{path}.", f"{path}["))


def _is_next(field: str, path: str) -> bool:
    return _is_below(field, path) and "." not in field.removeprefix(path).lstrip(".")


def _explain_lab(path: str, recursive: bool, as_json: bool) -> None:
    from difflib import get_close_matches

    from rackless.spec.explain import CLASSES, fields, plain

    everything = list(fields())
    known = [one for one in everything if not path or _is_below(one.path, path) or _is_below(plain(one.path), path)]
    exact = [one for one in known if path in (one.path, plain(one.path))]
    if path and not recursive and exact and len(known) > 1:
        known = [one for one in known if one in exact or _is_next(plain(one.path), plain(exact[0].path))]
    if not known:
        last = path.rpartition(".")[2]
        ends = {one.path.rpartition(".")[2]: one.path for one in everything}
        # people know the field, and not where it stands
        same = [one.path for one in everything if one.path.rpartition(".")[2] == last]
        near = (
            get_close_matches(path, same, n=1, cutoff=0.0)
            or get_close_matches(path, [one.path for one in everything], n=1)
            or [ends[end] for end in get_close_matches(last, ends, n=1)]
        )
        hint = f"did you mean {near[0]}?" if near else "`rackless explain lab` lists them; or say install-config.FIELD"
        raise InputError(f"a lab has no field {path}", hint=hint)
    if as_json:
        print_json(
            [{"path": f.path, "meaning": f.meaning, "default": f.default, "change": f.change.value} for f in known]
        )
        return
    click.echo(
        "\n\n".join(
            f"{one.path}\n  {one.meaning}"
            + (f"\n  default: {one.default}" if one.default else "")
            + f"\n  change: {one.change}, {CLASSES[one.change]}"
            for one in known
        )
    )
