"""kopf: an operator of ours, and one of its own examples as it comes with its sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kept import CACHE

from .conftest import Running, widget
from .test_clients import _define, _python

pytestmark = pytest.mark.real
SOURCES = "kopf==1.45.2 --hash=sha256:5baa180cfdebe1c5095d2a0a96d7d91825b6920541a0825c55719c36abb0054f"


def _examples() -> Path:
    """kopf's examples, which only its source archive has: fetched once, checked, unpacked."""
    folder = CACHE / "kopf-sources"
    found = folder / "kopf-1.45.2" / "examples"
    if found.exists():
        return found
    folder.mkdir(parents=True, exist_ok=True)
    wanted = folder / "requirements.txt"
    wanted.write_text(SOURCES + "\n")
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "kopf", "--require-hashes",
             "--requirement", str(wanted), "--dest", str(folder)]  # fmt: skip
    done = subprocess.run(fetch, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"kopf's sources cannot be had here: {done.stderr[-300:]}")
    with tarfile.open(folder / "kopf-1.45.2.tar.gz") as archive:
        wanted_files = [m for m in archive if m.isfile() and m.name.startswith("kopf-1.45.2/examples/")]
        archive.extractall(folder, members=wanted_files)
    return found


@contextmanager
def _operator(running: Running, file: Path, log: Path) -> Iterator[None]:
    """kopf running a file, until the end of the block."""
    env = {**os.environ, "KUBECONFIG": str(running.kubeconfig)}
    with log.open("wb") as out:
        command = [sys.executable, "-m", "kopf", "run", str(file), "-n", "default", "--verbose"]
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out)
        try:
            yield
        except BaseException:
            print(log.read_text()[-4000:])  # noqa: T201
            raise
        finally:
            process.terminate()
            process.wait()
    assert "Traceback" not in log.read_text()


def test_kopf_runs_its_own_first_example(running: Running, tmp_path: Path) -> None:
    examples = _examples()
    shutil.copy(examples / "01-minimal" / "example.py", tmp_path / "example.py")
    _python(
        running,
        f"""
        from kubernetes import client, config
        config.load_kube_config()
        import yaml
        definition = yaml.safe_load(open({str(examples / "crd.yaml")!r}))
        client.ApiextensionsV1Api().create_custom_resource_definition(definition)
        """,
    )
    with _operator(running, tmp_path / "example.py", tmp_path / "kopf.log"):
        _python(
            running,
            f"""
            import time, yaml
            from kubernetes import client, config
            config.load_kube_config()
            api, args = client.CustomObjectsApi(), ("kopf.dev", "v1", "default", "kopfexamples")
            api.create_namespaced_custom_object(*args, yaml.safe_load(open({str(examples / "obj.yaml")!r})))
            def until(what):
                for _ in range(900):
                    if what(): return
                    time.sleep(0.1)
                raise SystemExit("did not come: " + str(api.get_namespaced_custom_object(*args, "kopf-example-1")))
            def greeted():
                status = api.get_namespaced_custom_object(*args, "kopf-example-1").get("status", {{}})
                return status.get("create_fn", {{}}).get("message") == "hello world"
            until(greeted)
            api.delete_namespaced_custom_object(*args, "kopf-example-1")
            until(lambda: not api.list_namespaced_custom_object(*args)["items"])
            """,
            within=300,
        )
    assert "And here we are! Creating" in (tmp_path / "kopf.log").read_text()


def test_kopf_runs_an_operator_for_creation_update_and_deletion(running: Running, tmp_path: Path) -> None:
    _define(running)
    operator = tmp_path / "operator_example.py"
    operator.write_text(
        textwrap.dedent(
            """
            import kopf
            @kopf.on.create("example.com", "v1", "widgets")
            def created(body, **_):
                kopf.info(body, reason="Made", message="as wanted")
            @kopf.on.update("example.com", "v1", "widgets", field="spec.size")
            def sized(old, new, patch, **_):
                patch.status["phase"] = f"{old}->{new}"
            @kopf.on.delete("example.com", "v1", "widgets")
            def deleted(**_):
                pass
            """
        )
    )
    with _operator(running, operator, tmp_path / "kopf.log"):
        _python(
            running,
            f"""
            import time
            from kubernetes import client, config
            config.load_kube_config()
            api, args = client.CustomObjectsApi(), ("example.com", "v1", "default", "widgets")
            def until(what):
                for _ in range(900):
                    if what(): return
                    time.sleep(0.1)
                raise SystemExit("did not come: " + str(get()))
            def get():
                try: return api.get_namespaced_custom_object(*args, "ko")
                except client.ApiException as error: return None if error.status == 404 else 1/0
            api.create_namespaced_custom_object(*args, {widget("ko")!r})
            handled = "kopf.zalando.org/last-handled-configuration"
            until(lambda: get()["metadata"].get("finalizers") and handled in get()["metadata"].get("annotations", ()))
            api.patch_namespaced_custom_object(*args, "ko", {{"spec": {{"size": 3}}}})
            until(lambda: get().get("status", {{}}).get("phase") == "1->3")
            api.delete_namespaced_custom_object(*args, "ko")
            until(lambda: get() is None)
            core, chosen = client.CoreV1Api(), "involvedObject.name=ko,reason=Made"
            until(lambda: core.list_namespaced_event("default", field_selector=chosen).items)
            """,
            within=300,
        )
