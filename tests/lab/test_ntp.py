import asyncio
import socket
import struct

from rackless.lab.ntp import TimeServer, answer

QUESTION = b"\x23" + b"\0" * 39 + struct.pack("!Q", 0x1234567890ABCDEF)


def test_the_answer_repeats_the_clients_stamp_and_carries_the_time() -> None:
    reply = answer(QUESTION, 1_000_000_000.5, 1_000_000_000.5)
    assert reply is not None and len(reply) == 48
    assert (reply[0] & 7, reply[0] >> 3 & 7) == (4, 4)
    assert reply[24:32] == QUESTION[40:48]
    assert struct.unpack("!II", reply[40:48]) == (1_000_000_000 + 2_208_988_800, 1 << 31)


def test_what_is_not_a_clients_question_is_not_answered() -> None:
    assert answer(b"", 0, 0) is None
    assert answer(b"\x24" + b"\0" * 47, 0, 0) is None, "a server's answer"


async def test_it_answers_on_the_wire() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = TimeServer("127.0.0.1", port)
    assert await server.start() and not await server.start()

    def ask() -> bytes:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(5)
            sock.sendto(QUESTION, ("127.0.0.1", port))
            return sock.recv(100)

    assert len(await asyncio.to_thread(ask)) == 48
    server.stop()
