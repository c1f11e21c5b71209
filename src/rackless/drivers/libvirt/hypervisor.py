"""`ports.hypervisor.Hypervisor` on libvirt. The XML is made in `domain_xml`; here it is given to libvirt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from rackless.drivers.libvirt import domain_xml, firmware_xml, grants
from rackless.drivers.libvirt.binding import libvirt
from rackless.drivers.libvirt.connection import LOST, REBOOT, Connection
from rackless.drivers.libvirt.one_start import ask_for_setup, restore_order
from rackless.drivers.libvirt.places import LibvirtPlaces
from rackless.drivers.libvirt.reading import DomainReader
from rackless.errors import LabError
from rackless.ports.hypervisor import (
    BootDevice,
    FirmwareChoice,
    NoSuchServer,
    Server,
    ServerChange,
    ServerEvent,
    ServerState,
    Unreachable,
)

_TPM_SOCKETS = Path("/run/libvirt/qemu/swtpm")
"""libvirt opens this folder to swtpm and to its usual user for QEMU, not to the user that a definition names."""


class LibvirtHypervisor:
    def __init__(
        self, connection: Connection, platform: domain_xml.Platform | None = None, places: LibvirtPlaces | None = None
    ) -> None:
        """`platform` is needed to define servers, not to drive those there are."""
        self._places = places or LibvirtPlaces()
        self._connection = connection
        self.platform = platform
        self._files = firmware_xml.files() if connection.local else {}
        self._handles: dict[str, tuple[Any, Any]] = {}
        connection.listen(self._forget_handle)
        self._reader = DomainReader(self._files, self._places, local=connection.local)

    async def ensure(self, server: Server) -> bool:
        """A running server goes on as it is; its new hardware counts from its next start."""
        assert self.platform is not None
        xml = domain_xml.render(self._places.of(server), self.platform)

        def work(conn: Any) -> bool:
            if (user := _tpm_user(server)) is not None:
                grants.let_pass(_TPM_SOCKETS, user)
            domain = _lookup(conn, server.name)
            fresh = xml
            if domain is not None:
                defined = domain.XMLDesc(libvirt().VIR_DOMAIN_XML_INACTIVE)
                if domain_xml.key_of(defined) == domain_xml.key_of(xml):
                    return False
                before = domain_xml.parse(defined)
                fresh = domain_xml.with_first(xml, before.boot_first)
                media = self._places.inside(self._places.outside(before.media)) if before.media is not None else None
                if media is not None and media.exists():
                    _open_to(fresh, media)
                    fresh = domain_xml.with_media(fresh, media)
            conn.defineXML(fresh)
            return True

        return await self._connection.call(work)

    async def differs(self, server: Server) -> bool:
        assert self.platform is not None
        key = domain_xml.key_of(domain_xml.render(self._places.of(server), self.platform))

        def work(conn: Any) -> bool:
            if (user := _tpm_user(server)) is not None and not grants.may_pass(_TPM_SOCKETS, user):
                return True  # the folder is new after every start of the computer
            domain = _lookup(conn, server.name)
            return domain is None or domain_xml.key_of(domain.XMLDesc(libvirt().VIR_DOMAIN_XML_INACTIVE)) != key

        return await self._connection.call(work)

    async def retire(self, name: str) -> None:
        def work(conn: Any) -> None:
            domain = _lookup(conn, name)
            if domain is None:
                return
            if domain.isActive():
                domain.destroy()
            domain.undefineFlags(libvirt().VIR_DOMAIN_UNDEFINE_NVRAM)

        await self._connection.call(work)

    async def servers(self) -> list[ServerState]:
        return await self._connection.call(self._reader.observe_all)

    async def observe(self, name: str) -> ServerState | None:
        def work(conn: Any) -> ServerState | None:
            domain = _lookup(conn, name)
            if domain is None:
                return None
            return self._reader.observe(domain, active=bool(domain.isActive()), lasting=bool(domain.isPersistent()))

        return await self._connection.call(work)

    async def power_on(self, name: str, *, boot: BootDevice | None = None) -> None:
        def work(conn: Any) -> None:
            if boot is None:
                self._on_handle(conn, name, lambda domain: _unless(domain, True, domain.create))
                return
            domain = _find(conn, name)
            if domain.isActive():
                return
            if boot is BootDevice.SETUP:
                ask_for_setup(domain)
                domain.create()
                return
            # Started from a changed copy; the definition itself stays as it is.
            defined = domain.XMLDesc(libvirt().VIR_DOMAIN_XML_INACTIVE | libvirt().VIR_DOMAIN_XML_SECURE)
            started = conn.createXML(domain_xml.with_first(defined, boot))
            restore_order(started, defined)

        await self._connection.call(work)

    async def power_off(self, name: str) -> None:
        def work(conn: Any) -> None:
            self._on_handle(conn, name, lambda domain: _unless(domain, False, domain.destroy))

        await self._connection.call(work)

    async def shut_down(self, name: str) -> None:
        await self._when_running(name, lambda domain: domain.shutdown())

    async def reset(self, name: str) -> None:
        await self._when_running(name, lambda domain: domain.reset())

    async def interrupt(self, name: str) -> None:
        await self._when_running(name, lambda domain: domain.injectNMI())

    async def set_boot_first(self, name: str, device: BootDevice) -> None:
        def work(conn: Any) -> None:
            domain = _find(conn, name)
            defined = domain.XMLDesc(libvirt().VIR_DOMAIN_XML_INACTIVE | libvirt().VIR_DOMAIN_XML_SECURE)
            if domain_xml.parse(defined).boot_first is not device:
                conn.defineXML(domain_xml.with_first(defined, device))

        await self._connection.call(work)

    async def set_firmware(self, name: str, choice: FirmwareChoice) -> None:
        def work(conn: Any) -> None:
            domain = _find(conn, name)
            defined = domain.XMLDesc(libvirt().VIR_DOMAIN_XML_INACTIVE | libvirt().VIR_DOMAIN_XML_SECURE)
            element = ET.fromstring(defined)
            if choice not in firmware_xml.offers(element, self._files):
                raise LabError(f"{name} cannot be made to start by {choice.kind.value} firmware that is not there")
            if firmware_xml.chosen(element) != choice:
                conn.defineXML(firmware_xml.with_firmware(defined, choice, self._files))

        await self._connection.call(work)

    async def processor_seconds(self, name: str) -> float:
        def work(conn: Any) -> float:
            domain = _find(conn, name)
            return float(domain.info()[4]) / 1e9 if domain.isActive() else 0.0

        return await self._connection.call(work)

    async def go_on_writing(self) -> list[str]:
        """Resume servers that QEMU paused because a write failed; those paused by a person stay paused."""
        api = libvirt()

        def work(conn: Any) -> list[str]:
            stopped = [
                domain
                for domain in conn.listAllDomains(api.VIR_CONNECT_LIST_DOMAINS_PAUSED)
                if domain.state() == [api.VIR_DOMAIN_PAUSED, api.VIR_DOMAIN_PAUSED_IOERROR]
            ]
            for domain in stopped:
                domain.resume()
            return [domain.name() for domain in stopped]

        return await self._connection.call(work)

    async def insert_media(self, name: str, image: Path) -> None:
        await self._change_media(name, image)

    async def eject_media(self, name: str) -> None:
        await self._change_media(name, None)

    async def events(self) -> AsyncIterator[ServerEvent]:
        queue: asyncio.Queue[tuple[str, int, int]] = asyncio.Queue()
        stop = self._connection.listen(lambda *event: queue.put_nowait(event))
        try:
            await self._connection.call(lambda _: None)  # it is open and subscribed from here on
            while True:
                name, event, _detail = await queue.get()
                if event == LOST:
                    raise Unreachable("the connection to libvirtd was lost")
                if (change := _changes().get(event)) is not None:
                    yield ServerEvent(name, change)
        finally:
            stop()

    def _on_handle(self, conn: Any, name: str, act: Callable[[Any], object]) -> None:
        """Act on a domain by a cached handle instead of looking it up by name: the lookup is half of what a power command costs."""
        known = self._handles.get(name)
        if known is not None and known[0] is conn:
            try:
                act(known[1])
                return
            except libvirt().libvirtError as error:
                if error.get_error_code() != libvirt().VIR_ERR_NO_DOMAIN:
                    raise
        domain = _find(conn, name)
        self._handles[name] = (conn, domain)
        act(domain)

    def _forget_handle(self, name: str, event: int, _detail: int) -> None:
        """A handle is of a UUID: whoever defines a name anew may mean another domain by it."""
        api = libvirt()
        if event in (api.VIR_DOMAIN_EVENT_DEFINED, api.VIR_DOMAIN_EVENT_UNDEFINED):
            self._handles.pop(name, None)

    async def _when_running(self, name: str, act: Any) -> None:
        def work(conn: Any) -> None:
            domain = _find(conn, name)
            try:
                if domain.isActive():
                    act(domain)
            except libvirt().libvirtError:
                if domain.isActive():  # else it went off in between, by another hand
                    raise

        await self._connection.call(work)

    async def _change_media(self, name: str, image: Path | None) -> None:
        def work(conn: Any) -> None:
            api = libvirt()
            domain = _find(conn, name)
            defined = domain.XMLDesc(api.VIR_DOMAIN_XML_INACTIVE | api.VIR_DOMAIN_XML_SECURE)
            shown = self._shown(defined, image)
            if shown is not None:
                _open_to(defined, shown)
            drive = domain_xml.drive_xml(defined, shown)
            if drive is None or not _update(domain, drive, api.VIR_DOMAIN_AFFECT_CONFIG):
                conn.defineXML(domain_xml.with_media(defined, shown))
            if domain.isActive():
                running = domain.XMLDesc(0)
                live = domain_xml.drive_xml(running, self._shown(running, image))
                if live is not None:
                    _update(domain, live, api.VIR_DOMAIN_AFFECT_LIVE)
            _close_to(defined, keep=shown)

        await self._connection.call(work)

    def _shown(self, xml: str, image: Path | None) -> Path | None:
        """Where QEMU finds an image. One that an earlier version started as root does not see what we show the others."""
        if image is None or domain_xml.user_of(ET.fromstring(xml)) is None:
            return image
        return self._places.inside(image)


def _tpm_user(server: Server) -> int | None:
    """The user that must be able to reach a TPM's socket."""
    return server.user if server.tpm and _TPM_SOCKETS.exists() else None


def _open_to(defined: str, image: Path) -> None:
    """Let a server's emulator read an image that others may have in their drives too."""
    if not image.exists():
        return
    user = domain_xml.user_of(ET.fromstring(defined))
    if user is None:
        grants.let_all_read(image)
    else:
        grants.let_read(image, user)


def _close_to(defined: str, keep: Path | None) -> None:
    """Take back the server's permission to read the image that was in its drive."""
    domain = ET.fromstring(defined)
    before, user = domain_xml.parse_element(domain).media, domain_xml.user_of(domain)
    if before is not None and before != keep and user is not None and before.exists():
        grants.forbid(before, user)


def _unless(domain: Any, active: bool, act: Callable[[], object]) -> None:
    """Call libvirt; when it refuses because the state is already the wanted one, that is no error."""
    try:
        act()
    except libvirt().libvirtError:
        if bool(domain.isActive()) is not active:
            raise


def _update(domain: Any, device: str, scope: int) -> bool:
    """False where this kind of hypervisor cannot change a device in place (libvirt's own pretend one)."""
    api = libvirt()
    try:
        domain.updateDeviceFlags(device, scope | api.VIR_DOMAIN_DEVICE_MODIFY_FORCE)
    except api.libvirtError as error:
        if error.get_error_code() == api.VIR_ERR_NO_SUPPORT or "unsupported flags" in str(error):
            return False
        raise
    return True


def _changes() -> dict[int, ServerChange]:
    api = libvirt()
    return {
        api.VIR_DOMAIN_EVENT_STARTED: ServerChange.POWERED_ON,
        api.VIR_DOMAIN_EVENT_STOPPED: ServerChange.POWERED_OFF,
        api.VIR_DOMAIN_EVENT_CRASHED: ServerChange.POWERED_OFF,
        api.VIR_DOMAIN_EVENT_DEFINED: ServerChange.DEFINED,
        api.VIR_DOMAIN_EVENT_UNDEFINED: ServerChange.UNDEFINED,
        REBOOT: ServerChange.REBOOTED,
    }


def _lookup(conn: Any, name: str) -> Any:
    api = libvirt()
    try:
        return conn.lookupByName(name)
    except api.libvirtError as error:
        if error.get_error_code() == api.VIR_ERR_NO_DOMAIN:
            return None
        raise


def _find(conn: Any, name: str) -> Any:
    domain = _lookup(conn, name)
    if domain is None:
        raise NoSuchServer(f"there is no server {name}", hint="`rackless up` defines the servers of the lab")
    return domain
