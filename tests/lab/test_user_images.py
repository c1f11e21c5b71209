"""Images of a person's own, from a file on the computer to what a host's record says."""

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rackless.errors import InputError, LabError
from rackless.lab.user_images import UserImages, look_into
from rackless.run.paths import LabPaths, Roots
from rackless.spec.images import ImageFormat, ImageSpec

SERVER = "http://192.0.2.1:6180"
QCOW2 = b"QFI\xfb" + bytes(60000)
ISO = bytes(0x8001) + b"CD001" + bytes(2000)
RAW = b"\xeb" * 40000


@pytest.fixture
def images(tmp_path: Path) -> UserImages:
    return UserImages(LabPaths(Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache"), "lab"))


def spec(path: Path, **more: str) -> ImageSpec:
    return ImageSpec.model_validate({"url": str(path), **more})


@pytest.mark.parametrize(("content", "form"), [(QCOW2, "qcow2"), (ISO, "live-iso"), (RAW, "raw")])
async def test_a_file_is_offered_by_its_checksum_in_the_format_it_has(
    images: UserImages, tmp_path: Path, content: bytes, form: str
) -> None:
    path = tmp_path / "my image"
    path.write_bytes(content)
    await images.offer(spec(path))
    image = images.resolve(spec(path), SERVER)
    assert (image.checksum, image.checksum_type, image.format) == (hashlib.sha256(content).hexdigest(), "sha256", form)
    assert (images.paths.files / image.url.removeprefix(f"{SERVER}/")).read_bytes() == content


async def test_a_changed_file_is_another_image(images: UserImages, tmp_path: Path) -> None:
    path = tmp_path / "my.raw"
    path.write_bytes(RAW)
    await images.offer(spec(path))
    before = images.resolve(spec(path), SERVER)
    path.unlink()
    path.write_bytes(RAW + b"more")
    await images.offer(spec(path))
    after = images.resolve(spec(path), SERVER)
    assert before.url != after.url and before.checksum != after.checksum


async def test_a_file_on_another_file_system_is_copied(
    images: UserImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "my.raw"
    path.write_bytes(RAW)
    await images.offer(spec(path))
    (offered,) = images.paths.files.iterdir()
    assert offered.read_bytes() == RAW and not offered.samefile(path)


async def test_a_wrong_checksum_is_named_before_a_server_is_touched(images: UserImages, tmp_path: Path) -> None:
    path = tmp_path / "my.raw"
    path.write_bytes(RAW)
    await images.offer(spec(path, checksum=hashlib.md5(RAW, usedforsecurity=False).hexdigest()))
    with pytest.raises(InputError, match="is not the image its checksum says"):
        await images.offer(spec(path, checksum="0" * 64))


@pytest.mark.parametrize(
    ("content", "said"), [(RAW, "qcow2"), (QCOW2, "raw"), (QCOW2, "live-iso"), (RAW, "live-iso"), (ISO, "qcow2")]
)
def test_a_file_of_another_format_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"is not {said}"):
        look_into(path, ImageFormat(said))


async def test_what_is_no_file_is_named(images: UserImages, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        await images.offer(spec(tmp_path / "nowhere.raw"))
    (tmp_path / "empty.raw").touch()
    with pytest.raises(InputError, match="is empty"):
        await images.offer(spec(tmp_path / "empty.raw"))
    with pytest.raises(LabError, match="is not offered"):
        images.resolve(spec(tmp_path / "nowhere.raw"), SERVER)


def test_a_url_stays_a_url(images: UserImages) -> None:
    wanted = ImageSpec.model_validate({"url": "http://192.0.2.9/a.img", "checksum": "ab" * 64})
    image = images.resolve(wanted, SERVER)
    assert (image.url, image.checksum_type, image.format) == ("http://192.0.2.9/a.img", "sha512", "raw")


async def test_user_data_is_kept_where_only_root_reads_it(images: UserImages, tmp_path: Path) -> None:
    (tmp_path / "my.ign").write_text('{"ignition": {}}')
    wanted = ImageSpec.model_validate({
        "url": "http://192.0.2.9/a.raw", "checksum": "ab" * 32, "user_data": str(tmp_path / "my.ign")
    })  # fmt: skip
    await images.offer(wanted)
    assert images.user_data(wanted) == '{"ignition": {}}'
    (kept,) = (images.paths.secrets / "user-data").iterdir()
    assert kept.stat().st_mode & 0o077 == 0


async def _sent(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1000):
        yield content[start : start + 1000]


async def test_a_file_that_is_sent_is_offered_like_one_that_was_placed(images: UserImages) -> None:
    path, form = await images.take(_sent(ISO), None)
    image = images.resolve(ImageSpec(url=path), SERVER)
    assert (image.format, image.checksum) == (
        "live-iso",
        hashlib.sha256(ISO).hexdigest(),
    ) and form is ImageFormat.LIVE_ISO
    assert (images.paths.files / image.url.removeprefix(f"{SERVER}/")).read_bytes() == ISO
    assert (await images.take(_sent(ISO), None))[0] == path, "the same once more is the same"


async def test_what_is_sent_is_looked_into_and_leaves_nothing_when_refused(
    images: UserImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="the file is not qcow2"):
        await images.take(_sent(RAW), ImageFormat.QCOW2)
    with pytest.raises(InputError, match="the file is empty"):
        await images.take(_sent(b""), None)
    monkeypatch.setattr("rackless.lab.user_images.LEFT_FREE", 1 << 60)
    with pytest.raises(LabError, match="no room"):
        await images.take(_sent(RAW), None)
    assert list(images.paths.files.iterdir()) == []
