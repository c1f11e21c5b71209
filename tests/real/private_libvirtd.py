"""A libvirtd of our own, in a network and a mount namespace of its own, reached by a socket in a folder.

`python -m tests.real.private_libvirtd FOLDER`, in such namespaces, becomes it. The computer's own libvirt, if it has one, is
neither seen nor touched.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rackless.drivers import namespaces
from rackless.drivers.libvirt.binding import libvirt
from rackless.holder.mounts import ACCOUNTS
from rackless.lab import libvirtd
from rackless.lab.accounts import ServerAccounts
from tests.real.spaces import hold

ROOT = Path(__file__).parents[2]
_PRIVATE = ("run", "var/lib", "var/cache", "var/log", "etc/libvirt")


@dataclass
class PrivateLibvirtd:
    folder: Path
    holder: str
    process: subprocess.Popen[bytes]

    def uri(self, driver: str) -> str:
        """`test:///default` or `qemu:///system`, here."""
        scheme, _, path = driver.partition(":")
        return f"{scheme}+unix:{path}?socket={self.folder}/sock/libvirt-sock"

    def restart(self) -> None:
        self.stop()
        self.process = _launch(self.folder, self.holder)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


@contextmanager
def private_libvirtd(folder: Path) -> Iterator[PrivateLibvirtd]:
    (folder / "sock").mkdir(parents=True)
    # servers outlive libvirtd, and the namespace in which they are must too
    holder = hold("--net", "--mount", "--propagation", "private")
    try:
        subprocess.run(_inside(holder.pid, "--mount", folder), check=True, cwd=ROOT)
        found = PrivateLibvirtd(folder, str(holder.pid), _launch(folder, str(holder.pid)))
        yield found
        found.stop()
    finally:
        _end_inhabitants(holder.pid)
        holder.kill()
        holder.wait()


def _end_inhabitants(holder: int) -> None:
    """Whatever lives in the namespace ends with the test, also when the test failed before it knew of it."""
    ours = namespaces.network_id(Path(f"/proc/{holder}/ns/net"))
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != holder and namespaces.network_id(entry / "ns/net") == ours:
            with suppress(ProcessLookupError):
                os.kill(int(entry.name), signal.SIGKILL)


def _inside(holder: int | str, what: str, folder: Path) -> list[str]:
    me = [sys.executable, "-m", "tests.real.private_libvirtd", what, str(folder)]
    return ["nsenter", "-t", str(holder), "-m", "-n", f"--wd={ROOT}", "--", *me]


def _launch(folder: Path, holder: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        _inside(holder, "--run", folder), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    uri = f"test+unix:///default?socket={folder}/sock/libvirt-sock"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            libvirt().registerErrorHandler(lambda *_: None, None)  # it would print
            libvirt().open(uri).close()
            return process
        except libvirt().libvirtError:
            time.sleep(0.1)
    raise RuntimeError((folder / "libvirtd.log").read_text())


def _mount(folder: Path) -> None:
    for name in _PRIVATE:
        own = folder / "root" / name
        own.mkdir(parents=True)
        subprocess.run(["mount", "--bind", str(own), f"/{name}"], check=True)
    libvirtd.write_configuration(
        Path("/etc/libvirt"), ServerAccounts(0, 0, own=False)
    )  # tests keep disks where only root gets to
    for table, line in ACCOUNTS.items():
        own = folder / "root" / table.name
        own.write_text(table.read_text() + line)
        subprocess.run(["mount", "--bind", str(own), str(table)], check=True)
    (folder / "libvirtd.conf").write_text(
        f'unix_sock_dir = "{folder}/sock"\nauth_unix_rw = "none"\nmax_clients = 20000\n'
        f'log_outputs = "3:file:{folder}/libvirtd.log"\n'
    )


if __name__ == "__main__":
    if sys.argv[1] == "--mount":
        _mount(Path(sys.argv[2]))
    else:
        os.execvp("libvirtd", ["libvirtd", "-f", f"{sys.argv[2]}/libvirtd.conf", "-p", f"{sys.argv[2]}/libvirtd.pid"])
