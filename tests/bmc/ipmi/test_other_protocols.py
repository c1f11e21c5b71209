"""IPMI beside what it is not: Redfish, which shows the same server, and IPMI 1.5, which is not offered."""

from __future__ import annotations

from tests.bmc.ipmi.test_clients import ACCOUNTS, Bench, bench, run

__all__ = ["bench"]

RESET = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"


async def test_both_protocols_show_the_same_sensors(bench: Bench) -> None:
    for kind in ("ForceOff", "On"):
        assert (await bench.rack.ask("POST", RESET, {"ResetType": kind}, as_=ACCOUNTS[0]))[0] == 204
        code, text = await run(*bench.ipmitool(17), "sdr", "elist", "full")
        assert code == 0
        ipmi = {line.split("|")[0].strip(): line.split("|")[4].strip() for line in text.splitlines()}
        members = (await bench.rack.get("/redfish/v1/Chassis/1/Sensors", as_=ACCOUNTS[0]))["Members"]
        redfish = [await bench.rack.get(member["@odata.id"], as_=ACCOUNTS[0]) for member in members]
        units = {"Cel": "degrees C", "{rev}/min": "RPM", "W": "Watts"}
        assert ipmi == {
            one["Name"]: "No Reading"
            if one["Reading"] is None
            else f"{one['Reading']:.0f} {units[one['ReadingUnits']]}"
            for one in redfish
        }
        thermal = await bench.rack.get("/redfish/v1/Chassis/1/Thermal", as_=ACCOUNTS[0])
        shown = [one["ReadingCelsius"] for one in thermal["Temperatures"]] + [one["Reading"] for one in thermal["Fans"]]
        power = (await bench.rack.get("/redfish/v1/Chassis/1/Power", as_=ACCOUNTS[0]))["PowerControl"][0][
            "PowerConsumedWatts"
        ]
        assert [*shown, power] == [one["Reading"] for one in redfish]


async def test_a_client_of_ipmi_1_5_is_told_that_there_is_none(bench: Bench) -> None:
    where = ["-H", bench.address, "-p", str(bench.port), "-U", "admin", "-P", "password"]
    for kind in ([], ["-A", "MD5"], ["-A", "NONE"]):
        code, said = await run("ipmitool", "-I", "lan", *kind, *where, "power", "status")
        assert code == 1 and f"Authentication type {kind[-1] if kind else 'NONE'} not supported" in said
