"""The lab part: from nothing, again, away, and what one more server costs; beside kcli (PyPI) and plain virsh commands.

Made in a throw-away place, with the servers switched off. The peers run inside a lab without servers, so that all use the
same libvirtd; their time has no namespaces, no daemon, no names, no reservations and no BMCs in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEER = Path.home() / ".cache/rackless-tests/kcli"
RACKLESS = [sys.executable, "-P", "-m", "rackless"]
MANY, MOST = 60, 200
TARGETS = {"help": 0.25, "up": 6.0, "again": 1.0, "per server": 0.060, "destroy": 5.0, "200 servers": 6.0 + 200 * 0.060}

VIRSH = """\
set -e
cd "$1"
cat > net.xml <<XML
<network><name>peer</name><bridge name='peer0'/><forward mode='open'/>
<ip address='10.9.0.1' netmask='255.255.0.0'><dhcp><range start='10.9.1.1' end='10.9.2.1'/></dhcp></ip></network>
XML
virsh -q net-define net.xml; virsh -q net-start peer
for n in $(seq "$2"); do
    qemu-img create -q -f qcow2 "peer-$n.qcow2" 8G
    sed "s/NAME/peer-$n/; s#DISK#$1/peer-$n.qcow2#" server.xml > one.xml
    virsh -q define one.xml
done
"""
KCLI = """\
set -e
export HOME="$1"
mkdir "$1/pool"
"$0" create pool -p "$1/pool" default
"$0" create network -c 10.9.0.0/16 peer
"$0" create vm -P start=false -P memory=1024 -P numcpus=1 -P disks=[8] -P nets=[peer] -c "$2" peer
"""
SERVER = """\
<domain type='qemu'><name>NAME</name><memory unit='MiB'>1024</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features><devices>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='DISK'/><target dev='sda' bus='scsi'/></disk>
<disk type='file' device='cdrom'><target dev='sdb' bus='scsi'/></disk><controller type='scsi' model='virtio-scsi'/>
<interface type='bridge'><source bridge='peer0'/><model type='virtio'/></interface><serial type='pty'/></devices></domain>
"""


def main(as_json: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="rackless-bench-") as folder:
        os.environ |= {"RACKLESS_STATE": f"{folder}/state", "RACKLESS_RUN": f"{folder}/run"}
        os.chdir(folder)
        measured = {"help": min(timed("--help") for _ in range(5)), **measure_default()}
        many = measure_count(MANY)
        measured["per server"] = max(many - measured["up"], 0.0) / (MANY - 4)
        measured["200 servers"] = measure_count(MOST)
        peers = measure_peers(Path(folder), 4)
    targets = {
        name: {"measured": round(measured[name], 3), "target": target, "ok": measured[name] <= target}
        for name, target in TARGETS.items()
    }
    busy = round(os.getloadavg()[0] / (os.cpu_count() or 1), 1)
    beside = {f"{name}, 4 servers": round(seconds, 3) for name, seconds in peers.items()}
    beside |= {f"up to {name}": round(measured["up"] / seconds, 2) for name, seconds in peers.items()}
    if as_json:
        print(json.dumps({"benchmark": "lab", "servers": 4, "load per CPU": busy, "peer": beside, "targets": targets}))
        return 0
    print(f"{'':<14} {'seconds':>8} {'target':>8}")
    for name, row in targets.items():
        print(f"{name:<14} {row['measured']:>8.3f} {row['target']:>8.3f}  {'ok' if row['ok'] else 'MISSED'}")
    print(f"\nload per CPU during the run: {busy}")
    for name, seconds in peers.items():
        print(f"{name}, a network and 4 servers, nothing else: {seconds:.2f} s")
    return 0


def measure_default() -> dict[str, float]:
    return {
        "up": timed("up", "--until", "lab"),
        "again": min(timed("up", "--until", "lab") for _ in range(3)),
        "destroy": timed("destroy", "--yes"),
    }


def measure_count(count: int) -> float:
    Path("many.yaml").write_text(
        f"networks: {{cluster: {{cidr: 10.8.0.0/22}}, bmc: {{cidr: 10.9.0.0/22}}}}\n"
        f"servers: {{node: {{role: spare, count: {count}}}}}\n"
    )
    seconds = timed("up", "--until", "lab", "-f", "many.yaml")
    timed("destroy", "--yes")
    return seconds


def measure_peers(folder: Path, count: int) -> dict[str, float]:
    """Each in a lab of its own that has no servers."""
    (folder / "none.yaml").write_text("servers: {none: {count: 0}}\n")
    (folder / "server.xml").write_text(SERVER)
    found = {}
    for name, script in (("kcli", KCLI), ("virsh", VIRSH)):
        if name == "kcli" and not ensure_kcli():
            continue
        timed("up", "--until", "lab", "-f", "none.yaml")
        found[name] = timed("exec", "--", "bash", "-c", script, str(PEER / "bin/kcli"), str(folder), str(count))
        made = subprocess.run(
            [*RACKLESS, "exec", "--", "virsh", "-q", "list", "--all"], check=True, capture_output=True, text=True
        )
        assert made.stdout.count("shut off") == count, made.stdout
        timed("destroy", "--yes")
    return found


def ensure_kcli() -> bool:
    """In an environment of its own, with the distribution's libvirt binding; without it the other peer remains."""
    if (PEER / "bin/kcli").exists():
        return True
    pip = [PEER / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "kcli"]
    for command in (["/usr/bin/python3", "-m", "venv", "--system-site-packages", PEER], pip):
        if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
            print("kcli could not be installed; plain virsh remains", file=sys.stderr)
            return False
    return True


def timed(*arguments: str) -> float:
    started = time.perf_counter()
    subprocess.run([*RACKLESS, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main("--json" in sys.argv))
