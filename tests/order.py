"""In which order files are run: what takes minutes begins early, so that at the end nobody waits for a file that was begun late."""

from __future__ import annotations

import os
import time

import pytest

GUESTS = (
    "tests/real/test_ipi.py",
    "tests/real/test_cluster.py",
    "tests/real/test_provisioning.py",
    "tests/real/test_network_boot.py",
)
"""Their servers install a system, which keeps both processors busy: one after the other, beside files that mostly wait."""
EARLY = (
    "tests/simulation/test_simulator.py",
    "tests/real/test_rehearsal.py",
    "tests/drivers/ironic/test_real_ironic.py",
    "tests/drivers/ironic/test_real_pivot.py",
    "tests/real/test_lab_life.py",
    "tests/real/test_lab_networks.py",
    "tests/real/test_strangers_redfish.py",
    "tests/real/test_lab.py",
    "tests/real/test_bmc_boot.py",
    "tests/bmc/test_validators.py",
    "tests/real/test_stranger.py",
    "tests/real/test_external_ironic.py",
    "tests/drivers/ironic/test_real_ipmi.py",
)
"""Others that take long beside their like, the longest first."""


def longest_first(items: list[pytest.Item]) -> None:
    """The others stay as they are."""
    place = {name: number for number, name in enumerate((*GUESTS, *EARLY))}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(place)))


def agree_on_the_day() -> None:
    """Workers that are started before and after midnight would collect different tests."""
    os.environ.setdefault("RACKLESS_SEED", str(int(time.time() // 86400)))
