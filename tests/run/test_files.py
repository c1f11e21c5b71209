from pathlib import Path

from rackless.run.files import write, write_secret


def test_a_secret_is_readable_by_its_owner_only_and_so_is_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "password"
    assert write_secret(path, "hunter2")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_writing_the_same_again_changes_nothing_and_leaves_no_scratch_file(tmp_path: Path) -> None:
    assert write(tmp_path / "a", "x")
    assert not write(tmp_path / "a", "x")
    assert write(tmp_path / "a", "y")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
