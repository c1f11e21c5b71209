from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackless.errors import InputError, SpecError
from rackless.spec.lab import LabSpec, Role
from rackless.spec.load import load, parse
from rackless.spec.units import parse_size, render_size


def problems(text: str) -> list[tuple[str, int | None, str, str]]:
    with pytest.raises(SpecError) as caught:
        parse(text, "lab.yaml")
    return [(p.path, p.line, p.message, p.hint) for p in caught.value.problems]


def test_an_empty_file_is_the_default_lab_of_three_control_planes_and_a_worker() -> None:
    spec = parse("", "lab.yaml")
    assert spec == LabSpec()
    assert {name: (group.role, group.count) for name, group in spec.servers.items()} == {
        "ctrl": (Role.CONTROL_PLANE, 3),
        "worker": (Role.WORKER, 1),
    }


def test_every_problem_is_listed_at_once_with_its_line() -> None:
    found = problems(
        """\
name: Not_A_Name
netwroks: {}
networks:
  cluster:
    cidr: 192.168.111.7/24
servers:
  ctrl:
    count: three
    memroy: 1GiB
    memory: 12 parsecs
"""
    )
    assert [(path, line) for path, line, _, _ in found] == [
        ("name", 1),
        ("netwroks", 2),
        ("networks.cluster.cidr", 5),
        ("servers.ctrl.count", 8),
        ("servers.ctrl.memroy", 9),
        ("servers.ctrl.memory", 10),
    ]


def test_an_unknown_field_is_answered_with_the_nearest_known_one() -> None:
    assert problems("servers: {ctrl: {memroy: 1GiB}}")[0][2:] == ("there is no such field", "did you mean memory?")
    assert problems("domian: x")[0][3] == "did you mean domain?"


def test_a_key_given_twice_is_a_problem_because_yaml_would_hide_it() -> None:
    assert ("name", 2, "given twice; YAML silently keeps the last", "") in problems("name: a\nname: b\n")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("networks: {bmc: {cidr: 192.168.111.0/25}}", "networks.bmc.cidr"),
        ("networks: {cluster: {cidr: 10.0.0.0/28}}", "networks.cluster.cidr"),
        ("servers: {ctrl: {role: control-plane, count: 2}}", "servers"),
        ("domain: " + "long." * 12 + "test", "servers.ctrl"),
    ],
)
def test_rules_between_fields_are_checked(text: str, path: str) -> None:
    assert path in [found[0] for found in problems(text)]


@pytest.mark.parametrize("text", ["a: [", "- a\n- b", "just words", "\x00", "{}: {}", "name: {a: 1}", "servers: [1]"])
def test_what_is_no_lab_at_all_is_said_not_thrown(text: str) -> None:
    assert problems(text)


@given(st.text(max_size=60))
def test_no_text_ever_crashes_the_loader(text: str) -> None:
    try:
        parse(text, "lab.yaml")
    except SpecError as error:
        assert error.problems


def test_a_missing_file_is_an_input_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml"):
        load(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(("text", "size"), [("1GiB", 1 << 30), ("512M", 512 << 20), ("1.5 gib", 3 << 29), ("7", 7)])
def test_sizes_have_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@given(st.integers(min_value=0, max_value=1 << 50))
def test_a_rendered_size_reads_back_as_itself(size: int) -> None:
    assert parse_size(render_size(size)) == size
