from pathlib import Path

from rackless.images.trust import write_trusting

from .test_cpio import read_entries


def test_the_ca_stands_in_an_archive_of_its_own_before_the_ramdisk(tmp_path: Path) -> None:
    ramdisk, ca, target = tmp_path / "ramdisk", tmp_path / "ca.crt", tmp_path / "deploy.initramfs"
    ramdisk.write_bytes(b"\x02\x21\x4c\x18 an lz4 stream")
    ca.write_text("-----BEGIN CERTIFICATE-----\n")
    write_trusting(ramdisk, ca, target)

    content = target.read_bytes()
    assert content.endswith(ramdisk.read_bytes())
    archive = content.removesuffix(ramdisk.read_bytes())
    assert len(archive) % 4 == 0, "where the kernel looks for the next one"
    entries = {name: content for name, (_, content, _) in read_entries(archive).items() if content}
    assert entries == {
        "etc/ironic-python-agent/ironic.crt": ca.read_bytes(),
        "etc/ironic-python-agent.d/ironic-tls.conf": b"[DEFAULT]\ncafile = /etc/ironic-python-agent/ironic.crt\n",
    }
