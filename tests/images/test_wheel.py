import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from rackless.drivers.process import LocalProcesses
from rackless.images import python, wheel

ROOT = Path("/")
needs_debians_python = pytest.mark.skipif(
    not (ROOT / "usr/bin" / python.PYTHON).exists(), reason=f"/usr/bin/{python.PYTHON} is not here"
)


def test_the_fingerprint_changes_with_a_file_and_with_its_name() -> None:
    sources = {"rackless/a.py": b"1", "rackless/b.py": b"2"}
    assert wheel.fingerprint(sources) == wheel.fingerprint(dict(sources))
    assert wheel.fingerprint({**sources, "rackless/b.py": b"3"}) != wheel.fingerprint(sources)
    assert wheel.fingerprint({"rackless/a.py": b"1", "rackless/c.py": b"2"}) != wheel.fingerprint(sources)


def test_the_sources_are_those_that_run_with_their_data_files_and_no_byte_code() -> None:
    sources = wheel.load_sources()
    assert sources["rackless/images/wheel.py"] == Path(wheel.__file__).read_bytes()
    assert "rackless/images/files/node/init" in sources
    assert not any(name.endswith(".pyc") or "__pycache__" in name for name in sources)


@pytest.mark.slow
@needs_debians_python
async def test_the_wheel_runs_where_it_lies_and_its_record_is_true(tmp_path: Path) -> None:
    target = tmp_path / "rackless.whl"
    await wheel.build(LocalProcesses(), ROOT, wheel.load_sources(), "/opt/rackless/rackless.whl", tmp_path, target)
    with zipfile.ZipFile(target) as archive:
        (record,) = [name for name in archive.namelist() if name.endswith("/RECORD")]
        rows = [line.split(",") for line in archive.read(record).decode().splitlines()]
        assert {name for name, _, _ in rows} == set(archive.namelist())
        name, digest, size = next(row for row in rows if row[0] == "rackless/errors.pyc")
        assert int(size) == len(archive.read(name)) and digest.startswith("sha256=") and len(digest) > 40
    ask = "import json, rackless.errors as e; print(json.dumps([e.__file__, e.known.__code__.co_filename]))"
    done = await python.run(LocalProcesses(), ROOT, "-c", f"import sys; sys.path.insert(0, {str(target)!r}); {ask}")
    assert json.loads(done.stdout) == [
        f"{target}/rackless/errors.pyc",
        "/opt/rackless/rackless.whl/rackless/errors.py",
    ], done.stderr
    # the same sources give the same wheel
    again = tmp_path / "again"
    again.mkdir()
    await wheel.build(
        LocalProcesses(), ROOT, wheel.load_sources(), "/opt/rackless/rackless.whl", again, again / "w.whl"
    )
    assert hashlib.sha256(target.read_bytes()).digest() == hashlib.sha256((again / "w.whl").read_bytes()).digest()
