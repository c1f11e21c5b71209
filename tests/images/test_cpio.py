import io
import stat
from pathlib import Path

from rackless.images import cpio


def read_entries(data: bytes) -> dict[str, tuple[int, bytes, tuple[int, int]]]:
    """Read an archive back, the way the kernel does."""
    entries: dict[str, tuple[int, bytes, tuple[int, int]]] = {}
    at = 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_size - 1].decode()
        at += -(-(110 + name_size) // 4) * 4
        if name == "TRAILER!!!":
            return entries
        entries[name] = (mode, data[at : at + size], (fields[9], fields[10]))
        at += -(-size // 4) * 4


def test_an_archive_holds_the_files_links_and_folders_of_a_tree(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/name").write_text("deploy\n")
    (tree / "etc/name").chmod(0o640)
    (tree / "link").symlink_to("etc/name")

    cpio.write(tree, tmp_path / "out")

    entries = read_entries((tmp_path / "out").read_bytes())
    assert entries["etc/name"][:2] == (stat.S_IFREG | 0o640, b"deploy\n")
    assert entries["link"][:2] == (stat.S_IFLNK | 0o777, b"etc/name")
    assert stat.S_ISDIR(entries["etc"][0])
    assert list(entries).index("etc") < list(entries).index("etc/name")


def test_the_console_is_there_before_anything_is_mounted(tmp_path: Path) -> None:
    (tmp_path / "tree/dev").mkdir(parents=True)
    cpio.write(tmp_path / "tree", tmp_path / "out")
    mode, _, device = read_entries((tmp_path / "out").read_bytes())["dev/console"]
    assert stat.S_ISCHR(mode)
    assert device == (5, 1)


def test_an_archive_is_a_whole_number_of_blocks_and_does_not_depend_on_time() -> None:
    def archive() -> bytes:
        sink = io.BytesIO()
        writer = cpio.Archive(sink)
        writer.add("init", stat.S_IFREG | 0o755, b"#!x")
        writer.finish()
        return sink.getvalue()

    assert len(archive()) % 512 == 0
    assert archive() == archive()
