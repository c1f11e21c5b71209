"""What servers boot on a provisioning network that is not the installer's to answer on (`mode: unmanaged`).

The lab plays the DHCP server of the site there, which knows the servers' addresses and not who installs them. So it leads them by a
script of its own to Ironic, at the two addresses that an install-config has for it: the bootstrap machine's, then the cluster's.
libvirt's dnsmasq serves the files; pure, but for `ensure`.
"""

from __future__ import annotations

from pathlib import Path

from rackless.lab.files import PORT
from rackless.lab.network_boot import SCRIPT, Loaders
from rackless.plan.networks import SITE_BOOT, SITE_FOLDER
from rackless.ports.fabric import Network
from rackless.run.files import write
from rackless.spec.places import INSTALLERS

PATIENCE_MS = 10_000
"""Milliseconds for an address at which nobody may answer."""


def render_script(network: Network) -> str:
    places = [network.gateway.network[number] for number in INSTALLERS]
    tries = "".join(f"chain --timeout {PATIENCE_MS} http://{place}:{PORT}/{SCRIPT} ||\n" for place in places)
    why = "# Ironic is on the bootstrap machine first, and on a control plane of the cluster from then on"
    return f"#!ipxe\n{why}\n:again\n{tries}sleep 3\ngoto again\n"


def ensure(inner_run: Path, loaders: Loaders, network: Network) -> None:
    """`inner_run` is what the lab sees as /run. They must be there before dnsmasq starts, which looks."""
    folder = inner_run / Path(SITE_FOLDER).relative_to("/run")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # dnsmasq is not root
    for name, loader in ((SITE_BOOT.bios, loaders.bios), (SITE_BOOT.uefi, loaders.uefi)):
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(loaders.folder / loader)
    write(folder / SITE_BOOT.script, render_script(network))
