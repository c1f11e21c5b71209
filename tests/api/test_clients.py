"""Strangers' clients, unmodified, against the API as a process of its own."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT, Running, debian_program, widget, widget_definition

pytestmark = pytest.mark.real
HOST = """
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata:
  name: w0
spec:
  online: true
  bootMACAddress: "02:00:00:00:00:01"
  bmc:
    address: redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1
    credentialsName: w0-bmc
"""
MACHINE_SET = """
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: workers}
spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}
"""


def _kubectls() -> list[str]:
    return ["installed", "debian"]


@pytest.fixture(params=_kubectls())
def kubectl(request: pytest.FixtureRequest, running: Running, tmp_path: Path) -> Any:
    if request.param == "installed":
        program = shutil.which("kubectl")
        if (
            not program
            or 'GitVersion:"v1.20'
            in subprocess.run([program, "version", "--client"], capture_output=True, text=True, check=False).stdout
        ):
            pytest.skip("no current kubectl is installed here")
    else:
        program = str(debian_program("kubernetes-client", "usr/bin/kubectl") or "")
        if not program:
            pytest.skip("Debian's kubernetes-client cannot be had here")
    env = {**os.environ, "KUBECONFIG": str(running.kubeconfig), "HOME": str(tmp_path)}

    def call(*words: str, input: str | None = None, ok: bool = True, **more: str) -> str:
        done = subprocess.run(
            [program, *words],
            input=input,
            capture_output=True,
            text=True,
            env={**env, **more},
            timeout=180,
            check=False,
        )
        assert (done.returncode == 0) is ok, f"kubectl {words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    @contextmanager
    def watching(*words: str) -> Iterator[Iterator[str]]:
        """The lines of a kubectl that does not end by itself."""
        process = subprocess.Popen([program, *words], stdout=subprocess.PIPE, text=True, env=env)
        try:
            assert process.stdout
            yield iter(process.stdout)
        finally:
            process.terminate()
            process.communicate()

    call.version = request.param  # type: ignore[attr-defined]
    call.watching = watching  # type: ignore[attr-defined]
    yield call
    for kind in ("bmh", "machinesets", "csr", "configmaps"):
        call("delete", kind, "--all")


def test_kubectl_walks_a_host_through_its_life(kubectl: Any, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", input=HOST)
    assert "unchanged" in kubectl("apply", "-f", "-", input=HOST).replace("configured", "unchanged")
    assert "unchanged" in kubectl("apply", "-f", "-", input=HOST)
    assert "NAME   STATE   CONSUMER   ONLINE   ERROR   PROGRESS   AGE" in kubectl("get", "bmh")
    assert "NAME   STATUS   STATE   CONSUMER   BMC" in kubectl("get", "bmh", "-o", "wide")
    kubectl("label", "bmh", "w0", "rack=r1")
    kubectl("annotate", "bmh", "w0", "baremetalhost.metal3.io/paused=")
    kubectl("patch", "bmh", "w0", "--type", "merge", "-p", '{"spec":{"online":false}}')
    kubectl("patch", "bmh", "w0", "--type", "json", "-p", '[{"op":"replace","path":"/spec/online","value":true}]')
    kubectl("edit", "bmh", "w0", EDITOR="sed -i s/online:.*/online:\\ false/")
    assert kubectl("get", "bmh", "-l", "rack=r1", "-o", "jsonpath={.items[0].spec.online}") == "false"
    described = kubectl("describe", "bmh", "w0")
    assert "Name:         w0" in described and "Events:" in described
    assert "credentialsName" in kubectl("explain", "bmh.spec.bmc")
    assert "baremetalhosts" in kubectl("api-resources")
    wrong = kubectl("create", "-f", "-", input=HOST.replace("online", "onlin").replace("w0", "w1"), ok=False)
    assert 'unknown field "' in wrong
    wrong = kubectl("patch", "bmh", "w0", "--type", "merge", "-p", '{"spec":{"bootMode":"magic"}}', ok=False)
    assert 'spec.bootMode: Unsupported value: "magic"' in wrong
    assert "deleted" in kubectl("delete", "bmh", "w0")
    assert 'baremetalhosts.metal3.io "w0" not found' in kubectl("get", "bmh", "w0", ok=False)


def test_kubectl_waits_scales_and_asks(kubectl: Any, running: Running, tmp_path: Path) -> None:
    kubectl("apply", "-f", "-", input=MACHINE_SET)
    kubectl("scale", "machineset", "workers", "--replicas=3")
    assert "workers   3" in kubectl("get", "machinesets")
    assert kubectl("auth", "can-i", "create", "bmh").strip() == "yes"
    assert "*.*" in kubectl("auth", "can-i", "--list")
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b", "--dry-run=server")
    assert "c      1" in kubectl("get", "configmaps")
    kubectl("delete", "configmap", "c")
    kubectl("wait", "--for=delete", "configmap/c", "--timeout=5s", ok=kubectl.version == "installed")
    if kubectl.version == "installed":
        kubectl("create", "serviceaccount", "viewer")
        kubectl("create", "rolebinding", "viewer", "--clusterrole=view", "--serviceaccount=default:viewer")
        token = kubectl("create", "token", "viewer").strip()
        config = json.loads(running.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        (tmp_path / "viewer").write_text(json.dumps(config))
        viewer = {"KUBECONFIG": str(tmp_path / "viewer")}
        assert "workers" in kubectl("get", "machinesets", **viewer)
        assert 'cannot list resource "secrets"' in kubectl("get", "secrets", ok=False, **viewer)
        kubectl("delete", "serviceaccount,rolebinding", "viewer")
    kubectl("create", "namespace", f"n-{kubectl.version}")
    kubectl("delete", "namespace", f"n-{kubectl.version}")


def _recipe(title: str) -> str:
    """The commands of a section of the how-to, as they stand there."""
    section = (ROOT / "docs/howto/use-kubectl.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    return "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))


@pytest.mark.parametrize("kubectl", ["installed"], indirect=True)  # 1.20 has no `create token`
@pytest.mark.parametrize("namespace", ["", "metal3"])
def test_the_recipe_for_giving_somebody_less_works_as_it_is_written(
    kubectl: Any, running: Running, tmp_path: Path, namespace: str
) -> None:
    own = tmp_path / "own"
    own.write_text(running.kubeconfig.read_text())
    if namespace:
        kubectl("create", "namespace", namespace)
        kubectl("config", "set-context", "--current", f"--namespace={namespace}", KUBECONFIG=str(own))
    kubectl("apply", "-f", "-", input=HOST, KUBECONFIG=str(own))
    script = _recipe("Give somebody less than everything")
    assert "create token" in script
    env = {**os.environ, "KUBECONFIG": str(own), "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0 and "w0" in done.stdout, done.stdout + done.stderr
    viewer = {"KUBECONFIG": str(tmp_path / "viewer.kubeconfig")}
    assert "client-key-data" not in (tmp_path / "viewer.kubeconfig").read_text()
    assert 'cannot list resource "secrets"' in kubectl("get", "secrets", ok=False, **viewer)
    assert "cannot delete resource" in kubectl("delete", "bmh", "w0", ok=False, **viewer)
    assert "cannot list resource" in kubectl("get", "bmh", "-A", ok=False, **viewer)
    kubectl("delete", "bmh", "w0", KUBECONFIG=str(own))
    kubectl("delete", "serviceaccount,rolebinding", "viewer", KUBECONFIG=str(own))


def test_kubectl_finds_the_kinds_that_are_always_empty(kubectl: Any, running: Running, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", input='{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}')
    described = kubectl("describe", "node", "n1")
    assert "Non-terminated Pods:" in described and "(0 in total)" in described
    assert "is running at" in kubectl("cluster-info")
    assert "No resources found" in kubectl("get", "all")
    assert "No resources found" in kubectl("get", "pods,svc,deploy,ep,pvc,pv,ing,jobs,cronjobs,ds,sts,rs,rc,hpa", "-A")
    assert "drained" in kubectl("drain", "n1").replace("evicted", "drained") and "SchedulingDisabled" in kubectl(
        "get", "nodes"
    )
    kubectl("delete", "node", "n1")
    labelled = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p1", "labels": {"app": "p"}}})
    kubectl("apply", "-f", "-", input=labelled)
    # 1.20 asks for CronJobs and Ingresses of versions that no server of our version has.
    installed = kubectl.version == "installed"
    pruned = kubectl("apply", "--prune", "-l", "app=p", "-f", "-", input=labelled.replace("p1", "p2"), ok=installed)
    assert "configmap/p2 created" in pruned
    assert "configmap/p1 pruned" in pruned if installed else 'v1beta1"' in pruned
    assert "No resource quota" in kubectl("describe", "namespace", "default")
    refused = kubectl(
        "create", "-f", "-", input='{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"}}', ok=False
    )
    assert "does not allow this method" in refused


def test_every_namespace_has_a_default_service_account_also_after_it_was_deleted(kubectl: Any) -> None:
    name = f"sa-{kubectl.version}"
    kubectl("create", "namespace", name)
    for _ in range(2):
        for _ in range(300):
            if "default" in kubectl("get", "serviceaccounts", "-n", name):
                break
            time.sleep(0.1)
        else:
            raise AssertionError("no service account `default`")
        kubectl("delete", "serviceaccount", "default", "-n", name)
    kubectl("delete", "namespace", name)


def test_kubectl_compares_applies_watches_and_acts_as_others(kubectl: Any, tmp_path: Path) -> None:
    (tmp_path / "host.yaml").write_text(HOST)
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", str(tmp_path / "host.yaml"))
    assert kubectl("diff", "--server-side", "-f", str(tmp_path / "host.yaml")) == ""
    (tmp_path / "host.yaml").write_text(HOST.replace("online: true", "online: false"))
    assert "+  online: false" in kubectl("diff", "--server-side", "-f", str(tmp_path / "host.yaml"), ok=False)
    other = ("apply", "--server-side", "--field-manager=other", "-f", str(tmp_path / "host.yaml"))
    assert 'conflict with "kubectl"' in kubectl(*other, ok=False)
    kubectl(*other, "--force-conflicts")
    explained = kubectl("explain", "bmh.spec", "--recursive")
    assert "rootDeviceHints" in explained and "minSizeGigabytes" in explained
    with kubectl.watching("get", "bmh", "-w") as lines:
        assert next(lines).split()[:2] == ["NAME", "STATE"]
        assert next(lines).split()[:2] == ["w0", "false"]
        kubectl("patch", "bmh", "w0", "--type", "merge", "-p", '{"spec":{"online":true}}')
        assert next(lines).split()[:2] == ["w0", "true"]
    refused = kubectl("get", "bmh", "--as", "bob", ok=False)
    assert 'User "bob" cannot list resource "baremetalhosts"' in refused
    assert "no" in kubectl("auth", "can-i", "list", "bmh", "--as", "bob", ok=False)
    assert "w0" in kubectl("get", "bmh", "--as", "bob", "--as-group", "system:masters")
    kubectl("get", "events")
    if kubectl.version == "installed":
        kubectl("wait", "--for=jsonpath={.spec.online}=true", "bmh/w0", "--timeout=10s")
        assert "No events found" in kubectl("events", "--for", "bmh/w0")
        assert "system:admin" in kubectl("auth", "whoami")
        kubectl("delete", "bmh", "w0", "--cascade=foreground")


def test_kubectl_approves_a_certificate(kubectl: Any, tmp_path: Path) -> None:
    key, request = tmp_path / "key", tmp_path / "csr"
    subprocess.run(["openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", key], check=True)
    subject = "/O=system:nodes/CN=system:node:n1"
    subprocess.run(["openssl", "req", "-new", "-key", key, "-subj", subject, "-out", request], check=True)
    body = {
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "n1"},
        "spec": {"request": base64.b64encode(request.read_bytes()).decode(),
                 "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                 "usages": ["digital signature", "key encipherment", "client auth"]},
    }  # fmt: skip
    kubectl("create", "-f", "-", input=json.dumps(body))
    assert "Pending" in kubectl("get", "csr")
    kubectl("certificate", "approve", "n1")
    kubectl("wait", "--for=condition=Approved", "csr/n1", "--timeout=10s")
    for _ in range(300):
        if "Approved,Issued" in kubectl("get", "csr"):
            break
        time.sleep(0.1)
    pem = base64.b64decode(kubectl("get", "csr", "n1", "-o", "jsonpath={.status.certificate}"))
    shown = subprocess.run(["openssl", "x509", "-noout", "-subject"], input=pem, capture_output=True, check=True)
    assert b"system:node:n1" in shown.stdout


def _python(running: Running, program: str, *, within: float = 180) -> str:
    """Run a client program as strangers would: its own process, their library, our kubeconfig.

    Some libraries write the keys of the kubeconfig into temporary files and leave them there.
    """
    with tempfile.TemporaryDirectory(dir=running.kubeconfig.parent) as scratch:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True, text=True, timeout=within, check=False,
            env={**os.environ, "KUBECONFIG": str(running.kubeconfig), "TMPDIR": scratch},
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _define(running: Running) -> None:
    kubectl = shutil.which("kubectl") or str(debian_program("kubernetes-client", "usr/bin/kubectl"))
    subprocess.run(
        [kubectl, "apply", "-f", "-"],
        input=json.dumps(widget_definition()), text=True, check=True, capture_output=True,
        env={**os.environ, "KUBECONFIG": str(running.kubeconfig)},
    )  # fmt: skip


def test_the_kubernetes_client_lists_watches_and_elects_a_leader(running: Running) -> None:
    _define(running)
    out = _python(
        running,
        f"""
        import threading, time, logging
        from kubernetes import client, config, watch
        config.load_kube_config()
        api = client.CustomObjectsApi()
        args = ("example.com", "v1", "default", "widgets")
        listed = api.list_namespaced_custom_object(*args)
        api.create_namespaced_custom_object(*args, {widget("k1")!r})
        api.patch_namespaced_custom_object(*args, "k1", {{"spec": {{"size": 4}}}})
        api.delete_namespaced_custom_object(*args, "k1")
        seen = []
        w = watch.Watch()
        for event in w.stream(api.list_namespaced_custom_object, *args,
                              resource_version=listed["metadata"]["resourceVersion"], timeout_seconds=5):
            seen.append(event["type"])
            if event["type"] == "DELETED": w.stop()
        assert seen == ["ADDED", "MODIFIED", "DELETED"], seen
        core = client.CoreV1Api()
        meta = client.V1ObjectMeta(name="k")
        core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=meta, data={{"a": "b"}}))
        assert core.read_namespaced_config_map("k", "default").data == {{"a": "b"}}
        core.delete_namespaced_config_map("k", "default")
        from kubernetes.leaderelection import leaderelection, electionconfig
        from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock
        led = threading.Event()
        lock = ConfigMapLock("lead", "default", "me")
        election = electionconfig.Config(lock, lease_duration=4, renew_deadline=3, retry_period=1,
                                         onstarted_leading=led.set, onstopped_leading=lambda: None)
        threading.Thread(target=leaderelection.LeaderElection(election).run, daemon=True).start()
        assert led.wait(15)
        print("led", flush=True)
        import os; os._exit(0)  # the election has no other end
        """,
    )
    assert "led" in out


def test_the_asyncio_client_watches(running: Running) -> None:
    _define(running)
    _python(
        running,
        f"""
        import asyncio
        from kubernetes_asyncio import client, config, watch
        async def main():
            await config.load_kube_config()
            async with client.ApiClient() as api_client:
                api = client.CustomObjectsApi(api_client)
                args = ("example.com", "v1", "default", "widgets")
                await api.create_namespaced_custom_object(*args, {widget("ka")!r})
                async with watch.Watch() as w:
                    async for event in w.stream(api.list_namespaced_custom_object, *args, timeout_seconds=5):
                        assert event["object"]["metadata"]["name"] == "ka"
                        break
                await api.delete_namespaced_custom_object(*args, "ka")
                spec = client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=5)
                lease = client.V1Lease(metadata=client.V1ObjectMeta(name="l"), spec=spec)
                leases = client.CoordinationV1Api(api_client)
                await leases.create_namespaced_lease("default", lease)
                assert (await leases.read_namespaced_lease("l", "default")).spec.holder_identity == "me"
                from kubernetes_asyncio.leaderelection import electionconfig, leaderelection
                from kubernetes_asyncio.leaderelection.resourcelock.leaselock import LeaseLock
                led = asyncio.Event()
                async def lead():
                    led.set()
                async def stop():
                    pass
                lock = LeaseLock("lead-async", "default", "me", api_client)
                election = electionconfig.Config(lock, lease_duration=4, renew_deadline=3, retry_period=1,
                                                 onstarted_leading=lead, onstopped_leading=stop)
                task = asyncio.create_task(leaderelection.LeaderElection(election).run())
                await asyncio.wait_for(led.wait(), 15)
                task.cancel()
        asyncio.run(main())
        """,
    )


def test_kr8s_creates_finds_and_waits(running: Running) -> None:
    _define(running)
    _python(
        running,
        f"""
        import kr8s
        from kr8s.objects import new_class
        Widget = new_class("Widget", version="example.com/v1", namespaced=True, plural="widgets")
        api = kr8s.api(kubeconfig={str(running.kubeconfig)!r})
        made = Widget({widget("kr")!r}, api=api)
        made.raw["metadata"]["namespace"] = "default"
        made.create()
        assert [w.name for w in api.get("widgets.example.com", namespace="default")] == ["kr"]
        made.patch({{"spec": {{"size": 2}}}})
        made.refresh()
        assert made.raw["spec"]["size"] == 2
        made.delete()
        made.wait("delete", timeout=10)
        """,
    )
