"""Servers, pools and networks that somebody else makes through the lab's libvirt; above all the real OpenShift installer's."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rackless.lab.accounts import QEMU_NUMBER
from tests.real import bootable, openshift
from tests.real.conftest import PretendHost
from tests.real.test_lab_confinement import can, credentials, qemu

pytestmark = pytest.mark.real

PULL_SECRET = '{"auths": {"registry.invalid": {"auth": "bm86Ym9keQ=="}}}'
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDUvLmqtbD4rXPYzrkJPgfLKCZPjlx8CVuOlFkqMrHLx nobody"
DEADLINE = 600
"""Seconds; the boot under Secure Boot takes 13 of one processor, of which others may take most."""


def within(what: Callable[[], bool], why: Callable[[], str]) -> None:
    end = time.monotonic() + DEADLINE
    while not what():
        assert time.monotonic() < end, why()
        time.sleep(0.2)


DOMAIN = """\
<domain type='qemu'>
  <name>stranger</name>
  <memory unit='MiB'>256</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <cpu mode='custom' match='exact' check='none'><model fallback='forbid'>Nehalem</model></cpu>
  <devices>
    <disk type='volume' device='cdrom'>
      <driver name='qemu' type='raw'/><source pool='theirs' volume='cd.iso'/><target dev='sda' bus='sata'/><readonly/>
      <boot order='1'/>
    </disk>
    <disk type='volume' device='disk'>
      <driver name='qemu' type='qcow2'/><source pool='theirs' volume='overlay'/><target dev='vda' bus='virtio'/>
    </disk>
    <interface type='network'><source network='theirs'/><model type='virtio'/></interface>
    <serial type='pty'><log file='/var/log/libvirt/qemu/stranger-serial0.log' append='on'/></serial>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <graphics type='vnc' autoport='yes'/>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>
"""
NETWORK = """\
<network>
  <name>theirs</name><bridge name='theirs'/><forward mode='nat'/>
  <ip address='10.77.0.1' netmask='255.255.255.0'><dhcp><range start='10.77.0.10' end='10.77.0.20'/></dhcp></ip>
</network>
"""


def virsh(host: PretendHost, *arguments: str) -> str:
    return host.rackless("exec", "--", "virsh", "--quiet", *arguments).stdout


def test_servers_pools_and_networks_of_others_work_before_one_of_ours_has_started(host: PretendHost) -> None:
    host.rackless("up", "--until", "bmc")
    iso = bootable.iso(host.folder, "FROMISO", uefi=False)
    virsh(host, "pool-define-as", "theirs", "dir", "--target", "/var/lib/libvirt/theirs")
    for command in ("pool-build", "pool-start", "pool-autostart"):
        virsh(host, command, "theirs")
    virsh(host, "vol-create-as", "theirs", "cd.iso", str(iso.stat().st_size), "--format", "raw")
    virsh(host, "vol-upload", "--pool", "theirs", "cd.iso", str(iso))
    virsh(host, "vol-create-as", "theirs", "base", "64MiB", "--format", "qcow2")
    virsh(host, "vol-create-as", "theirs", "overlay", "64MiB", "--format", "qcow2",
          "--backing-vol", "base", "--backing-vol-format", "qcow2")  # fmt: skip
    for kind, text in (("net", NETWORK), ("domain", DOMAIN)):
        (host.folder / f"{kind}.xml").write_text(text)
    virsh(host, "net-define", "net.xml")
    virsh(host, "net-start", "theirs")
    virsh(host, "define", "domain.xml")
    virsh(host, "start", "stranger")
    log = host.folder / "state/lab/logs/libvirt/qemu/stranger-serial0.log"
    within(lambda: "FROMISO" in log.read_text(), log.read_text)
    pid = qemu(host, "stranger")
    assert credentials(pid)["Uid"].split() == [str(QEMU_NUMBER)] * 4
    state = host.folder / "state/lab"
    ours = [Path("/var/lib/libvirt/servers/disks", path.name) for path in (state / "disks").iterdir()]
    assert len(ours) == 4 and can(host, pid, "-r", ours) == []
    theirs = [f"/var/lib/libvirt/theirs/{name}" for name in ("base", "cd.iso", "overlay")]
    assert can(host, pid, "-r", theirs) == theirs
    virsh(host, "destroy", "stranger")
    virsh(host, "start", "stranger")  # their files are theirs again, and QEMU's once more
    host.rackless("destroy", "--yes")
    assert host.inhabitants() == [] and not state.exists()


def test_the_openshift_installer_gets_as_far_as_waiting_for_the_api(host: PretendHost) -> None:
    """On a lab that has never started a server. What is interrupted there stays, and goes with the lab."""
    installer, iso = openshift.require()
    before = host.snapshot()
    socket, folder = host.folder / "proxy.sock", host.folder / "cluster"
    folder.mkdir()
    (host.folder / "pull-secret").write_text(PULL_SECRET)
    (host.folder / "key.pub").write_text(KEY)
    host.rackless("up", "--until", "bmc")
    host.rackless("install-config", "--version", "5.0", "--pull-secret", "pull-secret", "--ssh-key", "key.pub")
    config = (host.folder / "install-config.yaml").read_text()
    (libvirt,) = re.findall(r"^ *libvirtURI: (.*)$", config, re.MULTILINE) or [None]
    uri = f"libvirtURI: qemu+unix:///system?socket={socket}"
    assert "platform:\n  baremetal:\n" in config
    config = config.replace("platform:\n  baremetal:\n", f"platform:\n  baremetal:\n    {uri}\n") if not libvirt else (
        config.replace(f"libvirtURI: {libvirt}", uri))  # fmt: skip
    (folder / "install-config.yaml").write_text(config)
    environment = [
        f"OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE=http://127.0.0.1:8098/{iso.name}",
        f"OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE={openshift.RELEASE}",
        "TERRAFORM_LIBVIRT_TEST_DOMAIN_TYPE=qemu",
        f"XDG_CACHE_HOME={host.folder}/cache", f"HOME={host.folder}", f"TMPDIR={host.folder}",
    ]  # fmt: skip
    said = host.folder / "said"
    with (
        openshift.beside(
            host,
            sys.executable,
            "-P",
            "-m",
            "rackless.cluster.openshift.libvirt_proxy",
            str(socket),
            "/run/libvirt/libvirt-sock",
        ),
        openshift.beside(
            host, sys.executable, "-m", "http.server", "8098", "--bind", "127.0.0.1", "--directory", str(iso.parent)
        ),
        said.open("w") as file,
    ):
        within(socket.exists, lambda: "the proxy does not listen")
        run = subprocess.Popen(
            host.enter(
                sys.executable, "-P", "-m", "rackless", "exec", "--", "env", *environment,
                str(installer), "create", "cluster", "--dir", str(folder), "--log-level=debug",
            ),
            env=host.environment, stdout=file, stderr=file,
        )  # fmt: skip
        try:
            logs = host.folder / "state/lab/logs/libvirt/qemu"

            def serial() -> str:
                return "".join(path.read_text(errors="replace") for path in logs.glob("*-serial0.log"))

            def story() -> str:
                return f"{said.read_text()[-3000:]}\n{serial()[-2000:]}"

            def waits() -> bool:
                assert run.poll() is None, story()
                return "for the Kubernetes API" in said.read_text()

            within(waits, story)
            within(lambda: "BOOTSTRAP ready" in serial(), story)
            run.send_signal(signal.SIGINT)
            assert run.wait(timeout=60) == 8
        finally:
            run.kill()
            run.wait()
            iso.unlink()
    assert "BOOTSTRAP lease 192.168.111.9 bootstrap lab.rackless.test" in serial()
    (size,) = re.findall(r"BOOTSTRAP ignition (\d+)", serial())
    assert int(size) > 100_000, "the installer's Ignition config reached the computer"
    domains = host.rackless("exec", "--", "virsh", "list", "--name").stdout.split()
    assert len(domains) == 1 and domains[0].endswith("-bootstrap")
    assert credentials(qemu(host, domains[0]))["Uid"].split() == [str(QEMU_NUMBER)] * 4
    assert host.rackless("exec", "--", "virsh", "pool-list", "--name").stdout.split() == domains
    host.rackless("destroy", "--yes")
    assert host.inhabitants() == []
    after = host.snapshot()
    made = [name for name in after["files"][str(host.folder)] if Path(name).parts[0] in ("state", "run")]
    assert made == []
    assert {part: after[part] for part in after if part != "files"} == {
        part: before[part] for part in before if part != "files"
    }
