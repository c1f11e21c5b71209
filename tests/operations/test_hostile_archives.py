"""Archives as strangers send them: cut off, empty, odd, or made to do harm. Each is judged, or refused in words; never more."""

from __future__ import annotations

import gzip
import io
import json
import resource
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rackless.codec import encode
from rackless.diagnosis.lab_rules import LAB_RULES
from rackless.diagnosis.rule import explain
from rackless.errors import InputError
from rackless.operations import archives
from rackless.operations.archives import as_json, pack, unpack
from rackless.operations.runs import file_runs
from rackless.operations.why import why_archive
from rackless.protocol.messages import LabObjects
from tests.diagnosis.test_lab_rules import PLANTED, WELL

STATUS = as_json(encode(WELL.status))


def lab_archive(target: Path, **files: bytes) -> Path:
    pack(target, "rackless-lab", {name.replace("_", "."): data for name, data in files.items()})
    return target


def tar(target: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(target, "w:gz") as packed:
        for member, data in members:
            packed.addfile(member, io.BytesIO(data))
    return target


def member(name: str, data: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in more.items():
        setattr(info, field, value)
    return info, data


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def cut_off(target: Path) -> Path:
    lab_archive(target, status_json=STATUS, hosts_json=b"[]")
    target.write_bytes(target.read_bytes()[:-200])
    return target


def spoilt(target: Path) -> Path:
    whole = bytearray(lab_archive(target, status_json=STATUS).read_bytes())
    whole[60:90] = bytes(30)
    target.write_bytes(whole)
    return target


def claims_much(target: Path) -> Path:
    """A header that says that terabytes follow."""
    info = tarfile.TarInfo("rackless-lab/logs/big.log")
    info.size = 1 << 42
    target.write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096)))
    return target


def long_header(target: Path) -> Path:
    """The name of a member that is said to be gigabytes long; `tarfile` would read it."""
    info = tarfile.TarInfo("./@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 3 << 30
    target.write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096)))
    return target


def headers_in_headers(target: Path) -> Path:
    one = tarfile.TarInfo("./@LongLink")
    one.type, one.size = tarfile.GNUTYPE_LONGNAME, 8
    target.write_bytes(gzip.compress((one.tobuf(tarfile.GNU_FORMAT) + b"name".ljust(512, b"\0")) * 5000))
    return target


REFUSED: dict[str, Callable[[Path], Path]] = {
    "no bytes": lambda target: (target.write_bytes(b""), target)[1],
    "no archive": lambda target: (target.write_text("nothing\n" * 100), target)[1],
    "a gzip of nothing": lambda target: (target.write_bytes(gzip.compress(b"")), target)[1],
    "an archive of nothing": tar,
    "a folder and no files": lambda target: tar(target, member("rackless-lab/", type=tarfile.DIRTYPE)),
    "cut off": cut_off,
    "spoilt in the middle": spoilt,
    "a log and nothing else": lambda target: lab_archive(target, labd_log=b"x"),
    "no JSON": lambda target: lab_archive(target, status_json=b"{"),
    "another kind of JSON": lambda target: lab_archive(target, status_json=b"[]"),
    "not UTF-8": lambda target: lab_archive(target, status_json=b'{"daemon": "\xff\xfe"}'),
    "JSON without an end": lambda target: lab_archive(target, status_json=nested(200_000)),
    "hosts that are none": lambda target: lab_archive(target, status_json=STATUS, hosts_json=b'["ctrl-0"]'),
    "a host without a name": lambda target: lab_archive(target, hosts_json=b'[{"status": {"errorType": "x"}}]'),
    "a host whose status is a list": lambda target: lab_archive(
        target, hosts_json=b'[{"metadata": {"name": "a"}, "status": [1]}]'
    ),
    "objects of another kind": lambda target: lab_archive(target, status_json=STATUS, objects_json=b'{"nodes": [1]}'),
    "a part larger than ours": lambda target: tar(
        target, member("rackless-lab/status.json", b"1" * (archives._LARGEST_MEMBER + 1))
    ),
    "a header that claims terabytes": claims_much,
    "a name of gigabytes": long_header,
    "headers in headers": headers_in_headers,
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_archive_that_cannot_be_judged_is_refused_in_words_and_takes_little_memory(
    kind: str, tmp_path: Path
) -> None:
    target = REFUSED[kind](tmp_path / "lab.tar.gz")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError) as refused:
        why_archive(target)
    assert str(target) in str(refused.value)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < 4 * archives._LARGEST_MEMBER, "what it claims is not taken into the memory"


def test_links_and_devices_in_an_archive_are_not_followed_and_nothing_is_written(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"daemon": "not running"}')
    found = tar(
        tmp_path / "lab.tar.gz",
        member("rackless-lab/status.json", type=tarfile.SYMTYPE, linkname=str(secret)),
        member("rackless-lab/hosts.json", type=tarfile.LNKTYPE, linkname=str(secret)),
        member("rackless-lab/objects.json", type=tarfile.FIFOTYPE),
        member("rackless-lab/signs.json", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
        member("../../escaped.json", b"{}"),
        member("/escaped.json", b"{}"),
    )
    with pytest.raises(InputError, match="nothing to judge"):
        why_archive(found)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab.tar.gz", "secret.json"]


def test_an_archive_of_every_fault_is_judged_as_the_lab_was(tmp_path: Path) -> None:
    """Each rule from what an archive keeps of its evidence: what a daemon told, what was looked at, what the computer said."""
    differs = {}
    for rule, seen in PLANTED.items():
        wanted = [one.rule for one in explain(LAB_RULES, seen)]
        signs = {"logs": seen.logs, "surroundings": encode(seen.surroundings), "processors": encode(seen.processors)}
        computer = {
            "free_bytes": seen.free_bytes, "memory_available": seen.memory_available, "kept": seen.kept,
            "expired": seen.expired, "described": seen.described, "interrupted": seen.interrupted,
        }  # fmt: skip
        objects = LabObjects(tuple(seen.machines), tuple(seen.nodes), tuple(seen.requests))
        found = lab_archive(
            tmp_path / "lab.tar.gz",
            status_json=as_json(encode(seen.status) if seen.status else {"lab": "lab", "daemon": seen.daemon}),
            hosts_json=as_json(list(seen.hosts)), objects_json=as_json(encode(objects)), signs_json=as_json(signs),
            computer_json=as_json(computer),
        )  # fmt: skip
        if (told := [one.rule for one in why_archive(found).findings]) != wanted:
            differs[rule] = told
    assert differs == {"lab/other-version": []}, "which program was asked by which is not of the lab"


def test_what_is_judged_is_found_without_unpacking_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of ours has it first."""
    whole = dict.fromkeys(("status.json", "hosts.json", "objects.json", "signs.json", "computer.json"), b"{}")
    whole |= {"hosts.json": b"[]", "status.json": STATUS, "logs/console/ctrl-0.log": bytes(50 << 20)}
    pack(tmp_path / "lab.tar.gz", "rackless-lab", whole)
    places: list[int] = []
    seek = archives._Bounded.seek

    def told(bounded: archives._Bounded, place: int) -> int:
        places.append(place)
        return seek(bounded, place)

    monkeypatch.setattr(archives._Bounded, "seek", told)
    assert why_archive(tmp_path / "lab.tar.gz").findings == []
    assert max(places) < 1 << 20
    assert len(unpack(tmp_path / "lab.tar.gz", lambda name: name.endswith(".json"))) == 5 and max(places) > 50 << 20


@pytest.mark.parametrize("kind", ["cut off", "a name of gigabytes", "no bytes"])
def test_runs_are_compared_with_what_can_be_read_and_no_more(kind: str, tmp_path: Path) -> None:
    target = REFUSED[kind](tmp_path / "lab.tar.gz")
    if kind == "no bytes":
        assert file_runs(target) == []
        return
    with pytest.raises(InputError):
        file_runs(target)


def test_lines_that_are_no_events_are_passed_over(tmp_path: Path) -> None:
    odd = [
        nested(100_000),
        b'{"event": "step-started"}',
        b'{"event": ["x"]}',
        b"\xff\xfe",
        json.dumps({"event": {}}).encode(),
    ]
    odd += [
        json.dumps(
            {"event": "step-started", "step": "u1.1", "parent": None, "subject": "", "phase": "x", "at": at}
        ).encode()
        for at in (float("nan"), float("inf"), -1.0, 1e300)
    ]
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(odd))
    assert file_runs(tmp_path / "events.jsonl") == []
