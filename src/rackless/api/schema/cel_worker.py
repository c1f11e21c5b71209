"""The program `python -m rackless.api.schema.cel_worker`: evaluates the expressions that `cel_child` sends it."""

from __future__ import annotations

import json
import pickle
import resource
import signal
import sys

from rackless.api.schema.cel import Broken, Expression, Unsupported
from rackless.api.schema.cel_child import SECONDS, receive, send

_MEMORY = 1 << 30


def _main() -> None:
    """Until the other side closes. A timer of processor time ends us, without a word, in the middle of anything."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    known: dict[str, Expression] = {}
    while True:
        try:
            text, variables = pickle.loads(receive(sys.stdin.buffer))
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            if text not in known:
                if len(known) > 1000:
                    known.clear()
                known[text] = Expression(text)
            value, problem = known[text].value_here(variables), ""
        except (Broken, Unsupported) as error:
            value, problem = None, str(error)
        signal.setitimer(signal.ITIMER_PROF, 0)
        kept = value if isinstance(value, bool | str) else None
        send(sys.stdout.buffer, json.dumps([kept, problem]).encode())


if __name__ == "__main__":
    _main()
