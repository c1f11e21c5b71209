"""As a program, kept running by systemd: `python -m rackless.node.vip.main ADDRESS INTERFACE HEALTH-PORT FOLDER`.

FOLDER has etcd's `ca.crt` and a client's `client.crt` and `client.key`. It starts on every control plane: on an emulated one each
module that it loads counts.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

from rackless.node.vip.address import MovingAddress
from rackless.node.vip.holding import LOOK_SECONDS, VipHolder
from rackless.node.vip.record import EtcdRecord, trust

KEY = "/vip/{address}"
"""Not below `/rackless/`, where the API keeps its objects."""
BALANCER_SECONDS = 2.0


def main(arguments: list[str] | None = None) -> None:
    address, interface, port, folder = sys.argv[1:] if arguments is None else arguments
    keys = Path(folder)
    tls = trust(*(keys / name for name in ("ca.crt", "client.crt", "client.key")))
    record = EtcdRecord("127.0.0.1", KEY.format(address=address), tls)
    place = MovingAddress(address, interface)
    holder = VipHolder(
        f"{os.uname().nodename} ({place.mac})",  # of two machines with one name each would take the record for its own
        record,
        place,
        lambda: balancer_is_ready(int(port)),
        time.monotonic,
        lambda what: _say(f"{address}: {what}"),
    )
    asked = _asked_to_end()
    while True:
        begun = time.monotonic()
        holder.step()
        if select.select([asked], [], [], max(0.1, LOOK_SECONDS - (time.monotonic() - begun)))[0]:
            holder.leave()
            return


def balancer_is_ready(port: int) -> bool | None:
    """Whether haproxy reports a ready API server; None when haproxy does not answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), BALANCER_SECONDS) as line:
            line.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
            answer = line.recv(64)
    except OSError:
        return None
    return answer.split()[1:2] == [b"200"] if answer else None


def _asked_to_end() -> int:
    """A file descriptor that becomes readable on SIGTERM and SIGINT: the signal must not interrupt a write to etcd."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, frame: None)
    return reader


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
