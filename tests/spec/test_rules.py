"""The rules between fields and the values with a unit, each at its edge: what is just allowed, and what is just not."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rackless.errors import SpecError
from rackless.spec import units
from rackless.spec.change import Change
from rackless.spec.check import find_problems
from rackless.spec.explain import fields, plain
from rackless.spec.images import checksum_type, guessed_format, is_path
from rackless.spec.lab import LabSpec, Profile, Role, ServerGroup
from rackless.spec.load import load, parse
from rackless.spec.network_rules import RESERVED_NAMES
from rackless.spec.places import numbers
from rackless.spec.remediation import Remediation
from rackless.spec.units import render_size


def told(text: str) -> list[tuple[str, str]]:
    """Every problem of a lab as (path, message); none when it is fine."""
    try:
        parse(text, "lab.yaml")
    except SpecError as error:
        return [(problem.path, problem.message) for problem in error.problems]
    return []


def cluster(text: str) -> str:
    return f"networks: {{cluster: {{{text}}}}}"


@pytest.mark.parametrize(("address", "problem"), [
    ("192.168.111.0", "192.168.111.0 is not an address for a host in 192.168.111.0/24"),
    ("192.168.111.255", "192.168.111.255 is not an address for a host in 192.168.111.0/24"),
    ("192.168.112.5", "192.168.112.5 is not an address for a host in 192.168.111.0/24"),
    ("192.168.111.1", "192.168.111.1 is already the gateway"),
    ("192.168.111.4", "192.168.111.4 is already networks.cluster.ingress_vip"),
    ("192.168.111.10", "192.168.111.10 is in the range 192.168.111.10-192.168.111.19 that DHCP gives away"),
    ("192.168.111.19", "192.168.111.19 is in the range 192.168.111.10-192.168.111.19 that DHCP gives away"),
    ("192.168.111.20", "192.168.111.20 is the address of the server ctrl-0"),
    ("192.168.111.23", "192.168.111.23 is the address of the server worker-0"),
    ("192.168.111.24", ""), ("192.168.111.254", ""), ("192.168.111.2", ""), ("192.168.111.8", ""),
])  # fmt: skip
def test_a_vip_is_a_free_address_of_the_cluster_network(address: str, problem: str) -> None:
    assert told(cluster(f"api_vip: {address}")) == ([("networks.cluster.api_vip", problem)] if problem else [])


def test_later_addresses_are_held_against_all_that_come_before_them() -> None:
    assert told(cluster("bootstrap: {address: 192.168.111.5}")) == [
        ("networks.cluster.bootstrap.address", "192.168.111.5 is already networks.cluster.api_vip")
    ]
    assert told(cluster("ingress_vip: 192.168.111.1")) == [
        ("networks.cluster.ingress_vip", "192.168.111.1 is already the gateway")
    ]
    routed = "networks: {{bmc: {{access: {}, router: 192.168.111.1}}}}"
    assert told(routed.format("routed")) == [("networks.bmc.router", "192.168.111.1 is already the gateway")]
    assert told(routed.format("direct")) == [], "a router that nobody uses has no address"
    assert told("networks: {bmc: {access: routed}, cluster: {api_vip: 192.168.111.2}}") == [
        ("networks.cluster.api_vip", "192.168.111.2 is already networks.bmc.router")
    ]


@pytest.mark.parametrize(("span", "problem"), [
    ("192.168.111.100-192.168.111.110", ""),
    ("192.168.111.24-192.168.111.30", ""),
    ("192.168.111.22-192.168.111.30", "192.168.111.22-192.168.111.30 overlaps the addresses of ctrl-2, worker-0"),
    ("192.168.111.19-192.168.111.24",
     "192.168.111.19-192.168.111.24 overlaps the addresses of ctrl-0, ctrl-1, ctrl-2"),
    ("192.168.110.200-192.168.111.3", "192.168.110.200-192.168.111.3 is not inside 192.168.111.0/24"),
    ("192.168.111.200-192.168.112.3", "192.168.111.200-192.168.112.3 is not inside 192.168.111.0/24"),
])  # fmt: skip
def test_what_dhcp_gives_away_is_nobodys(span: str, problem: str) -> None:
    found = [one for one in told(cluster(f"bootstrap: {{range: {span}}}")) if one[0].endswith("range")]
    assert found == ([("networks.cluster.bootstrap.range", problem)] if problem else [])


@pytest.mark.parametrize(("count", "prefix", "problem"), [
    (11, 27, ""), (12, 27, "10.0.0.0/27 has room for 11 servers, the lab has 12"),
    (1, 28, "10.0.0.0/28 has room for 0 servers, the lab has 1"),
])  # fmt: skip
def test_a_network_has_room_for_its_servers_from_the_20th_address_on(count: int, prefix: int, problem: str) -> None:
    found = told(f"networks: {{cluster: {{cidr: 10.0.0.0/{prefix}}}}}\nservers: {{a: {{count: {count}}}}}")
    assert found == ([("networks.cluster.cidr", problem)] if problem else [])


def test_a_place_beyond_the_end_of_a_network_is_named_by_its_number() -> None:
    assert told("servers: {a: {first: 300}}") == [
        ("networks.bmc.cidr", "192.168.112.0/24 has no address number 300"),
        ("networks.cluster.cidr", "192.168.111.0/24 has no address number 300"),
    ]
    assert told("servers: {a: {first: 254}}") == []
    assert [path for path, _ in told("servers: {a: {first: 255}}")] == ["networks.bmc.cidr", "networks.cluster.cidr"]


def test_groups_fill_the_places_that_others_have_not_claimed() -> None:
    spec = parse("servers: {a: {count: 3}, b: {count: 2, first: 21}, c: {}}", "x")
    assert numbers(spec) == {"a-0": 20, "a-1": 23, "a-2": 24, "b-0": 21, "b-1": 22, "c-0": 25}
    assert numbers(parse("servers: {a: {count: 2}, b: {first: 21}}", "x")) == {"a-0": 20, "a-1": 22, "b-0": 21}


def test_two_groups_in_one_place_are_told_once() -> None:
    assert told("servers: {a: {count: 3, first: 30}, b-c: {count: 3, first: 31}}") == [
        ("servers.b-c.first", "b-c-0 would have the number 31 of a-1")
    ]


def test_networks_do_not_overlap_and_one_that_is_not_there_overlaps_nothing() -> None:
    overlap = "networks: {{provisioning: {{mode: {}, cidr: 192.168.112.0/25}}}}"
    assert told(overlap.format("disabled")) == []
    assert told(overlap.format("unmanaged")) == [
        ("networks.provisioning.cidr", "192.168.112.0/25 overlaps networks.bmc.cidr 192.168.112.0/24")
    ]
    assert told("networks: {extra: {a: {cidr: 10.1.0.0/16}, b: {cidr: 10.1.2.0/24}}}") == [
        ("networks.extra.b.cidr", "10.1.2.0/24 overlaps networks.extra.a.cidr 10.1.0.0/16")
    ]


def test_what_rests_on_a_field_that_cannot_be_read_is_not_said_and_the_rest_is() -> None:
    spec = parse("", "x").model_copy(update={"storage": Path("disks")})
    assert [problem.path for problem in find_problems(spec)] == ["storage"]
    vip = "networks: {cluster: {api_vip: 192.168.111.21, bootstrap: {range: x}}}"
    assert [path for path, _ in told(vip)] == ["networks.cluster.api_vip", "networks.cluster.bootstrap.range"]
    given = "networks: {cluster: {api_vip: 192.168.111.12, bootstrap: {range: x}}}"
    assert [path for path, _ in told(given)] == ["networks.cluster.bootstrap.range"]
    routed = "networks: {bmc: {access: x}, cluster: {api_vip: 192.168.111.2}}"
    assert [path for path, _ in told(routed)] == ["networks.bmc.access"]
    unsure = "networks: {provisioning: {mode: x, cidr: 192.168.111.0/24}}\nservers: {a: {bmc: ipmi}}"
    assert [path for path, _ in told(unsure)] == ["networks.provisioning.mode"]
    both = "networks: {provisioning: {mode: x}, extra: {a: {cidr: 192.168.112.0/25}}}"
    assert [path for path, _ in told(both)] == ["networks.extra.a.cidr", "networks.provisioning.mode"]
    named = "domain: 7.-\nservers: {" + "a" * 24 + ": {memory: x}}"
    assert [path for path, _ in told(named)] == ["domain", "servers." + "a" * 24 + ".memory"]


def test_routes_go_through_the_cluster_network_to_groups_that_exist() -> None:
    def route(text: str) -> list[tuple[str, str]]:
        return told(cluster(f"routes: [{{to: 10.0.0.0/8, via: 192.168.111.3, {text}}}]"))

    assert route("audience: [bootstrap, ctrl, worker]") == [] == route("audience: []")
    assert route("audience: [ctrl, nobody]") == [("networks.cluster.routes.0.audience", "there is no group nobody")]


@pytest.mark.parametrize("name", ["cluster", "baremetal", "bmc", "provisioning", "virbr0", "lo", "uplink"])
def test_the_labs_own_names_are_taken(name: str) -> None:
    assert name in RESERVED_NAMES
    assert told(f"networks: {{extra: {{{name}: {{cidr: 10.0.0.0/24}}}}}}") == [
        (f"networks.extra.{name}", f"the name {name} is taken by the lab itself")
    ]


def test_a_tag_belongs_to_one_network() -> None:
    extra = "networks: {{extra: {{a: {{cidr: 10.0.0.0/24, vlan: 7}}, b: {{cidr: 10.0.1.0/24, vlan: {}}}}}}}"
    assert told(extra.format(7)) == [("networks.extra.b.vlan", "7 is already the tag of a")]
    assert told(extra.format(8)) == [] == told(extra.format("null"))


@pytest.mark.parametrize("count", range(8))
def test_control_planes_are_none_one_three_or_five(count: int) -> None:
    text = f"servers: {{c: {{role: control-plane, count: {count}}}, w: {{count: 2}}}}"
    assert [path for path, _ in told(text)] == ([] if count in (0, 1, 3, 5) else ["servers"])


def test_a_host_name_has_64_characters_at_most() -> None:
    def named(domain: int) -> list[str]:
        return [path for path, _ in told(f"domain: {'d' * domain}\nservers: {{w: {{count: 10}}}}")]

    assert len("w-9.lab." + "d" * 56) == 64
    assert named(56) == [] and named(57) == ["servers.w"]
    assert [path for path, _ in told(f"domain: {'d' * 57}\nservers: {{w: {{count: 0}}}}")] == ["servers.w"]
    assert told(f"domain: {'d' * 56}\nservers: {{w: {{count: 11}}}}")[0][0] == "servers.w", "w-10 is longer"


def test_secure_boot_needs_uefi_and_signed_programs() -> None:
    group = "servers: {{a: {{secure_boot: {}, firmware: {}, bmc: {}}}}}"
    assert told(group.format("true", "uefi", "redfish-virtualmedia")) == []
    assert (
        told(group.format("false", "bios", "redfish-virtualmedia")) == [] == told(group.format("false", "uefi", "ipmi"))
    )
    assert [path for path, _ in told(group.format("true", "uefi", "ipmi"))] == ["servers.a.secure_boot"]


@pytest.mark.parametrize(("mode", "bad"), [("managed", False), ("unmanaged", True), ("disabled", True)])
def test_booting_over_the_network_needs_a_network_that_the_labs_ironic_answers_on(mode: str, bad: bool) -> None:
    text = f"networks: {{provisioning: {{mode: {mode}}}}}\nservers: {{m: {{}}, a: {{bmc: ipmi}}}}"
    assert [path for path, _ in told(text)] == (["servers.a.boot"] if bad else [])
    installed = f"{text}\ncluster: {{method: none}}"  # by somebody's own installer, whose Ironic a site's DHCP leads to
    assert [path for path, _ in told(installed)] == (["servers.a.boot"] if mode == "disabled" else [])
    external = "provisioner: {url: 'http://192.0.2.1:6385'}\nservers: {m: {}, a: {bmc: redfish}}"
    assert [path for path, _ in told(external)] == ["servers.a.boot"]


def test_storage_and_images_are_checked_wherever_they_stand() -> None:
    assert told("storage: /srv") == [] and told("storage: srv") == [("storage", "srv is not an absolute path")]
    url = "{url: 'http://192.0.2.1/a.raw'}"
    assert [path for path, _ in told(f"image: {url}\nservers: {{a: {{image: {url}}}, b: {{}}}}")] == [
        "image.checksum", "servers.a.image.checksum",
    ]  # fmt: skip
    assert told("image: {url: 'http://192.0.2.1/a', format: live-iso}") == [] == told("image: {url: /srv/a.raw}")
    assert told("image: {url: 'http://192.0.2.1/a.iso', format: raw}") != []
    assert told("image: {url: 'http://192.0.2.1/a.iso', checksum: nonsense}") != []


def test_a_checksum_is_known_by_its_length() -> None:
    kinds = {size: checksum_type("aF" * (size // 2)) for size in (32, 64, 128)}
    assert kinds == {32: "md5", 64: "sha256", 128: "sha512"}
    assert checksum_type("http://192.0.2.1/SHA256SUMS") == "auto"
    for wrong in ("a" * 33, "a" * 63, "g" * 64, ""):
        with pytest.raises(ValueError, match="neither an md5"):
            checksum_type(wrong)


def test_files_and_urls_are_told_apart() -> None:
    assert is_path("/a") and is_path("file:///a") and is_path("a.raw") and not is_path("http://a/b")
    names = ("a.ISO", "a.raw", "a.img", "a.qcow2", "a.raw.gz")
    assert [guessed_format(f"http://x/{name}?iso").value for name in names] == [
        "live-iso", "raw", "raw", "qcow2", "qcow2",
    ]  # fmt: skip
    spec = parse("image: {url: 'file:///srv/a.raw'}", "x")
    assert spec.image and spec.image.url == "/srv/a.raw" and spec.image.is_path
    assert parse("image: {url: a.raw}", "x").image == parse(f"image: {{url: {Path.cwd()}/a.raw}}", "x").image


def good(kind: Any, value: object) -> object:
    return TypeAdapter(kind).validate_python(value)


def refused(kind: Any, *values: object) -> None:
    for value in values:
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(value)


def test_names_are_lower_case_and_not_too_long() -> None:
    for kind, limit in ((units.LabName, 32), (units.GroupName, 24), (units.InterfaceName, 15)):
        assert good(kind, "a" * limit) == "a" * limit
        refused(kind, "a" * (limit + 1), "", "1a", "a-", "-a", "A", "a_b", "a.b", "ä")
    assert good(units.LabName, "a-1") == "a-1"


def test_domains_records_and_macs_have_their_form() -> None:
    assert good(units.DomainName, "a.b-c.test") == "a.b-c.test" and good(units.DomainName, "7") == "7"
    refused(units.DomainName, "a..b", ".a", "a.", "-a", "A", "a" * 201, "")
    assert good(units.DomainName, "a" * 200) == "a" * 200
    assert good(units.Mac, "52-54-00-AB-CD-EF") == "52:54:00:ab:cd:ef"
    refused(units.Mac, "01:00:00:00:00:01", "52:54:00:ab:cd", "52:54:00:ab:cd:eg", "03:00:00:00:00:01")
    assert good(units.RecordName, "*.dev") == "*.dev" and good(units.RecordName, "registry") == "registry"
    refused(units.RecordName, "*", "a b", "a.*.b", "")


def test_sizes_are_powers_of_two_whatever_they_are_called() -> None:
    assert [units.parse_size(text) for text in ("1", "1B", "1k", "1KB", "1KiB", "1MB", "1 GiB ", "0.5T")] == [
        1, 1, 1 << 10, 1 << 10, 1 << 10, 1 << 20, 1 << 30, 1 << 39,
    ]  # fmt: skip
    assert units.parse_size(77) == 77
    refused(units.Size, True, "GiB", "1 PiB", "-1GiB", "1,5GiB", 1.5, None)
    shown = (1, 1023, 1 << 10, 1025, 1 << 20, 3 << 30, 1 << 40, (1 << 40) + (1 << 30))
    assert [render_size(size) for size in shown] == ["1B", "1023B", "1KiB", "1025B", "1MiB", "3GiB", "1TiB", "1025GiB"]
    assert render_size(0) == "0B"


def test_networks_addresses_and_ranges_are_read_and_ipv6_is_told_as_not_yet() -> None:
    assert good(units.Cidr, "10.0.0.0/24") == IPv4Network("10.0.0.0/24") == good(units.Cidr, IPv4Network("10.0.0.0/24"))
    assert good(units.Address, "10.0.0.1") == IPv4Address("10.0.0.1") == good(units.Address, IPv4Address("10.0.0.1"))
    refused(units.Cidr, "10.0.0.1/24", "fd00::/64", ["10.0.0.0/24"], "x")
    refused(units.Address, "10.0.0.256", "fd00::1", "x")
    pair = (IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2"))
    assert (
        good(units.AddressRange, " 10.0.0.1 - 10.0.0.2 ") == pair == good(units.AddressRange, ["10.0.0.1", "10.0.0.2"])
    )
    assert good(units.AddressRange, "10.0.0.1-10.0.0.1") == (pair[0], pair[0])
    refused(units.AddressRange, "10.0.0.1", "10.0.0.2-10.0.0.1", ["10.0.0.1"], 7, "fd00::1-fd00::2", ("10.0.0.1",) * 3)
    assert TypeAdapter(units.AddressRange).dump_python(pair) == "10.0.0.1-10.0.0.2"


@pytest.mark.parametrize(("field", "allowed", "beyond"), [
    ("count", (0, 200), (-1, 201)), ("first", (20, 65000), (19, 65001)), ("vcpus", (1, 64), (0, 65)),
    ("extra_nics", (0, 8), (-1, 9)), ("memory", (768 << 20,), ((768 << 20) - 1,)), ("disk", (2 << 30,), ((2 << 30) - 1,)),
    ("extra_disks", ([1] * 24,), ([1] * 25,)),
])  # fmt: skip
def test_fields_of_a_server_group_have_bounds(
    field: str, allowed: tuple[object, ...], beyond: tuple[object, ...]
) -> None:
    for value in allowed:
        assert ServerGroup.model_validate({field: value})
    for value in beyond:
        with pytest.raises(ValidationError):
            ServerGroup.model_validate({field: value})


def test_a_tag_of_a_vlan_is_one_that_can_be_on_a_wire() -> None:
    extra = "networks: {{extra: {{a: {{cidr: 10.0.0.0/24, vlan: {}}}}}}}"
    assert told(extra.format(1)) == [] == told(extra.format(4094))
    assert told(extra.format(0)) and told(extra.format(4095))


def test_profiles_are_what_their_documentation_says() -> None:
    sizes = {
        profile.value: {
            name: (g.role, g.count, g.memory >> 30, g.vcpus, g.disk >> 30) for name, g in spec.servers.items()
        }
        for profile in Profile
        for spec in [parse(f"profile: {profile}", "x")]
    }
    control = (Role.CONTROL_PLANE, 3, 16, 4, 120)
    assert sizes == {
        "tiny": {"ctrl": (Role.CONTROL_PLANE, 3, 1, 1, 8), "worker": (Role.WORKER, 1, 1, 1, 8)},
        "compact": {"ctrl": control},
        "full": {"ctrl": control, "worker": (Role.WORKER, 2, 8, 2, 120)},
    }
    assert LabSpec().servers == parse("profile: tiny\nservers:", "x").servers


def test_a_lab_without_a_file_is_the_default_one_and_a_given_name_wins(tmp_path: Path) -> None:
    assert load(None) == LabSpec() and load(None, name="other").name == "other"
    (tmp_path / "lab.yaml").write_text("name: written\n")
    assert load(tmp_path / "lab.yaml").name == "written"
    assert load(tmp_path / "lab.yaml", name="other").name == "other"
    (tmp_path / "lab.yaml").write_bytes(b"\xff")
    with pytest.raises(Exception, match=r"cannot read .*lab\.yaml"):
        load(tmp_path / "lab.yaml")


def lines(text: str) -> list[tuple[str, int | None, str, str]]:
    with pytest.raises(SpecError) as caught:
        parse(text, "lab.yaml")
    return [(p.path, p.line, p.message, p.hint) for p in caught.value.problems]


def test_what_is_no_yaml_is_told_with_its_line() -> None:
    ((path, line, message, hint),) = lines("name: a\nservers: {a: [}\n")
    assert (path, line, hint) == ("", 2, "check the indentation and the quotes") and message.startswith("not YAML: ")
    assert lines("- a")[0][:2] == ("", 1)
    assert lines("name: \x00")[0][1] is None


def test_what_yaml_cannot_hold_is_told_of_the_whole_file() -> None:
    [(path, words)] = told("name: \x00")
    assert path == "" and words.startswith("not YAML: ")


def test_a_key_given_twice_is_told_wherever_it_is() -> None:
    text = "servers:\n  a: {}\n  a: {count: 2}\nname: x\n"
    assert lines(text) == [("servers.a", 3, "given twice; YAML silently keeps the last", "")]


def test_unknown_fields_are_answered_with_what_is_known_there() -> None:
    assert lines("servers: {a: {zzz: 1}}")[0][3].startswith("known here: role, count, first")
    assert lines("networks: {cluster: {routes: [{to: 10.0.0.0/8, via: 192.168.111.3, zzz: 1}]}}")[0] == (
        "networks.cluster.routes.0.zzz", 1, "there is no such field", "known here: to, via, audience",
    )  # fmt: skip
    assert lines("name: {a: 1}")[0][0] == "name"
    assert lines("networks: x")[0][2] == "this is a mapping of fields, not a single value"
    assert lines("servers: x")[0][2] == "this is a mapping of fields, not a single value"


def test_a_bound_that_is_no_size_is_told_as_a_number() -> None:
    assert lines("servers: {a: {count: 300}}")[0][2] == "Input should be less than or equal to 200"
    assert lines("servers: {a: {disk: 1MiB}}")[0][2] == "at least 2GiB"


def test_items_that_were_taken_out_do_not_move_the_others_of_their_list() -> None:
    routes = "\n".join(f"      - {{to: {to}, via: {via}}}" for to, via in (
        ("x", "192.168.111.3"), ("10.0.0.0/8", "10.1.1.1"), ("y", "192.168.111.3"), ("10.0.0.0/8", "10.2.2.2"),
    ))  # fmt: skip
    found = lines(f"networks:\n  cluster:\n    routes:\n{routes}\n")
    assert [(path, line) for path, line, _, _ in found] == [
        ("networks.cluster.routes.0.to", 4), ("networks.cluster.routes.1.via", 5),
        ("networks.cluster.routes.2.to", 6), ("networks.cluster.routes.3.via", 7),
    ]  # fmt: skip


@pytest.mark.parametrize(("url", "fine"), [
    ("https://192.0.2.1:6385/", True), ("http://ironic", True), ("ftp://192.0.2.1", False), ("http://", False),
    ("https://me@192.0.2.1", False), ("https://:secret@192.0.2.1", False),
])  # fmt: skip
def test_an_ironic_is_named_by_its_url_without_a_password(url: str, fine: bool) -> None:
    found = told(f"provisioner: {{url: '{url}'}}")
    assert bool(found) is not fine
    if fine:
        spec = parse(f"provisioner: {{url: '{url}'}}", "x")
        assert spec.provisioner and spec.provisioner.url == url.rstrip("/")


@pytest.mark.parametrize(("group", "path", "problem"), [
    ("count: 2, elastic: {max: 3}", "", ""),
    ("count: 0, elastic: {max: 1}", "", ""),
    ("role: spare, count: 2, elastic: {max: 4}", "", ""),
    ("count: 2, elastic: {max: 2}", ".elastic.max", "the group has 2 servers already"),
    ("role: control-plane, count: 1, elastic: {max: 3}", ".elastic", "control planes are not made on demand"),
    ("elastic: {max: 2}, members: [{name: a}]", ".elastic", "a site has the servers it has"),
    ("elastic: {max: 2}, image: {url: 'http://x/y.raw', checksum: " + "a" * 64 + "}", ".elastic",
     "Machines give their hosts the node image"),
])  # fmt: skip
def test_only_workers_and_spare_servers_of_ours_are_made_on_demand(group: str, path: str, problem: str) -> None:
    wanted = [(f"servers.more{path}", problem)] if problem else []
    assert told(f"servers: {{more: {{{group}}}}}") == wanted


def test_servers_on_demand_need_places_and_names_too() -> None:
    crowded = told("servers: {worker: {elastic: {max: 200}}}\nnetworks: {cluster: {cidr: 192.168.5.0/26}}")
    assert [path for path, _ in crowded] == ["networks.cluster.cidr"]
    assert told("servers: {worker: {elastic: {max: 40}}}\nnetworks: {cluster: {cidr: 192.168.5.0/26}}") == []
    assert told("servers: {a: {elastic: {max: 12}}, a-1: {count: 2}}") == [], "a-1-0 is not a-10"
    taken = told("servers: {a: {elastic: {max: 3}}}\nnetworks: {cluster: {api_vip: 192.168.111.22}}")
    assert taken == [("networks.cluster.api_vip", "192.168.111.22 is the address of the server a-2")]


def test_strangers_are_discovered_where_the_labs_own_ironic_lets_them_boot() -> None:
    network = "networks: {{provisioning: {{mode: {}, discover: {}}}}}"
    assert told(network.format("managed", "url")) == []
    path = "networks.provisioning.discover"
    assert told(network.format("unmanaged", "url")) == [
        (path, "nobody could boot from a network whose mode is unmanaged")
    ]
    assert told(network.format("unmanaged", "off")) == []
    foreign = "\nprovisioner: {url: 'https://192.0.2.1:6385'}"
    assert (path, "servers are discovered by the lab's own Ironic, and provisioner names another") in told(
        network.format("managed", "url") + foreign
    )


def test_an_install_has_a_control_plane_and_an_ironic_of_its_own() -> None:
    install = "cluster: {{method: {}}}\nservers: {{a: {{role: {}, bmc: {}}}}}{}"
    media, foreign = "redfish-virtualmedia", "\nprovisioner: {url: 'https://192.0.2.1:6385'}"
    assert told(install.format("ipi", "control-plane", media, "")) == []
    assert told(install.format("ipi", "worker", media, "")) == [("servers", "an install needs a control plane")]
    assert told(install.format("ipi", "control-plane", media, foreign)) == [
        ("provisioner", "an install brings its own Ironic")
    ]
    assert told(install.format("ipi", "control-plane", "redfish", "")) == []
    assert told(install.format("ipi", "control-plane", "ipmi", "")) == []
    assert told(install.format("direct", "worker", "ipmi", "")) == []


def test_a_server_that_the_bootstrap_runs_on_is_a_worker_that_can_carry_it() -> None:
    lab = (
        "cluster: {{method: {method}, bootstrap: {{on: {on}}}}}\n"
        "servers: {{ctrl: {{role: control-plane}}, worker: {{memory: {memory}, {more}}}}}{rest}"
    )

    def found(
        on: str = "worker-0", method: str = "ipi", memory: str = "3GiB", more: str = "", rest: str = ""
    ) -> list[str]:
        problems = told(lab.format(method=method, on=on, memory=memory, more=more, rest=rest))
        assert {path for path, _ in problems} <= {"cluster.bootstrap.on"}
        return [words for _, words in problems]

    assert found() == []
    assert found("worker-1") == ["the lab has no server worker-1"]
    assert found("ctrl-0") == ["ctrl-0 is no worker of the lab"]
    assert found(method="direct") == ["nothing boots a bootstrap with cluster.method: direct"]
    assert found(memory="2GiB") == ["worker-0 has too little memory for a bootstrap"]
    assert found(more="firmware: bios") == ["worker-0 has no UEFI"]
    assert found(more="secure_boot: true") == ["worker-0 starts only what is signed, which the bootstrap is not"]
    managed = "\nnetworks: {provisioning: {mode: managed}}"
    assert found(more="boot: network", rest=managed)[0] == "worker-0 does not boot by virtual media"
    assert found(rest=managed) == ["a bootstrap on a server has no NIC on the provisioning network yet"]


def test_what_an_install_needs_is_not_said_where_the_method_cannot_be_read() -> None:
    assert [path for path, _ in told("cluster: {method: sideways}\nservers: {a: {bmc: redfish}}")] == ["cluster.method"]


def test_what_rests_on_how_many_there_are_is_not_said_where_that_cannot_be_read() -> None:
    two = "servers: {{a: {{role: control-plane, count: {}}}}}"
    assert [path for path, _ in told(two.format(2))] == ["servers"]
    assert [path for path, _ in told(two.format("many"))] == ["servers.a.count"]
    span = "networks: {cluster: {cidr: nonsense, bootstrap: {range: 10.0.0.1-10.0.0.2}}}"
    assert [path for path, _ in told(span)] == ["networks.cluster.cidr"]


_FOREIGN = "provisioner: {url: 'https://192.0.2.1:6385', x: 1}\n"
"""Another Ironic, with a field that there is not."""


@pytest.mark.parametrize(("text", "path"), [
    (f"{_FOREIGN}networks: {{provisioning: {{mode: managed, discover: url}}}}", "provisioner.x"),
    (f"{_FOREIGN}servers: {{a: {{boot: network}}}}", "provisioner.x"),
    ("servers: {a: {role: control-plane, boot: network}}\ncluster: {method: ipi}\n"
     "networks: {provisioning: {mode: x, gateway: 172.22.0.2}}", "networks.provisioning.mode"),
    ("servers: {a: {role: control-plane}}\ncluster: {method: ipi}\n"
     "networks: {provisioning: {mode: managed, cidr: x, gateway: 172.22.0.2}}", "networks.provisioning.cidr"),
    ("servers: {a: {role: control-plane, count: many}, b: {role: control-plane}}", "servers.a.count"),
    ("profile: huge\nservers: {a: {role: control-plane, count: 2}}", "profile"),
    (f"domain: 7.-\nname: {'n' * 30}\nservers: {{{'a' * 24}: {{}}}}", "domain"),
    ("servers: {a: {boot: network}}\nnetworks: {provisioning: {mode: unmanaged}}\ncluster: {method: sideways}", "cluster.method"),
    ("servers: {a: {role: control-plane}, worker: {memory: 3GiB, boot: network}}\n"
     "cluster: {method: ipi, bootstrap: {on: worker-0}}\nnetworks: {provisioning: {mode: x}}", "networks.provisioning.mode"),
])  # fmt: skip
def test_what_rests_on_something_of_which_a_part_cannot_be_read_is_not_said(text: str, path: str) -> None:
    assert [one for one, _ in told(text)] == [path]


def test_what_is_wrong_in_one_network_takes_nothing_from_another() -> None:
    text = "networks: {extra: {a: {cidr: x}, b: {cidr: 192.168.112.0/25, x: 1}}}"
    assert {path for path, _ in told(text)} == {f"networks.extra.{name}" for name in ("a.cidr", "b.cidr", "b.x")}


@pytest.mark.parametrize("field", ["pull_secret", "release_image", "oc"])
def test_what_is_pulled_is_said_only_where_something_is(field: str) -> None:
    text = (
        "servers: {{a: {{role: control-plane}}}}\n"
        "cluster: {{method: openshift, openshift: {{installer: ./openshift-install, payload: {}, {}: ./x}}}}"
    )
    assert told(text.format("real", field)) == []
    assert told(text.format("quick", field)) == [
        (f"cluster.openshift.{field}", "nothing is pulled with payload: quick")
    ]


def test_off_is_a_word_and_no_boolean() -> None:
    assert [parse(f"remediation: {word}", "x").remediation for word in ("off", "ask", "auto")] == list(
        map(Remediation, ("off", "ask", "auto"))
    )


def test_memory_is_not_given_twice_unless_that_is_said() -> None:
    assert not LabSpec().memory_overcommit and parse("memory_overcommit: true", "x").memory_overcommit


def test_fields_are_told_with_their_defaults_and_models_with_those_of_their_fields() -> None:
    known = {field.path: field for field in fields()}
    assert known["servers.NAME.memory"].default == "1GiB" and known["servers.NAME.disk"].default == "8GiB"
    assert known["memory_overcommit"].default == "false" and known["disk.cache"].default == "unsafe"
    assert known["servers.NAME.vcpus"].default == "1" and known["name"].default == "lab"
    assert known["networks.cluster.api_vip"].default == "" == known["networks"].default == known["disk"].default
    assert known["networks.cluster.routes[].to"].default == ""
    assert known["name"].change is Change.REFUSED and known["disk.cache"].change is Change.RESTART
    assert all(field.meaning for field in known.values())
    assert plain("servers.NAME.members[].bmc.port") == "servers.members.bmc.port"


def test_what_rests_on_the_servers_of_a_profile_is_not_said_where_that_cannot_be_read() -> None:
    route = "networks: {cluster: {routes: [{to: 10.0.0.0/8, via: 192.168.111.3, audience: [boss]}]}}"
    assert [path for path, _ in told(route)] == ["networks.cluster.routes.0.audience"]
    assert [path for path, _ in told(f"profile: huge\n{route}")] == ["profile"]
    vip = cluster("api_vip: 192.168.111.20")
    assert [path for path, _ in told(vip)] == ["networks.cluster.api_vip"]
    assert [path for path, _ in told(f"profile: huge\n{vip}")] == ["profile"]


def test_problems_come_in_the_order_of_lines_and_those_without_one_first() -> None:
    text = "profile: huge\nnetworks:\n  cluster: {api_vip: 192.168.111.1}\nname: '-'\n"
    assert [path for path, _ in told(text)] == ["profile", "networks.cluster.api_vip", "name"]


def test_where_nobody_answers_dhcp_nobody_hands_out_routes_and_servers_are_told_their_addresses() -> None:
    text = "servers: {{a: {{role: control-plane}}}}\ncluster: {{method: {}}}\nnetworks: {{cluster: {{dhcp: none{}}}{}}}"
    assert told(text.format("ipi", "", "")) == [] == told(text.format("none", "", ""))
    assert [path for path, _ in told(text.format("direct", "", ""))] == ["networks.cluster.dhcp"]
    assert [path for path, _ in told(text.format("ipi", "", ", bmc: {access: routed}"))] == ["networks.bmc.access"]
    booted = text.replace("control-plane}", "control-plane, boot: network}")
    assert [path for path, _ in told(booted.format("ipi", "", ""))] == ["servers.a.boot"]
    assert told(booted.format("none", "", ", provisioning: {mode: managed}")) == []
    route = ", routes: [{to: 10.0.0.0/8, via: 192.168.111.3}]"
    assert [path for path, _ in told(text.format("ipi", route, ""))] == ["networks.cluster.routes"]
