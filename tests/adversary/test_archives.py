"""An archive that root writes where others may write too, and the secrets that must not be in it."""

from __future__ import annotations

import json
import os
import stat
import tarfile
from pathlib import Path

import pytest

from rackless.operations.archives import blot, pack
from rackless.operations.gather import _secrets
from rackless.run.paths import LabPaths, Roots


def test_a_link_at_the_archives_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim, output = tmp_path / "shadow", tmp_path / "lab.tar.gz"
    victim.write_text("mine")
    output.symlink_to(victim)
    pack(output, "lab", {"a.txt": b"x"})
    assert victim.read_text() == "mine" and not output.is_symlink()
    with tarfile.open(output) as archive:
        assert archive.getnames() == ["lab/a.txt"]


def test_nobody_else_reads_it_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    replace = os.replace

    def looking(source: Path, target: Path) -> None:
        seen.append(stat.S_IMODE(Path(source).stat().st_mode))
        replace(source, target)

    monkeypatch.setattr(os, "replace", looking)
    pack(tmp_path / "lab.tar.gz", "lab", {"a.txt": b"x"})
    assert [*seen, stat.S_IMODE((tmp_path / "lab.tar.gz").stat().st_mode)] == [0o600, 0o600]
    assert [path.name for path in tmp_path.iterdir()] == ["lab.tar.gz"]


def test_what_is_json_is_json_without_its_secrets_too() -> None:
    told = {
        "a": 'say "apiVersion": "v1", and hunter22',
        "nodeRef": {"apiVersion": "v1", "name": "ctrl-0"},
        "n": [1, None],
    }
    found = json.loads(blot(json.dumps(told, indent=1).encode(), [b'"apiVersion": "v1",', b"hunter22"]))
    assert found == {**told, "a": "say (secret) and (secret)"}


def test_of_a_kubeconfig_only_keys_are_secret_and_of_other_json_every_value(tmp_path: Path) -> None:
    paths = LabPaths(Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache"), "lab")
    paths.secrets.mkdir(parents=True)
    user = {"client-key-data": "a2V5a2V5", "name": "administrator"}
    (paths.secrets / "kubeconfig").write_text(json.dumps({"apiVersion": "v1", "users": [user]}, indent=1))
    (paths.secrets / "user.ign").write_text(json.dumps({"passwordHash": "hunter22"}))
    (paths.secrets / "bmc.password").write_text("correct horse\n")
    assert set(_secrets(paths)) == {b"a2V5a2V5", b"hunter22", b"correct horse"}


def test_a_secret_that_begins_as_another_does_leaves_nothing_of_it() -> None:
    assert blot(b"password=hunter22hunter", [b"hunter2", b"hunter22hunter"]) == b"password=(secret)"
