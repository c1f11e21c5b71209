"""The lab's Kubernetes API server: `rackless api serve`, supervised by labd inside the lab, with its objects in the lab's state
folder.

It listens on the gateway's address, where the lab's nodes find it too; the cluster's own API has another address (the
API VIP). Its CA is its own: the API refuses a certificate of the lab's BMCs or of etcd. labd is the administrator, as is
whoever may read the lab's secrets.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rackless.events import Bus
from rackless.lab.api_forward import API_PORT
from rackless.labd.migration import part_api_keys
from rackless.ports.api import NAMESPACE, Access, ApiConnection, ApiUnreachable
from rackless.ports.drivers import Drivers
from rackless.run.files import write_secret
from rackless.run.parts import Part
from rackless.run.paths import LabPaths
from rackless.run.supervise import Keeper
from rackless.run.waiting import until
from rackless.trust.kubeconfig import render_kubeconfig

START_WITHIN = 60.0


class LabApi:
    def __init__(self, paths: LabPaths, address: str, bus: Bus, drivers: Drivers) -> None:
        self.url = f"https://{address}:{API_PORT}"
        self._paths = paths
        self._address = address
        self._bus = bus
        self._drivers = drivers
        self._kept: Keeper | None = None

    @property
    def started(self) -> bool:
        return self._kept is not None

    def describe(self) -> list[Part]:
        """For the lab's status."""
        return [self._kept.describe()] if self._kept is not None else []

    def hurry(self) -> None:
        if self._kept is not None:
            self._kept.hurry()

    def open(self, patience: float) -> ApiConnection:
        """A client of the lab's API; the caller closes it. It may be opened before the API is started."""
        pki = self._paths.api_pki
        access = Access(self.url, pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
        return self._drivers.open_api(access, patience=patience)

    async def start(self) -> bool:
        """Start the API and wait until it answers; False when it was running."""
        if self._kept is not None:
            return False
        self._paths.api.mkdir(exist_ok=True, mode=0o700)
        part_api_keys(self._paths.pki, self._paths.api_pki)
        kept = Keeper(
            "the Kubernetes API",
            self._command(),
            pidfile=self._paths.run / "api.pid",
            log=self._paths.logs / "api.log",
            bus=self._bus,
            processes=self._drivers.processes,
        )
        await kept.start()
        self._kept = kept
        resources = self.open(patience=0.0)

        async def answers() -> tuple[bool, str]:
            kept.check()
            try:
                await resources.ensure_namespace()
            except ApiUnreachable as error:
                return False, error.why
            return True, "answers"

        try:
            await until(
                answers, what="the Kubernetes API to answer", within=START_WITHIN, every=0.05, clock=self._drivers.clock
            )
        except BaseException:
            await self.stop()
            raise
        finally:
            await resources.close()
        kubeconfig = render_kubeconfig(f"rackless-{self._paths.name}", self.url, self._paths.api_pki, NAMESPACE)
        write_secret(self._paths.inner_kubeconfig, kubeconfig)
        return True

    async def stop(self) -> None:
        if self._kept is not None:
            # first: when stopping fails (a disk that is read-only), the next start must not take it for running
            kept, self._kept = self._kept, None
            await kept.stop()

    def _command(self) -> list[str | Path]:
        return [
            *(sys.executable, "-P", "-m", "rackless", "api", "serve"),
            *("--store", f"sqlite:{self._paths.api / 'objects.db'}"),
            *("--address", self._address, "--port", str(API_PORT)),
            *("--pki", self._paths.api_pki),
            *("--kubeconfig-out", self._paths.api / "admin.kubeconfig"),
        ]
