"""`python -m rackless.protocol.pass_connection SOCKET ADDRESS PORT`: hand a connection into a lab to an ssh that asked for it.

ssh runs it as its ProxyCommand, with `ProxyUseFdpass`: its standard output is a socket by which ssh takes over the connection.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from rackless.errors import RacklessError
from rackless.protocol.entrance import tcp_inside


def main() -> None:
    place, address, port = sys.argv[1:]
    try:
        with tcp_inside(Path(place), address, int(port)) as connection, socket.socket(fileno=1) as ssh:
            socket.send_fds(ssh, [b"\0"], [connection.fileno()])
    except RacklessError as error:
        sys.exit(f"{error}: {error.why}" if error.why else str(error))


if __name__ == "__main__":
    main()
