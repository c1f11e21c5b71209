"""Where the sockets of BMCs are made: in the network namespace they live in, which need not be the process's own."""

from __future__ import annotations

import socket
from collections.abc import Callable

MakeSocket = Callable[[int, int, int], socket.socket]
"""From family, type and protocol; a socket stays in the namespace it was made in, whoever binds or connects it."""
