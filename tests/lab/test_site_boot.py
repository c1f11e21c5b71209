"""What a site's own DHCP server boots servers with, where an installer does not answer."""

from __future__ import annotations

from ipaddress import ip_interface
from pathlib import Path

from rackless.lab import site_boot
from rackless.lab.network_boot import Loaders
from rackless.plan.networks import SITE_BOOT
from rackless.ports.fabric import Network

NETWORK = Network(
    name="provisioning", bridge="provisioning", mac="", gateway=ip_interface("172.22.0.1/24"), domain="", reservations=(),
    records=(), boot=SITE_BOOT,
)  # fmt: skip


def test_the_script_asks_the_bootstrap_and_the_cluster_in_turn_until_one_answers() -> None:
    assert site_boot.render_script(NETWORK).splitlines()[2:] == [
        ":again",
        "chain --timeout 10000 http://172.22.0.2:6180/boot.ipxe ||",
        "chain --timeout 10000 http://172.22.0.3:6180/boot.ipxe ||",
        "sleep 3",
        "goto again",
    ]


def test_whoever_is_not_root_finds_the_loaders_and_the_script_where_dhcp_says(tmp_path: Path) -> None:
    loaders = Loaders(tmp_path / "ipxe", "undionly.kpxe", "snponly.efi")
    loaders.folder.mkdir()
    for name in (loaders.bios, loaders.uefi):
        (loaders.folder / name).write_text(name)
    for _ in range(2):  # also after an earlier iPXE
        site_boot.ensure(tmp_path / "run", loaders, NETWORK)
    folder = tmp_path / SITE_BOOT.folder.lstrip("/")
    assert folder.stat().st_mode & 0o777 == 0o755
    assert (folder / SITE_BOOT.bios).read_text() == "undionly.kpxe"
    assert (folder / SITE_BOOT.uefi).read_text() == "snponly.efi"
    script = folder / SITE_BOOT.script
    assert script.read_text().startswith("#!ipxe\n") and script.stat().st_mode & 0o777 == 0o644
