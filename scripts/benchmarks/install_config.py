"""How long a check takes: the whole command on one file, and each file after start-up.

Bounds: 0.4 s for one file in all, 50 ms for each file after start-up.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_WHOLE_LIMIT, _FILE_LIMIT = 0.4, 0.05
_HOSTS = 200


def main(json: bool = False) -> int:
    from rackless.installer.install_config.checking import check

    small, large = _sample(5), _sample(_HOSTS)
    check(small)  # warm
    figures = {
        "whole command, one file (best of 7)": (_whole_command(small), _WHOLE_LIMIT),
        "one file after start-up, 5 hosts (median of 50)": (_median(lambda: check(small), 50), _FILE_LIMIT),
        f"one file after start-up, {_HOSTS} hosts (median of 10)": (_median(lambda: check(large), 10), _FILE_LIMIT * 4),
    }
    rows = [
        {"what": what, "seconds": round(seconds, 4), "limit": limit, "ok": seconds <= limit}
        for what, (seconds, limit) in figures.items()
    ]
    _show(rows, json)
    return 0 if all(row["ok"] for row in rows) else 1


def _spans(action: Callable[[], object], times: int) -> list[float]:
    spans = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        spans.append(time.perf_counter() - start)
    return spans


def _median(action: Callable[[], object], times: int) -> float:
    return statistics.median(_spans(action, times))


def _whole_command(text: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "install-config.yaml"
        file.write_text(text)
        command = [Path(sys.executable).with_name("rackless"), "check", "install-config", "--json", file]
        # the best, since the others measure what else the computer does
        return min(_spans(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=False), 7))


def _sample(hosts: int) -> str:
    from rackless.installer.install_config.cluster_input import ClusterInput, HostInput
    from rackless.installer.install_config.writing import render

    made = tuple(
        HostInput(
            name=f"host-{n}",
            role="master" if n < 3 else "worker",
            boot_mac=f"02:00:00:00:{n >> 8:02x}:{n & 255:02x}",
            bmc_address=f"redfish-virtualmedia+https://10.1.{n >> 8}.{n & 255}/redfish/v1/Systems/1",
            bmc_username="admin",
            bmc_password="x",
        )
        for n in range(hosts)
    )
    return render(
        ClusterInput(
            "lab", "example.com", ("192.168.111.0/24",), ("192.168.111.5",), ("192.168.111.4",), made,
            '{"auths":{"quay.io":{"auth":"dTpw"}}}', "",
        )
    )  # fmt: skip


def _show(rows: list[dict[str, object]], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"benchmark": "install_config", "figures": rows}))
        return
    for row in rows:
        seconds, limit = float(str(row["seconds"])), float(str(row["limit"]))
        print(f"{row['what']:<60} {seconds * 1000:8.1f} ms  (limit {limit * 1000:.0f})")


if __name__ == "__main__":
    sys.exit(main("--json" in sys.argv))
