"""A machine of our own: Debian 12 with its own kernel and systemd in QEMU, without a network, to be rebooted for real.

Its root is built once for what goes into it and kept in the cache of the tests; every machine writes into a layer of its
own. The project comes on a second disk, made of this tree at every start. Commands go through QEMU's guest agent.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rackless.errors import GaveUp
from rackless.operations.prepare import PACKAGES
from tests.real.conftest import ROOT

CACHE = Path.home() / ".cache" / "rackless-tests"
SOURCE = "/srv/rackless"
"""Where the project is in the machine."""
SYSTEM = ("linux-image-cloud-amd64", "initramfs-tools", "systemd-sysv", "dbus", "udev", "kmod", "procps", "curl")
AGENT = "qemu-guest-agent"
LIBRARIES = "usr/local/lib/python3.11/dist-packages"
TESTS_NEED = ("pytest", "pytest-asyncio", "hypothesis")
FSTAB = f"LABEL=machine / ext4 defaults 0 1\nLABEL=source {SOURCE} ext4 defaults 0 0\n"
DISK = "16G"
MEMORY = "6G"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BOOT_WITHIN = 600.0


def ensure_root() -> Path:
    """A folder with `root.ext4`, `vmlinuz` and `initrd.img`; built when it is not there, which takes minutes."""
    for program in ("mmdebstrap", "mke2fs", "qemu-system-x86_64"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not here: apt-get install mmdebstrap e2fsprogs qemu-system-x86")
    if sys.version_info[:2] != (3, 11):
        pytest.skip("its libraries are installed by this Python, and Debian 12 has 3.11")
    entry = CACHE / f"machine-{_key()}"
    if not entry.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".machine-", dir=CACHE) as folder:
            _build(Path(folder)).rename(entry)
        for older in CACHE.glob("machine-*"):
            if older != entry:
                shutil.rmtree(older)
    return entry


def _key() -> str:
    recipe = "".join(inspect.getsource(step) for step in (_build, _install_libraries, _make_disk))
    parts = (*SYSTEM, AGENT, *PACKAGES, *TESTS_NEED, FSTAB, DISK, recipe, (ROOT / "pyproject.toml").read_text())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _build(folder: Path) -> Path:
    tree, made = folder / "tree", folder / "made"
    made.mkdir()
    included = ",".join((*SYSTEM, AGENT, *PACKAGES))
    done = subprocess.run(
        ["mmdebstrap", "--variant=minbase", "--format=directory", f"--include={included}", "bookworm", str(tree)],
        capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"Debian's packages cannot be had: {done.stderr[-600:]}")
    _install_libraries(tree / LIBRARIES)
    (tree / "etc/fstab").write_text(FSTAB)
    (tree / "etc/hostname").write_text("machine\n")
    (tree / "etc/resolv.conf").write_text("")
    (tree / SOURCE[1:]).mkdir()
    for name in ("vmlinuz", "initrd.img"):
        shutil.copyfile(next((tree / "boot").glob(f"{name}-*")), made / name)
    _make_disk(made / "root.ext4", "machine", tree, DISK)
    return made


def _install_libraries(target: Path) -> None:
    """What the project needs, and its own entry there, as an editable installation has it."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-warn-conflicts"]
    done = subprocess.run([*pip, "--target", str(target), str(ROOT), *TESTS_NEED], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"Python's packages cannot be had: {done.stderr[-600:]}")
    shutil.rmtree(target / "rackless")
    (target / "rackless.pth").write_text(f"{SOURCE}/src\n")


def _make_disk(disk: Path, label: str, tree: Path, size: str) -> None:
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-L", label, "-d", str(tree), str(disk), size], check=True)


def _make_source(folder: Path) -> Path:
    """This tree as it is now, with byte code: compiling in the machine takes long."""
    tree, disk = folder / "source", folder / "source.ext4"
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy2(ROOT / name, tree / name)
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(tree / "src")], check=True)
    _make_disk(disk, "source", tree, "256M")
    shutil.rmtree(tree)
    return disk


class Unheard(Exception):
    """The agent in the machine does not answer, or not to this."""


@dataclass
class Agent:
    """QEMU's guest agent: one JSON object a line, both ways."""

    place: Path
    patience: float = 300.0
    _socket: socket.socket | None = None
    _rest: bytes = b""

    def ask(self, word: str, **arguments: Any) -> Any:
        self._send({"execute": word, "arguments": arguments})
        answer = json.loads(self._line(self.patience))
        if "error" in answer:
            raise Unheard(f"{word}: {answer['error']['desc']}")
        return answer["return"]

    def greet(self, within: float) -> None:
        """Until it answers: whatever was said before, to it or by it, is forgotten."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            self.close()
            with suppress(OSError, Unheard, ValueError):
                self._socket = socket.socket(socket.AF_UNIX)
                self._socket.connect(str(self.place))
                mark = int.from_bytes(os.urandom(4), "big")
                self._socket.sendall(b"\xff")
                self._send({"execute": "guest-sync-delimited", "arguments": {"id": mark}})
                while (line := self._line(10)) and json.loads(line.rpartition(b"\xff")[2]).get("return") != mark:
                    continue
                return
            time.sleep(1)
        raise Unheard(f"no answer within {within:.0f} s")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._rest = None, b""

    def _send(self, message: dict[str, Any]) -> None:
        assert self._socket is not None
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _line(self, within: float) -> bytes:
        assert self._socket is not None
        self._socket.settimeout(within)
        while b"\n" not in self._rest:
            try:
                more = self._socket.recv(65536)
            except TimeoutError:
                more = b""
            if not more:
                raise Unheard("no answer")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line


@dataclass
class Machine:
    folder: Path
    process: subprocess.Popen[bytes]
    agent: Agent = field(init=False)
    lab: str = "/root/lab"
    """Where commands are given, as a person would: the folder with lab.yaml."""

    def __post_init__(self) -> None:
        self.agent = Agent(self.folder / "agent")

    @property
    def console(self) -> Path:
        return self.folder / "console.log"

    def run(
        self, *argv: str, check: bool = True, given: str = "", timeout: float = 900
    ) -> subprocess.CompletedProcess[str]:
        started = self.agent.ask(
            "guest-exec",
            path="/bin/sh",
            arg=["-c", 'mkdir -p "$0" && cd "$0" && exec "$@"', self.lab, *argv],
            env=[f"PATH={PATH}", "HOME=/root", "LANG=C.UTF-8", "COLUMNS=120"],
            **{"input-data": base64.b64encode(given.encode()).decode(), "capture-output": True},
        )
        deadline = time.monotonic() + timeout
        while not (found := self.agent.ask("guest-exec-status", pid=started["pid"]))["exited"]:
            if time.monotonic() > deadline:
                pytest.fail(f"{' '.join(argv)} in the machine does not end within {timeout:.0f} s")
            time.sleep(1)
        out, err = (base64.b64decode(found.get(f"{name}-data", "")).decode() for name in ("out", "err"))
        done = subprocess.CompletedProcess(argv, found.get("exitcode", -1), out, err)
        if check and done.returncode != 0:
            pytest.fail(f"{' '.join(argv)} in the machine exited with {done.returncode}\n{out}\n{err}")
        return done

    def rackless(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("python3", "-P", "-m", "rackless", *arguments, check=check)

    def up(self) -> None:
        """As far as the BMCs. An emulated machine that is also busy may be slower than `up` is patient; then it goes on."""
        for _ in range(3):
            done = self.rackless("up", "--until", "bmc", check=False)
            if done.returncode != GaveUp.exit_code:
                break
        assert done.returncode == 0, done.stdout + done.stderr

    def describe(self, text: str) -> None:
        self.run("tee", "lab.yaml", given=text)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.rackless("status", "--json").stdout)
        return found

    def await_file(self, path: str, content: str, within: float = 120) -> None:
        deadline = time.monotonic() + within
        while (said := self.run("cat", path, check=False).stdout) != content:
            assert time.monotonic() < deadline, f"{path} still says {said!r}"
            time.sleep(1)

    def boot_id(self) -> str:
        return self.run("cat", "/proc/sys/kernel/random/boot_id").stdout.strip()

    def reboot(self, *command: str) -> None:
        """By a command in it; returns when the next system is there."""
        before = self.boot_id()
        self.agent.ask("guest-exec", path="/bin/sh", arg=["-c", 'exec "$@"', "sh", *command], env=[f"PATH={PATH}"])
        patience, self.agent.patience = self.agent.patience, 20  # it may end with our question half answered
        deadline = time.monotonic() + BOOT_WITHIN
        while time.monotonic() < deadline:
            with suppress(OSError, Unheard):
                self.agent.greet(deadline - time.monotonic())
                if self.boot_id() != before:
                    self.agent.patience = patience
                    return
            time.sleep(1)
        pytest.fail(f"the machine did not come back: {self.console.read_text(errors='replace')[-2000:]}")


@contextmanager
def running(folder: Path) -> Iterator[Machine]:
    built = ensure_root()
    layer = folder / "layer.qcow2"
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(built / "root.ext4"), str(layer)], check=True
    )
    # emulated everywhere: a machine that runs KVM inside KVM would be another story than the one that is told here
    qemu = subprocess.Popen(
        ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,svm=off,la57=off",
         "-smp", "2", "-m", MEMORY, "-nic", "none", "-display", "none", "-monitor", "none",
         "-serial", f"file:{folder / 'console.log'}",
         "-kernel", str(built / "vmlinuz"), "-initrd", str(built / "initrd.img"),
         "-append", "root=LABEL=machine rw console=ttyS0 quiet panic=1",
         "-drive", f"file={layer},format=qcow2,if=virtio,discard=unmap",
         "-drive", f"file={_make_source(folder)},format=raw,if=virtio",
         "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
         "-chardev", f"socket,id=agent,path={folder / 'agent'},server=on,wait=off",
         "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"],
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    machine = Machine(folder, qemu)
    try:
        machine.agent.greet(BOOT_WITHIN)
        yield machine
    finally:
        machine.agent.close()
        qemu.kill()
        qemu.wait()
        layer.unlink()
