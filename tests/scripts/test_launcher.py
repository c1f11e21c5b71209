"""`./rackless`, the script: it makes its environment for all who use the folder, and says so where it may not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = """\
#!/bin/sh
# makes what a virtual environment has of the script's point of view
case "$*" in
    "-m venv "*)
        mkdir -p "$3/bin"
        cp "$0" "$3/bin/python"
        printf '#!/bin/sh\\n' >"$3/bin/pip"
        chmod 755 "$3/bin/pip" ;;
    *"-m rackless"*) echo "umask $(umask)" ;;
esac
"""
NOBODY = 65534


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("being somebody else needs root")
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    (folder / "python").write_text(PYTHON)
    (folder / "python").chmod(0o755)
    script = (ROOT / "rackless").read_text().replace("/usr/bin/python3", str(folder / "python"))
    (folder / "rackless").write_text(script)
    (folder / "rackless").chmod(0o755)
    for place in (folder, *(one for one in folder.parents if one.is_relative_to("/tmp") and one != Path("/tmp"))):
        place.chmod(0o755)
    return folder


def run(folder: Path, umask: int, user: int = 0) -> subprocess.CompletedProcess[str]:
    return subprocess.run([folder / "rackless", "list"], capture_output=True, text=True, umask=umask, user=user)


def test_what_root_makes_with_a_narrow_umask_its_users_run(clone: Path) -> None:
    done = run(clone, 0o077)
    assert done.returncode == 0 and done.stdout == "umask 0077\n", "the command itself keeps the umask"
    assert (clone / ".venv/.key").stat().st_mode & 0o044 == 0o044 and (clone / ".venv").stat().st_mode & 0o055 == 0o055
    others = run(clone, 0o022, NOBODY)
    assert others.returncode == 0 and others.stdout == "umask 0022\n", others.stderr


def test_who_may_not_make_the_environment_is_told_who_may(clone: Path) -> None:
    done = run(clone, 0o022, NOBODY)
    assert done.returncode == 3 and f"do: sudo {clone}/rackless --version" in done.stderr
    run(clone, 0o022)
    (clone / "requirements.lock").write_text("another")
    assert run(clone, 0o022, NOBODY).returncode == 3, "nor make it anew"
