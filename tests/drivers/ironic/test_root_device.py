import pytest

from rackless.drivers.ironic.root_device import root_device


def test_hints_become_comparisons() -> None:
    hints = {
        "deviceName": "/dev/sda",
        "model": "QEMU",
        "serialNumber": "RL1",
        "minSizeGigabytes": 8,
        "rotational": False,
    }
    assert root_device(hints) == {
        "name": "s== /dev/sda",
        "model": "<in> QEMU",
        "serial": "s== RL1",
        "size": ">= 8",
        "rotational": False,
    }
    assert root_device({"deviceName": "/dev/disk/by-path/pci-0"}) == {"by_path": "s== /dev/disk/by-path/pci-0"}


def test_an_unknown_hint_is_refused_rather_than_left_out() -> None:
    with pytest.raises(ValueError, match="colour is no root device hint"):
        root_device({"colour": "red"})
