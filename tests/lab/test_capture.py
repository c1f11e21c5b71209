import struct

from rackless.lab.capture import HEADER, concerns, packet

MINE = bytes.fromhex("020000000001")
OTHER = bytes.fromhex("020000000002")
ALL = b"\xff" * 6


def test_frames_from_and_to_the_server_are_kept_and_others_are_not() -> None:
    assert concerns(MINE + OTHER + b"\x08\x00", [MINE])
    assert concerns(ALL + MINE + b"\x08\x06", [MINE])
    assert concerns(ALL + OTHER + b"\x08\x00 an offer for " + MINE, [MINE])
    assert not concerns(ALL + OTHER + b"\x08\x06", [MINE])
    assert not concerns(b"", [MINE])


def test_the_file_is_what_wireshark_reads() -> None:
    assert struct.unpack("!IHH", HEADER[:8]) == (0xA1B2C3D4, 2, 4)
    assert struct.unpack("!IIII", packet(b"x" * 60, 7.5)[:16]) == (7, 500000, 60, 60)
