"""Kubernetes clients written by others, at the embedded API: Ansible's modules and the JavaScript client's informer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.api.conftest import Running, running  # noqa: F401 - a fixture
from tests.kept import CACHE
from tests.real.strangers import ANSIBLE, environment

pytestmark = pytest.mark.real

HERE = Path(__file__).parent
CLIENT = "@kubernetes/client-node@1.4.0"


def run(*argv: str, cwd: Path | None = None, **environment: str) -> str:
    found = subprocess.run(
        argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **environment}, timeout=900,
        cwd=cwd,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout
    return found.stdout


def test_ansibles_modules_work(running: Running, tmp_path: Path) -> None:  # noqa: F811
    programs = environment("ansible", ANSIBLE)
    given = {"kubeconfig": str(running.kubeconfig), "ansible_python_interpreter": str(programs / "python")}
    output = run(
        str(programs / "ansible-playbook"), "-i", "localhost,", "-c", "local", str(HERE / "playbooks" / "kubernetes.yaml"),
        "-e", json.dumps(given), ANSIBLE_HOME=str(tmp_path), ANSIBLE_LOCALHOST_WARNING="False", ANSIBLE_NOCOLOR="1",
    )  # fmt: skip
    assert "failed=0" in output


def test_the_javascript_clients_informer_is_told_everything(running: Running) -> None:  # noqa: F811
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed here")
    folder = CACHE / f"javascript-{CLIENT.rpartition('@')[2]}"
    if not (folder / "node_modules" / "@kubernetes").exists():
        folder.mkdir(parents=True, exist_ok=True)
        run("npm", "install", "--no-fund", "--no-audit", CLIENT, cwd=folder)
    program = folder / "informer.mjs"
    program.write_text((HERE / "informer.mjs").read_text())
    told = run("node", str(program), cwd=folder, KUBECONFIG=str(running.kubeconfig))
    assert told.splitlines()[-1] == "delete stranger three"
