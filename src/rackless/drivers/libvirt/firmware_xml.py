"""The firmware in a definition: which it is, which it could be on this computer, and how to make it that. Pure but for `find`,
which looks for the firmware's files where distributions keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from rackless.ports.hypervisor import Firmware, FirmwareChoice

OVMF = (
    # code, variables: where the distributions keep the firmware without secure boot
    ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ("/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"),
    ("/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"),
    ("/usr/share/edk2/x64/OVMF_CODE.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"),
)

OVMF_SECURE = (
    # code that insists on signatures, variables with Microsoft's keys
    ("/usr/share/OVMF/OVMF_CODE_4M.secboot.fd", "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"),
    ("/usr/share/OVMF/OVMF_CODE.secboot.fd", "/usr/share/OVMF/OVMF_VARS.ms.fd"),
    ("/usr/share/edk2/ovmf/OVMF_CODE.secboot.fd", "/usr/share/edk2/ovmf/OVMF_VARS.secboot.fd"),
    ("/usr/share/edk2/x64/OVMF_CODE.secboot.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"),
)

LEGACY = FirmwareChoice(Firmware.BIOS)
UEFI = FirmwareChoice(Firmware.UEFI)
SECURE = FirmwareChoice(Firmware.UEFI, secure_boot=True)

Files = Mapping[FirmwareChoice, tuple[Path, Path] | None]
"""Code and variables of each firmware this computer has; BIOS comes with QEMU and has none."""

_FOLDER = Path("/var/lib/libvirt/qemu/nvram")
_MARK = ".secure"
_NAMESPACE = "https://rackless.invalid/firmware/1"
ET.register_namespace("rackless-firmware", _NAMESPACE)
_NOTE = f"{{{_NAMESPACE}}}variables"
"""Kept beside a definition with BIOS: where the variables of its UEFI are, for when it has that again."""


def find(places: Sequence[tuple[str, str]]) -> tuple[Path, Path] | None:
    pairs = ((Path(code), Path(variables)) for code, variables in places)
    return next((pair for pair in pairs if all(path.exists() for path in pair)), None)


def files() -> Files:
    found: dict[FirmwareChoice, tuple[Path, Path] | None] = {LEGACY: None}
    for choice, places in ((UEFI, OVMF), (SECURE, OVMF_SECURE)):
        if (pair := find(places)) is not None:
            found[choice] = pair
    return found


def chosen(domain: ET.Element) -> FirmwareChoice:
    loader = domain.find("os/loader")
    if domain.find("os[@firmware='efi']") is None and (loader is None or loader.get("type") != "pflash"):
        return LEGACY
    feature = domain.find("os/firmware/feature[@name='secure-boot']")
    secure = (loader is not None and loader.get("secure") == "yes") or (
        feature is not None and feature.get("enabled") == "yes"
    )
    return SECURE if secure else UEFI


def offers(domain: ET.Element, files: Files) -> frozenset[FirmwareChoice]:
    """Secure boot needs a chipset that can keep the system out of the firmware's memory."""
    kind = domain.find("os/type")
    if kind is None or domain.get("type") not in ("qemu", "kvm") or kind.get("arch") != "x86_64":
        return frozenset({chosen(domain)})
    q35 = "q35" in kind.get("machine", "")
    return frozenset({chosen(domain), *(one for one in files if q35 or not one.secure_boot)})


def nvram(domain: ET.Element) -> Path | None:
    """Where its variables are kept, when the definition says so."""
    text = domain.findtext("os/nvram", "")
    return Path(text) if text else None


def template(domain: ET.Element) -> Path | None:
    """What its variables are made from at the first start."""
    element = domain.find("os/nvram")
    text = element.get("template", "") if element is not None else ""
    return Path(text) if text else None


def _noted(domain: ET.Element) -> Path | None:
    text = domain.findtext(f"metadata/{_NOTE}", "")
    return Path(text) if text else None


def _note(domain: ET.Element, place: Path) -> None:
    metadata = domain.find("metadata")
    if metadata is None:
        metadata = ET.SubElement(domain, "metadata")
    for element in metadata.findall(_NOTE):
        metadata.remove(element)
    ET.SubElement(metadata, _NOTE).text = str(place)


def with_firmware(xml: str, choice: FirmwareChoice, files: Files) -> str:
    """The definition with this firmware. Each kind of UEFI keeps its variables in a file of its own."""
    domain = ET.fromstring(xml)
    os, features = domain.find("os"), domain.find("features")
    assert os is not None
    place = nvram(domain) or _noted(domain) or _FOLDER / f"{domain.findtext('name')}_VARS.fd"
    os.attrib.pop("firmware", None)
    for tag in ("loader", "nvram", "firmware"):
        for element in os.findall(tag):
            os.remove(element)
    if features is None:
        features = ET.SubElement(domain, "features")
    for element in features.findall("smm"):
        features.remove(element)
    if (pair := files[choice]) is not None:
        code, variables = pair
        stem = place.stem.removesuffix(_MARK) + (_MARK if choice.secure_boot else "")
        kind = os.find("type")
        at = list(os).index(kind) + 1 if kind is not None else 0
        loader = ET.Element("loader", readonly="yes", type="pflash")
        if choice.secure_boot:
            loader.set("secure", "yes")
        loader.text = str(code)
        store = ET.Element("nvram", template=str(variables))
        store.text = str(place.with_name(stem + place.suffix))
        os[at:at] = [loader, store]
    else:
        _note(domain, place)
    if choice.secure_boot:
        ET.SubElement(features, "smm", state="on")
    return ET.tostring(domain, encoding="unicode")
