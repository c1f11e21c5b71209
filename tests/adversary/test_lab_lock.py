"""A package index that was taken over hands out another file under the version we pinned."""

import base64
import hashlib
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HARMLESS, EVIL = "hurt = False\n", "hurt = True\n"


def make_wheel(folder: Path, code: str) -> Path:
    """A wheel that pip takes, of one module."""
    info = "victim-1.0.dist-info"
    files = {
        "victim.py": code,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: victim\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(text)}\n")
    files[f"{info}/RECORD"] = "".join(rows) + f"{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / "victim-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


def test_rackless_installs_nothing_that_differs_from_its_lock(tmp_path: Path) -> None:
    checkout, index = tmp_path / "checkout", tmp_path / "index"
    checkout.mkdir()
    for name in ("rackless", "pyproject.toml"):
        shutil.copy(ROOT / name, checkout / name)
    pinned = hashlib.sha256(make_wheel(tmp_path / "seen", HARMLESS).read_bytes()).hexdigest()
    (checkout / "requirements.lock").write_text(f"victim==1.0 \\\n    --hash=sha256:{pinned}\n")
    make_wheel(index, EVIL)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
        "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "TMPDIR": str(tmp_path),
    }  # fmt: skip
    done = subprocess.run([checkout / "rackless", "--help"], env=environment, capture_output=True, text=True)
    assert done.returncode == 3 and "HASH" in done.stderr, done.stderr
    assert not list(checkout.glob(".venv/lib/*/site-packages/victim*")) and not (checkout / ".venv/.key").exists()
