"""Clusters of every kind go through the whole graph."""

import json

import pytest
import yaml

from rackless.installer.assets.completing import complete
from rackless.installer.install_config.checking import check, read_config
from rackless.installer.install_config.cluster_input import ClusterInput
from rackless.installer.install_config.site import DEFAULT_BRIDGES, Site
from rackless.installer.install_config.writing import write
from tests.installer.assets.test_manifests import by_kind, make
from tests.installer.install_config.conftest import modes


@pytest.mark.parametrize("name", list(modes()))
def test_every_mode_becomes_ignition_configs(name: str) -> None:
    wanted = modes()[name]
    manifests = make("manifests", {"install-config.yaml": write(wanted)})
    ignition = make("ignition-configs", {}, manifests.handed)
    assert {"bootstrap.ign", "master.ign", "worker.ign", "metadata.json", "auth/kubeconfig"} <= set(ignition.write)
    assert ("arbiter.ign" in ignition.write) == bool(wanted.of("arbiter"))
    assert json.loads(ignition.write["bootstrap.ign"])["ignition"]["version"] == "3.3.0"
    hosts = by_kind(manifests.write, "BareMetalHost")
    assert sorted(each["metadata"]["name"] for each in hosts) == sorted(host.name for host in wanted.hosts)
    assert len(by_kind(manifests.write, "Machine")) == len(wanted.of("master")) + len(wanted.of("arbiter"))
    fenced = [each for each in by_kind(manifests.write, "Secret") if each["metadata"]["namespace"] == "openshift-etcd"]
    assert len(fenced) == (2 if wanted.fenced else 0)


@pytest.mark.parametrize("wanted", modes().values(), ids=list(modes()))
def test_a_complete_install_config_says_the_same_and_completing_it_again_changes_nothing(wanted: ClusterInput) -> None:
    text = write(wanted)
    config = read_config(text)
    assert config is not None
    tree = complete(config, "52:54:00:00:01:01", "52:54:00:00:01:02")
    again = yaml.safe_dump(tree)
    site = Site(DEFAULT_BRIDGES)
    assert check(again, site=site).clean
    reread = read_config(again)
    assert reread is not None
    assert complete(reread, "52:54:00:00:02:01", "52:54:00:00:02:02") == tree
    for field in ("name", "base_domain", "networking", "platforms", "arbiter"):
        assert getattr(reread, field) == getattr(config, field)
