"""Every rule there is. `INSTALLER` says what it rejects and when; `EXPERIENCE` what it accepts and dies of."""

from __future__ import annotations

from rackless.installer.install_config.rule import ConfigRule
from rackless.installer.install_config.rules import (
    bgp,
    bootstrap,
    capabilities,
    doomed_bootstrap,
    doomed_hosts,
    doomed_network,
    doubts,
    gates,
    hosts,
    identity,
    mirrors,
    networks,
    platform,
    pools,
    provisioning,
    secrets,
    stacks,
    vips,
)

INSTALLER: tuple[ConfigRule, ...] = (
    *identity.RULES,
    *secrets.RULES,
    *networks.RULES,
    *stacks.RULES,
    *vips.RULES,
    *platform.RULES,
    *hosts.RULES,
    *pools.RULES,
    *mirrors.RULES,
    *capabilities.RULES,
    *gates.RULES,
    *bgp.RULES,
    *provisioning.RULES,
    *bootstrap.RULES,
)
EXPERIENCE: tuple[ConfigRule, ...] = (
    *doomed_network.RULES,
    *doomed_bootstrap.RULES,
    *doomed_hosts.RULES,
    *doubts.RULES,
)
ALL = INSTALLER + EXPERIENCE
