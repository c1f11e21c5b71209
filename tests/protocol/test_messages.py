"""What crosses the control socket is typed: values go through JSON unchanged, and no untyped dictionary has a way in."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import rackless
from rackless.codec import BadValue, decode, encode
from rackless.errors import HypervisorError
from rackless.protocol import messages
from rackless.protocol.exchange import Exchange, Nothing
from rackless.protocol.failures import Failure
from rackless.protocol.messages import FaultList, FaultStatus, HostWish, LabSeen, LabStatus, PressPower, WishedImage

EXCHANGES: list[Exchange[Any, Any]] = [found for found in vars(messages).values() if isinstance(found, Exchange)]
SPEAKERS = ["protocol", "labd", "bmc/fault_desk.py", "operations/hosts.py"]
"""Where messages are made, carried and answered."""


def signatures(path: Path) -> Iterator[tuple[str, str]]:
    for found in ast.walk(ast.parse(path.read_text())):
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
            given = found.args
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            spoken = [found.returns, *(one.annotation for one in arguments if one is not None)]
            yield found.name, "; ".join(ast.unparse(one) for one in spoken if one is not None)


def test_no_untyped_dictionary_is_in_a_signature_of_the_protocol_or_of_those_who_answer() -> None:
    root = Path(rackless.__file__).parent
    modules = [path for speaker in SPEAKERS for path in sorted((root / speaker).rglob("*.py")) or [root / speaker]]
    assert len(modules) > 8
    untyped = [
        f"{path.relative_to(root)}: {name}"
        for path in modules
        for name, types in signatures(path)
        if "dict[str, Any]" in types or "Any" in types.split("; ")
    ]
    assert untyped == []


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: str(exchange.name))
def test_every_request_and_answer_is_a_frozen_value_all_the_way_down(exchange: Exchange[Any, Any]) -> None:
    def look_at(kind: Any) -> None:
        if is_dataclass(kind):
            assert vars(kind)["__dataclass_params__"].frozen
            for field in fields(kind):
                look_at(get_type_hints(kind)[field.name])
            return
        assert kind is not Any and kind is not dict and kind is not list
        for inner in getattr(kind, "__args__", ()):
            look_at(inner)

    look_at(exchange.asked)
    look_at(exchange.answered)


def test_names_of_exchanges_are_not_given_twice() -> None:
    assert len({exchange.name for exchange in EXCHANGES}) == len(EXCHANGES) > 10


FAULT = FaultStatus("refuse", "ctrl-0", None, 1.0, 3, 5.0, 503, 65536, 1, 0, "refuse with 503")


@pytest.mark.parametrize(
    "value",
    [
        Nothing(),
        FaultList((FAULT, FAULT)),
        HostWish("provision", "ctrl-0", wait=True, image=WishedImage("http://a/b.iso", "", "live-iso"), user_data="x"),
        LabSeen({"ctrl-0": "on"}, ("cluster",), ("lab",), {"a": "why"}, ("ctrl-0",)),
        PressPower("ctrl-0", "cycle"),
    ],
)
def test_a_value_goes_through_json_unchanged(value: object) -> None:
    assert decode(type(value), json.loads(json.dumps(encode(value)))) == value


def test_fields_of_a_newer_peer_are_ignored_and_those_that_an_older_one_lacks_have_defaults() -> None:
    seen = {"servers": {}, "networks": [], "stages": ["lab"], "moon": "full"}
    assert decode(LabSeen, seen) == LabSeen({}, (), ("lab",))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"networks": [], "stages": []}, "servers is missing"),
        ({"servers": {}, "networks": "all", "stages": []}, "networks is 'all', and not a list"),
        ({"servers": {}, "networks": ["a", 7], "stages": []}, r"networks\[1\] is 7, and not str"),
        ({"servers": {"ctrl-0": None}, "networks": [], "stages": []}, "servers.ctrl-0 is None, and not str"),
        ([], r"it is \[\], and not an object"),
    ],
)
def test_what_is_missing_or_of_another_type_is_said_with_its_place(value: object, words: str) -> None:
    with pytest.raises(BadValue, match=words):
        decode(LabSeen, value)


def test_a_word_that_is_none_of_those_known_is_refused() -> None:
    with pytest.raises(BadValue, match="action is 'explode', and not on or off or cycle"):
        decode(PressPower, {"server": "ctrl-0", "action": "explode"})
    with pytest.raises(BadValue, match=r"etcd\.members is missing"):
        decode(LabStatus, {**_status(), "etcd": {"healthy": 1, "leader": None, "complete": False, "detail": ""}})


def test_a_daemon_of_before_answers_with_bare_lists_and_is_understood() -> None:
    assert messages.PAUSE.read_answer(["ctrl-0"]).servers == ("ctrl-0",)
    assert messages.CLEAR_FAULTS.read_answer(3).cleared == 3
    assert messages.STOP.read_answer(None) == Nothing()
    assert messages.HEALTH.read_answer({"pid": 7}).build == ""


def _status() -> dict[str, Any]:
    return {
        "lab": "lab",
        "domain": "",
        "daemon": "running",
        "reached": None,
        "stages": [],
        "cut_off": [],
        "servers": [],
        "api": None,
        "faults": [],
        "parts": [],
        "warnings": [],
        "etcd": None,
        "vip": None,
    }


def test_an_error_that_a_daemon_of_before_calls_by_its_old_name_is_of_the_same_kind() -> None:
    error = Failure("MachineError", "a package is missing", hint="install it").error()
    assert isinstance(error, HypervisorError) and (error.exit_code, error.hint) == (3, "install it")
