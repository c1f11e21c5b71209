"""One connection to libvirtd: calls in threads, events in the loop, reconnection when the daemon was restarted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from rackless.drivers.libvirt.binding import libvirt
from rackless.errors import LabError
from rackless.ports.hypervisor import Unreachable

T = TypeVar("T")
Listener = Callable[[str, int, int], None]
"""(domain name, libvirt's event, its detail); called in the event loop."""

REBOOT = -1
"""Stands in for a lifecycle event when the guest rebooted."""

LOST = -2
"""Said with no name when the connection is gone: what happens from then on is not known."""


class Connection:
    """`call` runs one function with the open connection; it is the only way to reach libvirt."""

    def __init__(self, uri: str = "qemu:///system") -> None:
        self.uri = uri
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="libvirt")
        self._lock = threading.Lock()
        self._open: Any = None
        self._listeners: list[Listener] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pump: threading.Thread | None = None
        self._closing = False

    @property
    def local(self) -> bool:
        """Whether its servers' files are this computer's."""
        return not urlsplit(self.uri).netloc

    async def call(self, work: Callable[[Any], T]) -> T:
        self._loop = asyncio.get_running_loop()
        return await self._loop.run_in_executor(self._pool, self._call, work)

    def listen(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def close(self) -> None:
        self._closing = True
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _call(self, work: Callable[[Any], T]) -> T:
        try:
            return work(self._connection())
        except libvirt().libvirtError as error:
            if self._open is None or not self._open.isAlive():
                raise Unreachable("libvirtd does not answer", why=str(error)) from error
            raise LabError("libvirt refused", why=str(error)) from error

    def _connection(self) -> Any:
        api = libvirt()
        with self._lock:
            if self._open is None or not self._open.isAlive():
                api.registerErrorHandler(lambda *_: None, None)  # it would print
                self._start_pump(api)
                self._open = api.open(self.uri)
                with suppress(api.libvirtError):  # a driver inside this process has no connection to keep
                    self._open.setKeepAlive(5, 3)
                self._subscribe(api)
            return self._open

    def _start_pump(self, api: Any) -> None:
        if self._pump is None:
            api.virEventRegisterDefaultImpl()
            self._pump = threading.Thread(target=self._run_pump, args=(api,), name="libvirt-events", daemon=True)
            self._pump.start()

    def _run_pump(self, api: Any) -> None:
        # a timer, so that the pump wakes up to see that it should end
        api.virEventAddTimeout(500, lambda *_: None, None)
        while not self._closing:
            api.virEventRunDefaultImpl()

    def _subscribe(self, api: Any) -> None:
        def lifecycle(_conn: Any, domain: Any, event: int, detail: int, _opaque: Any) -> None:
            self._tell(domain.name(), event, detail)

        def reboot(_conn: Any, domain: Any, _opaque: Any) -> None:
            self._tell(domain.name(), REBOOT, 0)

        self._open.domainEventRegisterAny(None, api.VIR_DOMAIN_EVENT_ID_LIFECYCLE, lifecycle, None)
        self._open.domainEventRegisterAny(None, api.VIR_DOMAIN_EVENT_ID_REBOOT, reboot, None)
        self._open.registerCloseCallback(lambda *_: self._tell("", LOST, 0), None)

    def _tell(self, name: str, event: int, detail: int) -> None:
        if self._loop is not None and not self._loop.is_closed():
            for listener in tuple(self._listeners):
                self._loop.call_soon_threadsafe(listener, name, event, detail)
