"""The owner of a lab at one of its nodes, without root: a shell, and files there and back."""

from __future__ import annotations

import os

import pytest

from tests.real.conftest import PretendHost
from tests.real.test_lab_use import ME, OWNER, Owned

pytestmark = [pytest.mark.real, pytest.mark.long("reach")]

LAB = "servers: {node: {role: worker, count: 1}}\n"


def test_the_owner_has_a_shell_on_a_node_and_copies_files_there_and_back(public: PretendHost) -> None:
    (public.seen(public.folder) / "lab.yaml").write_text(LAB)
    home = public.seen(public.folder / "home")
    home.mkdir()
    os.chown(home, int(OWNER), int(OWNER))
    public.run("env", f"SUDO_UID={OWNER}", *ME, "up", "-f", "/srv/lab.yaml", timeout=1500)
    owned = Owned(public)
    assert owned.rackless("ssh", "node-0", "--", "id -un; cat /etc/hostname").stdout.split() == ["core", "node-0"]
    (home / "note").write_text("from outside\n")
    owned.rackless("cp", "/srv/home/note", "node-0:/tmp/")
    owned.rackless("ssh", "node-0", "--", "tr a-z A-Z < /tmp/note > /tmp/back")
    owned.rackless("cp", "node-0:/tmp/back", "/srv/home/")
    back = home / "back"
    assert back.read_text() == "FROM OUTSIDE\n" and back.stat().st_uid == int(OWNER)
    secret = public.seen(public.folder / "secret")
    secret.write_text("root's\n")
    secret.chmod(0o600)
    assert owned.rackless("cp", "/srv/secret", "node-0:/tmp/", check=False).returncode != 0
    refused = owned.rackless("ssh", "node-0", "--", "test -e /tmp/secret", check=False)
    assert refused.returncode == 1, "nothing of root's came there"
    public.rackless("destroy", "--yes")
