"""What a full rehearsal is otherwise than the site, and what it cannot install yet: seen in the install-config, before anything is
made."""

from __future__ import annotations

from rackless.cluster.openshift import translation
from rackless.errors import InputError
from rackless.installer.install_config.checking import read_config

FULL_DEVIATIONS = (
    "servers get the reference system, written by Ironic, where the manifests say install_coreos",
    "certificates of BMCs are not verified: the twin's are of the lab's CA",
)


def refuse_full(text: str, *, failing: bool = False) -> None:
    """Before anything is made: what the bootstrap of a full rehearsal cannot install yet. Raises InputError."""
    if failing:
        raise InputError(
            "failures on demand are played in quick rehearsals", why="a full one installs servers", hint="add --quick"
        )
    config = read_config(text)
    if config is None or config.metal is None:
        return  # said better by the rules
    if not config.metal.disabled:
        raise InputError(
            f"a full rehearsal needs provisioningNetwork: Disabled, and here it is {config.metal.provisioning}",
            why="the rehearsal's bootstrap installs hosts by virtual media so far",
            hint="rehearse it with --quick",
        )
    if config.arbiter is not None:
        raise InputError("a full rehearsal has no arbiters yet", hint="rehearse it with --quick")
    for host in config.hosts:
        translation.refuse_host(host.name, host.bmc_address, host.boot_mode)
