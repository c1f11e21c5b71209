"""Listening: on loopback by plain HTTP, elsewhere by TLS with a certificate of the lab's own CA."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rackless.errors import HypervisorError, InputError
from rackless.operations.lab_registry import require_lab, require_root
from rackless.ports.drivers import Drivers
from rackless.run.connections import GuardedRunner, GuardedSite
from rackless.run.paths import Roots
from rackless.trust.authority import Use
from rackless.trust.identity import Identity
from rackless.web.access import LOOPBACK_NAMES, WebAccess, is_loopback
from rackless.web.app import make_app
from rackless.web.site import WebSite, Wording

MOST_CONNECTIONS = 256


@dataclass(frozen=True, slots=True)
class WebSettings:
    roots: Roots
    address: str = "127.0.0.1"
    port: int = 0
    """0 is any that is free."""
    read_only: bool = False
    only: str | None = None
    first: str | None = None


@dataclass(frozen=True, slots=True)
class WebPlace:
    """Where the page is: `url` lets one browser in, once."""

    url: str
    port: int
    read_only: bool
    ca: Path | None


async def serve(settings: WebSettings, drivers: Drivers, wording: Wording, ready: Callable[[WebPlace], None]) -> None:
    """Until it is cancelled."""
    loopback, leaf, ca = _check(settings), None, None
    if not loopback:
        assert settings.only is not None
        require_root("read the lab's keys", drivers.computer)
        authority = Identity(require_lab(settings.only, settings.roots)).authority()
        leaf = authority.ensure_leaf("web", _names(settings.address), uses=[Use.SERVER])
        ca = authority.certificate
    listening = _listen(settings)
    port: int = listening.getsockname()[1]
    site = WebSite(
        settings.roots, drivers, WebAccess(settings.read_only), wording, settings.only, settings.first,
        names=LOOPBACK_NAMES if loopback else frozenset(_names(settings.address)),
        cookie=f"rackless-{port}", tls=not loopback,
    )  # fmt: skip
    context = None
    if leaf is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(leaf.certificate, leaf.key)
    runner = GuardedRunner(make_app(site), most=MOST_CONNECTIONS, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await GuardedSite(runner, listening, ssl_context=context).start()
        shown = f"[{settings.address}]" if ":" in settings.address else settings.address
        url = f"{site.scheme}://{shown}:{port}/?token={site.access.make_link()}"
        ready(WebPlace(url, port, settings.read_only, ca))
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _check(settings: WebSettings) -> bool:
    """Whether it is loopback. Raises InputError."""
    try:
        address = ipaddress.ip_address(settings.address)
    except ValueError as error:
        raise InputError(f"{settings.address} is no address", hint="say one that this computer has") from error
    if address.is_unspecified:
        raise InputError(
            "the page is shown at one address of this computer, not at all of them",
            why="browsers that call it by another name are refused",
            hint="say --address with the one that others reach",
        )
    if not address.is_loopback and settings.only is None:
        raise InputError(
            "which lab?",
            why="where it is not loopback the page has a certificate of the lab's CA, and shows that lab only",
            hint="say --name LAB",
        )
    return is_loopback(settings.address)


def _names(address: str) -> list[str]:
    return [address, socket.gethostname().lower()]


def _listen(settings: WebSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.address, settings.port))
    except OSError as error:
        listening.close()
        raise HypervisorError(
            f"cannot listen at {settings.address} port {settings.port}", why=str(error), hint="say another --port"
        ) from error
    return listening
