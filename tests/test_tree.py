"""The tree: imports run one way, also those that only a type checker sees and those inside functions."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


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
