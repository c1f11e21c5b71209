"""`rackless validate`: checks a lab.yaml and reports every problem at once; changes nothing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from rackless.cli.options import (
    DEFAULT_FILE,
    json_option,
    lab_options,
    load_spec,
    old_spellings,
    print_json,
    tell_old_spellings,
)
from rackless.errors import SpecError
from rackless.spec.lab import LabSpec


@click.command()
@lab_options
@json_option()
@click.option("--schema", is_flag=True, help="Print the JSON Schema of lab.yaml instead, for an editor.")
@click.pass_context
def validate(ctx: click.Context, file: Path | None, name: str | None, as_json: bool, schema: bool) -> None:
    """Check the lab's description and say everything that is wrong with it."""
    if schema:
        print_json(LabSpec.model_json_schema())
        return
    file = file or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)  # whatever RACKLESS_LAB names
    if not as_json:
        spec = load_spec(file, name)
        servers = sum(group.count for group in spec.servers.values())
        click.echo(f"{file or 'the description'} is a lab: {spec.name}, {servers} server{'' if servers == 1 else 's'}")
        tell_old_spellings(old_spellings(file), file)
        return
    try:
        spec = load_spec(file, name)
    except SpecError as error:
        print_json({"valid": False, "source": error.source, "problems": [asdict(p) for p in error.problems]})
        ctx.exit(error.exit_code)
    hints = [asdict(hint) for hint in old_spellings(file)]
    print_json({"valid": True, "problems": [], "hints": hints, "spec": spec.model_dump(mode="json")})
