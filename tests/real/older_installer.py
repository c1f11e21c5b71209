"""A stand-in for an installer of 4.16 to 4.21: its bootstrap machine boots a disk image, has no console's log, and its config from
the firmware. All else is done by the real installer: its configs, and its waiting.

As a program: `older_installer.py REAL VERB…`; `write` makes an executable of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import yaml

RELEASE = "4.19.7"
_DOMAIN = """\
<domain type="{kind}" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"><name>{name}</name>
<memory unit="GiB">6</memory><vcpu>4</vcpu><os><type arch="x86_64">hvm</type></os>
<features><acpi></acpi><apic></apic><pae></pae></features><cpu mode="host-passthrough"></cpu>
<devices><disk type="volume" device="disk"><driver name="qemu" type="qcow2"></driver>
<source pool="{name}" volume="{name}"></source><target dev="vda" bus="virtio"></target></disk>
{nics}<console><target port="0"></target></console>
<channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"></target></channel>
<graphics type="vnc" autoport="yes"></graphics>
<rng model="virtio"><backend model="random">/dev/urandom</backend></rng></devices>
<qemu:commandline><qemu:arg value="-fw_cfg"></qemu:arg>
<qemu:arg value="name=opt/com.coreos/config,file={folder}/{name}.ign"></qemu:arg></qemu:commandline></domain>
"""
_NIC = '<interface type="bridge"><mac address="{mac}"/><source bridge="{bridge}"/><model type="virtio"/></interface>\n'


def write(place: Path, real: Path) -> Path:
    place.write_text(f'#!/bin/sh\nexec {sys.executable} -P {Path(__file__).resolve()} {real} "$@"\n')
    place.chmod(0o755)
    return place


def say(message: str) -> None:
    sys.stderr.write(f'time="2026-01-01T00:00:00Z" level=info msg="{message}"\n')
    sys.stderr.flush()


class Older:
    def __init__(self, real: str, folder: Path) -> None:
        self.real, self.folder = real, folder
        self.metal = yaml.safe_load((folder / "install-config.yaml").read_text())["platform"]["baremetal"]

    def call(self, *verb: str) -> None:
        done = subprocess.run([self.real, *verb, "--dir", str(self.folder), "--log-level=debug"], check=False)
        if done.returncode:
            sys.exit(done.returncode)

    def virsh(self, *words: str) -> None:
        subprocess.run(
            ["virsh", "--quiet", "--connect", self.metal["libvirtURI"], *words], check=True, stdout=subprocess.DEVNULL
        )

    def create(self) -> None:
        self.call("create", "ignition-configs")
        say("Creating infrastructure resources...")
        image, name = self.fetch(), f"{json.loads((self.folder / 'metadata.json').read_text())['infraID']}-bootstrap"
        pool = f"/var/lib/libvirt/openshift-images/{name}"
        self.virsh("pool-define-as", name, "dir", "--target", pool)
        for step in ("pool-build", "pool-autostart", "pool-start"):
            self.virsh(step, name)
        self.upload(name, f"{name}-base", image, "qcow2")
        overlay = ("--format", "qcow2", "--backing-vol", f"{name}-base", "--backing-vol-format", "qcow2")
        self.virsh("vol-create-as", name, name, "32GiB", *overlay)
        self.upload(name, f"{name}.ign", self.folder / "bootstrap.ign", "raw")
        bridges = {self.metal.get("externalBridge") or "baremetal": self.metal.get("externalMACAddress")}
        if self.metal.get("provisioningNetwork") != "Disabled":
            bridges[self.metal.get("provisioningBridge") or "provisioning"] = self.metal.get("provisioningMACAddress")
        nics = [
            _NIC.format(bridge=bridge, mac=mac or f"52:54:00:00:17:{number:02}")
            for number, (bridge, mac) in enumerate(bridges.items())
        ]
        kind = os.environ.get("TERRAFORM_LIBVIRT_TEST_DOMAIN_TYPE", "kvm")
        domain = self.folder / "domain.xml"
        domain.write_text(_DOMAIN.format(kind=kind, name=name, nics="".join(nics), folder=pool))
        self.virsh("define", str(domain))
        self.virsh("start", name)
        self.call("wait-for", "bootstrap-complete")
        say("Destroying the bootstrap resources...")
        self.virsh("destroy", name)
        self.virsh("undefine", name)
        for volume in (name, f"{name}-base", f"{name}.ign"):
            self.virsh("vol-delete", volume, "--pool", name)
        for step in ("pool-destroy", "pool-delete"):
            self.virsh(step, name)
        self.call("wait-for", "install-complete")

    def fetch(self) -> Path:
        url = os.environ["OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE"]
        image = Path(os.environ["TMPDIR"]) / "bootstrap.qcow2"
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=60) as answer:
            image.write_bytes(answer.read())
        assert hashlib.sha256(image.read_bytes()).hexdigest() == url.partition("?sha256=")[2]
        return image

    def upload(self, pool: str, name: str, file: Path, kind: str) -> None:
        self.virsh("vol-create-as", pool, name, str(file.stat().st_size), "--format", kind)
        self.virsh("vol-upload", name, str(file), "--pool", pool)


def main(real: str, *verb: str) -> None:
    if verb == ("version",):
        sys.stdout.write(f"openshift-install {RELEASE}\n")
        return
    assert verb[:2] == ("create", "cluster"), verb
    Older(real, Path(verb[verb.index("--dir") + 1])).create()


if __name__ == "__main__":
    main(*sys.argv[1:])
