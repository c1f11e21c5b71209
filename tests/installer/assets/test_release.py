"""What an install takes from a release server."""

from __future__ import annotations

import json

import pytest
import yaml

from rackless.installer.assets.release import ReleaseFile, render_release
from rackless.installer.assets.store import FilesWrong
from tests.installer.assets.conftest import install_config
from tests.installer.assets.test_manifests import bootstrap_files, make

SHA256 = "ab" * 32
RELEASE = render_release({
    "node": ReleaseFile("http://192.168.111.1:6180/node.qcow2", SHA256),
    "payload": ReleaseFile("http://192.168.111.1:6180/payload.img", SHA256),
})  # fmt: skip
HOST = "openshift/99_openshift-cluster-api_hosts-0.yaml"


def test_hosts_get_the_releases_system_and_the_bootstrap_what_it_provisions_them_with() -> None:
    disk = {"install-config.yaml": install_config(), "release.json": RELEASE}
    first = make("manifests", disk)
    assert "release.json" in first.consume
    spec = yaml.safe_load(first.write[HOST])["spec"]
    assert spec["image"] == {
        "url": "http://192.168.111.1:6180/node.qcow2", "checksum": SHA256, "checksumType": "sha256",
    }  # fmt: skip
    assert "customDeploy" not in spec
    text = make("ignition-configs", first.write, first.handed).write["bootstrap.ign"]
    assert bootstrap_files(text)["/opt/openshift/release.json"] == RELEASE
    names = [unit["name"] for unit in json.loads(text)["systemd"]["units"]]
    assert names[-2:] == ["rackless-payload.service", "rackless-metal3.service"]


def test_a_system_that_the_install_config_names_is_not_replaced() -> None:
    own = f"    clusterOSImage: http://192.168.111.1:8080/mine.qcow2?sha256={'cd' * 32}\n"
    made = make("manifests", {"install-config.yaml": install_config(more=own), "release.json": RELEASE})
    assert yaml.safe_load(made.write[HOST])["spec"]["image"]["url"] == "http://192.168.111.1:8080/mine.qcow2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "JSON"),
        ("[]", "something else"),
        ('{"other": {}}', "something else"),
        ('{"node": {"url": "file:///x", "sha256": "ab"}}', "2 mistakes"),
        ('{"node": 3}', "2 mistakes"),
    ],
)
def test_a_release_that_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(FilesWrong, match=said):
        make("manifests", {"install-config.yaml": install_config(), "release.json": text})
