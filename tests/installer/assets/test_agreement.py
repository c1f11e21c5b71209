"""Beside the real installer, where it is at hand: the same install-config, the same files, hosts, machines and machine sets.

It runs in a network namespace of its own, without any network.
"""

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackless.events import Bus
from rackless.operations.install.assets import create
from tests.installer.assets.conftest import host, install_config
from tests.real import openshift

pytestmark = pytest.mark.real
Json = dict[str, Any]

NOT_OURS = {
    "000_capi-namespace.yaml": "an empty file",
    "manifests/cvo-overrides.yaml": "there is no cluster-version operator",
    "manifests/kube-cloud-config.yaml": "there is no cloud",
    "manifests/machine-config-server-ca-secret.yaml": "nothing in the cluster signs with the root's key, so it stays out of it",
    "openshift/99_feature-gate.yaml": "there are no feature gates",
    "openshift/99_kubeadmin-password-secret.yaml": "there is no console to log in to",
    "openshift/99_osimagestream.yaml": "nodes do not run CoreOS",
    "openshift/openshift-install-manifests.yaml": "nobody is told which openshift-install it was",
    "auth/kubeadmin-password": "there is no console to log in to",
}
ONLY_OURS = {
    "manifests/00_definitions.yaml": "OpenShift's come with its payload",
    "manifests/00_namespaces.yaml": "OpenShift's come with its payload",
    "manifests/node-bootstrapper-access.yaml": "OpenShift's comes with its machine-config operator",
}
SAME = ("BareMetalHost", "Machine", "MachineSet", "Provisioning", "Infrastructure", "DNS", "Network", "Scheduler", "Ingress",
        "Proxy", "MachineConfig")  # fmt: skip
STREAMS = ("coreos.openshift.io/stream", "machineconfiguration.openshift.io/osstream")
"""Which CoreOS a machine runs."""

NETWORK = "      networkConfig:\n        interfaces:\n        - {name: eth0, type: ethernet}\n"
HINTS = "      rootDeviceHints: {deviceName: /dev/vda, minSizeGigabytes: 20}\n"
ROLELESS = "".join(host(f"any-{number}", 40 + number, "").replace("      role: \n", "") for number in range(3))
ARBITER = "arbiter:\n  name: arbiter\n  replicas: 1\n  platform: {baremetal: {}}\n"
FENCED = "    - {{hostName: master-{0}, username: u, password: p, address: 'redfish+https://192.168.111.6{0}/redfish/v1/Systems/1'}}\n"
FENCING = "  fencing:\n    credentials:\n" + FENCED.format(0) + FENCED.format(1)
SITES = {
    "three-and-two": install_config(),
    "compact": install_config(3, 0),
    "managed": install_config().replace("Disabled", "Managed"),
    "unmanaged": install_config().replace("Disabled", "Unmanaged"),
    "surplus": install_config(hosts=host("more-0", 30, "worker", NETWORK) + host("more-1", 31, "master", HINTS) + ROLELESS),
    "roleless": install_config(2, 1, hosts=ROLELESS).replace("replicas: 2", "replicas: 3"),
    "arbiter": install_config(2, 1, hosts=host("arbiter-0", 50, "arbiter"), top=ARBITER),
    "fencing": install_config(2, 2).replace("  replicas: 2\nplatform", f"  replicas: 2\n{FENCING}platform"),
    "legacy": install_config().replace("      bmc:", "      bootMode: legacy\n      bmc:", 1),
}  # fmt: skip


@pytest.fixture(params=list(SITES))
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], tuple[dict[str, str], dict[str, str]]]:
    """The files that the real installer makes of a target, and ours."""
    program = openshift.installer()
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
        (folder / "install-config.yaml").write_text(SITES[request.param])

    def make(target: str) -> tuple[dict[str, str], dict[str, str]]:
        assert shutil.which("unshare")
        ran = subprocess.run(
            ["unshare", "--net", str(program), "create", target, "--dir", str(theirs)],
            capture_output=True, text=True, timeout=300,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": openshift.RELEASE},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        create(ours, target, Bus())
        return _files(theirs), _files(ours)

    return make


def _files(folder: Path) -> dict[str, str]:
    found = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(folder)): path.read_text() for path in found}


Both = Callable[[str], tuple[dict[str, str], dict[str, str]]]


def test_the_manifests_are_the_installers(both: Both) -> None:
    theirs, ours = both("manifests")
    assert set(theirs) - set(ours) <= set(NOT_OURS), "the installer writes what we do not"
    assert set(ours) - set(theirs) == set(ONLY_OURS)
    for path in sorted(set(theirs) & set(ours)):
        (their,), (our,) = yaml.safe_load_all(theirs[path]), yaml.safe_load_all(ours[path])
        assert (our["apiVersion"], our["kind"], our["metadata"]["name"].split("-")[0]) == (
            their["apiVersion"], their["kind"], their["metadata"]["name"].split("-")[0]), path  # fmt: skip
        if our["kind"] in SAME:
            assert _plain(our, ours) == _plain(their, theirs), path
        elif (our["kind"] == "Secret" and "host-" in path) or "fencing" in path:
            assert _decoded(our) == _decoded(their), path
            assert our["metadata"] == their["metadata"], path
        elif "user-data" in path:
            assert _pointer(_decoded(our)["userData"]) == _pointer(_decoded(their)["userData"]), path
            assert our["metadata"] == their["metadata"]


@pytest.mark.parametrize("both", ["three-and-two", "arbiter"], indirect=True)
def test_the_ignition_configs_are_the_installers(both: Both) -> None:
    theirs, ours = both("ignition-configs")
    assert set(theirs) - set(ours) <= set(NOT_OURS) and set(ours) <= set(theirs)
    for path in ("master.ign", "worker.ign"):
        assert _pointer(ours[path]) == _pointer(theirs[path])
    mine, real = (json.loads(files["metadata.json"]) for files in (ours, theirs))
    assert set(mine) <= set(real) and set(mine["baremetal"]) == set(real["baremetal"])
    assert mine["clusterName"] == real["clusterName"] and re.fullmatch("ostest-[a-z0-9]{5}", mine["infraID"])
    (server,), (their_server,) = (
        [one["cluster"]["server"] for one in yaml.safe_load(files["auth/kubeconfig"])["clusters"]] for files in (ours, theirs)
    )  # fmt: skip
    assert server == their_server


def test_a_complete_install_config_is_the_installers(both: Both) -> None:
    theirs, ours = both("install-config")
    their, our = (yaml.safe_load(files["install-config.yaml"]) for files in (theirs, ours))
    del their["osImageStream"]
    for tree in (their, our):
        for mac in ("externalMACAddress", "provisioningMACAddress"):
            assert tree["platform"]["baremetal"].pop(mac)
    assert _full(our) == _full(their)


def _plain(tree: Json, files: dict[str, str]) -> Any:
    """Without what says nothing, which CoreOS it is, and the invented part of names."""
    infra = yaml.safe_load(files["manifests/cluster-infrastructure-02-config.yml"])["status"]["infrastructureName"]
    text = json.dumps(tree).replace(infra, "INFRA")
    tree = json.loads(text)
    if tree["kind"] not in ("Infrastructure", "Ingress"):
        tree.pop("status", None)
    return _full(_without_streams(tree))


def _without_streams(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_without_streams(each) for each in tree if not (isinstance(each, dict) and each.get("key") in STREAMS)]
    if isinstance(tree, dict):
        return {name: _without_streams(each) for name, each in tree.items() if name not in STREAMS}
    return tree


def _full(tree: Any) -> Any:
    """Without what is empty, false or not there, which is all the same to whoever reads it."""
    if isinstance(tree, dict):
        found = {name: _full(each) for name, each in tree.items()}
        return {name: each for name, each in found.items() if each not in ("", None, {}, [], False)}
    return [_full(each) for each in tree] if isinstance(tree, list) else tree


def _decoded(secret: Json) -> Json:
    data = {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
    return {name: yaml.safe_load(value) if name == "nmstate" else value for name, value in data.items()}


def _pointer(text: str) -> Any:
    """The certificate is another one each time."""
    tree = json.loads(text)
    (believed,) = tree["ignition"]["security"]["tls"]["certificateAuthorities"]
    believed["source"] = believed["source"].partition("base64,")[0]
    return tree
