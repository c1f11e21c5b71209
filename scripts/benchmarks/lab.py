"""The lab part: from nothing, again, away. Made in a throw-away place, with the servers switched off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

RACKLESS = [sys.executable, "-P", "-m", "rackless"]
TARGETS = {"help": 0.25, "up": 6.0, "again": 1.0, "destroy": 5.0}


def main(as_json: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="rackless-bench-") as folder:
        os.environ |= {"RACKLESS_STATE": f"{folder}/state", "RACKLESS_RUN": f"{folder}/run"}
        os.chdir(folder)
        measured = {
            "help": min(timed("--help") for _ in range(5)),
            "up": timed("up", "--until", "lab"),
            "again": min(timed("up", "--until", "lab") for _ in range(3)),
            "destroy": timed("destroy", "--yes"),
        }
    targets = {
        name: {"measured": round(seconds, 3), "target": TARGETS[name], "ok": seconds <= TARGETS[name]}
        for name, seconds in measured.items()
    }
    if as_json:
        print(json.dumps({"benchmark": "lab", "servers": 4, "targets": targets}))
    else:
        print(f"{'4 servers':<10} {'seconds':>8} {'target':>8}")
        for name, row in targets.items():
            print(f"{name:<10} {row['measured']:>8.2f} {row['target']:>8.2f}  {'ok' if row['ok'] else 'MISSED'}")
    return 0


def timed(*arguments: str) -> float:
    started = time.perf_counter()
    subprocess.run([*RACKLESS, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main("--json" in sys.argv))
