"""Every path of a lab as a property; nobody else joins strings.

What must survive a reboot is under `state`, what must not is under `run`, what labs share and `destroy` keeps is under
`cache`. The ledger stands beside the lab's folder, so that it is the last thing to go.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Roots:
    """Where rackless keeps things on this computer; each may be moved by an environment variable."""

    state: Path
    run: Path
    cache: Path

    @classmethod
    def from_environment(cls) -> Roots:
        get = os.environ.get
        return cls(
            state=Path(get("RACKLESS_STATE", "/var/lib/rackless")).absolute(),
            run=Path(get("RACKLESS_RUN", "/run/rackless")).absolute(),
            cache=Path(get("RACKLESS_CACHE", "/var/cache/rackless")).absolute(),
        )

    def as_environment(self) -> dict[str, str]:
        return {
            "RACKLESS_STATE": str(self.state),
            "RACKLESS_RUN": str(self.run),
            "RACKLESS_CACHE": str(self.cache),
        }

    @property
    def images(self) -> Path:
        return self.cache / "images"

    @property
    def uses(self) -> Path:
        """Which labs use which images of the cache; also labs with another RACKLESS_STATE are in it."""
        return self.cache / "uses"

    @property
    def durations(self) -> Path:
        """How long steps took on this computer: `diagnosis/estimates.py`."""
        return self.cache / "durations.json"

    def labs(self) -> list[str]:
        """The labs that own something on this computer."""
        return sorted(path.stem for path in self.state.glob("*.ledger"))


@dataclass(frozen=True)
class LabPaths:
    roots: Roots
    name: str

    @cached_property
    def state(self) -> Path:
        return self.roots.state / self.name

    @cached_property
    def run(self) -> Path:
        return self.roots.run / self.name

    @cached_property
    def ledger(self) -> Path:
        return self.roots.state / f"{self.name}.ledger"

    @property
    def lock(self) -> Path:
        return self.roots.state / f"{self.name}.lock"

    # in run: gone after a reboot

    @cached_property
    def netns(self) -> Path:
        """The pin of the network namespace."""
        return self.run / "net"

    @property
    def inner_run(self) -> Path:
        """What the lab sees as /run: without the hypervisor's D-Bus, resolver and libvirt."""
        return self.run / "run"

    @property
    def socket(self) -> Path:
        return self.run / "labd.sock"

    @property
    def doors_socket(self) -> Path:
        """The holder's socket: `rackless expose` tells it there that port forwards were added to the ledger or struck."""
        return self.run / "doors.sock"

    @property
    def entrance(self) -> Path:
        """The holder's socket through which the lab's owner, who is not root, runs commands inside the lab; a lab that root made
        has none."""
        return self.run / "entrance.sock"

    @property
    def holder_pid(self) -> Path:
        """The pid file of the holder, written once it is in the lab's namespaces."""
        return self.run / "holder.pid"

    @property
    def launched_pid(self) -> Path:
        """The pid file of the holder from its start on, before it has entered the lab's namespaces."""
        return self.run / "launched.pid"

    @property
    def labd_pid(self) -> Path:
        return self.run / "labd.pid"

    @property
    def installer_pid(self) -> Path:
        """The pid file of an openshift-install that runs in this lab."""
        return self.run / "installer.pid"

    @property
    def awake(self) -> Path:
        """Exists once `up` has switched on the servers that were on before the computer went down."""
        return self.run / "awake"

    # in state

    @property
    def spec(self) -> Path:
        return self.state / "spec.json"

    @property
    def goal(self) -> Path:
        """How far `up` was asked to go; labd restores as much after a restart."""
        return self.state / "goal"

    @property
    def journal(self) -> Path:
        """What has been done of the lab and what was being done; where there is none, `goal` says how far the lab is."""
        return self.state / "journal.jsonl"

    @property
    def owner(self) -> Path:
        """The user who made the lab through sudo (SUDO_UID): besides root, the one who may talk to labd and run commands inside."""
        return self.state / "owner"

    @property
    def remedies(self) -> Path:
        """Which remedies labd or `rackless why --fix` has tried, a line each: `diagnosis/remedy.py`."""
        return self.state / "remedies.jsonl"

    @property
    def upstream(self) -> Path:
        """The hypervisor's name servers, which a lab with an uplink asks for what it does not know."""
        return self.state / "upstream"

    @property
    def resting(self) -> Path:
        """Which servers were on when `rackless down` stopped the lab; the next `up` switches them on again."""
        return self.state / "resting"

    @property
    def grown(self) -> Path:
        """Servers that labd made on demand for a MachineSet: written down before they are made, struck when they are gone."""
        return self.state / "grown.jsonl"

    @property
    def powered(self) -> Path:
        """Which servers are on; after a reboot of the computer the next `up` switches them on again."""
        return self.state / "powered"

    @property
    def supplies(self) -> Path:
        """Which images and which Ironic this lab uses: made by `up`, read by labd."""
        return self.state / "supplies.json"

    @property
    def offered(self) -> Path:
        """A person's own images that the lab's file server offers: their names on it, and their checksums."""
        return self.state / "offered.json"

    @property
    def install(self) -> Path:
        """The folder of the install that makes this lab's cluster, where the cluster installs itself."""
        return self.state / "install"

    @property
    def install_kubeconfig(self) -> Path:
        return self.install / "auth/kubeconfig"

    @property
    def rehearsal(self) -> Path:
        """The folder of an installer's run in this lab: its logs, what it takes for its home. Secrets lie in it."""
        return self.state / "rehearsal"

    @property
    def installer_state(self) -> Path:
        """How far the installer of `method: openshift` came: `operations/openshift/lab.py`."""
        return self.state / "openshift.json"

    @property
    def stand_in(self) -> Path:
        """The setting of what stands in for the cluster after a quick rehearsal; while it exists, labd runs it."""
        return self.state / "stand-in.json"

    @property
    def release(self) -> Path:
        """The folder of the release server: node image and payload of an install in this lab. While it exists, the install's
        bootstrap or cluster provisions the hosts, and the lab's own engine does not."""
        return self.state / "release"

    @property
    def libvirt(self) -> Path:
        return self.state / "libvirt"

    @property
    def etc(self) -> Path:
        """Files of the lab that stand in for the hypervisor's in /etc."""
        return self.state / "etc"

    @property
    def disks(self) -> Path:
        return self.state / "disks"

    @property
    def secrets(self) -> Path:
        return self.state / "secrets"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def events(self) -> Path:
        """The lab's event log (`rackless events`), numbered: `protocol/event_log.py`."""
        return self.logs / "events.jsonl"

    @property
    def pki(self) -> Path:
        """The CA of the lab's TLS servers, and all that it signed: BMCs, Ironic."""
        return self.secrets / "tls"

    @property
    def api_pki(self) -> Path:
        """The CA of the lab's Kubernetes API: whoever has a client certificate of it is let in. It signs nothing else."""
        return self.secrets / "api"

    @cached_property
    def api(self) -> Path:
        """The objects of the lab's Kubernetes API."""
        return self.state / "api"

    @property
    def api_port(self) -> Path:
        """The port on the hypervisor's loopback that leads to the lab's Kubernetes API."""
        return self.api / "port"

    @cached_property
    def cluster_port(self) -> Path:
        """The port on the hypervisor's loopback that leads to the cluster's API, at its VIP."""
        return self.api / "cluster-port"

    @property
    def doors(self) -> tuple[Path, ...]:
        return self.api_port, self.cluster_port

    @property
    def cluster_keys(self) -> Path:
        """The keys of the cluster: its CAs, its administrator's certificate, its ssh keys."""
        return self.secrets / "cluster"

    @property
    def inner_kubeconfig(self) -> Path:
        """The kubeconfig for programs inside the lab."""
        return self.api / "kubeconfig"

    @property
    def records(self) -> Path:
        """Where versions before the Kubernetes API kept the hosts' records."""
        return self.state / "records"

    @property
    def bmc(self) -> Path:
        return self.state / "bmc"

    @property
    def media(self) -> Path:
        return self.state / "media"

    @property
    def ironic(self) -> Path:
        return self.state / "ironic"

    @property
    def files(self) -> Path:
        """The root of the lab's file server."""
        return self.state / "files"

    @property
    def private(self) -> tuple[Path, ...]:
        """Folders that only root may look into: keys and passwords lie there, or on the disks and ISOs in them."""
        return (self.secrets, self.disks, self.api, self.bmc, self.media, self.ironic, self.files)

    def console(self, server: str) -> Path:
        return self.logs / "console" / f"{server}.log"

    # shared between labs

    @property
    def capabilities(self) -> Path:
        """libvirt's cache of what each QEMU can do; keeping it saves ten seconds at every first start."""
        return self.roots.cache / "libvirt"
