import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from rackless.errors import RacklessError
from rackless.images import elf
from rackless.images.selection import PackageSelection

from . import elf_files


def test_the_libraries_a_file_asks_for_are_read(tmp_path: Path) -> None:
    elf_files.write_library(tmp_path / "libx.so", ["libc.so.6", "libz.so.1"])
    assert elf.needed(tmp_path / "libx.so") == ("libc.so.6", "libz.so.1")


def test_a_real_program_needs_libc() -> None:
    assert "libc.so.6" in elf.needed(Path(sys.executable).resolve())


def test_a_script_needs_nothing(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert elf.needed(tmp_path / "script") == ()
    assert not elf.is_elf(tmp_path / "script")


def test_a_library_without_what_debuggers_want_is_smaller_and_still_loads(tmp_path: Path) -> None:
    original = next(Path(orjson.__file__).parent.glob("orjson.*.so"))
    library = tmp_path / original.name
    shutil.copyfile(original, library)
    with library.open("ab") as file:  # behind the last segment
        file.write(b"x" * 10_000)
    before = library.stat().st_size
    elf.strip(library)
    assert library.stat().st_size <= before - 10_000
    load = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('orjson', {str(library)!r})\n"
        "module = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(module)\n"
        "sys.stdout.buffer.write(module.dumps([1]))"
    )
    assert subprocess.run([sys.executable, "-c", load], capture_output=True).stdout == b"[1]"


@pytest.fixture
def selection(tmp_path: Path) -> PackageSelection:
    root, tree = tmp_path / "root", tmp_path / "tree"
    libraries = root / "usr/lib/x86_64-linux-gnu"
    elf_files.write_library(root / "usr/bin/tool", ["liba.so.1"])
    elf_files.write_library(libraries / "liba.so.1.2", ["libb.so.1"])
    (libraries / "liba.so.1").symlink_to("liba.so.1.2")
    elf_files.write_library(libraries / "libb.so.1", [])
    elf_files.write_library(libraries / "libunused.so.1", [])
    (root / "lib").symlink_to("usr/lib")
    tree.mkdir()
    return PackageSelection(root, tree)


def test_a_program_brings_its_libraries_and_theirs_and_no_others(selection: PackageSelection) -> None:
    selection.take_program("tool")
    taken = {str(path.relative_to(selection.target)) for path in selection.target.rglob("*") if not path.is_dir()}
    libraries = "usr/lib/x86_64-linux-gnu"
    assert taken == {"usr/bin/tool", f"{libraries}/liba.so.1", f"{libraries}/liba.so.1.2", f"{libraries}/libb.so.1"}


def test_a_file_reached_through_the_merged_usr_keeps_its_real_place(selection: PackageSelection) -> None:
    selection.take("lib/x86_64-linux-gnu/libb.so.1")
    assert (selection.target / "usr/lib/x86_64-linux-gnu/libb.so.1").exists()
    assert not (selection.target / "lib").exists()


def test_a_library_that_is_nowhere_stops_the_build(selection: PackageSelection) -> None:
    elf_files.write_library(selection.source / "usr/bin/broken", ["libgone.so.9"])
    with pytest.raises(RacklessError, match=r"libgone\.so\.9"):
        selection.take_program("broken")


def test_a_program_that_is_nowhere_stops_the_build(selection: PackageSelection) -> None:
    with pytest.raises(RacklessError, match="no program absent"):
        selection.take_program("absent")
