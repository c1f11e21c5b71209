"""The images really boot: the agent reports to (a stand-in for) Ironic, and Ignition configures a node.

Everything runs in a network namespace of its own, with QEMU's user-mode network. The images are those of the computer's
cache, which `rackless prepare` fills.
"""

import asyncio
import base64
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rackless import __version__
from rackless.drivers.process import LocalProcesses
from rackless.errors import GaveUp
from rackless.events import Bus
from rackless.images.bootstrap_iso import NO_FAULT, disk_beside
from rackless.images.catalogue import ensure_bootstrap_iso, ensure_deploy_image, ensure_node_image
from rackless.installer.install_config.cluster_input import HostAddressing
from rackless.installer.install_config.writing import nmstate
from rackless.provisioning.nmstate import to_network_data
from rackless.run.paths import Roots
from tests.cluster.openshift.bootstrap_config import Made

NEEDED = ("qemu-system-x86_64", "qemu-img", "xorrisofs", "unshare", "apt-get", "mcopy", "mkfs.vfat", "mke2fs", "lz4")
FIRMWARE = Path("/usr/share/OVMF/OVMF_CODE_4M.fd")
MISSING = [name for name in NEEDED if not shutil.which(name)] + ([] if FIRMWARE.exists() else [str(FIRMWARE)])
MACHINE = ("-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "Nehalem", "-smp", "1", "-display", "none")
DEVICES = ("-monitor", "none", "-no-reboot", "-device", "virtio-scsi-pci", "-device", "virtio-rng-pci")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]


@pytest.fixture(scope="module")
def cache() -> Path:
    return Roots.from_environment().cache / "images"


async def boot(
    folder: Path, words: list[str], booted: Callable[[], bool], within: float, around: Sequence[str] = ()
) -> None:
    """Run a server until `booted`; the serial console is in `folder`/console. `around` are commands for a shell in its network;
    what they start ends with it."""
    qemu = ["qemu-system-x86_64", *MACHINE, *DEVICES, "-serial", f"file:{folder}/console", *words]
    # QEMU's user-mode network needs a loopback that is up.
    prepared = "\n".join(["set -e", "ip link set lo up", *around, 'exec "$@"'])
    alone = ["unshare", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", prepared, "sh"]
    child = await LocalProcesses().start([*alone, *qemu], log=folder / "qemu.log")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(child.stop)
        deadline = time.monotonic() + within
        while not booted():
            assert child.code is None, (folder / "qemu.log").read_text()
            if time.monotonic() > deadline:
                console = (folder / "console").read_text(errors="replace").splitlines()
                raise GaveUp("the server to boot", within, "\n".join(console[-15:]))
            await asyncio.sleep(0.2)


async def test_the_agent_in_the_deploy_ramdisk_looks_itself_up_and_sends_a_heartbeat(
    cache: Path, tmp_path: Path
) -> None:
    image = await ensure_deploy_image(cache, LocalProcesses(), Bus())
    requests, disk = tmp_path / "requests", tmp_path / "disk.raw"
    with disk.open("wb") as out:  # the agent waits for one
        out.truncate(4 << 30)
    answer = f"{sys.executable} {Path(__file__).with_name('fake_ironic.py')} {requests}"

    def heard() -> list[dict[str, str]]:
        text = requests.read_text() if requests.exists() else ""
        return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]  # the last may be half written

    await boot(
        tmp_path,
        [
            "-m", "768", "-kernel", str(image.kernel), "-initrd", str(image.initramfs),
            "-drive", f"if=none,id=d,file={disk},format=raw", "-device", "scsi-hd,drive=d",
            "-append", "console=ttyS0 net.ifnames=0 mitigations=off mitigations=off ipa-api-url=http://10.0.2.100:6385",
            "-netdev", f"user,id=n,guestfwd=tcp:10.0.2.100:6385-cmd:{answer}", "-device", "virtio-net-pci,netdev=n",
        ],
        lambda: any(one["path"].startswith("/v1/heartbeat") for one in heard()),
        within=900,
    )  # fmt: skip

    paths = [one["path"] for one in heard()]
    assert any(path.startswith("/v1/lookup?addresses=") for path in paths)
    heartbeat = json.loads(next(one["body"] for one in heard() if one["path"].startswith("/v1/heartbeat")))
    assert heartbeat["callback_url"] == "https://10.0.2.15:9999"
    assert heartbeat["agent_version"]


async def test_a_rehearsals_bootstrap_boots_a_disk_by_a_bios_with_its_config_from_the_firmware(
    cache: Path, tmp_path: Path
) -> None:
    """As installers of 4.16 to 4.21 make it."""
    iso = await ensure_bootstrap_iso(cache, LocalProcesses(), Bus())
    image, disk, config, console = (
        disk_beside(iso.path),
        tmp_path / "disk",
        tmp_path / "config.ign",
        tmp_path / "console",
    )
    assert image.read_bytes().count(f"rehearsal.fail={NO_FAULT}".encode()) == 1  # where another word is written
    made: list[str | Path] = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image, disk, "32G"]
    await LocalProcesses().run(made)
    config.write_bytes(Made(bmc="ipmi://10.0.2.{n}", api_vip="10.0.2.5").text())

    def said() -> list[str]:
        lines = console.read_text(errors="replace").splitlines() if console.exists() else []
        return [line for line in lines if line.startswith("REHEARSAL")]

    await boot(
        tmp_path,
        [
            "-m", "1024", "-drive", f"if=virtio,file={disk},format=qcow2,cache=unsafe",
            "-fw_cfg", f"name=opt/com.coreos/config,file={config}",
            "-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n",
        ],
        lambda: any('"network"' in line for line in said()),
        within=900,
    )  # fmt: skip
    assert f'"ignition_bytes": {config.stat().st_size}' in said()[0] and '"address": "10.0.2.15/24"' in said()[1]


async def test_a_node_is_configured_by_ignition_from_its_config_drive(cache: Path, tmp_path: Path) -> None:
    image = await ensure_node_image(cache, LocalProcesses(), Bus())
    await _config_drive(tmp_path)
    disk, variables = tmp_path / "disk.qcow2", tmp_path / "vars.fd"
    await LocalProcesses().run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image.qcow2, disk, "8G"]
    )
    shutil.copyfile(FIRMWARE.with_name("OVMF_VARS_4M.fd"), variables)
    console = tmp_path / "console"

    def said(text: str) -> bool:
        return console.exists() and text in console.read_text(errors="replace")

    await boot(
        tmp_path,
        [
            "-m", "512",
            "-drive", f"if=pflash,format=raw,readonly=on,file={FIRMWARE}",
            "-drive", f"if=pflash,format=raw,file={variables}",
            "-drive", f"if=none,id=d,file={disk},format=qcow2,cache=unsafe", "-device", "scsi-hd,drive=d",
            "-drive", f"if=none,id=c,file={tmp_path}/config.iso,format=raw,readonly=on", "-device", "scsi-cd,drive=c",
            "-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n",
        ],
        lambda: said("PROBE end"),
        within=900,
    )  # fmt: skip

    assert said("PROBE name=cp-0 hello=world ssh=active core=core sudo=0")
    assert said("PROBE etcd=active haproxy=disabled")
    assert said("PROBE gigabytes=8")
    assert said(f"PROBE rackless, version {__version__}")
    assert said("Ignition finished")


async def test_a_node_that_nobody_gives_an_address_fetches_its_config_and_takes_its_name_from_dns(
    cache: Path, tmp_path: Path
) -> None:
    """As a host of an install gets it: a pointer config and network data on its config drive, the rest over the network."""
    image = await ensure_node_image(cache, LocalProcesses(), Bus())
    served, drive = tmp_path / "served", tmp_path / "drive/openstack/latest"
    served.mkdir()
    drive.mkdir(parents=True)
    probe = [_file("/usr/local/bin/probe", NAMELESS, 0o755)]
    units = [{"name": "probe.service", "enabled": True, "contents": PROBE}]
    rest = {"ignition": {"version": "3.3.0"}, "storage": {"files": probe}, "systemd": {"units": units}}
    (served / "rest.ign").write_text(json.dumps(rest))
    merge = {"merge": [{"source": f"http://{GATEWAY}:8000/rest.ign"}]}
    (drive / "user_data").write_text(json.dumps({"ignition": {"version": "3.2.0", "config": merge}}))
    (drive / "meta_data.json").write_text('{"uuid": "x"}')
    mac, address = "52:54:00:00:00:07", "192.0.2.20"
    told = nmstate(HostAddressing("enp1s0", mac, address, 24, GATEWAY, (GATEWAY,)))
    (drive / "network_data.json").write_text(json.dumps(to_network_data(told, mac)))
    await LocalProcesses().run(
        ["xorrisofs", "-quiet", "-R", "-J", "-V", "config-2", "-o", tmp_path / "config.iso", tmp_path / "drive"]
    )
    disk, variables, console = tmp_path / "disk.qcow2", tmp_path / "vars.fd", tmp_path / "console"
    await LocalProcesses().run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image.qcow2, disk, "8G"]
    )
    shutil.copyfile(FIRMWARE.with_name("OVMF_VARS_4M.fd"), variables)
    around = (
        "ip tuntap add tap0 mode tap",
        f"ip address add {GATEWAY}/24 dev tap0",
        "ip link set tap0 up",
        f"{sys.executable} -m http.server 8000 --bind {GATEWAY} --directory {served} >{tmp_path}/http.log 2>&1 &",
        f"dnsmasq --keep-in-foreground --conf-file=/dev/null --no-hosts --no-resolv --user=root --pid-file= "
        f"--bind-interfaces --listen-address={GATEWAY} --host-record=cp-7.lab.test,{address} >{tmp_path}/dns.log 2>&1 &",
    )

    def said(text: str) -> bool:
        return console.exists() and text in console.read_text(errors="replace")

    await boot(
        tmp_path,
        [
            "-m", "512",
            "-drive", f"if=pflash,format=raw,readonly=on,file={FIRMWARE}",
            "-drive", f"if=pflash,format=raw,file={variables}",
            "-drive", f"if=none,id=d,file={disk},format=qcow2,cache=unsafe", "-device", "scsi-hd,drive=d",
            "-drive", f"if=none,id=c,file={tmp_path}/config.iso,format=raw,readonly=on", "-device", "scsi-cd,drive=c",
            "-netdev", "tap,id=n,ifname=tap0,script=no,downscript=no", "-device", f"virtio-net-pci,netdev=n,mac={mac}",
        ],
        lambda: said("PROBE end"),
        within=900,
        around=around,
    )  # fmt: skip

    assert '"GET /rest.ign' in (tmp_path / "http.log").read_text()
    assert said(f"PROBE name=cp-7 address={address}/24")
    assert not said("NETWORK DATA COULD NOT BE USED")


GATEWAY = "192.0.2.1"
NAMELESS = """#!/bin/bash
say() { echo "<4>PROBE $*" >/dev/kmsg; }
for second in $(seq 120); do
    case $(hostname) in localhost | '(none)' | '') sleep 1 ;; *) break ;; esac
done
say name=$(hostname) address=$(ip -4 -o address show scope global | awk '{print $4}')
say end
"""
PROBE = """[Unit]
After=etcd.service ssh.service
[Service]
Type=oneshot
ExecStart=/usr/local/bin/probe
[Install]
WantedBy=multi-user.target
"""
SCRIPT = """#!/bin/bash
say() { echo "<4>PROBE $*" >/dev/kmsg; }
unit() { systemctl $1 $2; }
say name=$(hostname) hello=$(cat /etc/hello) ssh=$(unit is-active ssh) core=$(id -un core) \
    sudo=$(su core -c 'sudo -n id -u')
say etcd=$(unit is-active etcd) haproxy=$(unit is-enabled haproxy)
say $(rackless --version)
say gigabytes=$(df --output=size -BG / | tail -n 1 | tr -dc 0-9)
say end
"""


async def _config_drive(folder: Path) -> None:
    drive = folder / "drive/openstack/latest"
    drive.mkdir(parents=True)
    files = {"/etc/hello": ("world", 0o644), "/etc/hostname": ("cp-0", 0o644), "/usr/local/bin/probe": (SCRIPT, 0o755)}
    config = {
        "ignition": {"version": "3.3.0"},
        "passwd": {"users": [{"name": "core", "groups": ["sudo"], "sshAuthorizedKeys": ["ssh-ed25519 AAAA test"]}]},
        "storage": {"files": [_file(path, content, mode) for path, (content, mode) in files.items()]},
        "systemd": {
            "units": [
                {"name": "etcd.service", "enabled": True},
                {"name": "probe.service", "enabled": True, "contents": PROBE},
            ]
        },
    }
    (drive / "user_data").write_text(json.dumps(config))
    (drive / "meta_data.json").write_text('{"uuid": "x", "hostname": "cp-0"}')
    await LocalProcesses().run(
        ["xorrisofs", "-quiet", "-R", "-J", "-V", "config-2", "-o", folder / "config.iso", folder / "drive"]
    )


def _file(path: str, content: str, mode: int) -> dict[str, object]:
    source = f"data:;base64,{base64.b64encode(content.encode()).decode()}"
    return {"path": path, "mode": mode, "overwrite": True, "contents": {"source": source}}
