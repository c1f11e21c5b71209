"""Who runs metal3: one machine at a time, the one that holds the Lease. The bootstrap does until it hands over, then one of the
control planes.

It runs on the node image, without pydantic. Metal3 itself (`metal3`) is imported by the machine that leads: on an
emulated one that takes seconds, which control planes that only wait for their turn need not spend.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rackless.cluster.bootstrap.completing import LEASE
from rackless.cluster.bootstrap.following import MACHINE_API
from rackless.cluster.bootstrap.telling import Tell
from rackless.controllers.leader import PATIENT, Leader, LostLeadership
from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.drivers.process import LocalProcesses
from rackless.installer.assets.ignition.services import PAYLOAD
from rackless.operations.bootstrap.running import SYSTEMCTL
from rackless.trust.kubeconfig_reading import read_kubeconfig


async def run_metal3(
    kubeconfig: Path, payload: Path, interface: str, tell: Tell, *, provisioning: str = "", whole: bool = False
) -> None:
    """Until cancelled, or until somebody else leads (LostLeadership); `whole` on a control plane, which fetches the payload when it
    leads."""
    with tempfile.TemporaryDirectory(prefix="rackless-metal3-") as keep:
        access, _ = read_kubeconfig(kubeconfig, Path(keep))
        clock = SystemClock()
        resources = KubernetesResources(access, namespace=MACHINE_API, clock=clock)

        async def work() -> None:
            tell({"phase": "metal3", "on": os.uname().nodename})
            if whole:
                await LocalProcesses().run([*SYSTEMCTL, "start", PAYLOAD])
            from rackless.operations.bootstrap.metal3 import serve

            await serve(resources, payload, interface, tell, provisioning=provisioning, whole=whole)

        def told(holder: str) -> None:
            tell({"leads": holder})

        try:
            leader = Leader(resources, LEASE, os.uname().nodename, clock, told=told, terms=PATIENT)
            await leader.lead(work)
        except LostLeadership as error:  # systemd starts us again, and we wait for our turn
            tell({"phase": "lost the lease", "why": str(error)})
            raise SystemExit(1) from error
        finally:
            await resources.close()
