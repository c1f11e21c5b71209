"""An install in a lab: which folder, which lab, and when it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackless.errors import InputError
from rackless.events import Bus
from rackless.operations.install import assets
from rackless.operations.install.cluster import load_folder
from tests.installer.assets.conftest import install_config


def test_a_folder_without_an_install_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no install was begun"):
        load_folder(tmp_path)
    with pytest.raises(InputError, match="no install was begun"):
        assets.find_cluster_name(tmp_path)


def test_the_lab_of_an_install_is_that_of_its_clusters_name_before_and_after_it_was_begun(tmp_path: Path) -> None:
    (tmp_path / "install-config.yaml").write_text(install_config())
    assert assets.find_cluster_name(tmp_path) == "ostest"
    assert not assets.has_release(tmp_path)
    assets.create(tmp_path, "ignition-configs", Bus())
    assert assets.find_cluster_name(tmp_path) == "ostest"


def test_the_machine_has_a_nic_on_the_provisioning_network_where_there_is_one(tmp_path: Path) -> None:
    for mode, bridges in (("Disabled", ["baremetal"]), ("Managed", ["baremetal", "provisioning"])):
        folder = tmp_path / mode
        folder.mkdir()
        text = install_config().replace("provisioningNetwork: Disabled", f"provisioningNetwork: {mode}")
        (folder / "install-config.yaml").write_text(text)
        assets.create(folder, "ignition-configs", Bus())
        found = load_folder(folder)
        assert [bridge for bridge, _ in found.bridges] == bridges
        assert all(mac.startswith("52:54:00:") for _, mac in found.bridges)
        assert found.infrastructure.startswith("ostest-")


def test_a_release_is_settled_once(tmp_path: Path) -> None:
    (tmp_path / "install-config.yaml").write_text(install_config())
    (tmp_path / "release.json").write_text('{"node": {"url": "http://192.168.111.1/x", "sha256": "' + "ab" * 32 + '"}}')
    assert assets.has_release(tmp_path)
    assets.create(tmp_path, "manifests", Bus())
    assert not (tmp_path / "release.json").exists() and assets.has_release(tmp_path)
