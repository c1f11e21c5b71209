"""Domains of libvirt as `ServerState`s. What a definition says is parsed once, and again when it says something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from rackless.drivers.libvirt import domain_xml, firmware_xml
from rackless.drivers.libvirt.binding import libvirt
from rackless.drivers.libvirt.places import LibvirtPlaces
from rackless.ports.hypervisor import Disk, Power, ServerState


class DomainReader:
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


def _capacity(domain: Any, path: Path) -> int:
    try:
        return int(domain.blockInfo(str(path))[0])
    except libvirt().libvirtError:
        return 0
