"""Descriptions that mean far more than they say: a lab.yaml, an install-config, manifests, and a host's addresses in a Secret."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from typing import Any

import pytest

from rackless.api.edge import yaml_form
from rackless.api.status import RequestRefused
from rackless.errors import SpecError
from rackless.installer.assets.manifests.checking import mistakes
from rackless.installer.install_config.checking import check
from rackless.provisioning import config_drive
from rackless.spec.load import parse
from rackless.yaml_weight import MOST_DEPTH, TooHeavy, check_depth, load_weighed


def laughs(depth: int) -> str:
    """Ten to the power of `depth` words."""
    lines = [f"a{number}: &a{number} [{','.join([f'*a{number - 1}'] * 10)}]" for number in range(1, depth)]
    return "\n".join(["a0: &a0 [x,x,x,x,x,x,x,x,x,x]", *lines, ""])


def merges(depth: int) -> str:
    """The same with merge keys, which are written out while the text is read."""
    lines = [f"a{number}: &a{number} {{<<: [{','.join([f'*a{number - 1}'] * 10)}]}}" for number in range(1, depth)]
    return "\n".join(["a0: &a0 {x: 1}", *lines, ""])


DEEP = {"brackets": "[" * 100_000, "dashes": "- " * 100_000, "questions": "? " * 50_000, "braces": "{a: " * 50_000,
        "lines": "".join(f"{' ' * number}-\n" for number in range(1500))}  # fmt: skip
"""A reader that calls itself for each level runs out of stack, and the process with it."""
HEAVY = {"aliases": laughs(30), "merge keys": merges(30), "itself": "a: &a [*a]\n", "digits": f"a: {'9' * 5000}\n"}


@pytest.mark.parametrize("text", HEAVY.values(), ids=HEAVY)
def test_a_lab_that_means_more_than_a_computer_holds_is_refused_in_a_moment(text: str) -> None:
    began = time.process_time()
    with pytest.raises(SpecError):
        parse(text, "lab.yaml")
    assert time.process_time() - began < 2


@pytest.mark.parametrize("text", HEAVY.values(), ids=HEAVY)
def test_so_is_what_a_secret_says_of_a_hosts_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="networkData in secret it is too much"):
        read_network(text)


MANIFEST = "apiVersion: {}\nkind: {}\nmetadata: {{name: a}}\n"


@pytest.mark.parametrize("text", [*HEAVY.values(), *DEEP.values()], ids=[*HEAVY, *DEEP])
@pytest.mark.parametrize("kind", ["metal3.io/v1alpha1 BareMetalHost", "example.org/v1 Anything"])
def test_so_is_a_manifest_of_a_known_and_of_an_unknown_kind(kind: str, text: str) -> None:
    began = time.process_time()
    (found,) = mistakes("openshift/mine.yaml", MANIFEST.format(*kind.split()) + f"spec:\n{indented(text)}")
    assert "too" in found.message and found.file == "openshift/mine.yaml"
    assert time.process_time() - began < 2


def test_a_manifest_may_say_a_thing_once_and_mean_it_twice() -> None:
    shared = "spec:\n  a: &a {x: 1}\n  b: *a\n  c: {<<: *a, y: 2}\n"
    assert list(mistakes("m", MANIFEST.format("example.org/v1", "Anything") + shared)) == []


@pytest.mark.parametrize("text", [*HEAVY.values(), *DEEP.values()], ids=[*HEAVY, *DEEP])
def test_so_is_an_install_config(text: str) -> None:
    began = time.process_time()
    assert not check(text).accepted
    assert time.process_time() - began < 2


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_is_nested_too_deeply_is_refused_before_it_is_read(text: str) -> None:
    with pytest.raises(TooHeavy, match="levels deep"):
        check_depth(text)
    with pytest.raises(ValueError, match="too much"):
        read_network(text)
    with pytest.raises(RequestRefused, match="levels deep"):
        yaml_form.load(text.encode())


def test_as_deep_as_it_may_be_and_long_lines_are_no_depth() -> None:
    check_depth("[" * MOST_DEPTH + "]" * MOST_DEPTH)
    check_depth("a: '" + "- " * 5000 + "'")
    check_depth("- [" + "{}, " * 5000 + "]")
    with pytest.raises(TooHeavy):
        check_depth("[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1))


def test_addresses_are_bounded_in_bytes_and_depth_and_those_of_a_real_host_are_read() -> None:
    assert read_network("links: [{id: eth0, type: phy}]\nnetworks: []\n") == {
        "links": [{"id": "eth0", "type": "phy"}], "networks": [],
    }  # fmt: skip
    with pytest.raises(ValueError, match="too much"):
        read_network("links: [" + "x, " * config_drive.MOST_BYTES + "]")


def test_the_weight_is_of_what_is_meant_and_a_little_too_much_is_too_much() -> None:
    assert load_weighed("a: &a [1, 2]\nb: *a\n", most_nodes=9) == {"a": [1, 2], "b": [1, 2]}
    with pytest.raises(TooHeavy):
        load_weighed("a: &a [1, 2]\nb: *a\n", most_nodes=8)
    assert load_weighed("abcd", most_bytes=4) == "abcd"
    with pytest.raises(TooHeavy):
        load_weighed("abcd", most_bytes=3)
    with pytest.raises(TooHeavy):
        load_weighed("[&a abcdef, *a, *a]", most_bytes=17)
    assert len(load_weighed("[&a abcdef,  *a,  *a]", most_bytes=21)) == 3
    assert load_weighed("") is None
    with pytest.raises(TooHeavy):
        load_weighed("9" * 101)
    assert load_weighed("9" * 100) == int("9" * 100)


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def read_network(text: str) -> Any:
    class Secrets:
        async def get(self, kind: str, name: str) -> dict[str, Any]:
            return {"kind": kind, "data": {"networkData": b64encode(text.encode()).decode()}}

    return asyncio.run(config_drive._mapping(Secrets(), "it", "networkData"))  # type: ignore[arg-type]
