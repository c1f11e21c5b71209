import json
import shutil
import struct
import subprocess
import uuid
import zlib
from pathlib import Path

import pytest

from rackless.images import gpt


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    (tmp_path / "esp").write_bytes(b"E" * 700)
    (tmp_path / "root").write_bytes(b"\0" * (3 << 20) + b"R" * 512)
    parts = [
        gpt.Partition(gpt.EFI_SYSTEM, "ESP", tmp_path / "esp"),
        gpt.Partition(gpt.LINUX_ROOT_X86_64, "root", tmp_path / "root"),
    ]
    size = gpt.write(tmp_path / "disk", parts, seed="a")
    assert size == (tmp_path / "disk").stat().st_size
    return tmp_path / "disk"


def _header(data: bytes, sector: int) -> tuple[int, ...]:
    raw = data[sector * 512 : sector * 512 + 92]
    signature, _, size, checksum, _, own, other, first, last, _, table, count, entry, table_sum = struct.unpack(
        "<8sIIIIQQQQ16sQIII", raw
    )
    assert signature == b"EFI PART"
    assert checksum == zlib.crc32(raw[:16] + b"\0\0\0\0" + raw[20:size])
    assert table_sum == zlib.crc32(data[table * 512 : table * 512 + count * entry])
    return own, other, first, last, table


def test_both_headers_are_valid_and_point_at_each_other(disk: Path) -> None:
    data = disk.read_bytes()
    last = len(data) // 512 - 1
    assert _header(data, 1)[:2] == (1, last)
    assert _header(data, last)[:2] == (last, 1)


def test_partitions_are_aligned_typed_named_and_hold_their_content(disk: Path) -> None:
    data = disk.read_bytes()
    esp, root = data[1024 : 1024 + 128], data[1024 + 128 : 1024 + 256]
    assert uuid.UUID(bytes_le=esp[:16]) == gpt.EFI_SYSTEM
    assert uuid.UUID(bytes_le=root[:16]) == gpt.LINUX_ROOT_X86_64
    assert root[56:].decode("utf-16-le").rstrip("\0") == "root"
    esp_first, root_first = (struct.unpack_from("<Q", entry, 32)[0] for entry in (esp, root))
    assert esp_first % 2048 == root_first % 2048 == 0
    assert data[esp_first * 512 : esp_first * 512 + 700] == b"E" * 700
    assert data[root_first * 512 + (3 << 20) :][:512] == b"R" * 512


def test_a_bios_finds_boot_code_and_the_partition_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "esp").write_bytes(b"E" * 700)
    parts = [gpt.Partition(gpt.EFI_SYSTEM, "ESP", tmp_path / "esp", bios=True)]
    gpt.write(tmp_path / "disk", parts, "a", boot_code=b"\xfa" * 440)
    data = (tmp_path / "disk").read_bytes()
    assert data[:440] == b"\xfa" * 440 and data[450] == 0xEE and data[510:512] == b"\x55\xaa"
    assert struct.unpack_from("<Q", data, 1024 + 48)[0] == 1 << 2
    with pytest.raises(ValueError, match="441 bytes"):
        gpt.write(tmp_path / "disk", parts, "a", boot_code=b"\xfa" * 441)


def test_a_partition_is_found_by_its_name(disk: Path) -> None:
    with disk.open("rb") as content:
        content.seek(gpt.offset_of(disk, "root") + (3 << 20))
        assert content.read(512) == b"R" * 512
    with pytest.raises(ValueError, match="no partition swap"):
        gpt.offset_of(disk, "swap")


def test_zeros_stay_holes(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as out:
        out.truncate(64 << 20)
    gpt.write(tmp_path / "disk", [gpt.Partition(gpt.LINUX_ROOT_X86_64, "root", tmp_path / "sparse")], seed="a")
    assert (tmp_path / "disk").stat().st_blocks * 512 < 1 << 20


@pytest.mark.skipif(not shutil.which("sfdisk"), reason="sfdisk is not here")
def test_the_system_s_own_tool_reads_the_same_table(disk: Path) -> None:
    done = subprocess.run(["sfdisk", "--json", disk], capture_output=True, text=True, check=True)
    table = json.loads(done.stdout)["partitiontable"]
    assert table["label"] == "gpt"
    assert [part["name"] for part in table["partitions"]] == ["ESP", "root"]
    assert done.stderr == ""
