"""What a change costs a controller: ours against kopf, doing the same to the same objects of the same API.

Each writes into the status of every Widget what its spec says. Told are the processor time and the memory of the
controller's process, over all changes. To reach: at most half of kopf's processor time and memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

from rackless.drivers.kubernetes.client import Access
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.ports.resources import KINDS, Kind, Record

WIDGETS, ROUNDS, WITHIN = 200, 3, 180.0
LIMIT = 0.5
KIND = Kind("bench.rackless.test/v1", "widgets")
DEFINITION: Record = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.bench.rackless.test"},
    "spec": {
        "group": "bench.rackless.test",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
KOPF = """
    import kopf

    @kopf.on.startup()
    def configure(settings, **_):
        settings.posting.enabled = False
        settings.persistence.finalizer = "bench.rackless.test/kopf"

    @kopf.on.create("bench.rackless.test", "v1", "widgets")
    @kopf.on.update("bench.rackless.test", "v1", "widgets", field="spec")
    async def seen(spec, patch, **_):
        patch.status["seen"] = spec["size"]
"""


def main(as_json: bool) -> int:
    rows = asyncio.run(_measure())
    ours, theirs = rows["rackless"], rows["kopf"]
    ratios = {what: round(ours[what] / theirs[what], 3) for what in ("cpu_s", "mib")}
    ok = all(ratio <= LIMIT for ratio in ratios.values())
    if as_json:
        print(json.dumps({"controllers": rows, "ratios": ratios, "limit": LIMIT, "ok": ok}))
        return 0 if ok else 1
    print(f"{WIDGETS} objects, {ROUNDS} changes each")
    for name, row in rows.items():
        cost = f"{row['cpu_s'] / WIDGETS / ROUNDS * 1000:.2f} ms a change"
        print(f"  {name:<9} {row['cpu_s']:6.2f} CPU-s ({cost})  {row['mib']:5.0f} MiB  {row['seconds']:6.1f} s")
    print(f"  ratio     {ratios['cpu_s']:6.3f} CPU            {ratios['mib']:5.3f} memory   (at most {LIMIT})")
    return 0 if ok else 1


async def _measure() -> dict[str, dict[str, float]]:
    from rackless.api.process import ApiServer, ApiSettings  # late: the controller's own process does without

    rows = {}
    for name in ("rackless", "kopf"):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            settings = ApiSettings(f"sqlite:{place}/objects.db", place / "pki", port=0, kubeconfig=place / "kubeconfig")
            async with ApiServer(settings) as api:
                rows[name] = await _one(name, api.url, place)
    return rows


async def _one(name: str, url: str, folder: Path) -> dict[str, float]:
    resources = KubernetesResources(_access(url, folder), namespace="default", kinds=_kinds())
    await resources.apply(DEFINITION)
    if name == "kopf":
        (folder / "operator.py").write_text(textwrap.dedent(KOPF))
        command = ["-m", "kopf", "run", str(folder / "operator.py"), "-n", "default", "--quiet"]
    else:
        command = [__file__, "--serve", url, str(folder)]
    environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig")}
    process = subprocess.Popen([sys.executable, *command], env=environment)  # noqa: ASYNC220
    try:
        begun = time.monotonic()
        for size in range(ROUNDS):
            await asyncio.gather(*(_change(resources, number, size) for number in range(WIDGETS)))
            await _await_seen(resources, size, process)
        return {
            "cpu_s": _cpu_seconds(process.pid),
            "mib": _peak_mib(process.pid),
            "seconds": time.monotonic() - begun,
        }
    finally:
        process.terminate()
        process.wait(30)
        await resources.close()


async def _change(resources: KubernetesResources, number: int, size: int) -> None:
    if size == 0:
        metadata = {"name": f"w{number}"}
        await resources.create({"kind": "Widget", "metadata": metadata, "spec": {"size": size}})
    else:
        await resources.patch("Widget", f"w{number}", {"spec": {"size": size}})


async def _await_seen(resources: KubernetesResources, size: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WITHIN
    while True:
        records = await resources.list("Widget")
        if sum(record.get("status", {}).get("seen") == size for record in records) == WIDGETS:
            return
        if time.monotonic() > deadline or process.poll() is not None:
            raise SystemExit("the controller did not see all changes")
        await asyncio.sleep(0.25)


async def _serve(url: str, folder: Path) -> None:
    from rackless.controllers.runtime.runtime import Runtime
    from rackless.drivers.clock import SystemClock
    from rackless.events import Bus

    runtime = Runtime(SystemClock(), Bus())
    resources = KubernetesResources(_access(url, folder), namespace="default", kinds=_kinds())
    runtime.add(_Widgets(runtime.cache(resources, "Widget")))
    await runtime.run()


class _Widgets:
    name = "widgets"

    def __init__(self, cache: Any) -> None:
        from rackless.controllers.runtime.controller import own

        self.cache = cache
        self.wakes = (own(cache, lambda before, after: before["spec"] != after["spec"]),)

    async def reconcile(self, key: Any, record: Record | None) -> Any:
        from rackless.controllers.runtime.controller import Result

        if record is None or record.get("status", {}).get("seen") == record["spec"]["size"]:
            return Result()
        return Result(status={"seen": record["spec"]["size"]})

    def troubled(self, record: Record, error: Exception) -> None: ...

    def stopped(self, key: Any) -> None: ...


def _kinds() -> dict[str, Kind]:
    definition = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
    return {**KINDS, "Widget": KIND, "CustomResourceDefinition": definition}


def _access(url: str, folder: Path) -> Access:
    pki = folder / "pki"
    return Access(url, pki / "ca.crt", pki / "admin.crt", pki / "admin.key")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(_serve(sys.argv[2], Path(sys.argv[3])))
    else:
        sys.exit(main("--json" in sys.argv))
