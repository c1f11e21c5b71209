"""The lab's Kubernetes API: `rackless api serve`, kept running inside the lab, its objects in the lab's state folder.

It listens on the gateway's address, where the lab's nodes find it too; the cluster's own API has another address (the
API VIP). Its CA is the lab's. labd is the administrator, as is whoever may read the lab's secrets.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

from rackless.daemon.doorstep import API_PORT
from rackless.daemon.keeper import Keeper
from rackless.drivers.kubernetes.client import Access, ApiUnreachable
from rackless.drivers.kubernetes.resources import NAMESPACE, KubernetesResources
from rackless.events import Bus
from rackless.ports.clock import Clock
from rackless.run.files import write_secret
from rackless.run.paths import LabPaths
from rackless.run.waiting import until

START_WITHIN = 60.0


class LabApi:
    def __init__(self, paths: LabPaths, address: str, bus: Bus, clock: Clock) -> None:
        self.url = f"https://{address}:{API_PORT}"
        self._paths = paths
        self._address = address
        self._bus = bus
        self._clock = clock
        self._kept: Keeper | None = None

    @property
    def started(self) -> bool:
        return self._kept is not None

    def describe(self) -> list[dict[str, Any]]:
        """For the lab's status."""
        return [self._kept.describe()] if self._kept is not None else []

    def open(self, patience: float) -> KubernetesResources:
        """The lab's records; who opens them closes them. They may be opened before the API is started."""
        pki = self._paths.pki
        access = Access(self.url, pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
        return KubernetesResources(access, patience=patience, clock=self._clock)

    async def start(self) -> bool:
        """Return when it answers; False when it was running."""
        if self._kept is not None:
            return False
        self._paths.api.mkdir(exist_ok=True, mode=0o700)
        kept = Keeper(
            "the Kubernetes API",
            self._command(),
            pidfile=self._paths.run / "api.pid",
            log=self._paths.logs / "api.log",
            bus=self._bus,
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
                answers, what="the Kubernetes API to answer", within=START_WITHIN, every=0.05, clock=self._clock
            )
        except BaseException:
            await self.stop()
            raise
        finally:
            await resources.close()
        kubeconfig = render_kubeconfig(f"rackless-{self._paths.name}", self.url, self._paths.pki, NAMESPACE)
        write_secret(self._paths.inner_kubeconfig, kubeconfig)
        return True

    async def stop(self) -> None:
        if self._kept is not None:
            await self._kept.stop()
            self._kept = None

    def _command(self) -> list[str | Path]:
        return [
            *(sys.executable, "-P", "-m", "rackless", "api", "serve"),
            *("--store", f"sqlite:{self._paths.api / 'objects.db'}"),
            *("--address", self._address, "--port", str(API_PORT)),
            *("--pki", self._paths.pki),
            *("--kubeconfig-out", self._paths.api / "admin.kubeconfig"),
        ]


def render_kubeconfig(name: str, server: str, pki: Path, namespace: str) -> str:
    """The administrator's way to an API. JSON, which is YAML."""

    def inline(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    user = {"client-certificate-data": inline("admin.crt"), "client-key-data": inline("admin.key")}
    cluster = {"server": server, "certificate-authority-data": inline("ca.crt")}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "current-context": name,
    }
    return json.dumps(config, indent=2) + "\n"
