"""Strangers' clients against our BMCs: ipmitool, FreeIPMI and pyghmi, on both safe cipher suites."""

from __future__ import annotations

import asyncio
import os
import pty
import random
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from rackless.bmc.core.accounts import Account
from rackless.bmc.ipmi import wire
from rackless.bmc.ipmi.sites import Ipmi
from rackless.bmc.ipmi.suites import SUITES
from rackless.drivers.fake.consoles import FakeConsoles
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.drivers.terminals import TerminalConsoles
from rackless.ports.hypervisor import BootDevice, Power
from tests.bmc.conftest import ADMIN, MakeRack, Rack, server

pytestmark = pytest.mark.real

ACCOUNTS = (Account("admin", "password"), Account("twenty", "p" * 20), Account("view", "password", "ReadOnly"))

IPMITOOL: tuple[tuple[str, str], ...] = (
    ("chassis power on", "Up/On"),
    ("chassis status", "System Power         : on"),
    ("chassis power cycle", "Cycle"),
    ("chassis power reset", "Reset"),
    ("chassis power diag", "Diag"),
    ("chassis bootdev pxe", "Set Boot Device to pxe"),
    ("chassis bootparam get 5", "Force PXE"),
    ("chassis bootdev disk options=persistent,efiboot", "Set Boot Device to disk"),
    ("chassis bootparam get 5", "Options apply to all future boots"),
    ("chassis bootparam get 5", "BIOS EFI boot"),
    ("chassis bootdev cdrom", "Set Boot Device to cdrom"),
    ("chassis bootparam get 5", "Force Boot from CD/DVD"),
    ("chassis bootdev bios", "Set Boot Device to bios"),
    ("chassis bootparam get 5", "Force Boot into BIOS Setup"),
    ("chassis bootdev floppy", "Set Boot Device to floppy"),
    ("chassis bootparam get 5", "Force Boot from Floppy/primary removable media"),
    ("chassis bootdev safe", "failed: Invalid data field"),
    ("chassis bootdev diag", "failed: Invalid data field"),
    ("chassis bootdev none", "Set Boot Device to none"),
    ("chassis bootparam get 5", "Boot Flag Invalid"),
    ("chassis bootparam get 0", "set complete"),
    ("chassis power soft", "Soft"),
    ("chassis power off", "Down/Off"),
    ("chassis power status", "Chassis Power is off"),
    ("chassis identify 5", "5 seconds"),
    ("chassis policy list", "always-off always-on previous"),
    ("chassis policy always-on", "always-on"),
    ("chassis restart_cause", "chassis power control command"),
    ("chassis poh", "POH Counter"),
    ("mc info", "IPMI Version              : 2.0"),
    ("mc guid ipmi", "00000000-0000-0000-0000-000000abc000"),
    ("mc selftest", "passed"),
    ("mc getenables", "System Event Logging                     : enabled"),
    ("mc watchdog get", "Stopped"),
    ("mc reset warm", "Sent warm reset"),
    ("mc reset cold", "Sent cold reset"),
    ("user list 1", "admin            true    false      true       ADMINISTRATOR"),
    ("user summary 1", "Enabled User Count  : 3"),
    ("user set name 6 bob", ""),
    ("user set password 6 bobpassword", "successful"),
    ("user priv 6 3 1", "successful"),
    ("user enable 6", ""),
    ("user test 6 16 bobpassword", "Success"),
    ("lan print 1", "RMCP+ Cipher Suites     : 3,17"),
    ("channel info 1", "802.3 LAN"),
    ("channel getaccess 1 2", "ADMINISTRATOR"),
    ("channel getciphers ipmi 1", "hmac_sha256"),
    ("sdr list", "Inlet Temp       | 21 degrees C"),
    ("sensor list", "Power            | 8.000      | Watts"),
    ("sel info", "Entries          : "),
    ("sel list", "S0/G0: working"),
    ("event 1", "Upper Critical"),
    ("sel elist", "Upper Critical going high"),
    ("sel time get", "UTC"),
    ("sel clear", "Clearing SEL"),
    ("fru print", "Product Serial        : 00000000-0000-0000-0000-000000abc000"),
    ("sol info 1", "Enabled                         : true"),
    ("session info active", "IPMIv2/RMCP+"),
    ("dcmi power reading", "8 Watts"),
    ("dcmi discover", "Power management available"),
    ("dcmi set_asset_tag rack7", "rack7"),
    ("dcmi asset_tag", "rack7"),
    ("raw 0x06 0x01", "20 01"),
    # as Ironic asks
    ("raw 0x00 0x08 0x03 0x08", ""),
    ("raw 0x00 0x08 0x05 0xe0 0x08 0x00 0x00 0x00", ""),
    ("chassis bootparam get 5", "Force Boot from default Hard-Drive"),
    ("sdr -v", "Sensor Reading        : 21 (+/- 0) degrees C"),
)
FREEIPMI: tuple[tuple[str, str], ...] = (
    ("ipmipower --stat", ": off"),
    ("ipmipower --on", ": ok"),
    ("ipmipower --cycle", ": ok"),
    ("ipmipower --reset", ": ok"),
    ("ipmipower --pulse", ": ok"),
    ("ipmipower --soft", ": ok"),
    ("ipmipower --off", ": ok"),
    ("ipmi-chassis --get-chassis-status", "System Power                        : off"),
    ("ipmi-chassis --get-system-restart-cause", "Chassis control"),
    ("ipmi-chassis --get-power-on-hours-counter", "Power on hours"),
    ("ipmi-config --category=chassis --checkout -S Chassis_Boot_Flags", "Boot_Device"),
    ("ipmi-config --category=core --checkout -S User2", "admin"),
    ("ipmi-config --category=core --checkout -S SOL_Conf", "Enable_SOL"),
    ("ipmi-config --category=core --checkout -S Lan_Conf", "IP_Address"),
    ("bmc-info", "System GUID : 00000000-0000-0000-0000-000000abc000"),
    ("bmc-info --get-device-guid", "00000000-0000-0000-0000-000000abc000"),
    ("ipmi-sensors --quiet-cache", "Inlet Temp"),
    ("ipmi-sel --quiet-cache", "Power State"),
    ("ipmi-fru --quiet-cache", "virtual server"),
    ("ipmi-dcmi --get-system-power-statistics", "8 Watts"),
    ("bmc-device --get-sel-time", "SEL Time"),
)


@dataclass
class Bench:
    rack: Rack
    consoles: FakeConsoles
    port: int

    @property
    def address(self) -> str:
        return self.rack.addresses[0]

    def ipmitool(self, suite: int, user: str = "admin", password: str = "password") -> list[str]:
        where = ["-H", self.address, "-p", str(self.port), "-U", user, "-P", password]
        return ["ipmitool", "-I", "lanplus", "-C", str(suite), *where]

    def freeipmi(self, suite: int) -> list[str]:
        return ["-h", f"{self.address}:{self.port}", "-u", "admin", "-p", "password", "-I", str(suite)]


@pytest.fixture
async def bench(make_rack: MakeRack) -> AsyncIterator[Bench]:
    if shutil.which("ipmitool") is None or shutil.which("ipmipower") is None:
        pytest.skip("ipmitool or FreeIPMI is not installed")
    # FreeIPMI's console takes the upper half of the ports for a part of the host's name
    consoles, port = FakeConsoles({"server-0"}, echo=True), random.randrange(20000, 30000)
    hypervisor = FakeHypervisor()
    hypervisor.define([server(0, setup_screen=True)])
    rack = await make_rack(hypervisor=hypervisor, accounts=ACCOUNTS, ipmi=Ipmi(port=port, consoles=consoles))
    yield Bench(rack, consoles, port)


async def run(*command: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(180):
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode(errors="replace")


@pytest.mark.parametrize("suite", [3, 17])
async def test_ipmitool_finds_everything_a_bmc_has(bench: Bench, suite: int) -> None:
    wrong = {}
    for row, expected in IPMITOOL:
        _, output = await run(*bench.ipmitool(suite), *row.split())
        if expected not in output:
            wrong[row] = output
    assert wrong == {}
    assert bench.rack.notes == []


@pytest.mark.parametrize("suite", [3, 17])
async def test_freeipmi_finds_everything_a_bmc_has(bench: Bench, suite: int) -> None:
    wrong = {}
    for row, expected in FREEIPMI:
        program, *arguments = row.split()
        _, output = await run(program, "-D", "LAN_2_0", *bench.freeipmi(suite), *arguments)
        if expected not in output:
            wrong[row] = output
    assert wrong == {}
    assert bench.rack.notes == []


@pytest.mark.parametrize("suite", [3, 17])
async def test_who_may_not_is_refused_at_once(bench: Bench, suite: int) -> None:
    for user, password in (("nobody", "x"), ("admin", "wrong")):
        seconds = []
        for _ in range(3):  # a machine with other work may start a program late, not three times
            started = time.perf_counter()
            code, _output = await run(*bench.ipmitool(suite, user, password), "power", "status")
            assert code
            seconds.append(time.perf_counter() - started)
        assert min(seconds) < 2.0
    assert (await run(*bench.ipmitool(suite, "twenty", "p" * 20), "power", "status"))[0] == 0
    viewer = bench.ipmitool(suite, "view")
    assert (await run(*viewer, "-L", "USER", "power", "status"))[0] == 0
    code, output = await run(*viewer, "-L", "USER", "power", "on")
    assert code
    assert "privilege" in output
    assert not bench.rack.hypervisor.called("power_on")


async def test_an_unknown_user_is_refused_as_fast_as_a_known_one_is_served(bench: Bench) -> None:
    seconds: dict[str, list[float]] = {"nobody": [], ADMIN.username: []}
    for _ in range(5):
        for name, took in seconds.items():
            started = time.perf_counter()
            await run(*bench.ipmitool(17, name, ADMIN.password), "power", "status")
            took.append(time.perf_counter() - started)
    assert min(seconds["nobody"]) < 3 * min(seconds[ADMIN.username]), "no retry, no timeout"


@pytest.mark.parametrize("suite", [0, 1, 2])
async def test_suites_that_do_not_encrypt_are_refused(bench: Bench, suite: int) -> None:
    assert (await run(*bench.ipmitool(suite), "power", "status"))[0]


async def test_a_group_key_is_needed_once_it_is_set(bench: Bench) -> None:
    assert bench.rack.fleet.ipmi is not None
    await bench.rack.fleet.ipmi.controller("server-0").keep(group_key=b"the group".hex())
    assert (await run(*bench.ipmitool(17), "power", "status"))[0]
    assert (await run(*bench.ipmitool(17), "-k", "the group", "power", "status"))[0] == 0


async def test_the_boot_device_of_a_running_server_counts_at_its_next_start(bench: Bench) -> None:
    tool = bench.ipmitool(17)
    for command in ("power on", "chassis bootdev pxe", "power cycle", "power cycle"):
        assert (await run(*tool, *command.split()))[0] == 0

    async def started() -> bool:  # a BMC answers after a moment, also when the server takes longer
        return len(bench.rack.hypervisor.boots) == 3

    await bench.rack.until(started)
    devices = [boot.device for boot in bench.rack.hypervisor.boots]
    assert devices == [BootDevice.DISK, BootDevice.NETWORK, BootDevice.DISK]


async def test_pings_are_answered_on_the_standard_port(make_rack: MakeRack) -> None:
    if shutil.which("rmcpping") is None or os.geteuid():
        pytest.skip("FreeIPMI is not installed, or port 623 is not ours")
    rack = await make_rack(1, ipmi=Ipmi())
    for program in ("rmcpping", "ipmiping"):
        code, output = await run(program, "-c", "1", rack.addresses[0])
        assert code == 0, output
        assert " 0.0% packet loss" in output, output


async def test_a_flood_of_half_open_sessions_does_not_lock_out_a_client(bench: Bench) -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, remote_addr=(bench.address, bench.port)
    )
    algorithms = b"".join(bytes((kind, 0, 0, 8, one, 0, 0, 0)) for kind, one in enumerate(SUITES[17].algorithms))
    opening = wire.outside_session(wire.OPEN_REQUEST, bytes(4) + b"evil" + algorithms)

    async def flood() -> None:
        while True:
            for _ in range(20):
                transport.sendto(opening)
            await asyncio.sleep(0.001)

    flooding = asyncio.create_task(flood())
    try:
        for _ in range(5):
            assert (await run(*bench.ipmitool(17), "power", "status"))[0] == 0
    finally:
        flooding.cancel()
        transport.close()


async def test_a_guest_found_off_is_seen_off(bench: Bench) -> None:
    tool = bench.ipmitool(17)
    await run(*tool, "power", "on")
    bench.rack.hypervisor.guest_stops("server-0")

    async def off() -> bool:
        return "off" in (await run(*tool, "power", "status"))[1]

    await bench.rack.until(off)


@contextmanager
def shown_by(command: list[str]) -> Iterator[tuple[int, bytearray]]:
    """A program on a terminal of its own: the terminal to type at, and what it shows."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    loop, shown = asyncio.get_running_loop(), bytearray()

    def read() -> None:
        try:
            shown.extend(os.read(terminal, 4096))
        except OSError:
            loop.remove_reader(terminal)

    loop.add_reader(terminal, read)
    try:
        yield terminal, shown
    finally:
        loop.remove_reader(terminal)
        os.close(terminal)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - programs of somebody else
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("client", ["ipmitool", "ipmiconsole"])
@pytest.mark.parametrize("suite", [3, 17])
async def test_the_console_is_shown_and_typed_into_while_others_listen(bench: Bench, client: str, suite: int) -> None:
    heard, _ = bench.consoles.attach("server-0")
    if client == "ipmitool":
        command, leave, goodbye = [*bench.ipmitool(suite), "sol", "activate"], b"\r~.", b"terminated"
    else:
        command, leave, goodbye = ["ipmiconsole", *bench.freeipmi(suite)], b"&.", b"closing"
    with shown_by(command) as (terminal, shown):
        async with asyncio.timeout(120):
            await until(lambda: bench.consoles.listeners("server-0") == 2)
            bench.consoles.say("server-0", b"debian login: ")
            await until(lambda: b"login:" in shown)
            os.write(terminal, b"root\r")
            await until(lambda: b"root" in shown and b"root" in bench.consoles.typed["server-0"])
            assert await anext(heard) == b"debian login: "
            os.write(terminal, leave)
            await until(lambda: goodbye in shown)
            await until(lambda: bench.consoles.listeners("server-0") == 1)
    await heard.aclose()


async def test_a_real_guest_is_seen_and_typed_into_by_sol_beside_another_reader(
    make_rack: MakeRack, tmp_path: Path
) -> None:
    if shutil.which("ipmitool") is None or shutil.which("qemu-system-x86_64") is None:
        pytest.skip("ipmitool or QEMU is not installed")
    log, terminals = tmp_path / "console.log", asyncio.Queue[Path](1)
    log.touch()

    async def find(server: str) -> Path:
        terminal = await terminals.get()
        terminals.put_nowait(terminal)
        return terminal

    consoles, port = TerminalConsoles(lambda server: log, find), random.randrange(20000, 30000)
    rack = await make_rack(1, accounts=ACCOUNTS, ipmi=Ipmi(port=port, consoles=consoles))
    tool = ["ipmitool", "-I", "lanplus", "-H", rack.addresses[0], "-p", str(port), "-U", "admin", "-P", "password"]
    other, heard = bytearray(), consoles.attach("server-0")[0]

    async def listen() -> None:
        async for text in heard:
            other.extend(text)

    listening = asyncio.create_task(listen())
    with shown_by([*tool, "sol", "activate"]) as (terminal, shown):
        async with asyncio.timeout(240):
            await until(lambda: b"operational" in shown)
            guest = await asyncio.create_subprocess_exec(
                "qemu-system-x86_64", "-machine", "pc,graphics=off", "-accel", "tcg", "-m", "64", "-display", "none",
                "-monitor", "none", "-chardev", f"pty,id=c,logfile={log},logappend=on", "-serial", "chardev:c",
                "-nic", "user,model=e1000,restrict=on", "-boot", "reboot-timeout=1000", stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            try:
                assert guest.stdout is not None
                terminals.put_nowait(Path((await guest.stdout.readline()).decode().split()[4]))
                while b"iPXE>" not in shown:  # it listens for two seconds now and then
                    os.write(terminal, b"\x02")
                    await asyncio.sleep(0.2)
                line = b"echo typed-by-sol"
                for end in range(1, len(line) + 1):  # a BIOS holds fifteen keys: the next when the last is shown
                    os.write(terminal, line[end - 1 : end])
                    await until(lambda: line[:end] in shown)  # noqa: B023
                os.write(terminal, b"\r")
                # as it was typed, and as it was answered
                await until(lambda: min(shown.count(b"typed-by-sol"), other.count(b"typed-by-sol")) >= 2)
            finally:
                guest.kill()
                await guest.wait()
            os.write(terminal, b"\r~.")
            await until(lambda: b"terminated" in shown)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


PYGHMI = """
import sys
from pyghmi.ipmi.command import Command
bmc = Command(bmc=sys.argv[1], userid="admin", password="password", port=int(sys.argv[2]))
print(bmc.get_power(), bmc.set_power("on", wait=20), bmc.set_bootdev("network"), bmc.get_bootdev())
print(sorted(reading.name for reading in bmc.get_sensor_data()))
print([item for item in bmc.get_inventory()][0])
bmc.ipmi_session.logout()
"""


async def test_pyghmi_logs_in_and_drives_the_server(bench: Bench) -> None:
    pytest.importorskip("pyghmi", reason="pyghmi is not installed")
    code, output = await run(sys.executable, "-W", "ignore", "-c", PYGHMI, bench.address, str(bench.port))
    assert code == 0, output
    assert "'bootdev': 'network'" in output
    assert "Inlet Temp" in output
    assert bench.rack.fleet.chassis("server-0").server().power is Power.ON
