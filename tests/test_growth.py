"""That a leak is found, and noise is not: what the long test of a lab that stands still is judged by."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from tests.real.footprint import Sample, Usage
from tests.real.growth import grown

MIB = 1 << 20


STILL = {"descriptors": [20], "threads": [4], "memory": [50 * MIB], "server": [1000 * MIB], "files": [160]}


def hour(**values: Iterable[int]) -> list[Sample]:
    """A sample a minute of a lab of which only these values change."""
    given = {name: itertools.cycle(each) for name, each in {**STILL, **values}.items()}
    samples = []
    for minute in range(36):
        now = {name: next(each) for name, each in given.items()}
        labd = Usage(pss=now["memory"], descriptors=now["descriptors"], threads=now["threads"])
        server = Usage(pss=now["server"], descriptors=30, threads=4, server=True)
        samples.append(Sample(60.0 * minute, {"labd": labd, "ctrl-0": server}, now["files"]))
    return samples


def test_a_lab_that_stands_still_has_not_grown() -> None:
    assert grown(hour()) == []


def test_a_descriptor_a_thread_or_a_file_every_ten_minutes_is_found() -> None:
    slowly = [20 + minute // 10 for minute in range(36)]
    assert "labd, descriptors" in " ".join(grown(hour(descriptors=slowly)))
    assert "labd, threads" in " ".join(grown(hour(threads=slowly)))
    assert "files" in " ".join(grown(hour(files=slowly)))


def test_memory_that_grows_a_quarter_of_a_mebibyte_a_minute_is_found_and_as_little_of_a_guest_is_not() -> None:
    slowly = [minute * MIB // 4 for minute in range(36)]
    assert "labd, memory" in " ".join(grown(hour(memory=[50 * MIB + more for more in slowly])))
    assert grown(hour(server=[1000 * MIB + more for more in slowly])) == []
    assert "ctrl-0, memory" in " ".join(grown(hour(server=[1000 * MIB + 8 * more for more in slowly])))


def test_what_goes_up_and_down_has_not_grown_even_when_it_ends_high() -> None:
    assert grown(hour(threads=[4, 6, 5], memory=[50 * MIB, 60 * MIB])) == []


def test_a_program_that_was_not_there_all_the_time_is_told() -> None:
    samples = hour()
    del samples[7].processes["labd"]
    assert grown(samples) == ["labd: was not there all the time"]
