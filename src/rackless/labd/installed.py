"""The hosts of a cluster that installs itself (`method: ipi`): their BareMetalHosts are in the cluster's API, first the bootstrap
machine's, then the control plane's."""

from __future__ import annotations

from rackless.cluster.bootstrap.following import MACHINE_API
from rackless.cluster.reference.keys import Keys
from rackless.plan.model import LabPlan
from rackless.ports.api import Access, ApiConnection
from rackless.ports.drivers import Drivers
from rackless.run.paths import LabPaths


class InstalledCluster:
    def __init__(self, plan: LabPlan, paths: LabPaths, drivers: Drivers) -> None:
        self._paths = paths
        self._keys = Keys(paths.cluster_keys)
        self._url = f"https://{plan.api_vip}:6443"
        self._drivers = drivers
        self._open: ApiConnection | None = None

    @property
    def present(self) -> bool:
        """Whether an install has begun: from then on the lab's own API has no hosts."""
        return self._paths.release.exists() and self._keys.made

    def resources(self) -> ApiConnection:
        if self._open is None:
            api = self._keys.api
            access = Access(self._url, api / "ca.crt", api / "admin.crt", api / "admin.key")
            self._open = self._drivers.open_api(access, patience=0.0, namespace=MACHINE_API)
        return self._open

    async def close(self) -> None:
        if self._open is not None:
            opened, self._open = self._open, None
            await opened.close()
