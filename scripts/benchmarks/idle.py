"""What a lab costs that stands and does nothing: the default lab, three control planes and a worker, while nobody asks.

Made in a pretend host and ended with it; `--folder` looks instead at the default lab that runs with this folder's
`state` and `run`, and leaves it. `--inside` also tells which programs in the nodes take the time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.real.conftest import PretendHost, pretend_host
from tests.real.footprint import Sample, sample

LAB = "lab"
TARGETS = {"the lab, % of a core": 15.0, "labd, API, Ironic, % of a core": 1.5, "the lab, GB": 5.5}
SETTLE_SECONDS = 180.0
"""From the end of `up`: leases, first compactions and what was delayed at boot are over."""
INSIDE = """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        text = open(f"/proc/{pid}/stat").read()
    except OSError:
        continue
    fields = text.rpartition(")")[2].split()
    print(pid, sum(map(int, fields[11:15])), text[text.index("(") + 1 : text.rindex(")")])
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench idle")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long the lab is watched")
    parser.add_argument("--folder", type=Path, help="of a lab that runs; it is not ended")
    parser.add_argument("--pid", type=int, default=os.getpid(), help="in whose namespaces that lab's host is")
    parser.add_argument("--inside", action="store_true", help="which programs in the nodes take the time")
    asked = parser.parse_args()
    with _host(asked) as host:
        report = measure(host, asked.minutes * 60, inside=asked.inside)
    report["load per CPU"] = round(os.getloadavg()[0] / (os.cpu_count() or 1), 1)
    print(json.dumps(report)) if asked.json else _show(report)
    return 0


@contextmanager
def _host(asked: argparse.Namespace) -> Iterator[PretendHost]:
    """One with the default lab in it."""
    if asked.folder is not None:
        yield PretendHost(asked.pid, asked.folder)
        return
    with tempfile.TemporaryDirectory(prefix="rackless-bench-") as folder, pretend_host(Path(folder)) as host:
        host.rackless("up", timeout=3600)
        time.sleep(SETTLE_SECONDS)
        yield host


def measure(host: PretendHost, seconds: float, *, inside: bool) -> dict[str, Any]:
    names = [server["name"] for server in host.status()["servers"]] if inside else []
    before = {name: _programs(host, name) for name in names}
    if inside:
        time.sleep(20)  # what asking cost is over
    first = _look(host)
    time.sleep(seconds)
    last = _look(host)
    report = _report(first, last)
    if inside:
        report["inside"] = {name: _shares(before[name], _programs(host, name)) for name in names}
    return report


def _look(host: PretendHost) -> Sample:
    folders = (host.folder / "state", host.folder / "run")
    return sample(host.pin(LAB), folders, time.monotonic())


def _report(first: Sample, last: Sample) -> dict[str, Any]:
    seconds = last.at - first.at

    def share(before: float, after: float) -> float:
        return round(100 * (after - before) / seconds, 2)

    processes = {
        name: {
            "% of a core": share(first.processes[name].cpu, now.cpu) if name in first.processes else None,
            "PSS, MB": round(now.pss / 1e6), "RSS, MB": round(now.rss / 1e6),
            "descriptors": now.descriptors, "threads": now.threads,
        }
        for name, now in sorted(last.processes.items())
    }  # fmt: skip
    measured = {
        "the lab, % of a core": share(first.total.cpu, last.total.cpu),
        "labd, API, Ironic, % of a core": share(first.control.cpu, last.control.cpu),
        "the lab, GB": round(last.total.pss / 1e9, 2),
    }
    targets = {
        name: {"measured": measured[name], "target": target, "ok": measured[name] <= target}
        for name, target in TARGETS.items()
    }
    return {
        "benchmark": "idle", "seconds": round(seconds), "processes": processes, "files": last.files,
        "stored, MB": round(last.stored / 1e6), "targets": targets,
    }  # fmt: skip


def _programs(host: PretendHost, name: str) -> dict[str, tuple[float, str]]:
    """Ticks and name of every process in a node, and its uptime."""
    script = f"sudo python3 -c '{INSIDE}'; cat /proc/uptime"
    lines = host.rackless("ssh", name, "--", script).stdout.splitlines()
    rows = (line.split(maxsplit=2) for line in lines[:-1])
    found = {pid: (int(ticks) / 100, program) for pid, ticks, program in rows}
    return {**found, "uptime": (float(lines[-1].split()[0]), "")}


def _shares(before: dict[str, tuple[float, str]], after: dict[str, tuple[float, str]]) -> dict[str, float]:
    """Percent of the node's time by program, the most first."""
    span = after["uptime"][0] - before["uptime"][0]
    found: dict[str, float] = {}
    for pid, (now, program) in after.items():
        if program:
            found[program] = found.get(program, 0) + 100 * (now - before.get(pid, (0, ""))[0]) / span
    return {name: round(share, 2) for name, share in sorted(found.items(), key=lambda row: -row[1]) if share >= 0.05}


def _show(report: dict[str, Any]) -> None:
    columns = ("% of a core", "PSS, MB", "RSS, MB", "descriptors", "threads")
    print(f"{report['seconds']} s of standing still\n\n{'':<12}" + "".join(f"{name:>13}" for name in columns))
    for name, row in report["processes"].items():
        print(f"{name:<12}" + "".join(f"{'' if row[column] is None else row[column]:>13}" for column in columns))
    print(f"\n{report['files']} files, {report['stored, MB']} MB; load per CPU: {report['load per CPU']}\n")
    for name, programs in report.get("inside", {}).items():
        print(f"in {name}: " + ", ".join(f"{program} {share} %" for program, share in programs.items()))
    print(f"\n{'':<32} {'measured':>8} {'target':>8}")
    for name, row in report["targets"].items():
        print(f"{name:<32} {row['measured']:>8.2f} {row['target']:>8.2f}  {'ok' if row['ok'] else 'MISSED'}")


if __name__ == "__main__":
    sys.exit(main())
