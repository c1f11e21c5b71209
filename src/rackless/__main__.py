"""`python -m rackless` is the same as the `rackless` command."""

from rackless.cli.main import main

main()
