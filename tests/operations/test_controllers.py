from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from click.testing import CliRunner

from rackless.api.process import ApiServer
from rackless.cli.commands.controllers import _show
from rackless.cli.main import cli
from rackless.drivers.fake.provisioner import SECONDS, FakeProvisioner
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.errors import InputError
from rackless.events import Bus, Event, Note
from rackless.operations import controllers
from rackless.operations.controllers import CONTROLLERS, LEASE, Settings, check_names, run
from rackless.ports.api import Access
from rackless.ports.resources import KINDS, Kind, Record, Resources
from rackless.provisioning.baremetalhost import baremetalhost, secret
from rackless.trust.kubeconfig_reading import read_kubeconfig
from tests.api.conftest import ROOT, api, free_ports  # noqa: F401
from tests.controllers.machine_site import machine_set


async def _until(resources: Resources, kind: str, true: Any) -> list[Record]:
    async with asyncio.timeout(60):
        while not true(found := await resources.list(kind)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found


async def test_all_controllers_run_against_the_api_and_are_seen(api: ApiServer, tmp_path: Path) -> None:  # noqa: F811
    pki = tmp_path / "pki"
    resources = KubernetesResources(Access(api.url, pki / "ca.crt", pki / "admin.crt", pki / "admin.key"))
    await resources.ensure_namespace()
    await resources.create(secret("bmc", {"username": "admin", "password": "x"}))
    await resources.create(baremetalhost("w0", "redfish://192.0.2.1/redfish/v1/Systems/1", "bmc", "02:00:00:00:00:01"))
    await resources.create(machine_set("set", 1))
    [port] = free_ports(1)
    seen: list[Event] = []
    bus = Bus()
    bus.subscribe(seen.append)
    names = tuple(CONTROLLERS)
    kubeconfig = tmp_path / "kubeconfig"
    settings = Settings(kubeconfig, None, names, "metal3", pretend=True, identity="me", listen=("127.0.0.1", port))
    task = asyncio.create_task(run(settings, bus))
    try:
        [found] = await _until(resources, "Machine", bool)
        assert found["metadata"]["name"].startswith("set-")
        lease = await resources.get("Lease", LEASE)
        assert lease and lease["spec"]["holderIdentity"] == "me"
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            for path in ("/healthz", "/readyz"):
                async with session.get(path) as answer:
                    assert (answer.status, await answer.text()) == (200, "ok")
            async with session.get("/metrics") as answer:
                page = await answer.text()
        assert 'controller_runtime_reconcile_total{controller="machine",result="success"}' in page
        assert 'controller_runtime_reconcile_time_seconds_bucket{controller="baremetal-host",le="+Inf"}' in page
        assert 'rackless_cached_objects{kind="BareMetalHost"} 1' in page
        assert "leader_election_master_status 1" in page
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        lease = await resources.get("Lease", LEASE)
        await resources.close()
    assert lease and not lease["spec"].get("holderIdentity"), "who ends lets go"
    assert "me" in [event.values.get("leader") for event in seen if isinstance(event, Note)]


RBAC = "rbac.authorization.k8s.io/v1"
NODE: Record = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "w0"},
    "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.10"}]},
}
READY = [{"type": "Ready", "status": "True"}]
UNKNOWN = [{"type": "Ready", "status": "Unknown"}]


async def test_the_rights_that_the_documentation_gives_the_controllers_are_enough(
    api: ApiServer,  # noqa: F811
    tmp_path: Path,
) -> None:
    page = (ROOT / "docs/explanation/controllers.md").read_text()
    [block] = [found for found in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "ClusterRole" in found]
    pki = tmp_path / "pki"
    kinds = {
        "ServiceAccount": Kind("v1", "serviceaccounts"),
        "Role": Kind(RBAC, "roles"),
        "RoleBinding": Kind(RBAC, "rolebindings"),
        "ClusterRole": Kind(RBAC, "clusterroles", namespaced=False),
        "ClusterRoleBinding": Kind(RBAC, "clusterrolebindings", namespaced=False),
    }
    admin = Access(api.url, pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
    person = KubernetesResources(admin, kinds={**KINDS, **kinds})
    await person.ensure_namespace()
    for record in yaml.safe_load_all(block):
        await person.create(record)
    path = "/api/v1/namespaces/metal3/serviceaccounts/rackless-controllers/token"
    answer = await person._client.call("POST", path, {"spec": {}})
    config = _config(cluster={"server": api.url, "certificate-authority": str(pki / "ca.crt")},
                     user={"token": answer["status"]["token"]})  # fmt: skip
    (tmp_path / "account").write_text(json.dumps(config))
    seen: list[Event] = []
    bus = Bus()
    bus.subscribe(seen.append)
    settings = Settings(tmp_path / "account", None, tuple(CONTROLLERS), "metal3", pretend=True, identity="me")
    await person.create(secret("bmc", {"username": "admin", "password": "x"}))
    await person.create(secret("worker-user-data", {"userData": "{}"}))
    await person.create(baremetalhost("w0", "redfish://192.0.2.1/redfish/v1/Systems/1", "bmc", "02:00:00:00:00:01"))
    await person.create(machine_set("set", 1))
    await person.create(_health_check())
    task = asyncio.create_task(_quickly(settings, bus))
    try:
        await _until(person, "Machine", _in("Provisioned"))
        await person.create(NODE)
        await person.patch_status("Node", "w0", {**NODE["status"], "conditions": READY})
        await _until(person, "Machine", _in("Running"))
        await person.patch_status("Node", "w0", {**NODE["status"], "conditions": UNKNOWN})
        await _until(person, "Node", lambda nodes: nodes[0]["spec"].get("taints"))
        await _until(person, "MachineHealthCheck", lambda found: found[0].get("status"))
        await person.patch("MachineSet", "set", {"spec": {"replicas": 0}})
        await _until(person, "Machine", lambda machines: not machines)
        assert await person.list("Node") == [], "the Node of a Machine goes with it"
        assert await person.list("HardwareData")
        await person.delete("BareMetalHost", "w0")
        await _until(person, "BareMetalHost", lambda hosts: not hosts)
        assert await person.list("HardwareData") == []
        told = {(event["involvedObject"]["kind"], event["reason"]) for event in await person.list("Event")}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await person.close()
    assert told >= {("BareMetalHost", "Available"), ("Machine", "NodeJoined"), ("MachineSet", "SuccessfulDelete")}
    unheard = [event.values for event in seen if isinstance(event, Note) and event.code == "changes-unheard"]
    assert unheard == []


def _in(phase: str) -> Any:
    return lambda found: [(each.get("status") or {}).get("phase") for each in found] == [phase]


def _health_check() -> Record:
    spec = {"selector": {}, "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "1h"}]}
    kind = {"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck"}
    return {**kind, "metadata": {"name": "check"}, "spec": spec}


async def _quickly(settings: Settings, bus: Bus) -> None:
    """With a provisioner that pretends without taking its time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            controllers, "FakeProvisioner", lambda clock: FakeProvisioner(clock, dict.fromkeys(SECONDS, 0.0))
        )
        await run(settings, bus)


@pytest.mark.parametrize(("as_json", "said"), [(False, "host, csr: ready\n"), (True, '"message": "host, csr: ready"')])
def test_what_happens_is_said_in_words(as_json: bool, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    bus = Bus()
    bus.subscribe(_show(as_json))
    bus.tell("controllers-ready", level="info", controllers="host, csr")
    found = capsys.readouterr().out
    assert found == said if not as_json else said in found


def test_a_host_controller_without_a_provisioner_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text(json.dumps(_config()))
    (tmp_path / "ca.crt").write_text("")
    done = CliRunner().invoke(cli, ["controllers", "run", "--kubeconfig", str(path), "--controllers", "host,wrong"])
    assert isinstance(done.exception, InputError) and "there is no controller wrong" in str(done.exception)
    listen = CliRunner().invoke(cli, ["controllers", "run", "--kubeconfig", str(path), "--listen", "nowhere"])
    assert isinstance(listen.exception, InputError) and "no place to listen" in str(listen.exception)
    with pytest.raises(InputError, match="no controller is named"):
        check_names([])


def _config(**parts: Any) -> dict[str, Any]:
    cluster = {"server": "https://192.0.2.1:6443", "certificate-authority": "ca.crt", **parts.get("cluster", {})}
    user = {"token": "abc", **parts.get("user", {})}
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "mine"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }


def _read(tmp_path: Path, config: Any) -> tuple[Access, str]:
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    return read_kubeconfig(path, tmp_path)


def test_a_kubeconfig_with_names_of_files_and_one_with_their_content(tmp_path: Path) -> None:
    access, namespace = _read(tmp_path, _config())
    assert (access.url, access.ca, access.token, namespace) == (
        "https://192.0.2.1:6443", tmp_path / "ca.crt", "abc", "mine",
    )  # fmt: skip
    assert access.certificate is None and access.key is None
    inline = base64.b64encode(b"text").decode()
    user = {"client-certificate-data": inline, "client-key-data": inline, "token": ""}
    access, _ = _read(tmp_path, _config(cluster={"certificate-authority-data": inline}, user=user))
    assert access.key and access.key.read_text() == "text" and access.key.stat().st_mode & 0o777 == 0o600
    assert access.token == ""
    (tmp_path / "token").write_text("from a file\n")
    access, _ = _read(tmp_path, _config(user={"token": None, "tokenFile": "token"}))
    assert access.token == "from a file"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "has no context ''"),
        ("text", "has no context ''"),
        (_config() | {"current-context": "there"}, "has no context 'there'"),
        (_config() | {"users": []}, "has no user 'u'"),
        (_config(cluster={"server": "http://192.0.2.1"}), "is not reached by TLS"),
        (_config(cluster={"insecure-skip-tls-verify": True}), "is not taken"),
        (_config(cluster={"certificate-authority": ""}), "names no CA"),
        (_config(cluster={"certificate-authority-data": "%"}), "is not text in base64"),
        (_config(user={"exec": {"command": "login"}}), "another program is not taken"),
        (_config(user={"token": "", "tokenFile": "missing"}), "tokenFile cannot be read"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(tmp_path: Path, config: Any, said: str) -> None:
    with pytest.raises(InputError) as refused:
        _read(tmp_path, config)
    assert said in refused.value.what


@pytest.mark.parametrize("text", ["a: [", "[" * 100_000], ids=["broken", "too deep"])
def test_a_kubeconfig_that_is_no_yaml_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match="cannot be read"):
        read_kubeconfig(path, tmp_path)
