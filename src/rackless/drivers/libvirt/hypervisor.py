"""`ports.hypervisor.Hypervisor` on libvirt. The XML is made in `domain_xml`; here it is given to libvirt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from rackless.drivers.libvirt import domain_xml, firmware_xml, grants, nvram
from rackless.drivers.libvirt.binding import libvirt, libvirt_qemu
from rackless.drivers.libvirt.connection import LOST, REBOOT, Connection
from rackless.drivers.libvirt.places import LibvirtPlaces
from rackless.errors import LabError
from rackless.ports.hypervisor import (
    BootDevice,
    Disk,
    FirmwareChoice,
    NoSuchServer,
    Power,
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
        self._eyes = _Eyes(self._files, self._places, local=connection.local)

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
        return await self._connection.call(self._eyes.observe_all)

    async def observe(self, name: str) -> ServerState | None:
        def work(conn: Any) -> ServerState | None:
            domain = _lookup(conn, name)
            if domain is None:
                return None
            return self._eyes.observe(domain, active=bool(domain.isActive()), lasting=bool(domain.isPersistent()))

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
                _ask_for_setup(domain)
                domain.create()
                return
            # Started from a changed copy; the definition itself stays as it is.
            defined = domain.XMLDesc(libvirt().VIR_DOMAIN_XML_INACTIVE | libvirt().VIR_DOMAIN_XML_SECURE)
            started = conn.createXML(domain_xml.with_first(defined, boot))
            _restore_order(started, defined)

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
        """Let servers go on that QEMU stopped because they could not write; those stopped by a person stay so."""
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
        """Act on a domain without asking for it by name first, where it is known: half of what a power command costs."""
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
    """Who has to be let through to a TPM's socket."""
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
    """The image that was in the drive is not this server's to read any more."""
    domain = ET.fromstring(defined)
    before, user = domain_xml.parse_element(domain).media, domain_xml.user_of(domain)
    if before is not None and before != keep and user is not None and before.exists():
        grants.forbid(before, user)


def _unless(domain: Any, active: bool, act: Callable[[], object]) -> None:
    """Act; that it was so already is no error, and is asked only of who refuses."""
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


class _Eyes:
    """Looks at domains; what a definition says is read once, and again when it says something else."""

    def __init__(self, files: firmware_xml.Files, places: LibvirtPlaces, *, local: bool) -> None:
        self._files = files
        self._places = places
        self._local = local
        self._known: dict[str, tuple[str, ServerState]] = {}

    def observe(self, domain: Any, *, active: bool, lasting: bool) -> ServerState:
        xml = domain.XMLDesc(libvirt().VIR_DOMAIN_XML_INACTIVE)
        power = Power.ON if active else Power.OFF
        known = self._known.get(domain.name())
        if known is not None and known[0] == xml and all(disk.size_bytes for disk in known[1].disks):
            same = known[1].power is power and known[1].lasting is lasting
            return known[1] if same else replace(known[1], power=power, lasting=lasting)
        state = replace(self._read(domain, xml, power), lasting=lasting)
        self._known[state.name] = (xml, state)
        return state

    def observe_all(self, conn: Any) -> list[ServerState]:
        """One question per domain, not three: which of them run, and which have no definition, is asked once."""
        api = libvirt()
        domains = conn.listAllDomains()
        active = {domain.name() for domain in conn.listAllDomains(api.VIR_CONNECT_LIST_DOMAINS_ACTIVE)}
        passing = {domain.name() for domain in conn.listAllDomains(api.VIR_CONNECT_LIST_DOMAINS_TRANSIENT)}
        seen = (self._unless_gone(one, one.name() in active, one.name() not in passing) for one in domains)
        found = [state for state in seen if state is not None]
        names = {state.name for state in found}
        self._known = {name: known for name, known in self._known.items() if name in names}
        return found

    def _unless_gone(self, domain: Any, active: bool, lasting: bool) -> ServerState | None:
        """None when it was undefined after it was listed."""
        try:
            return self.observe(domain, active=active, lasting=lasting)
        except libvirt().libvirtError as error:
            if error.get_error_code() == libvirt().VIR_ERR_NO_DOMAIN:
                return None
            raise

    def _read(self, domain: Any, xml: str, power: Power) -> ServerState:
        element = ET.fromstring(xml)
        parsed = domain_xml.parse_element(element)
        return ServerState(
            name=parsed.name,
            uuid=parsed.uuid,
            power=power,
            memory_mib=parsed.memory_mib,
            vcpus=parsed.vcpus,
            firmware=parsed.firmware.kind,
            macs=parsed.macs,
            disks=tuple(self._disk(domain, path, serial) for path, serial in parsed.disks),
            media=self._places.outside(parsed.media) if parsed.media is not None else None,
            boot_first=parsed.boot_first,
            secure_boot=parsed.firmware.secure_boot,
            offers=firmware_xml.offers(element, self._files),
            setup_screen=self._local and firmware_xml.nvram(element) is not None,
        )

    def _disk(self, domain: Any, path: Path, serial: str) -> Disk:
        """One that an earlier version started has its disk by the path that we see."""
        ours = self._places.outside(path)
        return Disk(ours, _capacity(domain, path) or _capacity(domain, ours), serial)


def _ask_for_setup(domain: Any) -> None:
    """Through the firmware's own variables, which are a file while the server is off."""
    defined = ET.fromstring(domain.XMLDesc(libvirt().VIR_DOMAIN_XML_INACTIVE))
    path, template = firmware_xml.nvram(defined), firmware_xml.template(defined)
    if path is None:
        raise LabError(f"{domain.name()} has no set-up screen", why="its firmware keeps no variables")
    try:
        if not path.exists() and template is not None:  # it was never started
            path.touch(mode=0o600)
            path.write_bytes(template.read_bytes())
        with path.open("r+b") as file:
            changed = nvram.ask_for_setup(file.read())
            file.seek(0)
            file.write(changed)
    except (OSError, nvram.NotUnderstood) as error:
        raise LabError(
            f"the firmware of {domain.name()} cannot be asked for its set-up screen", why=str(error)
        ) from error


def _capacity(domain: Any, path: Path) -> int:
    try:
        return int(domain.blockInfo(str(path))[0])
    except libvirt().libvirtError:
        return 0


def _restore_order(started: Any, defined: str) -> None:
    """Let a reboot by the guest itself use the defined order.

    The firmware has already been handed the order of this start; QEMU builds the next one from the devices' indexes at
    the next reset. Two devices cannot have one index, so all are cleared before they are set.
    """
    live = ET.fromstring(started.XMLDesc(0))
    if live.get("type") not in ("qemu", "kvm"):
        return
    order = ET.fromstring(defined)
    wanted: dict[str, int] = {}
    for device in BootDevice:
        for running, place in zip(domain_xml.bootable(live, device), domain_xml.places(order, device), strict=True):
            if (alias := running.find("alias")) is not None:
                wanted[alias.get("name", "")] = -1 if place is None else place
    for name in wanted:
        _set_index(started, name, -1)
    for name, place in wanted.items():
        if place >= 0:
            _set_index(started, name, place)


def _set_index(domain: Any, alias: str, index: int) -> None:
    command = {
        "execute": "qom-set",
        "arguments": {"path": f"/machine/peripheral/{alias}", "property": "bootindex", "value": index},
    }
    libvirt_qemu().qemuMonitorCommand(domain, json.dumps(command), 0)
