"""Every view has its JSON, every action is an operation, and what a lab says comes out as data."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rackless.diagnosis.estimates import Estimates, save
from rackless.lab.capture import HEADER
from rackless.plan.stages import stages_of
from rackless.protocol import messages as say
from rackless.run.ledger import Ledger
from rackless.spec.load import parse
from rackless.web import app
from tests.web.fake_labd import FakeLabd, make_labd, running
from tests.web.stage import Screens, Stage, fake_drivers, stage

HOSTILE = '<img src=x onerror="alert(1)">\u2028</script><script>alert(2)</script>'


async def test_the_rack_has_servers_networks_and_who_holds_the_vip(page: Stage, labd: FakeLabd) -> None:
    labd.set_server("worker-0", power="off", host="inspecting", error="it does not answer")
    status, rack = await page.get("/api/labs/lab/rack")
    assert status == 200 and rack["daemon"] == "running" and rack["vip"]["holder"] == "ctrl-0"
    assert [one["name"] for one in rack["servers"]] == ["ctrl-0", "ctrl-1", "ctrl-2", "worker-0"]
    assert rack["servers"][3]["power"] == "off" and rack["servers"][3]["error"] == "it does not answer"
    assert {"cluster", "baremetal", "bmc"} <= {one["name"] for one in rack["networks"]}
    assert "DHCP" in rack["networks"][0]["services"]
    plugs = {one["name"]: [plug["server"] for plug in one["plugs"]] for one in rack["networks"]}
    everybody = [one["name"] for one in rack["servers"]]
    assert plugs["cluster"] == plugs["bmc"] == everybody and plugs["baremetal"] == []
    assert rack["networks"][0]["plugs"][0]["address"] == rack["servers"][0]["address"]
    assert (rack["servers"][0]["boot"], rack["servers"][0]["machine"]) == ("disk", "Running")


async def test_what_was_reached_is_told_in_the_words_of_up(page: Stage, labd: FakeLabd) -> None:
    def reached(goals: list[dict[str, object]]) -> dict[object, object]:
        return {one["name"]: one["reached"] for one in goals}

    _, rack = await page.get("/api/labs/lab/rack")
    assert reached(rack["goals"]) == {"lab": True, "bmc": True, "engine": True, "hosts": True, "cluster": False}
    # of a lab whose cluster installs itself, labd has no more stages than these
    own = tuple(stage for stage in labd.status.stages if stage.name in stages_of(["lab", "bmc"]))
    labd.status = replace(labd.status, stages=own)
    _, install = await page.get("/api/labs/lab/install")
    assert reached(install["goals"]) == {"lab": True, "bmc": True}


async def test_only_what_answers_on_a_network_is_told_of_it(page: Stage, labd: FakeLabd) -> None:
    cluster = "{attach: br0, cidr: 10.9.0.0/24, gateway: 10.9.0.7, api_vip: 10.9.0.5, ingress_vip: 10.9.0.4}"
    spec = parse(f"name: lab\nnetworks: {{cluster: {cluster}}}\nservers: {{box: {{first: 200}}}}\n", "lab.yaml")
    labd.paths.spec.write_text(spec.model_dump_json())
    _, rack = await page.get("/api/labs/lab/rack")
    assert rack["networks"][0]["services"] == ["DNS", "NTP", "a network of this computer"]


async def test_metal_is_in_the_rack_also_while_the_daemon_is_away(page: Stage, labd: FakeLabd, tmp_path: Path) -> None:
    labd.status = replace(labd.status, metal=(say.MetalStatus("u7", "redfish://b", "m", True, "on", "available", ""),))
    _, rack = await page.get("/api/labs/lab/rack")
    assert [(one["name"], one["taken"], one["power"]) for one in rack["metal"]] == [("u7", True, "on")]
    await labd.stop()
    (tmp_path / "password").write_text("secret")
    host = f"{{bmc: 'redfish://192.0.2.7/redfish/v1/Systems/1', mac: '3c:ec:ef:00:00:07', password_file: {tmp_path}/password}}"
    spec = parse(f"name: lab\nservers: {{}}\nhosts: {{u7: {host}}}\n", "lab.yaml")
    labd.paths.spec.write_text(spec.model_dump_json())
    _, rack = await page.get("/api/labs/lab/rack")
    assert [(one["name"], one["taken"], one["power"]) for one in rack["metal"]] == [("u7", False, None)]


async def test_a_lab_whose_daemon_is_away_is_shown_as_it_was_planned(page: Stage, labd: FakeLabd) -> None:
    await labd.stop()
    status, rack = await page.get("/api/labs/lab/rack")
    assert status == 200 and rack["daemon"] == "not running" and len(rack["servers"]) == 4
    assert {one["power"] for one in rack["servers"]} == {None}
    status, answer = await page.get("/api/labs/lab/objects")
    assert status == 409 and "rackless up" in answer["error"]["hint"]
    assert (await page.get("/api/labs/lab/why"))[1]["findings"][0]["rule"] == "lab/daemon-restarts"
    assert (await page.get("/api/labs/lab/servers/ctrl-0"))[0] == 200
    assert (await page.get("/api/labs/lab/install"))[0] == 200


async def test_a_server_has_hardware_host_and_faults(page: Stage, labd: FakeLabd) -> None:
    labd.hosts = ({"kind": "BareMetalHost", "metadata": {"name": "ctrl-1"}, "status": {"poweredOn": True}},)
    status, server = await page.get("/api/labs/lab/servers/ctrl-1")
    assert status == 200 and server["server"]["name"] == "ctrl-1" and server["host"]["status"] == {"poweredOn": True}
    assert server["hardware"]["nics"][0]["network"] == "cluster" and server["hardware"]["disks"][0] > 1 << 30
    assert [disk["bytes"] for disk in server["disks"]] == server["hardware"]["disks"]
    assert server["disks"][0]["used"] is None, "there is no file"
    for path in ("", "/bmc", "/timeline", "/console"):
        status, answer = await page.get(f"/api/labs/lab/servers/nobody{path}")
        assert status == 400 and "nobody" in answer["error"]["what"], path


async def test_a_bmc_shows_how_it_stands_its_sensors_and_who_asked_for_what(page: Stage, labd: FakeLabd) -> None:
    asked = say.AuditSeen(5.0, "Redfish", "192.0.2.1", "admin", "PATCH /x", "204", True, {"ResetType": "On"})
    fan = say.SensorSeen("Fan 1", None, "rpm", 600.0, None)
    labd.insides["ctrl-1"] = say.BmcInside("ctrl-1", (fan,), (asked,), (say.BmcLogSeen(6.0, "it is off", True),))
    labd.set_server("ctrl-1", media="http://192.0.2.1/x.iso")
    status, bmc = await page.get("/api/labs/lab/servers/ctrl-1/bmc")
    assert status == 200 and bmc["seen"]["media"] == "http://192.0.2.1/x.iso" and bmc["seen"]["first"] == "disk"
    assert bmc["sensors"] == [{"name": "Fan 1", "value": None, "unit": "rpm", "low": 600.0, "high": None}]
    assert bmc["audit"][0]["details"] == {"ResetType": "On"} and bmc["log"][0]["text"] == "it is off"
    assert "password" not in bmc
    await labd.stop()
    status, bmc = await page.get("/api/labs/lab/servers/ctrl-1/bmc")
    assert status == 200 and bmc["seen"] is None and bmc["redfish"].startswith("https://")


async def test_a_server_has_a_timeline_of_its_own_steps(page: Stage, labd: FakeLabd) -> None:
    with labd.bus.step("cleaning", subject="host/ctrl-0"), labd.bus.step("cleaning", subject="host/ctrl-1"):
        pass
    with labd.bus.step("joining the cluster", subject="node/ctrl-1"):
        pass
    status, found = await page.get("/api/labs/lab/servers/ctrl-1/timeline")
    assert status == 200 and [lane["subject"] for lane in found["lanes"]] == ["host/ctrl-1"]
    assert [bar["phase"] for bar in found["lanes"][0]["bars"]] == ["cleaning", "joining the cluster"]


async def test_steps_are_given_what_this_computer_has_learnt(page: Stage, labd: FakeLabd) -> None:
    save(labd.paths.roots.durations, Estimates({"host: cleaning": [40.0, 42.0, 44.0]}))
    with labd.bus.step("cleaning", subject="host/ctrl-1"):
        found = (await page.get("/api/labs/lab/install"))[1]
        assert found["lanes"][0]["bars"][0]["estimate"] == 42.0 and found["expected"] is not None


async def test_a_console_is_text_for_who_asks_without_a_socket(page: Stage, labd: FakeLabd) -> None:
    labd.said["ctrl-0"] = b"one\r\n\x1b[31mtwo\x1b[0m\r\n"
    status, found = await page.get("/api/labs/lab/servers/ctrl-0/console")
    assert status == 200 and found["lines"] == ["one", "two"] and found["on"] is True


async def test_what_is_done_is_asked_of_labd_as_the_command_line_asks_it(page: Stage, labd: FakeLabd) -> None:
    place = "/api/labs/lab/servers/ctrl-0"
    assert await page.post(f"{place}/power", {"action": "cycle"}) == (200, {"server": "ctrl-0", "power": "on"})
    assert (await page.post(f"{place}/host", {"verb": "inspect"}))[0] == 200
    status, fault = await page.post("/api/labs/lab/faults", {"trouble": "delay", "server": "ctrl-0", "seconds": 9.0})
    assert status == 200 and (await page.get(place))[1]["faults"] == [fault]
    assert (await page.get("/api/labs/lab/faults"))[1]["faults"] == [fault]
    assert await page.post("/api/labs/lab/faults/clear", {"ids": [fault["id"]]}) == (200, {"cleared": 1})
    image = "http://192.0.2.1/x.iso"
    status, seen = await page.post(f"{place}/boot", {"device": "network"})
    assert status == 200 and (seen["boot"], seen["once"]) == ("network", True)
    status, seen = await page.post(f"{place}/media", {"url": image, "boot": True})
    assert status == 200 and (seen["media"], seen["boot"]) == (image, "cdrom")
    assert (await page.post(f"{place}/media", {"url": None}))[1]["media"] is None
    assert labd.asked == [
        say.PressPower("ctrl-0", "cycle"),
        say.HostWish("inspect", "ctrl-0", wait=False),
        say.FaultWish("delay", "ctrl-0", seconds=9.0),
        say.ClearFaults((fault["id"],)),
        say.SetBoot("ctrl-0", "network"),
        say.InsertMedia("ctrl-0", image),
        say.SetBoot("ctrl-0", "cdrom"),
        say.EjectMedia("ctrl-0"),
    ]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/api/labs/lab/servers/ctrl-0/power", {"action": "explode"}),
        ("/api/labs/lab/servers/ctrl-0/power", {}),
        ("/api/labs/lab/servers/ctrl-0/power", []),
        ("/api/labs/lab/servers/ctrl-0/host", {"verb": "provision"}),
        ("/api/labs/lab/servers/ctrl-0/boot", {"device": "floppy"}),
        ("/api/labs/lab/servers/ctrl-0/media", {"url": "/etc/shadow"}),
        ("/api/labs/lab/servers/ctrl-0/media", {"url": "file:///etc/shadow"}),
        ("/api/labs/lab/servers/ctrl-0/media", {}),
        ("/api/labs/lab/servers/ctrl-0/capture", {"seconds": 100000}),
        ("/api/labs/lab/servers/ctrl-0/capture", {"seconds": 0}),
        ("/api/labs/lab/servers/ctrl-0/capture", {"network": "moon"}),
        ("/api/labs/lab/servers/nobody/capture", {}),
        ("/api/labs/lab/faults", {"trouble": 5}),
        ("/api/labs/lab/plan", {"text": "servers: [1"}),
        ("/api/labs/lab/plan", {"text": "name: other"}),
    ],
)
async def test_what_cannot_be_asked_is_refused_with_words(
    page: Stage, labd: FakeLabd, path: str, value: object
) -> None:
    status, answer = await page.post(path, value)
    assert status == 400 and answer["error"]["what"] and labd.asked == []


async def test_a_description_is_shown_and_an_edit_is_planned(page: Stage, labd: FakeLabd) -> None:
    status, found = await page.get("/api/labs/lab/description")
    assert status == 200 and found["text"].startswith("name: lab\n") and "ctrl" in found["text"]
    assert parse(found["text"], "lab.yaml") == labd.spec, "it describes the same lab"
    edited = found["text"].replace("count: 3", "count: 5")
    assert edited != found["text"]
    status, plan = await page.post("/api/labs/lab/plan", {"text": edited})
    assert status == 200, plan
    verbs = {one["subject"]: one["verb"] for one in plan["actions"]}
    assert verbs["server/ctrl-3"] == "create"


async def test_objects_have_a_yaml_view(page: Stage, labd: FakeLabd) -> None:
    node = {
        "kind": "Node",
        "metadata": {"name": "ctrl-0"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    labd.objects = say.LabObjects(nodes=(node,))
    assert (await page.get("/api/labs/lab/objects"))[1]["nodes"] == [node]
    status, one = await page.get("/api/labs/lab/objects/nodes/ctrl-0")
    assert status == 200 and one["yaml"].startswith("kind: Node\n") and one["object"] == node
    assert one["events"] == []
    for path in ("nodes/none", "trouble/ctrl-0", "secrets/x"):
        assert (await page.get(f"/api/labs/lab/objects/{path}"))[0] == 400


async def test_objects_come_with_their_kubernetes_events(page: Stage, labd: FakeLabd) -> None:
    def event(kind: str, name: str) -> say.Record:
        return {"kind": "Event", "metadata": {"name": name}, "involvedObject": {"kind": kind, "name": name}}

    labd.hosts = ({"kind": "BareMetalHost", "metadata": {"name": "ctrl-0"}},)
    labd.object_events = (event("BareMetalHost", "ctrl-0"), event("Node", "ctrl-0"))
    assert (await page.get("/api/labs/lab/objects/hosts/ctrl-0"))[1]["events"] == [event("BareMetalHost", "ctrl-0")]
    assert len((await page.get("/api/labs/lab/objects/events"))[1]["events"]) == 2


async def test_packets_are_recorded_by_the_command_one_at_a_time_and_within_bounds(labd: FakeLabd) -> None:
    screens = Screens(capturing=asyncio.Event())
    async with stage(labd.paths.roots, fake_drivers(screens)) as page:
        await page.enter()
        place = f"{page.base}/api/labs/lab/servers/ctrl-0/capture"
        asked = {"seconds": 5, "network": "cluster"}
        first = asyncio.ensure_future(page.http.post(place, json=asked, headers=page.origin))
        await screens.began.wait()
        status, answer = await page.post("/api/labs/lab/servers/ctrl-1/capture", {})
        assert status == 409 and "already" in answer["error"]["what"]
        assert screens.capturing is not None
        screens.capturing.set()
        async with await first as found:
            assert found.status == 200 and found.content_type == "application/vnd.tcpdump.pcap"
            assert (await found.read()).startswith(HEADER) and found.headers["X-Content-Type-Options"] == "nosniff"
        (words,) = screens.captured
        assert words[:3] == ["ctrl-0", "--name", "lab"] and words[words.index("--seconds") + 1] == "5.0"
        assert words[words.index("--network") + 1] == "cluster" and words[words.index("--most-mib") + 1] == "16"
        assert (await page.post("/api/labs/lab/servers/ctrl-1/capture", {"seconds": "x"}))[0] == 400
        async with page.http.post(place, json=asked, headers=page.origin) as again:
            assert again.status == 200, "the one before has ended"


async def test_a_picture_is_taken_once_for_all_who_ask_at_the_same_time(labd: FakeLabd) -> None:
    screens = Screens()
    async with stage(labd.paths.roots, fake_drivers(screens)) as page:
        await page.enter()
        for _ in range(3):
            async with page.http.get(f"{page.base}/api/labs/lab/servers/ctrl-0/screen") as answer:
                assert answer.content_type == "image/png" and (await answer.read()).startswith(b"\x89PNG")
        assert screens.taken == ["ctrl-0"]
        assert (await page.get("/api/labs/lab/servers/nobody/screen"))[0] == 400


async def test_logs_are_those_of_the_lab_and_no_others(page: Stage, labd: FakeLabd) -> None:
    (labd.paths.logs / "ironic.log").write_text("".join(f"line {n}\n" for n in range(1000)))
    assert (await page.get("/api/labs/lab/logs"))[1]["logs"][0]["name"] == "ironic"
    assert (await page.get("/api/labs/lab/logs/ironic?lines=2"))[1]["lines"] == ["line 998", "line 999"]
    for name in ("..%2f..%2fetc%2fpasswd", "labd", "ironic.log"):
        assert (await page.get(f"/api/labs/lab/logs/{name}"))[0] in (400, 404)
    assert (await page.get("/api/labs/lab/logs/ironic?lines=x"))[0] == 400


async def test_two_labs_are_shown_apart_and_one_that_is_not_shown_is_not_there(labd: FakeLabd) -> None:
    async with running(make_labd(labd.paths.roots, "other")) as other, stage(labd.paths.roots) as page:
        await page.enter()
        other.set_server("ctrl-0", power="off")
        assert [one["lab"] for one in (await page.get("/api/labs"))[1]["labs"]] == ["lab", "other"]
        power = [(await page.get(f"/api/labs/{name}/rack"))[1]["servers"][0]["power"] for name in ("lab", "other")]
        assert power == ["on", "off"]
        async with stage(labd.paths.roots, only="other") as narrow:
            await narrow.enter()
            assert (await narrow.get("/api/labs"))[1] == {
                "labs": [{"lab": "other", "daemon": "running"}],
                "first": "other",
            }
            for path in ("rack", "live", "events", "servers/ctrl-0", "servers/ctrl-0/console", "logs", "description"):
                status, _ = await narrow.get(f"/api/labs/lab/{path}", headers={**narrow.origin})
                assert status == 404, path
            for path in ("servers/ctrl-0/bmc", "servers/ctrl-0/timeline", "objects/events", "faults"):
                assert (await narrow.get(f"/api/labs/lab/{path}"))[0] == 404, path
            value = {"action": "off", "trouble": "drop", "text": "", "device": "disk", "url": None}
            for path in ("power", "boot", "media", "capture"):
                assert (await narrow.post(f"/api/labs/lab/servers/ctrl-0/{path}", value))[0] == 404, path
            for path in ("faults", "plan"):
                assert (await narrow.post(f"/api/labs/lab/{path}", value))[0] == 404


async def test_servers_that_were_made_on_demand_and_a_changed_description_are_seen(page: Stage, labd: FakeLabd) -> None:
    await labd.stop()
    for text, names in (
        ("name: lab\nservers: {box: {role: spare, count: 2}}", ["box-0", "box-1"]),
        ("name: lab\nservers: {box: {role: spare, count: 1, elastic: {max: 2}}}", ["box-0"]),
    ):
        labd.paths.spec.write_text(parse(text, "lab.yaml").model_dump_json())
        assert [one["name"] for one in (await page.get("/api/labs/lab/rack"))[1]["servers"]] == names
    Ledger(labd.paths.grown).own("server", "box-1")
    assert [one["name"] for one in (await page.get("/api/labs/lab/rack"))[1]["servers"]] == ["box-0", "box-1"]


async def test_what_a_lab_says_comes_out_as_data(page: Stage, labd: FakeLabd) -> None:
    labd.set_server("ctrl-0", error=HOSTILE)
    labd.status = replace(labd.status, warnings=(HOSTILE,))
    labd.bus.info(HOSTILE, subject=f"host/{HOSTILE}")
    for path, where in (("rack", ("warnings", 0)), ("events", ("events", -1))):
        async with page.http.get(f"{page.base}/api/labs/lab/{path}") as answer:
            assert answer.content_type == "application/json" and answer.headers["X-Content-Type-Options"] == "nosniff"
            found = (await answer.json())[where[0]][where[1]]
            assert (found if path == "rack" else found["message"]) == HOSTILE
    address = f"{page.base}/api/labs/{'<script>alert(1)</script>'}/rack"
    async with page.http.get(address) as answer:
        assert answer.status == 404 and answer.content_type == "application/json"


def test_the_page_parses_no_text_as_html_and_loads_nothing_from_outside() -> None:
    """Trusted types forbid it in the browser as well; this says where."""
    for file in sorted(app.STATIC.iterdir()):
        text = file.read_text()
        if file.suffix == ".js":
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text), (
                file
            )
        assert not re.findall(
            r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w.]+\.\w+", re.sub(r"(?m)^\s*//.*$", "", text)
        ), file
        assert " style=" not in text and not re.search(r"<script(?! type=\"module\" src=\"/static)", text), file


def test_every_module_that_the_page_asks_for_is_served() -> None:
    asked = {name for file in app.STATIC.glob("*.js") for name in re.findall(r"\"\./([\w.]+)\"", file.read_text())}
    asked |= set(re.findall(r"/static/([\w.]+)", (app.STATIC / "index.html").read_text()))
    assert asked <= set(app._files()) and len(asked) > 10


async def test_an_error_that_nobody_expected_tells_the_page_nothing_of_it(
    page: Stage, labd: FakeLabd, caplog: pytest.LogCaptureFixture
) -> None:
    labd.paths.spec.write_bytes(b"\xff")
    async with page.http.get(f"{page.base}/api/labs/lab/rack") as answer:
        assert answer.status in (409, 500)


async def test_json_is_what_the_command_line_prints(page: Stage, labd: FakeLabd) -> None:
    from rackless.codec import encode

    rack = (await page.get("/api/labs/lab/rack"))[1]
    printed = json.loads(json.dumps(encode(labd.status)))
    assert {name: rack[name] for name in printed} == printed
