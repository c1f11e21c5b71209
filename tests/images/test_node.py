import shutil
import zipfile
from pathlib import Path

import pytest

from rackless.drivers.process import LocalProcesses
from rackless.images import node, nodelayer, python
from rackless.images.files import read
from rackless.images.node import syslinux_config
from tests.images.elf_files import write_library

needs_ext4 = pytest.mark.skipif(
    not all(shutil.which(name) for name in ("mke2fs", "debugfs", "dumpe2fs")), reason="e2fsprogs are not here"
)
CONFIGURATION = """[defaults]
	base_features = sparse_super,filetype
	blocksize = 1024
	inode_size = 256
[fs_types]
	ext4 = {
		features = has_journal,extent
	}
"""


def test_a_bios_starts_the_same_kernel_with_the_same_options_as_uefi() -> None:
    entry = "title Node\nlinux /vmlinuz\ninitrd /initrd.img\noptions root=LABEL=x rw  quiet\n"
    assert syslinux_config(entry) == (
        "SERIAL 0\nDEFAULT node\nLABEL node\n  LINUX /vmlinuz\n  INITRD /initrd.img\n  APPEND root=LABEL=x rw  quiet\n"
    )


def test_a_node_counts_as_configured_once_its_files_are_on_the_disk() -> None:
    """A power cut in the seconds after that would leave files of no length, and Ignition would not run again."""
    lines = [line.split("#")[0].strip() for line in read("node/init").decode().splitlines()]
    done = lines.index(": >$DONE")
    assert lines[done - 1] == lines[done + 1] == "$B sync"


@needs_ext4
async def test_the_file_system_has_the_features_that_the_nodes_own_release_gives(tmp_path: Path) -> None:
    root, image = tmp_path / "root", tmp_path / "image"
    (root / "etc").mkdir(parents=True)
    (root / "etc/mke2fs.conf").write_text(CONFIGURATION)
    await node._build_file_system(LocalProcesses(), root, image)
    said = (await LocalProcesses().run(["dumpe2fs", "-h", image])).stdout
    (line,) = [line for line in said.splitlines() if line.startswith("Filesystem features:")]
    assert set(line.split()[2:]) == {"has_journal", "filetype", "extent", "sparse_super"}


@needs_ext4
async def test_a_nodes_python_is_taken_out_of_its_file_system_with_all_it_needs(tmp_path: Path) -> None:
    root, image, taken = tmp_path / "root", tmp_path / "image", tmp_path / "taken"
    shared = root / python.SHARED
    write_library(root / "usr/bin" / python.PYTHON, ["libz.so.1", "libc.so.6"])
    write_library(shared / "libz.so.1.2.13", ["libdeep.so.2"])
    (shared / "libz.so.1").symlink_to("libz.so.1.2.13")
    for name in ("libc.so.6", "libdeep.so.2", "libother.so.1"):
        write_library(shared / name, ["libc.so.6"])
    write_library(root / python.LOADER, [])
    for name in ("os.pyc", "json/decoder.pyc"):
        (root / python.STDLIB / name).parent.mkdir(parents=True, exist_ok=True)
        (root / python.STDLIB / name).write_text(name)
    (root / "etc").mkdir()
    (root / "etc/mke2fs.conf").write_text(CONFIGURATION)
    await node._build_file_system(LocalProcesses(), root, image)
    await nodelayer._take_python(LocalProcesses(), str(image), taken)
    left = {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
    left -= {Path("etc/mke2fs.conf"), Path(python.SHARED, "libother.so.1")}
    assert {path.relative_to(taken) for path in taken.rglob("*") if path.is_file()} == left
    assert all((taken / name).read_bytes() == (root / name).read_bytes() for name in left)


@needs_ext4
async def test_files_are_written_into_a_file_system_with_the_folders_that_are_missing(tmp_path: Path) -> None:
    root, image = tmp_path / "root", tmp_path / "image"
    for folder in ("etc", "opt"):
        (root / folder).mkdir(parents=True)
    (root / "etc/mke2fs.conf").write_text(CONFIGURATION)
    await node._build_file_system(LocalProcesses(), root, image)
    wheel = tmp_path / "rackless.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("rackless/__init__.pyc", "rackless/node/main.pyc", "rackless/node/main.py", "rackless/plan/a.pyc"):
            archive.writestr(name, name)
    agent = nodelayer.take_agent(wheel, tmp_path / "agent")
    assert set(agent) == {"rackless/__init__.pyc", "rackless/node/main.pyc"}
    files = {path: f"{nodelayer.AGENT}/{name}" for name, path in agent.items()}
    await nodelayer.write_files(LocalProcesses(), str(image), files)
    await LocalProcesses().run(["debugfs", "-R", f"rdump {nodelayer.AGENT} {tmp_path}", image])
    assert {name: (tmp_path / "agent" / name).read_text() for name in agent} == {name: name for name in agent}

    (tmp_path / "more").write_bytes(b"x" * (48 << 20))
    with pytest.raises(OSError, match="did not write /opt/more"):  # there is no room for it
        await nodelayer.write_files(LocalProcesses(), str(image), {tmp_path / "more": "/opt/more"})
