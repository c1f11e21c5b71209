"""rackless in a container: its recipe names what the code needs, and its script makes, uses and removes one container."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from rackless.lab.libvirtd import TPM_PACKAGES
from rackless.operations.prepare import PACKAGES

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "Containerfile").read_text()
OF_A_CONTAINER = {
    "ca-certificates",  # PyPI is asked by TLS
    "kmod",  # modprobe, for modules that the kernel does not load by itself
    "tini",  # the first process
}
ENGINE = """\
#!/bin/sh
# keeps its one container, image and volume as files, and says what it was asked
cd "$(dirname "$0")"
echo "$*" >>asked
case "$1 $2" in
    "image inspect") test -e "image-$3" ;;
    "container inspect")
        test -e container || exit 1
        case "$4" in
            *Status*) cat container ;;
            *folder*) cat folder ;;
            *build*) cat build ;;
        esac ;;
    build*) touch "image-$3" ;;
    run*)
        echo running >container
        echo "$*" | sed 's/.*--label folder=\\([^ ]*\\) .*/\\1/' >folder
        echo "$*" | sed 's/.*--label build=\\([^ ]*\\) .*/\\1/' >build ;;
    start*) echo running >container ;;
    rm*) rm container ;;
    exec*)
        case "$*" in
            *ledger*) cat ledgers 2>/dev/null ;;
            *"rackless up"*) echo lab.ledger >ledgers ;;
            *"rackless destroy --dry-run"* | *"rackless destroy --name other"*) ;;
            *"rackless destroy"*) rm -f ledgers ;;
            *"rackless status"*) exit 10 ;;
        esac ;;
esac
"""


def instructions() -> list[tuple[str, str]]:
    lines = [line for line in RECIPE.splitlines() if line and not line.startswith("#")]
    whole = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in whole.splitlines())]


def test_the_image_has_the_packages_that_labs_need_and_no_others() -> None:
    (command,) = [rest for word, rest in instructions() if word == "RUN" and "apt-get install" in rest]
    named = command.partition("apt-get install")[2].partition("&&")[0].split()
    packages = [word for word in named if not word.startswith("-")]
    assert packages == sorted(packages)
    assert set(packages) == {*PACKAGES, *TPM_PACKAGES, *OF_A_CONTAINER}


def test_every_package_has_a_name_where_packages_are_rpms() -> None:
    page = (ROOT / "docs/howto/run-in-a-container.md").read_text()
    rows = re.findall(r"(?m)^\| ([a-z0-9-]+) \| (\S.*) \|$", page.partition("| Debian |")[2])
    assert [name for name, _ in rows] == sorted({*PACKAGES, *TPM_PACKAGES})


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    copied = [name for word, rest in instructions() if word == "COPY" for name in rest.split()[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    ignored = (ROOT / ".containerignore").read_text()
    assert {line[1:] for line in ignored.splitlines() if line.startswith("!")} == set(copied)
    assert (ROOT / ".dockerignore").read_text() == ignored, "docker reads the other file"


def test_what_outlives_a_container_is_in_its_volume() -> None:
    (volume,) = [rest for word, rest in instructions() if word == "VOLUME"]
    (variables,) = [rest for word, rest in instructions() if word == "ENV"]
    places = dict(pair.split("=") for pair in variables.split())
    assert places.keys() == {"RACKLESS_STATE", "RACKLESS_CACHE"}, "the run folder ends with the container"
    assert all(place.startswith(f"{volume}/") for place in places.values())
    script = (ROOT / "scripts/container").read_text()
    assert f'--volume "$name:{volume}"' in script and f"{places['RACKLESS_STATE']}/*.ledger" in script


class Engine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "podman").write_text(ENGINE)
        (folder / "podman").chmod(0o755)

    def script(self, *arguments: str, within: Path | None = None, code: int = 0) -> str:
        environment = {name: text for name, text in os.environ.items() if not name.startswith("RACKLESS")}
        environment["RACKLESS_ENGINE"] = str(self.folder / "podman")
        done = subprocess.run(
            [str(ROOT / "scripts/container"), *arguments],
            cwd=within or self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stderr

    def asked(self) -> list[str]:
        """What changes something, since this was last called."""
        lines = (self.folder / "asked").read_text().splitlines()
        (self.folder / "asked").unlink()
        return [line for line in lines if "inspect" not in line and "ledger" not in line and "apt-get" not in line]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    if os.geteuid() != 0:
        pytest.skip("labs need root")
    return Engine(tmp_path / "engine")


def test_a_container_is_made_once_used_and_removed_with_its_last_lab(engine: Engine) -> None:
    engine.script("up")
    build, run, up = engine.asked()
    assert build.startswith("build --tag rackless:") and build.endswith(str(ROOT))
    assert "--privileged --network host" in run and f"--volume {engine.folder}:{engine.folder}" in run
    assert "--env RACKLESS_LAB " in up, "the lab that is meant is meant inside, too"
    assert up.endswith("-m rackless up") and "--tty" not in up and f"--workdir {engine.folder}" in up

    engine.script("status", code=10)
    (status,) = engine.asked()
    assert status.endswith("-m rackless status")

    engine.script("destroy", "--dry-run")
    (asked,) = engine.asked()
    assert asked.endswith("destroy --dry-run")
    engine.script("destroy", "--name", "other")
    (asked,) = engine.asked()
    assert asked.endswith("--name other"), "a lab is left"
    engine.script("destroy", "--yes")
    assert [line.split()[0] for line in engine.asked()] == ["exec", "rm"]

    engine.script("uninstall", "--yes")
    assert [line.split()[:2] for line in engine.asked()][-3:] == [["rm", "--force"], ["volume", "rm"], ["image", "rm"]]


def test_a_container_that_was_stopped_is_started_again(engine: Engine) -> None:
    engine.script("up")
    (engine.folder / "container").write_text("exited\n")
    engine.asked()
    engine.script("up")
    assert [line.split()[0] for line in engine.asked()] == ["start", "exec"]


def test_a_folder_that_the_container_does_not_see_is_refused(engine: Engine, tmp_path: Path) -> None:
    below = engine.folder / "below"
    below.mkdir()
    engine.script("up")
    engine.script("up", within=below)
    engine.asked()
    said = engine.script("up", within=tmp_path, code=3)
    assert f"sees the files below {engine.folder}, not those of {tmp_path}" in said
    assert engine.asked() == []


def test_labs_of_another_build_are_told(engine: Engine) -> None:
    assert "warning" not in engine.script("up")
    (engine.folder / "build").write_text("older\n")
    assert "labs are there by build older" in engine.script("status", code=10)
