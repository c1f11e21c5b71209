"""How the installer is called and read: its lines, its config, its environment; and what stands between it and libvirt."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest
import yaml

from rackless.cluster.openshift import installer, libvirt_proxy
from rackless.errors import InputError
from tests.installer.twin.configs import config, masters

SITE = config(masters("redfish://10.9.9.1{n}/redfish/v1/Systems/1"))


@pytest.mark.parametrize(
    ("text", "level", "phase"),
    [
        ('level=info msg="Waiting up to 20m0s (until 5:30AM UTC) for the Kubernetes API at https://api.x:6443..."', "info", "api"),
        ('level=info msg="API v1.35.0 up"', "info", "api up"),
        ('level=info msg="Waiting up to 1h0m0s for bootstrapping to complete..."', "info", "bootstrapping"),
        ('level=info msg="Waiting up to 30m0s (until 12:36AM UTC) to ensure each cluster operator has finished progressing..."',
         "info", "operators"),
        ('level=info msg="Checking to see if there is a route at openshift-console/console..."', "info", "console"),
        ('level=info msg="Install complete!"', "info", "complete"),
        ('level=error msg="Failed waiting for Kubernetes API."', "error", None),
        ("not a line of its own", "info", None),
    ],
)  # fmt: skip
def test_phases_are_read_from_the_installers_lines(text: str, level: str, phase: str | None) -> None:
    line = installer.read_line(text)
    assert (line.level, line.phase) == (level, phase)


def test_the_config_is_changed_only_where_a_lab_must_differ() -> None:
    text, changes = installer.prepare_config(SITE, "")
    assert yaml.safe_load(text) == yaml.safe_load(SITE) and changes == []
    text, changes = installer.prepare_config(SITE, "qemu+unix:///system?socket=/x")
    before, after = yaml.safe_load(SITE), yaml.safe_load(text)
    assert after["platform"]["baremetal"].pop("libvirtURI") == "qemu+unix:///system?socket=/x"
    assert after == before and len(changes) == 1


def test_a_missing_pull_secret_is_no_hindrance() -> None:
    tree = yaml.safe_load(SITE)
    del tree["pullSecret"]
    text, changes = installer.prepare_config(yaml.safe_dump(tree), "")
    assert "rehearsal.invalid" in text and "pullSecret" in changes[0]


@pytest.mark.parametrize(
    "said",
    [
        "openshift-install 4.16.3",
        "openshift-install 4.22.0",
        "/opt/4.15/oi 4.22.1",
        "openshift-install 5.0.0-private\nbuilt from x",
        "unreleased",
        "",
    ],
)
def test_installers_that_make_their_bootstrap_through_libvirt_are_taken(said: str) -> None:
    assert installer.refuse_release(said) in said


@pytest.mark.parametrize("said", ["openshift-install 4.15.9", "openshift-install 4.2.0"])
def test_older_installers_are_refused_with_the_reason(said: str) -> None:
    with pytest.raises(InputError, match=r"needs 4\.16"):
        installer.refuse_release(said)


@pytest.mark.parametrize(
    ("release", "by_disk"),
    [("4.16.3", True), ("4.21.9", True), ("4.22.0", False), ("5.0.0", False), ("unreleased", False)],
)
def test_those_before_the_live_iso_boot_a_disk(release: str, *, by_disk: bool) -> None:
    assert installer.boots_disk(release) == by_disk


def test_lines_with_a_password_are_kept_from_screens() -> None:
    assert installer.is_secret('Login to the console with user: "kubeadmin", and password: "abc"')
    assert not installer.is_secret("Install complete!")


@pytest.mark.parametrize("text", ["", "[]", "platform: {none: {}}", "platform: 3"])
def test_what_is_not_bare_metal_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        installer.prepare_config(text, "")


def test_emulation_is_asked_for_only_where_there_is_no_kvm() -> None:
    emulated = installer.environment(Path("/f"), kvm=False)
    native = installer.environment(Path("/f"), kvm=True)
    assert set(emulated) - set(native) == {"TERRAFORM_LIBVIRT_TEST_DOMAIN_TYPE"}


def _message(procedure: int, xml: bytes, program: int = libvirt_proxy.REMOTE) -> bytes:
    head = struct.pack(">IIIIII", program, 1, procedure, 0, 7, 0)
    return head + struct.pack(">I", len(xml)) + xml + bytes(-len(xml) % 4) + b"\0\0\0\1"


def test_definitions_get_an_emulated_processor_and_everything_else_passes() -> None:
    xml = b'<domain><vcpu>4</vcpu><cpu mode="host-passthrough"></cpu></domain>'
    changed = libvirt_proxy.rewrite(_message(libvirt_proxy.DEFINITIONS[1], xml))
    (length,) = struct.unpack_from(">I", changed, 24)
    assert b"Nehalem" in changed and b"host-passthrough" not in changed and b"<vcpu>1</vcpu>" in changed
    assert changed.endswith(b"\0\0\0\1") and len(changed) == 24 + 4 + length + -length % 4 + 4
    assert b"<vcpu>2</vcpu>" in libvirt_proxy.rewrite(_message(libvirt_proxy.DEFINITIONS[1], xml), vcpus=2)
    assert b"host-passthrough" in libvirt_proxy.rewrite(_message(libvirt_proxy.DEFINITIONS[1], xml), vcpus=0)
    other = _message(5, xml)
    assert libvirt_proxy.rewrite(other) == other
    foreign = _message(libvirt_proxy.DEFINITIONS[1], xml, program=1)
    assert libvirt_proxy.rewrite(foreign) == foreign


def test_a_machine_whose_console_nobody_keeps_gets_a_log_of_it() -> None:
    """As installers before 4.22 define it; those after it have one of their own."""
    console = b'<console><target port="0"></target></console>'
    old = b"<domain><name>a-bootstrap</name><vcpu>4</vcpu><devices>" + console + b"</devices></domain>"
    changed = libvirt_proxy.rewrite(_message(libvirt_proxy.DEFINITIONS[0], old), vcpus=0)
    assert b"/var/log/libvirt/qemu/a-bootstrap-serial0.log" in changed and b"<vcpu>4</vcpu>" in changed
    new = old.replace(console, console + b'<serial><log file="/x"></log></serial>')
    assert libvirt_proxy.rewrite(_message(libvirt_proxy.DEFINITIONS[0], new), vcpus=0).count(b"<log") == 1


async def test_what_is_not_libvirts_ends_the_connection_and_holds_no_memory(tmp_path: Path) -> None:
    at_daemon: list[asyncio.StreamWriter] = []

    async def daemon(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at_daemon.append(writer)
        writer.write(await reader.read(4096))

    place, target = str(tmp_path / "proxy"), str(tmp_path / "libvirt")
    async with await asyncio.start_unix_server(daemon, target), await libvirt_proxy.listen(place, target):
        short = struct.pack(">I", 28) + _message(libvirt_proxy.DEFINITIONS[1], b"")[:24]
        for nonsense in (b"\xff\xff\xff\xff", b"\0\0\0\0", struct.pack(">I", 4), short):
            reader, writer = await asyncio.open_unix_connection(place)
            writer.write(nonsense)
            async with asyncio.timeout(10):
                assert await reader.read() == b""
            writer.close()
        body = _message(5, b"<domain/>")
        reader, writer = await asyncio.open_unix_connection(place)
        writer.write(struct.pack(">I", len(body) + 4) + body)
        async with asyncio.timeout(10):
            assert await reader.readexactly(len(body) + 4) == struct.pack(">I", len(body) + 4) + body
        writer.close()
        for line in at_daemon:
            line.close()


async def test_without_libvirtd_a_client_of_the_proxy_is_not_kept_waiting(tmp_path: Path) -> None:
    async with await libvirt_proxy.listen(str(tmp_path / "proxy"), str(tmp_path / "nobody")):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "proxy"))
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()
