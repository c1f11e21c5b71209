"""Reading the body of an HTTP request within limits of size, of time and of what a compressed (gzip, deflate) one inflates to.

To be called when the caller is known: nothing is inflated for strangers. For servers made with `run.connections`, which
hand bodies on as they came.
"""

from __future__ import annotations

import asyncio
import zlib

from aiohttp import web

_STEP = 128 * 1024
_FREE = 64 * 1024
_RATIO = 200
"""Text of any use compresses fifty times at most; deflate itself reaches a thousand."""
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class BodyTooLarge(Exception):
    """The body, or what it inflates to, is larger than it may be."""


class BodyTooSlow(Exception):
    """The body did not come in time."""


class BodyUnreadable(Exception):
    """The body ends too early, or is not compressed as it says."""


class EncodingUnknown(Exception):
    """A content encoding that is not understood."""


async def read_body(request: web.BaseRequest, most: int, within: float = 60.0) -> bytes:
    """The body, inflated where it is compressed. Raises one of the exceptions of this module."""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", *_WINDOWS):
        raise EncodingUnknown(encoding)
    if (request.content_length or 0) > most:
        raise BodyTooLarge(f"{request.content_length} bytes, of {most} at most")
    if not request.body_exists:
        return b""
    await _invite(request)
    content = request.content
    if content.is_eof() and encoding in ("", "identity"):  # most bodies came with their header
        raw = await content.read()
        return _within(raw, most)
    try:
        async with asyncio.timeout(within):
            if encoding in _WINDOWS:
                return await _inflated(request, zlib.decompressobj(_WINDOWS[encoding]), most)
            parts, size = [], 0
            while not content.at_eof():
                parts.append(await content.readany())
                size += len(parts[-1])
                if size > most:
                    raise BodyTooLarge(f"more than {most} bytes")
            return b"".join(parts)
    except TimeoutError:
        raise BodyTooSlow(f"the body did not come within {within:.0f} seconds") from None
    except (web.RequestPayloadError, zlib.error) as error:
        raise BodyUnreadable(str(error)) from error


def _within(raw: bytes, most: int) -> bytes:
    if len(raw) > most:
        raise BodyTooLarge(f"more than {most} bytes")
    return raw


async def _invite(request: web.BaseRequest) -> None:
    """Answer `Expect: 100-continue`: the caller is known by now, so it may send the body."""
    if (
        request.headers.get("Expect", "").lower() == "100-continue"
        and request.transport
        and not request.content.is_eof()
    ):
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def _inflated(request: web.BaseRequest, inflate: zlib._Decompress, most: int) -> bytes:
    parts: list[bytes] = []
    taken = made = 0
    while not request.content.at_eof():
        raw = await request.content.readany()
        taken += len(raw)
        while raw and not inflate.eof:
            parts.append(inflate.decompress(raw, _STEP))
            made += len(parts[-1])
            if taken > most or made > most or made > max(_FREE, taken * _RATIO):
                raise BodyTooLarge(f"a compressed body that inflates to more than {min(most, taken * _RATIO)} bytes")
            raw = inflate.unconsumed_tail
            await asyncio.sleep(0)
        if inflate.unused_data or (raw and inflate.eof):
            raise BodyUnreadable("there is something after the compressed body")
    if taken and not inflate.eof:
        raise BodyUnreadable("the compressed body is cut off")
    return b"".join(parts)
