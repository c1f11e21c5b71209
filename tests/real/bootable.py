"""The smallest things a server can boot: they say a word on the serial console, and then stop or restart the computer."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from rackless.images import gpt

SECTOR = 512


def boot_sector(word: str, *, restart: bool) -> bytes:
    """For BIOS: at 0x7c00, in 16 bits."""
    start = bytes.fromhex("fa ea 06 7c 00 00 31 c0 8e d8 8e d0 bc 00 7c fb")  # a known cs, ds, ss and sp
    # every byte of the text to the first serial port, when it is ready
    say = bytes.fromhex("ac 84 c0 74 12 88 c4 ba fd 03 ec a8 20 74 fb 88 e0 ba f8 03 ee eb e9")
    wait = bytes.fromhex("b4 86 b9 1e 00 ba 80 84 cd 15")  # two seconds
    end = wait + bytes.fromhex("b0 fe e6 64") if restart else b""  # the keyboard controller pulls the reset line
    halt = bytes.fromhex("f4 eb fd")
    code_length = len(start) + 3 + len(say) + len(end) + len(halt)
    point = bytes([0xBE]) + (0x7C00 + code_length).to_bytes(2, "little")
    content = start + point + say + end + halt + f"{word}\r\n".encode() + b"\0"
    return content.ljust(SECTOR - 2, b"\0") + b"\x55\xaa"


def efi_program(folder: Path, word: str, *, restart: bool) -> Path:
    """For UEFI: GRUB with a script inside."""
    script, program = folder / f"{word}.cfg", folder / f"{word}.efi"
    end = "sleep 2\nreboot\n" if restart else "while true; do sleep 60; done\n"
    script.write_text(f"serial --unit=0 --speed=115200\nterminal_output serial\necho {word}\n{end}")
    subprocess.run(
        ["grub-mkstandalone", "-O", "x86_64-efi", "-o", str(program), "--locales=", "--fonts=", "--themes=",
         "--install-modules=serial terminal echo sleep reboot true test normal", "--modules=serial terminal",
         f"boot/grub/grub.cfg={script}"],
        check=True, capture_output=True,
    )  # fmt: skip
    return program


def esp(folder: Path, program: Path) -> Path:
    """A FAT file system with the program where firmware looks for it."""
    return esp_with(program.with_suffix(".esp"), {"EFI/BOOT/BOOTX64.EFI": program})


def esp_with(image: Path, files: Mapping[str, Path]) -> Path:
    """A FAT file system with these files, by their paths in it."""
    image.write_bytes(bytes(((sum(file.stat().st_size for file in files.values()) >> 20) + 2) << 20))
    subprocess.run(["mkfs.vfat", str(image)], check=True, capture_output=True)
    folders = {folder for place in files for folder in Path(place).parents if folder != Path()}
    for folder in sorted(folders):
        subprocess.run(["mmd", "-i", str(image), f"::/{folder}"], check=True)
    for place, file in files.items():
        subprocess.run(["mcopy", "-i", str(image), str(file), f"::/{place}"], check=True)
    return image


def iso(folder: Path, word: str, *, uefi: bool) -> Path:
    """A CD that says the word and then restarts the computer."""
    tree, target = folder / f"{word}-tree", folder / f"{word}.iso"
    tree.mkdir()
    if uefi:
        boot = esp(folder, efi_program(folder, word, restart=True))
        (tree / "boot.img").write_bytes(boot.read_bytes())
        how = ["-e", "boot.img", "-no-emul-boot"]
    else:
        (tree / "boot.img").write_bytes(boot_sector(word, restart=True).ljust(2048, b"\0"))
        how = ["-b", "boot.img", "-no-emul-boot", "-boot-load-size", "4"]
    subprocess.run(["xorriso", "-as", "mkisofs", "-o", str(target), *how, str(tree)], check=True, capture_output=True)
    return target


def disk(folder: Path, word: str, *, uefi: bool) -> Path:
    """A disk that says the word and goes on for ever."""
    target = folder / f"{word}.raw"
    if uefi:  # a file system without a partition table is removable media to the firmware, and good enough for it
        esp(folder, efi_program(folder, word, restart=False)).rename(target)
    else:
        target.write_bytes(boot_sector(word, restart=False).ljust(1 << 20, b"\0"))
    return target


def partitioned_disk(folder: Path, word: str) -> Path:
    """For UEFI: a disk with a partition table, as images are that are installed; it says the word for ever."""
    target = folder / f"{word}.raw"
    program = esp(folder, efi_program(folder, word, restart=False))
    gpt.write(target, [gpt.Partition(gpt.EFI_SYSTEM, "ESP", program)], word)
    return target
