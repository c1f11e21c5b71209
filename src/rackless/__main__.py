"""`python -m rackless` is the same as the `rackless` command."""

import signal

ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if ours:  # Ctrl-C while the rest is being loaded: nothing has begun, and a traceback would tell nobody anything
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from rackless.cli.main import main  # noqa: E402

if ours:
    signal.signal(signal.SIGINT, signal.default_int_handler)
main()
