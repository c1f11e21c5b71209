"""The manifests of our own installs: accepted by the embedded API, checked when people change them."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from rackless.api.process import ApiServer, ApiSettings
from rackless.controllers.nodes import judging
from rackless.installer.assets.catalogue import GRAPH
from rackless.installer.assets.state import FolderState
from rackless.installer.assets.store import Disk, Fetched, FilesWrong, fetch
from rackless.run.files import write_secret
from tests.api.conftest import Client
from tests.installer.assets.conftest import host, install_config

Json = dict[str, Any]


def make(target: str, disk: Disk, state: FolderState | None = None) -> Fetched:
    return fetch(GRAPH.target(target), GRAPH, state or FolderState(), disk)


def objects(files: Disk) -> list[Json]:
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # hundreds of documents, again and again
    return [each for _, text in sorted(files.items()) for each in yaml.load_all(text, Loader=fast)]


def by_kind(files: Disk, kind: str) -> list[Json]:
    return [each for each in objects(files) if each["kind"] == kind]


NETWORK = "      networkConfig:\n        interfaces:\n        - {name: eth0, type: ethernet}\n"
HINTS = "      rootDeviceHints: {deviceName: /dev/vda, minSizeGigabytes: 20}\n"
IMAGE = f"    clusterOSImage: http://192.168.111.1:8080/node.qcow2?sha256={'ab' * 32}\n"
RICH = install_config(hosts=host("late-0", 30, "worker", NETWORK) + host("late-1", 31, "master", HINTS), more=IMAGE)


@pytest.mark.parametrize("text", [install_config(), install_config(1, 0), RICH], ids=["3+2", "1+0", "rich"])
async def test_the_embedded_api_accepts_every_manifest_with_the_keys_of_the_install(text: str, tmp_path: Path) -> None:
    manifests = make("manifests", {"install-config.yaml": text})
    ignition = make("ignition-configs", {}, manifests.handed)
    pki = tmp_path / "pki"
    for path, content in bootstrap_files(ignition.write["bootstrap.ign"]).items():
        if path.startswith("/etc/rackless/pki/"):
            write_secret(pki / Path(path).name, content)
    user = json.loads(ignition.write["auth/kubeconfig"])["users"][0]["user"]
    for end, field in (("crt", "client-certificate-data"), ("key", "client-key-data")):
        write_secret(pki / f"admin.{end}", base64.b64decode(user[field]))
    async with (
        ApiServer(ApiSettings(f"sqlite:{tmp_path}/objects.db", pki, port=0)) as api,
        Client(api.url, pki) as client,
    ):
        for each in objects(manifests.write):
            code, answer = await client.call("POST", await path_of(client, each), each, fieldValidation="Strict")
            assert code == 201, (each["kind"], each["metadata"]["name"], answer)
        _, found = await client.get("/apis/metal3.io/v1alpha1/namespaces/openshift-machine-api/baremetalhosts")
        assert len(found["items"]) == text.count("bootMACAddress")
        await _the_token_opens_one_door(client, api, manifests.write)


async def path_of(client: Client, each: Json) -> str:
    version, kind = each["apiVersion"], each["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    _, listed = await client.get(root)
    (resource,) = [one for one in listed["resources"] if one["kind"] == kind and "/" not in one["name"]]
    space = f"/namespaces/{each['metadata']['namespace']}" if resource["namespaced"] else ""
    return f"{root}{space}/{resource['name']}"


async def _the_token_opens_one_door(client: Client, api: ApiServer, files: Disk) -> None:
    (secret,) = [each for each in by_kind(files, "Secret") if each.get("type") == "bootstrap.kubernetes.io/token"]
    data = {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
    headers = {"Authorization": f"Bearer {data['token-id']}.{data['token-secret']}"}
    asked = {
        "/apis/certificates.k8s.io/v1/certificatesigningrequests": 200,
        "/api/v1/namespaces/openshift-machine-api/secrets": 403,
        "/apis/metal3.io/v1alpha1/baremetalhosts": 403,
    }
    connector = aiohttp.TCPConnector(ssl=client.context(certificate=False))
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        for path, wanted in asked.items():
            async with session.get(api.url + path) as response:
                assert response.status == wanted, path


def bootstrap_files(config: str) -> dict[str, str]:
    return {
        file["path"]: base64.b64decode(file["contents"]["source"].partition("base64,")[2]).decode()
        for file in json.loads(config)["storage"]["files"]
    }


def test_the_same_inputs_and_keys_give_the_same_bytes() -> None:
    first = make("ignition-configs", {"install-config.yaml": RICH})
    once = {asset.name for asset in GRAPH.assets if asset.chance}
    keys = FolderState({name: entry for name, entry in first.state.entries.items() if name in once})
    again = make("ignition-configs", {"install-config.yaml": RICH}, keys)
    assert again.write == first.write and again.state == first.state
    other = make("ignition-configs", {"install-config.yaml": RICH})
    assert other.write["metadata.json"] != first.write["metadata.json"]


def test_another_worker_leaves_names_keys_and_certificates_as_they_are() -> None:
    first = make("ignition-configs", {"install-config.yaml": install_config(3, 1)})
    again = make("ignition-configs", {"install-config.yaml": install_config(3, 2)}, first.handed)
    changed = {name for name, entry in again.state.entries.items() if first.state.entries[name].parts != entry.parts}
    assert changed == {
        "given-install-config", "install-config", "cluster-manifests", "host-manifests", "machine-set-manifests", "bootstrap",
    }  # fmt: skip


def test_no_file_that_is_made_belongs_to_two_assets_and_all_have_an_owner() -> None:
    for target in ("manifests", "ignition-configs"):
        made = make(target, {"install-config.yaml": RICH})
        for asset in GRAPH.target(target).assets:
            for path in made.state.entries[asset.name].parts:
                assert next(each for each in GRAPH.assets if each.owns(path)) is asset, path


def test_the_passwords_are_in_the_hosts_secrets_and_in_no_other_manifest() -> None:
    made = make("manifests", {"install-config.yaml": install_config()}).write
    holders = {path for path, text in made.items() if "hunter2" in text or "hunter2" in _decoded(text)}
    assert holders == {f"openshift/99_openshift-cluster-api_host-bmc-secrets-{number}.yaml" for number in range(5)}
    config = yaml.safe_load(yaml.safe_load(made["manifests/cluster-config.yaml"])["data"]["install-config"])
    assert config["pullSecret"] == "" and config["platform"]["baremetal"]["hosts"][0]["bmc"]["password"] == ""


def _decoded(text: str) -> str:
    return "".join(
        base64.b64decode(value).decode()
        for each in yaml.safe_load_all(text)
        if each["kind"] == "Secret"
        for value in each["data"].values()
    )


def test_masters_are_consumed_by_their_machines_and_the_others_wait() -> None:
    hosts = by_kind(make("manifests", {"install-config.yaml": RICH}).write, "BareMetalHost")
    masters = {each["metadata"]["name"]: each for each in hosts if "consumerRef" in each["spec"]}
    assert set(masters) == {"master-0", "master-1", "master-2"}
    for each in hosts:
        waits = each["metadata"]["name"] not in masters
        assert waits == ("baremetalhost.metal3.io/paused" in each["metadata"].get("annotations", {}))
    assert masters["master-0"]["spec"]["image"] == {
        "url": "http://192.168.111.1:8080/node.qcow2", "checksum": "ab" * 32, "checksumType": "sha256",
    }  # fmt: skip


def test_without_an_image_the_deploy_ramdisk_brings_the_system() -> None:
    made = make("manifests", {"install-config.yaml": install_config()}).write
    (machine, *_) = by_kind(made, "Machine")
    assert machine["spec"]["providerSpec"]["value"]["customDeploy"] == {"method": "install_coreos"}
    assert "image" not in by_kind(made, "BareMetalHost")[0]["spec"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("online: true", "online: maybe"), "spec.online"),
        (lambda text: text.replace("  online: true", "  onlin: true"), "spec.onlin: there is no such field"),
        (lambda text: text.replace("kind: BareMetalHost", "kind: ''"), "kind is missing"),
        (lambda text: text + "\n\t- broken", "not readable as YAML"),
        (lambda text: "- a list", "no object"),
        (lambda text: "a: &a [*a]\n", "contains itself"),
        (lambda text: "x: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
)
def test_a_manifest_that_cannot_be_applied_is_told_with_its_line(change: Callable[[str], str], said: str) -> None:
    path = "openshift/99_openshift-cluster-api_hosts-0.yaml"
    first = make("manifests", {"install-config.yaml": install_config()})
    broken = change(first.write[path])
    with pytest.raises(FilesWrong, match=said) as wrong:
        make("ignition-configs", {**first.write, path: broken}, first.handed)
    lines = broken.splitlines()
    for mistake in wrong.value.mistakes:
        assert mistake.file == path and 1 <= mistake.line <= len(lines)
        if "onlin" in mistake.message:
            assert "onlin" in lines[mistake.line - 1] or "spec.online: Required" in mistake.message


def test_a_machine_config_that_nodes_cannot_follow_is_refused() -> None:
    first = make("manifests", {"install-config.yaml": install_config()})
    extra = "\n".join([
        "apiVersion: machineconfiguration.openshift.io/v1", "kind: MachineConfig", "metadata: {name: 50-mine}", "spec:",
        "  kernelArguments: [quiet]", "  config: {ignition: {version: 2.2.0}}",
    ])  # fmt: skip
    with pytest.raises(FilesWrong) as wrong:
        make("ignition-configs", {**first.write, "openshift/mine.yaml": extra}, first.handed)
    assert {str(one).partition(" (")[0] for one in wrong.value.mistakes} == {
        "openshift/mine.yaml:5: spec.kernelArguments: nodes here cannot be told this",
        "openshift/mine.yaml:6: spec.config.ignition.version is 2.2.0",
    }


def test_the_one_token_of_all_nodes_is_taken_for_no_single_node() -> None:
    """Whoever asks with it is judged by the Machine of the name that is asked for, as with OpenShift's node-bootstrapper."""
    files = make("manifests", {"install-config.yaml": install_config()}).write
    secret = next(
        each
        for each in yaml.safe_load_all(files["manifests/node-bootstrapper-access.yaml"])
        if each["kind"] == "Secret"
    )
    group = base64.b64decode(secret["data"]["auth-extra-groups"]).decode()
    assert group.startswith("system:bootstrappers:") and not group.startswith(judging.BOOTSTRAPPERS_OF_ONE)
