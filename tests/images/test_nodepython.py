import subprocess
import sys
from importlib import metadata

import pytest

from rackless.images import files, nodepython

_IMPORTS = """
import importlib.metadata, json, sys
before = set(sys.modules)
import uvloop, rackless.cli.main, rackless.cli.commands.api
import rackless.api.process, rackless.api.stores.etcd, rackless.api.stores.rpc
print("\\n".join(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""


@pytest.mark.slow
def test_everything_that_serving_the_api_imports_is_pinned_for_the_node() -> None:
    """A library that is used on the hypervisor and forgotten here would be missed only when a node boots."""
    lines = files.read(nodepython.REQUIREMENTS).decode().splitlines()
    pinned = {_normal(line.partition("==")[0]) for line in lines if line and not line.startswith("#")}
    owners = metadata.packages_distributions()
    imported = subprocess.run([sys.executable, "-P", "-c", _IMPORTS], capture_output=True, text=True).stdout.split()
    assert "grpclib" in imported and "aiohttp" in imported
    wanted = {_normal(owner) for name in imported for owner in owners.get(name, ())} - {"rackless"}
    optional = {"backports-zstd", "setuptools"}  # used where they happen to be
    assert wanted - optional <= pinned


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
