import zlib

import pytest

from rackless.lab.screen import ppm_to_png


def test_a_dumped_screen_becomes_a_png_with_the_same_pixels() -> None:
    png = ppm_to_png(b"P6\n2 1\n255\n" + bytes([255, 0, 0, 0, 0, 255]))
    assert png.startswith(b"\x89PNG")
    data = png[png.index(b"IDAT") + 4 : png.index(b"IEND") - 8]
    assert zlib.decompress(data) == bytes([0, 255, 0, 0, 0, 0, 255])


def test_something_else_is_not_taken_for_a_picture() -> None:
    with pytest.raises(ValueError, match="not a picture"):
        ppm_to_png(b"P3\n1 1\n255\n")
