"""A failure as a person sees it: what is wrong, why, what to do, where to read more."""

from __future__ import annotations

import json
import sys

from rich.console import Console
from rich.text import Text

from rackless.errors import RacklessError


def show(error: RacklessError, console: Console | None = None) -> None:
    console = console or Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text.assemble(("error: ", "bold red"), (error.what, "bold")))
    if error.why:
        console.print(Text("\n".join(f"  {line}" for line in error.why.splitlines())))
    if error.log:
        console.print(Text.assemble(("log: ", "dim"), error.log))
    if error.hint:
        console.print(Text.assemble(("do: ", "bold cyan"), error.hint))


def show_json(error: RacklessError) -> None:
    """The failure as a JSON object, for programs: the last line of the output."""
    words = {"kind": type(error).__name__, "what": error.what, "why": error.why, "hint": error.hint, "log": error.log}
    sys.stdout.write(json.dumps({"error": {**words, "exit_code": error.exit_code}}) + "\n")
