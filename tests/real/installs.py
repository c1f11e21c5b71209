"""Installs by a bootstrap in a pretend host: making one, asking its cluster, and watching the API VIP meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.real import vip_watch
from tests.real.conftest import PretendHost

LAB = """\
name: ipi
servers:
  ctrl: {{role: control-plane, count: {masters}, memory: 2GiB}}
  worker: {{role: worker, count: 1}}
cluster: {{method: ipi}}
"""
GATEWAY, VIP, BOOTSTRAP = "192.168.111.1", "192.168.111.5", "192.168.111.9"
UP_WITHIN = 5400
UPS = 6
"""As often as somebody runs `up` again."""
EVENT_WITHIN = 1800
RELEASE_PORT = 6180
Asking = Callable[[str], list[dict[str, Any]]]
"""All objects of a kind, as kubectl tells them."""
Found = TypeVar("Found")


def install(host: PretendHost, masters: int) -> None:
    (host.folder / "lab.yaml").write_text(LAB.format(masters=masters))
    host.rackless("up", "--no-install", timeout=UP_WITHIN)


def kubeconfig(host: PretendHost) -> Path:
    """By its whole path: kubectl does not find out which folder it is in, when it was entered with another namespace."""
    return host.folder / "cluster.kubeconfig"


def asking(host: PretendHost) -> Asking:
    """kubectl on the cluster's own API."""
    host.rackless("kubeconfig", "--cluster", "-o", str(kubeconfig(host)))

    def ask(kind: str) -> list[dict[str, Any]]:
        argv = ("kubectl", "--kubeconfig", str(kubeconfig(host)), "get", "-A", "-o", "json", kind)
        # an API on a busy emulated machine may not answer in kubectl's time
        found = await_(lambda: host.run(*argv, check=False), lambda found: found.returncode == 0, within=300)
        items: list[dict[str, Any]] = json.loads(found.stdout)["items"]
        return items

    return ask


def states(hosts: list[dict[str, Any]]) -> dict[str, str]:
    return {each["metadata"]["name"]: each["status"]["provisioning"]["state"] for each in hosts}


def leader(ask: Asking) -> str:
    """Who looks after the hosts."""
    found = [each["spec"]["holderIdentity"] for each in ask("leases") if each["metadata"]["name"] == "metal3"]
    return str(found[0]) if found else ""


def bmc_callers(host: PretendHost) -> set[tuple[str, str]]:
    audit = [json.loads(line) for line in (host.folder / "state/ipi/logs/bmc-audit.jsonl").read_text().splitlines()]
    return {(each["client"], each["server"]) for each in audit}


def await_(look: Callable[[], Found], good: Callable[[Found], bool], within: float) -> Found:
    deadline = time.monotonic() + within
    while not good(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(5)
    return found


class Going:
    """`up`, while other things happen. When it ends with an error, somebody runs it again, a few times."""

    def __init__(self, host: PretendHost) -> None:
        self.host = host
        self.ended: list[tuple[int, str]] = []
        """Of each run that is over: its exit code, and what it said."""
        self._start()

    def _start(self) -> None:
        self._log = self.host.folder / f"up-{len(self.ended)}.log"
        argv = self.host.enter(sys.executable, "-P", "-m", "rackless", "up", "--no-install")
        with self._log.open("wb") as out:
            self._up = subprocess.Popen(
                argv, stdout=out, stderr=subprocess.STDOUT, cwd=self.host.folder, env=self.host.environment
            )

    def _over(self) -> bool:
        """Whether it has ended well."""
        if (code := self._up.poll()) is None:
            return False
        said = self._log.read_text()
        self.ended.append((code, said))
        assert "Traceback" not in said and len(self.ended) < UPS, said
        if code != 0:
            self._start()
        return code == 0

    def await_event(self, since: int = 0, **wanted: str) -> int:
        """Wait until the lab's log has an event with these fields after the one numbered `since`; its number."""
        log, deadline = self.host.folder / "state/ipi/logs/events.jsonl", time.monotonic() + EVENT_WITHIN
        while True:
            for line in log.read_text().splitlines(keepends=True):
                told = json.loads(line) if line.endswith("\n") else {"seq": 0}
                if told["seq"] > since and all(told.get(name) == value for name, value in wanted.items()):
                    return int(told["seq"])
            assert not self._over() and time.monotonic() < deadline, f"nothing was told of {wanted}"
            time.sleep(1)

    def await_end(self, code: int = 0) -> str:
        """What the run said that ended with this exit code, the first that ends from now on."""
        deadline, before = time.monotonic() + UP_WITHIN, len(self.ended)
        while code not in [each for each, _ in self.ended[before:]]:
            self._over()
            assert time.monotonic() < deadline
            time.sleep(1)
        return next(said for each, said in self.ended[before:] if each == code)

    def stop(self) -> None:
        if self._up.poll() is None:
            self._up.terminate()
        self._up.wait()


@contextmanager
def going(host: PretendHost) -> Iterator[Going]:
    up = Going(host)
    try:
        yield up
    finally:
        up.stop()


def in_lab(host: PretendHost, *argv: str) -> str:
    """As root in the lab's own network namespace."""
    done = subprocess.run(["nsenter", f"--net={host.pin('ipi')}", "--", *argv], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def on_bootstrap(host: PretendHost, *argv: str) -> None:
    """Over ssh; the machine is busy, and may need a second try."""
    await_(
        lambda: host.rackless("ssh", "bootstrap", "--", *argv, check=False),
        lambda done: done.returncode == 0,
        within=300,
    )


def bootstrap_vm(host: PretendHost) -> str:
    names = host.rackless("exec", "--", "virsh", "list", "--all", "--name").stdout.split()
    (name,) = [each for each in names if each.endswith("-bootstrap")]
    return name


@contextmanager
def watched_vip(host: PretendHost) -> Iterator[Callable[[], list[str]]]:
    """From the lab's gateway, from the moment that the install has an authority to believe."""
    log, ca = host.folder / "vip.jsonl", host.folder / "state/ipi/secrets/cluster/api/ca.crt"
    watch = [sys.executable, vip_watch.__file__, "virbr0", GATEWAY, VIP, str(ca), str(UP_WITHIN), "4"]
    begin = f'until [ -e "{ca}" ]; do sleep 1; done; exec "$@"'
    argv = [sys.executable, "-P", "-m", "rackless", "exec", "--name", "ipi", "--", *watch]
    with log.open("wb") as out:
        watcher = subprocess.Popen(
            host.enter("sh", "-c", begin, "sh", *argv), stdout=out, cwd=host.folder, env=host.environment
        )
    try:
        yield lambda: [line for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    finally:
        watcher.terminate()
        watcher.wait()
