"""What Ironic is told on the machine that runs metal3."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from rackless.operations.bootstrap import metal3 as bootstrap_metal3


@pytest.mark.parametrize("over_network", [False, True])
def test_ironic_speaks_ipmi_where_hosts_boot_over_the_network_and_starts_quicker_elsewhere(
    over_network: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap_metal3, "STATE", tmp_path / "state")
    payload = tmp_path / "payload"
    (payload / "deploy").mkdir(parents=True)
    (payload / "deploy/initramfs").write_bytes(b"ramdisk")
    address = ip_address("172.22.0.2")
    lines = bootstrap_metal3._config(address, payload, keeps=True, network_boot=over_network).render().splitlines()
    assert f"enabled_hardware_types = redfish{',ipmi' if over_network else ''}" in lines
    assert f"enabled_power_interfaces = redfish{',ipmitool' if over_network else ''}" in lines
    assert f"isolinux_bin = {payload}/isolinux/isolinux.bin" in lines
    assert f"ldlinux_c32 = {payload}/isolinux/ldlinux.c32" in lines
