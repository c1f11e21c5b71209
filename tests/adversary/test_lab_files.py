"""Guests at the lab's file server: those who want what is a BMC's, and those who only want it to remember them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from rackless.lab import files
from rackless.lab.files import FileServer
from tests.adversary.file_host import file_host
from tests.bmc.conftest import MakeRack, make_rack

__all__ = ["make_rack"]

GUEST = "127.0.0.90"
ISO = "redfish/boot-1be26c0b-03f2-4d2e-ae87-c02d7f33c781.iso"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[FileServer]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    root = tmp_path / "files"
    (root / "redfish").mkdir(parents=True)
    (root / ISO).write_bytes(b"ipa-agent-token=secret" * 100)
    (root / "node.qcow2").symlink_to(tmp_path / "cached")
    (tmp_path / "cached").write_bytes(b"image")
    (tmp_path / "password").write_bytes(b"not in the folder")
    server = FileServer(root, "127.0.0.1", port=port)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def ask(server: FileServer, path: str, source: str = GUEST) -> int:
    """The bytes of the path as they are: clients that tidy it up attack nobody."""
    host, port = server.addresses[0], server.port
    with socket.socket() as sock:
        sock.bind((source, 0))
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, (host, port))
        await loop.sock_sendall(sock, f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while piece := await loop.sock_recv(sock, 65536):
            answer += piece
    return int(answer.split()[1])


async def test_a_boot_iso_is_also_for_bmcs_of_metal_by_their_addresses(server: FileServer) -> None:
    server.ask_bmcs(lambda client, path: False, {"127.0.0.91"})
    assert await ask(server, f"/{ISO}", "127.0.0.91") == 200
    assert await ask(server, f"/{ISO}") == 404


async def test_a_boot_iso_is_for_the_bmc_that_fetches_it_and_nobody_else(
    make_rack: MakeRack, server: FileServer
) -> None:
    rack = await make_rack(2)
    mine, other = rack.addresses
    others: list[bool] = []

    def fetches(client: str, path: str) -> bool:
        others.extend(rack.fleet.fetches(one, path) for one in (other, GUEST, "127.0.0.1"))
        others.append(rack.fleet.fetches(client, "/redfish/boot-another.iso"))
        return rack.fleet.fetches(client, path)

    server.ask_bmcs(fetches)
    for source in (GUEST, "127.0.0.1", mine, other):
        assert await ask(server, f"/{ISO}", source) == 404, "nobody was told to fetch it"
    insert = "/redfish/v1/Systems/1/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
    status, _, _ = await rack.ask("POST", insert, {"Image": f"{server.url}/{ISO}"})
    assert status == 204
    (held,) = rack.media.glob("*.iso")
    assert b"secret" in held.read_bytes()
    assert not any(others), "while the one fetches it, it is nobody else's"
    for source in (GUEST, mine, other):
        assert await ask(server, f"/{ISO}", source) == 404, "it has it, and fetches no more"


@pytest.mark.parametrize(
    "path",
    [
        f"/{ISO}", f"//{ISO}", f"/./{ISO}", f"/x/../{ISO}", f"/%72edfish/{ISO.partition('/')[2]}", f"/node.qcow2/../{ISO}",
        f"/{ISO}/", f"/{ISO}?x=1", f"/..%2ffiles/{ISO}", "/redfish", "/redfish/", f"/redfish/../{ISO}",
        "/../password", "/%2e%2e/password", "/..%2fpassword", "//etc/passwd", "/%2fetc/passwd", "/", "/node.qcow2%00",
        "/node.qcow2/../../password",
    ],
)  # fmt: skip
async def test_no_way_of_writing_a_path_leads_to_it_or_out_of_the_folder(server: FileServer, path: str) -> None:
    server.ask_bmcs(lambda client, path: False)
    assert await ask(server, path) in (400, 403, 404)
    assert server.fetched(GUEST) == []
    assert await ask(server, "/node.qcow2") == 200, "what is for all is still there"


@pytest.mark.slow
async def test_what_is_asked_for_in_vain_is_not_remembered(tmp_path: Path) -> None:
    with file_host(tmp_path) as host:
        async with aiohttp.ClientSession() as client:

            async def ask_in_vain(*numbers: int) -> None:
                for number in range(*numbers):
                    async with client.get(f"http://127.0.0.1:{host.port}/{number}-{'x' * 3000}") as answer:
                        assert answer.status == 404

            await ask_in_vain(300)  # libraries keep the last hundred or so in caches of theirs
            few = host.held()
            await ask_in_vain(300, 900)
            many = host.held()
    assert many - few < 600 * 3000 / 4, "less than a quarter of what was said to it"


async def test_of_what_was_fetched_the_last_is_remembered_whatever_the_number(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_CLIENTS", 3)
    monkeypatch.setattr(files, "MOST_FILES", 2)
    for name in "abc":
        (tmp_path / "files" / name).write_text(name)
        assert await ask(server, f"/./{name}?again={name}") == 200
    assert server.fetched(GUEST) == ["/b", "/c"]
    clients = [f"127.0.0.{number}" for number in range(91, 95)]
    for client in clients:
        await ask(server, "/a", client)
    assert [bool(server.fetched(client)) for client in (GUEST, *clients)] == [False, False, True, True, True]
