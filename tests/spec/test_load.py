from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackless.errors import InputError, SpecError
from rackless.spec.cluster import Method
from rackless.spec.images import guessed_format
from rackless.spec.lab import LabSpec, Profile, Role
from rackless.spec.load import load, parse
from rackless.spec.template import render
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


def test_rules_between_fields_are_told_together_with_fields_that_cannot_be_read() -> None:
    found = problems(
        """\
networks:
  cluster:
    api_vip: 10.0.0.5
    routes:
      - {to: nowhere, via: 192.168.111.3}
      - {to: 10.0.0.0/8, via: 10.1.1.1}
servers:
  ctrl: {role: control-plane, count: 2, memory: much}
  "Bad Name": {}
"""
    )
    assert [(path, line) for path, line, _, _ in found] == [
        ("networks.cluster.api_vip", 3),
        ("networks.cluster.routes.0.to", 5),
        ("networks.cluster.routes.1.via", 6),
        ("servers.ctrl.memory", 8),
        ("servers.Bad Name", 9),
    ], "the number of control planes is not known while a group is not"
    assert ("servers", 1) in [(p, n) for p, n, *_ in problems("servers: {c: {role: control-plane, count: 2, disk: x}}")]


@pytest.mark.parametrize(
    "text",
    [
        "networks: {cluster: {cidr: 10.0.0.0/33, api_vip: 10.0.0.5}}",
        "networks: {cluster: {cird: 10.0.0.0/24, api_vip: 10.0.0.5}}",
        "networks: {provisioning: {mode: on, cidr: 192.168.111.0/24}}",
        "profile: hgue\nnetworks: {cluster: {api_vip: 192.168.111.21}}",
        "servers: {c: {count: x}}\nnetworks: {cluster: {api_vip: 192.168.111.20}}",
        "networks: {extra: {a: {vlan: 7}}}",
        "networks: 7",
    ],
)
def test_what_would_be_about_a_default_that_nobody_asked_for_is_not_said(text: str) -> None:
    assert len(problems(text)) == 1


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


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("networks: {cluster: {api_vip: 10.0.0.5}}", "networks.cluster.api_vip", "not an address for a host"),
        ("networks: {cluster: {api_vip: 192.168.111.4}}", "networks.cluster.api_vip", "is already"),
        ("networks: {cluster: {api_vip: 192.168.111.12}}", "networks.cluster.api_vip", "that DHCP gives away"),
        ("networks: {cluster: {api_vip: 192.168.111.21}}", "networks.cluster.api_vip", "the server ctrl-1"),
        (
            "networks: {cluster: {bootstrap: {range: 192.168.111.10-192.168.111.25}}}",
            "networks.cluster.bootstrap.range",
            "overlaps the addresses of ctrl-0",
        ),
        (
            "networks: {cluster: {bootstrap: {range: 192.168.111.19-192.168.111.10}}}",
            "networks.cluster.bootstrap.range",
            "before it starts",
        ),
        ("networks: {cluster: {bootstrap: {mac: '01:00:00:00:00:01'}}}", "networks.cluster.bootstrap.mac", "group"),
        (
            "networks: {cluster: {routes: [{to: 10.0.0.0/8, via: 10.1.1.1}]}}",
            "networks.cluster.routes.0.via",
            "nobody reaches it",
        ),
        (
            "networks: {cluster: {routes: [{to: 10.0.0.0/8, via: 192.168.111.3, audience: [wrokers]}]}}",
            "networks.cluster.routes.0.audience",
            "there is no group wrokers",
        ),
        ("networks: {extra: {bmc: {cidr: 10.0.0.0/24}}}", "networks.extra.bmc", "taken by the lab itself"),
        ("networks: {extra: {a-network-far-too-long: {cidr: 10.0.0.0/24}}}", "networks.extra", "15 characters"),
        ("networks: {extra: {a: {cidr: 192.168.112.0/24}}}", "networks.extra.a.cidr", "overlaps"),
        ("networks: {provisioning: {mode: managed, cidr: 192.168.111.0/24}}", "networks.provisioning.cidr", "overlaps"),
        ("servers: {a: {count: 2, first: 30}, b: {count: 1, first: 31}}", "servers.b.first", "of a-1"),
        ("servers: {a: {secure_boot: true, firmware: bios}}", "servers.a.secure_boot", "BIOS"),
        ("storage: disks", "storage", "absolute"),
        (
            "networks: {provisioning: {mode: unmanaged}}\nservers: {a: {bmc: ipmi}, b: {bmc: redfish}}",
            "servers.b.boot",
            "b boots over the network, and networks.provisioning.mode is unmanaged",
        ),
        ("servers: {a: {bmc: redfish, secure_boot: true}}", "servers.a.secure_boot", "not signed"),
        ("servers: {a: {bmc: pxe}}", "servers.a.bmc", "'redfish' or 'ipmi'"),
        ("servers: {a: {bmc: [ipmi]}}", "servers.a.bmc", "'redfish' or 'ipmi'"),
        (
            "networks: {cluster: {cidr: 'fd00:7::/64'}}",
            "networks.cluster.cidr",
            "fd00:7::/64 is IPv6, which labs do not",
        ),
        ("networks: {cluster: {api_vip: 'fd00:7::5'}}", "networks.cluster.api_vip", "is IPv6"),
        ("networks: {dns: {forward: ['2001:db8::53']}}", "networks.dns.forward.0", "is IPv6"),
        ("networks: {bmc: {cidr: [10.0.0.0/24, 'fd00::/64']}}", "networks.bmc.cidr", "dual stack"),
    ],
)
def test_bad_networks_and_servers_are_told_with_their_reason(text: str, path: str, words: str) -> None:
    found = problems(text)
    assert any(p.startswith(path) and words in message for p, _, message, _ in found), found


def test_an_unknown_field_deep_inside_is_answered_with_the_nearest_too() -> None:
    assert problems("networks: {extra: {a: {cird: 10.0.0.0/24}}}")[-1][3] == "did you mean cidr?"
    assert "did you mean via?" in [hint for *_, hint in problems("networks: {cluster: {routes: [{viaa: 1}]}}")]


def test_the_line_of_an_item_of_a_list_is_known() -> None:
    text = "networks:\n  cluster:\n    routes:\n      - {to: 10.0.0.0/8, via: 192.168.111.3}\n      - {to: 1, via: 2}\n"
    assert {line for _, line, _, _ in problems(text)} == {5}


def test_a_profile_names_the_servers_unless_they_are_given() -> None:
    assert {g.count for g in parse("profile: compact", "x").servers.values()} == {3}
    assert set(parse("profile: full\nservers: {a: {}}", "x").servers) == {"a"}


def test_what_was_recorded_of_a_lab_reads_back_as_the_same_lab() -> None:
    spec = parse(
        "profile: full\nnetworks: {cluster: {bootstrap: {range: 192.168.111.6-192.168.111.8}},"
        " bmc: {allow: [10.0.0.0/8]}, dns: {records: {a: 10.0.0.1}}}\nstorage: /srv/labs\n",
        "x",
    )
    assert LabSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize("profile", ["tiny", "compact", "full"])
def test_the_file_that_init_writes_is_the_profile(profile: str) -> None:
    written = parse(render("lab", Profile(profile), "why"), "lab.yaml")
    assert written.servers == parse(f"profile: {profile}", "x").servers
    assert written.networks == LabSpec().networks and written.cluster == LabSpec().cluster


def test_the_file_that_init_writes_for_a_bootstrap_gives_the_control_plane_what_ironic_needs() -> None:
    written = parse(render("lab", Profile.TINY, "why", Method.IPI), "lab.yaml")
    assert written.cluster.method is Method.IPI
    assert {name: group.memory >> 30 for name, group in written.servers.items()} == {"ctrl": 2, "worker": 1}


def test_a_size_out_of_bounds_is_told_in_its_own_unit() -> None:
    assert problems("servers: {w: {memory: 100MiB}}")[0][2] == "at least 768MiB"


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("servers: {a: {bmc: ipmi}}", "managed"),
        ("servers: {a: {}, b: {bmc: redfish}}\nnetworks: {uplink: none}", "managed"),
        ("servers: {a: {bmc: redfish}}\nnetworks: {provisioning: {cidr: 172.30.0.0/24}}", "managed"),
        ("servers: {a: {bmc: redfish-virtualmedia}}", "disabled"),
        ("", "disabled"),
    ],
)
def test_servers_that_boot_over_the_network_bring_the_network_for_it(text: str, mode: str) -> None:
    assert parse(text, "x").networks.provisioning.mode == mode


IMAGE_MISTAKES = [
    ("image: {url: http://192.0.2.1/a.qcow2}", "image.checksum: an image at a URL needs its checksum"),
    ("image: {url: http://192.0.2.1/a.qcow2, checksum: abc}", "neither an md5, a sha256 or a sha512"),
    ("image: {url: ftp://192.0.2.1/a.qcow2}", "neither an http URL nor a file on this computer"),
    ("image: {url: a.raw, format: vmdk}", "image.format"),
    ("servers: {ctrl: {image: {url: http://192.0.2.1/a.raw}}}", "servers.ctrl.image.checksum"),
    ("provisioner: {url: 192.0.2.1:6385}", "is not the URL of an Ironic"),
    ("provisioner: {url: https://me:secret@192.0.2.1:6385}", "a password has no place in the URL"),
    (
        "provisioner: {url: https://192.0.2.1:6385, credentials: {username: me}}",
        "provisioner.credentials.password_file",
    ),
]


@pytest.mark.parametrize(("text", "expected"), IMAGE_MISTAKES)
def test_mistakes_in_images_and_provisioners_are_named(text: str, expected: str) -> None:
    with pytest.raises(SpecError) as error:
        parse(text, "lab.yaml")
    assert expected in error.value.why


def test_files_are_meant_from_where_the_description_lies(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(
        "image: {url: images/my.qcow2, user_data: my.ign}\n"
        "provisioner: {url: 'https://192.0.2.1:6385', ca: /etc/ca.crt,"
        " credentials: {username: me, password_file: password}}\n"
    )
    spec = load(tmp_path / "lab.yaml")
    assert spec.image and spec.provisioner and spec.provisioner.credentials
    assert spec.image.url == str(tmp_path / "images/my.qcow2")
    assert spec.image.user_data == tmp_path / "my.ign"
    assert spec.provisioner.credentials.password_file == tmp_path / "password"
    assert spec.provisioner.ca == Path("/etc/ca.crt")
    assert type(spec).model_validate_json(spec.model_dump_json()) == spec


def test_a_url_goes_by_its_ending_and_a_live_iso_needs_no_checksum() -> None:
    for scheme in ("http", "https"):
        spec = parse(f"image: {{url: '{scheme}://192.0.2.1/rescue.iso'}}", "lab.yaml")
    assert spec.image and guessed_format(spec.image.url) == "live-iso"
    assert [guessed_format(f"http://x/{name}") for name in ("a.raw", "a.qcow2", "a")] == ["raw", "qcow2", "qcow2"]
