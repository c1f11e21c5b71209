"""The node agent as a program: `rackless-node`, kept running by systemd.

What it is given it finds where systemd puts it: credentials for it alone, and a folder of its own to keep keys in.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from rackless.node import addresses, facts, settings, status
from rackless.node.agent import Agent
from rackless.node.facts import Facts
from rackless.node.health import AgentHealth

KUBECONFIG = Path("/etc/kubernetes/bootstrap-kubeconfig")
SETTINGS = Path("/etc/rackless/node.json")
STATE = Path("/var/lib/rackless-node")
NAME_EVERY = 1.0
"""Seconds between two looks for a host name. Ending, to be started again by systemd, would cost an emulated processor several
seconds."""


def main() -> None:
    signal.signal(signal.SIGTERM, _end)
    try:
        run()
    except settings.BadSettings as error:
        _say(str(error))
        sys.exit(1)
    except (KeyboardInterrupt, _Ended):
        sys.exit(0)


def run() -> None:
    given = Path(os.environ.get("CREDENTIALS_DIRECTORY", "/nonexistent"))
    kubeconfig, uuid = given / "bootstrap-kubeconfig", given / "system-uuid"
    await_name(os.uname, time.sleep)
    told = settings.load(kubeconfig if kubeconfig.exists() else KUBECONFIG, SETTINGS)
    system_uuid = uuid.read_text().strip() if uuid.exists() else ""

    def look() -> Facts:
        return facts.look(addresses.choose(addresses.observe(), told.host), system_uuid=system_uuid)

    agent = Agent(told, Path(os.environ.get("STATE_DIRECTORY", STATE)), look, _say, age=age())
    health = AgentHealth(told.ca, status.PORT, lambda path: answer(agent, path))
    serving = None
    while True:
        wait = agent.step()
        if agent.served is not None and agent.served != serving:
            serving = agent.served
            try:
                health.serve_with(serving.path)
            except OSError as error:
                _say(f"port {status.PORT} is not served: {error}")
        health.wait(wait)


def age(stat: Path = Path("/proc/self/stat")) -> float:
    """For how many seconds this process has been running, including the start of Python."""
    began = int(stat.read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)


def await_name(system: Callable[[], os.uname_result], sleep: Callable[[float], None]) -> None:
    """Until the system has a host name: where Ignition gave it none, DHCP does."""
    told = False
    while system().nodename in settings.NAMELESS:
        if not told:
            _say("this system has no name yet; it waits for the one that DHCP gives")
        told = True
        sleep(NAME_EVERY)


def answer(agent: Agent, path: str) -> tuple[int, str]:
    match path:
        case "/healthz":
            return (200, "ok") if agent.ready else (503, "not registered")
        case "/metrics":
            return 200, metrics(agent)
    return 404, "there is /healthz and /metrics\n"


def metrics(agent: Agent) -> str:
    pairs = {"client": agent.pair, "serving": agent.served}
    lines = ["# TYPE rackless_node_ready gauge", f"rackless_node_ready {int(agent.ready)}"]
    lines.append("# TYPE rackless_node_lease_renewals_total counter")
    lines.append(f"rackless_node_lease_renewals_total {agent.renewals}")
    lines.append("# TYPE rackless_node_certificate_expiration_seconds gauge")
    if agent.ready_after is not None:
        lines.insert(2, "# TYPE rackless_node_ready_after_seconds gauge")
        lines.insert(3, f"rackless_node_ready_after_seconds {agent.ready_after:.3f}")
    for name, pair in pairs.items():
        if pair is not None:
            lines.append(f'rackless_node_certificate_expiration_seconds{{certificate="{name}"}} {pair.until}')
    return "\n".join(lines) + "\n"


class _Ended(BaseException):
    """We were asked to end."""


def _end(number: int, frame: FrameType | None) -> None:
    raise _Ended


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
