"""The roots of a lab are apart: a certificate that one of them made for something else opens no API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rackless.api.access import keys as api_keys
from rackless.cluster.reference.keys import Keys
from rackless.installer.assets.signing import KeyPair
from rackless.plan.addressing import plan_lab
from rackless.run.paths import LabPaths, Roots
from rackless.spec.load import parse
from rackless.trust.authority import BOTH_USES, Leaf, Use
from rackless.trust.identity import Identity

from .test_named_certificates import speak

PLAN = plan_lab(parse("name: lab\nservers: {ctrl: {role: control-plane, count: 1}}", "lab.yaml"))


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> LabPaths:
    """A lab with all of its roots, made as labd makes them."""
    folder = tmp_path_factory.mktemp("lab")
    made = LabPaths(Roots(folder / "state", folder / "run", folder / "cache"), "lab")
    Keys(made.cluster_keys).control_plane(PLAN.servers[0], PLAN)
    Keys(made.cluster_keys).etcd_client(PLAN)
    api_keys.ensure_admin(api_keys.ensure_authority(made.api_pki))
    tls = Identity(made).authority()
    for name in ("bmc", "ironic"):
        tls.ensure_leaf(name, [name], uses=(Use.SERVER,))
    # what no lab makes, and what must not help whoever makes it: a client's certificate of another root, for the administrator
    tls.ensure_leaf("impostor", uses=BOTH_USES, user="system:admin", groups=["system:masters"])
    return made


def pair(folder: Path, name: str) -> KeyPair:
    leaf = Leaf(folder / f"{name}.crt", folder / f"{name}.key")
    return KeyPair(leaf.certificate.read_text(), leaf.key.read_text())


def strangers(paths: LabPaths, own: Path) -> Iterator[tuple[str, KeyPair]]:
    """Every certificate of the lab with its key, but for those of clients of this API."""
    for file in sorted(paths.secrets.rglob("*.crt")):
        if file.name != "ca.crt" and not (file.parent == own and file.stem == "admin"):
            yield str(file.relative_to(paths.secrets)), pair(file.parent, file.stem)


@pytest.mark.parametrize("which", ["lab", "cluster"])
def test_what_another_root_signed_or_the_own_one_for_a_server_is_no_client_of_an_api(
    which: str, paths: LabPaths, tmp_path: Path
) -> None:
    folder = paths.api_pki if which == "lab" else Keys(paths.cluster_keys).api
    own = (folder / "ca.crt").read_text()
    assert speak(folder, own, "localhost", pair(folder, "admin"), tmp_path) == "system:admin"
    refused = dict(strangers(paths, folder))
    assert {Path(name).name for name in refused} >= {
        "bmc.crt", "ironic.crt", "impostor.crt", "ctrl-0.crt", "api-ctrl-0.crt", "observer.crt", "serving.crt", "admin.crt",
    }  # fmt: skip
    assert {name: speak(folder, own, "localhost", leaf, tmp_path) for name, leaf in refused.items()} == dict.fromkeys(
        refused, ""
    )
