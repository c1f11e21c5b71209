"""DMTF's own validators, against a fleet with TLS: nothing may fail.

They are programs of their own (`pip install 'rackless[conformance]'`), and the service validator needs DMTF's schemas.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from ssl import SSLContext

import pytest

from rackless.drivers.ironic import environment
from tests.bmc.conftest import ADMIN, MakeRack, Rack

pytestmark = pytest.mark.real

REQUIREMENTS = Path(environment.__file__).parent / "requirements.txt"
CACHE = Path.home() / ".cache" / "rackless-tests"
PROFILE = "OpenStackIronicProfile.v1_2_0.json"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
Authority = Callable[[list[str]], tuple[SSLContext, Path]]


@pytest.fixture
async def rack(make_rack: MakeRack, authority: Authority) -> Rack:
    return await make_rack(tls=authority([f"127.0.{net}.1" for net in range(1, 252)]))


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not here; it comes with rackless[conformance]")
    return found


def data(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"DMTF's files are not at {path}")
    return path


def ironic_profile() -> Path:
    """What the Ironic we use wants of a BMC. Its wheel has not the file; the sources of that version have."""
    version = re.search(r"^ironic==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE)
    assert version is not None
    folder = CACHE / f"ironic-{version[1]}-sources"
    if not list(folder.glob("*.tar.gz")):
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "ironic", "-d", str(folder)]
        done = subprocess.run([*pip, f"ironic=={version[1]}"], capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            pytest.skip(f"the sources of Ironic {version[1]} cannot be had by pip: {done.stderr[-200:]}")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        member = next(one for one in sources.getmembers() if one.name.endswith(f"/{PROFILE}"))
        content = sources.extractfile(member)
        assert content is not None
        (folder / PROFILE).write_bytes(content.read())
    return folder / PROFILE


async def run(rack: Rack, tmp_path: Path, *words: str | Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *map(str, words),
        *("-u", ADMIN.username, "-p", ADMIN.password, "-r", rack.base()),
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "REQUESTS_CA_BUNDLE": str(rack.ca), "HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(300):
        out, _ = await process.communicate()
    return out.decode()


def table(output: str) -> tuple[int, int]:
    """(passed, failed) of the service and interop validators' last table."""
    rows = re.findall(r"\|\s+(\d+)\s+\|\s+(\d+)\s+\|\s+(\d+)\s+\|\s+(\d+)\s+\|", output)
    assert rows, output[-2000:]
    return int(rows[-1][0]), int(rows[-1][2])


async def test_every_resource_is_as_its_schema_says(rack: Rack, tmp_path: Path) -> None:
    schemas = data("redfish-csdl")
    output = await run(
        rack, tmp_path, program("rf_service_validator"), "--skipschema", "--schema_directory", schemas,
        "--logdir", tmp_path / "logs",
    )  # fmt: skip
    passed, failed = table(output)
    assert failed == 0, output
    assert passed > 1000


async def test_every_rule_of_the_protocol_is_kept(rack: Rack, tmp_path: Path) -> None:
    assert rack.ca is not None
    output = await run(
        rack, tmp_path, program("rf_protocol_validator"), "--ca-bundle", rack.ca, "--report-dir", tmp_path / "logs",
        "--avoid-http-redirect",
    )  # fmt: skip
    found = re.search(r"PASS: (\d+), WARN: \d+, FAIL: (\d+)", output)
    assert found, output[-2000:]
    assert int(found[2]) == 0, output
    assert int(found[1]) > 300


async def test_what_ironic_asks_of_a_bmc_is_there(rack: Rack, tmp_path: Path) -> None:
    profile = ironic_profile()
    output = await run(rack, tmp_path, program("rf_interop_validator"), profile, "--logdir", tmp_path / "logs")
    passed, failed = table(output)
    assert failed == 0, output
    assert passed > 50
