"""A proxy between an installer and libvirtd: without KVM a domain with `host-passthrough` gets an emulated processor instead, and
one whose serial console nobody keeps gets a log of it.

Passes libvirt's messages on between two sockets and rewrites these things in the definitions.
"""

from __future__ import annotations

import asyncio
import re
import struct
import sys
from contextlib import closing, suppress
from pathlib import Path

REMOTE = 0x20008086
"""The program number of libvirt's own protocol."""
DEFINITIONS = (11, 350)
"""Calls that define a domain; the definition is their first argument."""
EMULATED = {
    rb'<cpu mode="host-passthrough"\s*(/>|></cpu>)': (
        b"<cpu mode='custom' match='exact' check='none'><model fallback='forbid'>Nehalem</model></cpu>"
    ),
}
_VCPUS = rb"<vcpu[^>]*>\d+</vcpu>"
_NAME = rb"<name>([^<]*)</name>"
_LOG = b"<serial type='pty'><log file='/var/log/libvirt/qemu/%s-serial0.log' append='on'/></serial></devices>"
"""As installers from 4.22 on define it themselves."""
_HEAD = struct.Struct(">IIIIII")
MOST_BYTES = 32 << 20
"""Of a message, as in libvirt itself (VIR_NET_MESSAGE_MAX)."""


def rewrite(body: bytes, vcpus: int = 1) -> bytes:
    """A message without its length: a head, then the arguments, each padded to four bytes. Of emulated processors a machine gets
    as few as will do: they wait for each other. With none (`vcpus` is 0) its processors stay as they are."""
    program, _, procedure, kind, _, _ = _HEAD.unpack_from(body)
    if program != REMOTE or kind != 0 or procedure not in DEFINITIONS:
        return body
    (length,) = struct.unpack_from(">I", body, _HEAD.size)
    start = _HEAD.size + 4
    rest = body[start + length + -length % 4 :]
    xml = body[start : start + length]
    if vcpus:
        for wanted, emulated in EMULATED.items():
            xml = re.sub(wanted, emulated, xml)
        xml = re.sub(_VCPUS, f"<vcpu>{vcpus}</vcpu>".encode(), xml)
    if b"<log " not in xml and (name := re.search(_NAME, xml)) is not None:
        xml = xml.replace(b"</devices>", _LOG % name[1])
    return body[: _HEAD.size] + struct.pack(">I", len(xml)) + xml + bytes(-len(xml) % 4) + rest


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, vcpus: int | None) -> None:
    """Without `vcpus` as it is. What is not libvirt's protocol ends the connection, at both ends."""
    with closing(sink), suppress(asyncio.IncompleteReadError, ConnectionError, struct.error):
        while True:
            (length,) = struct.unpack(">I", await source.readexactly(4))
            if not 4 + _HEAD.size <= length <= MOST_BYTES:
                break  # not libvirt's
            body = await source.readexactly(length - 4)
            body = rewrite(body, vcpus) if vcpus is not None else body
            sink.write(struct.pack(">I", len(body) + 4) + body)
            await sink.drain()


async def listen(place: str, target: str, vcpus: int = 1) -> asyncio.Server:
    """Pass on what comes to a socket at `place`; open when this returns."""

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_daemon, to_daemon = await asyncio.open_unix_connection(target)
        except OSError:  # libvirtd is not there: its client sees the connection closed, as it would without us
            writer.close()
            return
        await asyncio.gather(_pass_on(reader, to_daemon, vcpus=vcpus), _pass_on(from_daemon, writer, vcpus=None))

    Path(place).unlink(missing_ok=True)
    return await asyncio.start_unix_server(client, place)


async def _serve(place: str, target: str) -> None:
    await (await listen(place, target)).serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:3]))
