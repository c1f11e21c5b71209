from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rackless.bmc.redfish import body
from rackless.bmc.redfish.messages import Refusal
from rackless.bmc.redfish.systems import _writable
from tests.bmc.conftest import Rack

SYSTEM = "/redfish/v1/Systems/1"
JSON = {"Content-Type": "application/json"}


async def test_malformed_requests_are_the_clients_fault(rack: Rack) -> None:
    deep = "[" * 60_000
    for text in ("", "{", "[]", "7", "null", '"x"', "{}", "\xff", deep, '{"AssetTag": NaN}', '{"AssetTag": {}}', "{]"):
        status, body, _ = await rack.ask("PATCH", SYSTEM, data=text.encode("latin-1"), headers=JSON)
        assert status == 400, (text[:20], status, body)
        assert body["error"]["@Message.ExtendedInfo"]
    assert (await rack.ask("PATCH", SYSTEM, data=b"<x/>", headers={"Content-Type": "text/xml"}))[0] == 415
    assert (await rack.ask("PATCH", SYSTEM, data=b" " * 300_000, headers=JSON))[0] == 413
    assert rack.notes == []


async def test_methods_that_a_resource_has_not_are_refused_with_those_it_has(rack: Rack) -> None:
    for method, path, allow in (
        ("DELETE", SYSTEM, "GET, HEAD, PATCH"),
        ("PUT", SYSTEM, "GET, HEAD, PATCH"),
        ("PATCH", "/redfish/v1/Systems", "GET, HEAD"),
        ("GET", f"{SYSTEM}/Actions/ComputerSystem.Reset", "POST"),
    ):
        status, _, headers = await rack.ask(method, path)
        assert (status, headers["Allow"]) == (405, allow)


async def test_properties_are_told_apart_as_unknown_and_read_only(rack: Rack) -> None:
    status, body, _ = await rack.ask("PATCH", SYSTEM, {"Color": "red", "UUID": "x", "Boot": {"Speed": 1}})
    assert status == 400
    keys = [info["MessageId"].rpartition(".")[2] for info in body["error"]["@Message.ExtendedInfo"]]
    assert keys == ["PropertyUnknown", "PropertyNotWritable", "PropertyUnknown"]


async def test_what_can_be_written_is_written_when_something_else_cannot(rack: Rack) -> None:
    status, body, _ = await rack.ask("PATCH", SYSTEM, {"AssetTag": "new", "UUID": "x"})
    assert (status, body["AssetTag"]) == (200, "new")
    assert body["@Message.ExtendedInfo"][0]["MessageId"].endswith("PropertyNotWritable")


async def test_select_expand_and_paging(rack: Rack) -> None:
    value = await rack.get(f"{SYSTEM}?$select=PowerState,Boot/BootSourceOverrideMode")
    assert {key for key in value if not key.startswith("@")} == {"PowerState", "Boot"}
    assert set(value["Boot"]) == {"BootSourceOverrideMode", "BootSourceOverrideMode@Redfish.AllowableValues"}
    value = await rack.get("/redfish/v1/Systems?$expand=.")
    assert value["Members"][0]["UUID"]
    value = await rack.get("/redfish/v1/Systems?$expand=*($levels=3)")
    assert value["Members"][0]["VirtualMedia"]["Members"][0]["Inserted"] is False
    features = (await rack.get("/redfish/v1/"))["ProtocolFeaturesSupported"]
    assert features["ExpandQuery"]["MaxLevels"] == 3
    assert (await rack.get("/redfish/v1/Systems?$top=0"))["Members"] == []
    assert (await rack.get("/redfish/v1/Systems?$skip=1"))["Members"] == []
    assert (await rack.get("/redfish/v1/Systems?only"))["UUID"]
    assert (await rack.ask("GET", f"{SYSTEM}?$top=1"))[0] == 400
    assert (await rack.ask("GET", f"{SYSTEM}?$expand=banana"))[0] == 400
    assert (await rack.ask("GET", f"{SYSTEM}?$expand=.($levels=4)"))[0] == 400
    assert (await rack.ask("GET", f"{SYSTEM}?$filter=x"))[0] == 501
    assert (await rack.ask("GET", f"{SYSTEM}?other=x"))[0] == 200


async def test_every_link_leads_somewhere(rack: Rack) -> None:
    seen: set[str] = set()
    waiting = ["/redfish/v1/"]
    while waiting:
        uri = waiting.pop()
        if uri in seen:
            continue
        seen.add(uri)
        value = await rack.get(uri)
        assert value["@odata.id"] == uri
        text = json.dumps(value)
        waiting += [part.split('"')[0].partition("#")[0] for part in text.split('"@odata.id": "')[1:]]
    assert len(seen) > 15


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_NAMES = st.sampled_from(
    ["Boot", "AssetTag", "BootSourceOverrideTarget", "BootSourceOverrideEnabled", "IndicatorLED", "UUID", "@odata.id"]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(_NAMES | st.text(max_size=5), _JSON | st.dictionaries(_NAMES, _JSON, max_size=3), max_size=4))
def test_any_body_is_taken_or_refused_and_never_breaks_us(value: dict[str, object]) -> None:
    from tests.bmc.conftest import server

    class Seen:
        def server(self) -> object:
            return server(0)

    class Scope:
        chassis = Seen()

    try:
        taken = body.read(value, _writable(Scope()), current={"UUID": "x", "Boot": {}})  # type: ignore[arg-type]
    except Refusal as refusal:
        assert refusal.status == 400
    else:
        assert taken.values.keys() <= value.keys()
