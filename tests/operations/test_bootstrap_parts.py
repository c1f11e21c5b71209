"""What runs on a bootstrap machine: against the embedded API, and with no more libraries than the node image has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rackless.api.process import ApiServer, ApiSettings
from rackless.operations.bootstrap import parts as bootstrap_parts
from rackless.operations.bootstrap.running import teller

NOT_ON_A_NODE = ("pydantic", "pydantic_core", "rich", "pyroute2", "libvirt", "jinja2", "ruamel")
PARTS = ("parts", "payload", "running", "leading", "metal3", "handover")
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


@pytest.mark.slow
def test_it_needs_no_library_that_the_node_image_does_not_have() -> None:
    """A start that fails there would be seen only in a VM."""
    away = "; ".join(f"sys.modules[{name!r}] = None" for name in NOT_ON_A_NODE)
    wanted = ", ".join(
        f"rackless.{name}" for name in ("cli.commands.bootstrap", *(f"operations.bootstrap.{part}" for part in PARTS))
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {away}; import {wanted}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


async def test_manifests_of_any_kind_are_made_once_a_later_one_defines_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "root/manifests"
    folder.mkdir(parents=True)
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "one", "namespace": "early"}}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "early"}}
    for number, each in enumerate((thing, space, DEFINITION)):  # the wrong way round
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(each))
    monkeypatch.setattr("rackless.cluster.bootstrap.manifests.PAUSE_SECONDS", 0.05)
    settings = ApiSettings(f"sqlite:{tmp_path}/store", tmp_path / "pki", port=0, kubeconfig=tmp_path / "kubeconfig")
    async with ApiServer(settings):
        for _ in range(2):  # again, as after a restart of the unit
            tell = teller()
            await bootstrap_parts.apply_manifests(tmp_path / "root", tmp_path / "kubeconfig", tell)
    told = capsys.readouterr().out
    assert told.count('"phase": "manifests applied"') == 2
    assert '"refused": "' in told
    assert told.count('"made": true') == 3 and told.count('"made": false') == 3


def test_the_payload_is_fetched_without_the_costly_imports() -> None:
    """Seconds each, on an emulated machine, before the first byte comes."""
    asked = "import sys, rackless.operations.bootstrap.payload; print({'aiohttp', 'cryptography', 'yaml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
def test_a_control_plane_that_waits_for_its_turn_has_not_imported_metal3() -> None:
    asked = (
        "import sys, rackless.operations.bootstrap.leading; print([name for name in sys.modules if 'ironic' in name])"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
