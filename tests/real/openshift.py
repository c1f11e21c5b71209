"""The real OpenShift installer, where it is at hand: unpacked once, run inside a lab."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real import live_iso
from tests.real.conftest import ROOT, PretendHost

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "rackless-tests"
DEBS = Path("/var/cache/rackless/images/debs")
PYTHON = Path(sys.executable)
RELEASE = f"registry.invalid/release@sha256:{'a' * 64}"


def tools() -> Path:
    """Where RACKLESS_TEST_TOOLS says, or in a folder beside the checkout."""
    given = os.environ.get("RACKLESS_TEST_TOOLS")
    places = [Path(given)] if given else [ROOT.parents[above] / "shared/tools" for above in (0, 1)]
    return next((place for place in places if (place / "openshift-install.xz").exists()), places[0])


def require() -> tuple[Path, Path]:
    """The installer and an ISO that it takes; the test is skipped where they cannot be had."""
    if missing := [str(path) for path in live_iso.NEEDED if not path.exists()]:
        pytest.skip(f"{', '.join(missing)}: not here (packages {', '.join(live_iso.PACKAGES)})")
    if not DEBS.exists():
        pytest.skip("`rackless prepare` has not filled the cache with the packages that the ISO is made of")
    return installer(), live_iso_at(CACHE)


def installer() -> Path:
    """Unpacked once; the test is skipped where it cannot be had."""
    packed = tools() / "openshift-install.xz"
    if not packed.exists():
        pytest.skip(f"the real installer is not in {packed.parent}; RACKLESS_TEST_TOOLS may say where it is")
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp = packed.stat()
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = CACHE / f"openshift-install-{stamp.st_size}-{stamp.st_mtime_ns}"
        if not found.exists():
            fresh = found.with_suffix(".new")
            with fresh.open("wb") as file:
                subprocess.run(["xz", "-dc", str(packed)], stdout=file, check=True)
            fresh.chmod(0o755)
            fresh.rename(found)
    return found


def within(what: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.2)


def live_iso_at(folder: Path) -> Path:
    """Made anew each time: seven seconds, and never an old one."""
    target = folder / f"live-{os.getpid()}.iso"
    live_iso.make(target, DEBS)
    return target


@contextmanager
def beside(host: PretendHost, *argv: str) -> Iterator[None]:
    """A program inside the lab's namespaces, for as long as it is needed."""
    process = subprocess.Popen(
        host.enter(sys.executable, "-P", "-m", "rackless", "exec", "--", *argv),
        env=host.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.kill()
        process.wait()
