"""The tree: imports run one way, also those that only a type checker sees and those inside functions."""

from __future__ import annotations

import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

SOURCES = Path(__file__).parents[1] / "src" / "rackless"
BARE_SERVERS = re.compile(r"web\.(AppRunner|Server|run_app)[()]")
"""Of aiohttp: they wait for ever for half a request, and have no bound of connections."""
GUARDS = {"run/connections.py", "bmc/redfish/http.py"}
BARE_TLS = re.compile(r"web\.(TCPSite|SockSite|UnixSite)\([^()]*ssl_context", re.DOTALL)
"""Sites of aiohttp's that wait a minute for a handshake; what waits there is counted by no bound of connections."""

OPEN_DRIVERS = {
    "holder.main", "labd.main",
    "operations.lab", "operations.lab_registry", "operations.sizing", "operations.this_computer",
    "operations.bootstrap.vm", "operations.controllers", "operations.install.lab", "operations.openshift.help",
    "operations.openshift.lab", "operations.rehearsal.rehearse", "operations.rehearsal.metal",
}  # fmt: skip
"""Where a process or a command begins: it opens all drivers, of this computer or of a world of fakes, and hands them on."""
TAKE_ONE_DRIVER = {
    "holder.visitor": "becomes the lab's owner, in a process of its own",
    "operations.controllers": "speaks to the API of the kubeconfig that it was given; --pretend is an engine that is none",
    "operations.pivot": "speaks to the APIs of two kubeconfigs",
    "operations.install.cluster": "reads which packages Ironic is made of",
    "operations.rehearsal.release": "reads which packages Ironic is made of",
    "operations.bootstrap.handover": "runs on the bootstrap machine and on control planes",
    "operations.bootstrap.leading": "runs on control planes",
    "operations.bootstrap.metal3": "runs on the bootstrap machine and on control planes",
    "operations.bootstrap.parts": "runs on the bootstrap machine and on control planes",
    "operations.bootstrap.payload": "runs on the bootstrap machine and on control planes",
    "operations.rehearsal.bootstrap": "runs on the bootstrap machine of a rehearsal",
    "operations.rehearsal.operators": "runs on a control plane of a rehearsal",
    "operations.rehearsal.stage": "stands in for a bootstrap machine, in a process of its own",
}
"""Programs that know which driver they use, with the reason: most run on a node, where there is no lab to be opened."""


def order(imports: dict[str, set[str]]) -> list[str]:
    """The modules, each after what it imports. Raises CycleError, which names the modules of one cycle."""
    return list(TopologicalSorter(imports).static_order())


@cache
def imports() -> dict[str, set[str]]:
    """What each module imports, also for a type checker only and inside functions."""
    graph = grimp.build_graph("rackless", cache_dir=None, exclude_type_checking_imports=False)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert len(order(imports())) == len(imports()) > 500


def test_drivers_are_opened_where_a_process_or_a_command_begins_and_nobody_else_knows_which_they_are() -> None:
    """`simulation` makes the world of fakes, and may know them."""
    above = {
        module.removeprefix("rackless."): {name for name in found if f"{name}.".startswith("rackless.drivers.")}
        for module, found in imports().items()
        if not module.startswith(("rackless.drivers", "rackless.simulation"))
    }
    assert {module for module, found in above.items() if "rackless.drivers" in found} == OPEN_DRIVERS
    assert {module for module, found in above.items() if found - {"rackless.drivers"}} == set(TAKE_ONE_DRIVER)


def test_a_cycle_would_be_found() -> None:
    with pytest.raises(CycleError):
        order({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()})


def test_no_server_is_without_deadlines_and_bounds() -> None:
    places = {str(file.relative_to(SOURCES)): file.read_text() for file in SOURCES.rglob("*.py")}
    assert {place for place, text in places.items() if BARE_SERVERS.search(text)} == GUARDS
    assert not {place for place, text in places.items() if BARE_TLS.search(text)}
    assert BARE_TLS.search("web.TCPSite(runner, None, 1, ssl_context=tls)")
