"""The tree: imports run one way, also those that only a type checker sees and those inside functions."""

from __future__ import annotations

import re
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


def order(imports: dict[str, set[str]]) -> list[str]:
    """The modules, each after what it imports. Raises CycleError, which names the modules of one cycle."""
    return list(TopologicalSorter(imports).static_order())


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = grimp.build_graph("rackless", cache_dir=None, exclude_type_checking_imports=False)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(order(imports)) == len(graph.modules) > 500


def test_a_cycle_would_be_found() -> None:
    with pytest.raises(CycleError):
        order({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()})


def test_no_server_is_without_deadlines_and_bounds() -> None:
    places = {str(file.relative_to(SOURCES)): file.read_text() for file in SOURCES.rglob("*.py")}
    assert {place for place, text in places.items() if BARE_SERVERS.search(text)} == GUARDS
    assert not {place for place, text in places.items() if BARE_TLS.search(text)}
    assert BARE_TLS.search("web.TCPSite(runner, None, 1, ssl_context=tls)")
