"""A node's way from the start of its agent to Ready: the agent as a process, our API as another, the approver beside them.

What is told holds on any computer: how many requests, and the processor time of the agent, of the child that makes its key, and of
the API. On an emulated server all of it takes as many times longer as its processor is slower.

    scripts/bench join [--times 5] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from parts.api_process import served_api

from rackless.controllers.nodes.approving import approve
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.ports.api import Access
from rackless.ports.resources import Record

READY_WITHIN_S = 10.0
TOKEN = ("abcdef", "0123456789abcdef")
_TICKS = os.sysconf("SC_CLK_TCK")
_AGENT = """
import json, os, sys, time
from pathlib import Path
began = time.monotonic(), time.process_time()
from rackless.node import api, main
loaded = time.process_time()
asked = []
plain = api.ApiServerConnection.request
def request(self, method, path, *more):
    answer = plain(self, method, path, *more)
    asked.append(f"{method} {path.rpartition('/')[2].partition('?')[0][:12]} {answer.status}")
    return answer
api.ApiServerConnection.request = request
main.KUBECONFIG, main.SETTINGS = Path(sys.argv[1]), Path(sys.argv[2])
def say(words):
    if words == "ready":
        ticks = os.times()
        print(json.dumps({"wall_s": time.monotonic() - began[0], "cpu_s": time.process_time(), "children_cpu_s":
              ticks.children_user + ticks.children_system, "import_cpu_s": loaded, "asked": asked}), flush=True)
        os._exit(0)
main._say = say
main.main()
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    runs = asyncio.run(_measure(asked.times))
    middle = {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0] if name != "asked"}
    found = {**middle, "requests": statistics.median(len(run["asked"]) for run in runs), "asked": runs[-1]["asked"]}
    ok = found["wall_s"] <= READY_WITHIN_S
    if asked.json:
        print(json.dumps({**found, "targets": {"wall_s": (found["wall_s"], READY_WITHIN_S)}, "ok": ok}))
        return 0 if ok else 1
    for name, value in found.items():
        print(f"  {name:<16} {', '.join(value) if isinstance(value, list) else value}")
    print(f"  {'ok ' if ok else 'NOT'} ready within {READY_WITHIN_S:g} s")
    return 0 if ok else 1


async def _measure(times: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="rackless-bench-") as name:
        folder = Path(name)
        async with served_api(folder) as (process, url):
            pki = folder / "pki"
            api = KubernetesResources(Access(url, pki / "ca.crt", pki / "admin.crt", pki / "admin.key"), patience=60)
            await _token(api)
            approving = asyncio.create_task(_approve_all(api))
            try:
                return [await _join(folder, url, api, process.pid) for _ in range(times)]
            finally:
                approving.cancel()
                await asyncio.gather(approving, return_exceptions=True)
                await api.close()


async def _join(folder: Path, url: str, api: KubernetesResources, server: int) -> dict[str, Any]:
    state = folder / "node"
    shutil.rmtree(state, ignore_errors=True)
    for node in await api.list("Node"):
        await api.delete("Node", node["metadata"]["name"])
    ca = base64.b64encode((folder / "pki/ca.crt").read_bytes()).decode()
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": {"token": ".".join(TOKEN)}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (folder / "bootstrap").write_text(json.dumps(config))
    before = _cpu_seconds(server)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", _AGENT, str(folder / "bootstrap"), str(folder / "none.json"),
        stdout=asyncio.subprocess.PIPE, env={**os.environ, "STATE_DIRECTORY": str(state)},
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), 300)
    return {**json.loads(re.sub(r"^[^{]*", "", out.decode())), "api_cpu_s": _cpu_seconds(server) - before}


async def _approve_all(api: KubernetesResources) -> None:
    """As the approver does when it knows the Machine: at once, by a watch."""
    async for event in api.watch("CertificateSigningRequest"):
        if event.type == "ADDED" and not (event.record.get("status") or {}).get("conditions"):
            from datetime import UTC, datetime

            await approve(api, event.record, "Bench", "a node of this measurement", datetime.now(UTC))


async def _token(api: KubernetesResources) -> None:
    identity, word = TOKEN
    token: Record = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{identity}", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": identity, "token-secret": word, "usage-bootstrap-authentication": "true"},
    }
    await api.create(token)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


if __name__ == "__main__":
    sys.exit(main())
