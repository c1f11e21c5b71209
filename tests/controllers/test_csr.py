from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from rackless.controllers.nodes.approving import csr_controller
from rackless.controllers.nodes.judging import BOOTSTRAPPER, BOOTSTRAPPERS_OF_ONE, CLIENT, SERVING
from rackless.ports.resources import Record
from rackless.trust.requests import make_request
from tests.controllers.machine_site import BEGIN, MachineSite, machine

KEY = ec.generate_private_key(ec.SECP256R1())
USAGES = {CLIENT: ["digital signature", "client auth"], SERVING: ["digital signature", "server auth"]}
ADDRESSES = [
    {"type": "InternalIP", "address": "192.0.2.10"},
    {"type": "Hostname", "address": "worker-0"},
    {"type": "InternalDNS", "address": "worker-0"},
]


def request(
    signer: str = CLIENT,
    *,
    name: str = "system:node:worker-0",
    organizations: Sequence[str] = ("system:nodes",),
    sans: Sequence[str] = (),
    username: str = BOOTSTRAPPER,
    groups: Sequence[str] = ("system:authenticated",),
    usages: Sequence[str] | None = None,
    **more: Any,
) -> Record:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr-1"},
        "spec": {
            "request": make_request(KEY, name, organizations, sans),
            "signerName": signer,
            "usages": list(USAGES[signer] if usages is None else usages),
            "username": username,
            "groups": list(groups),
            **more,
        },
    }


OF_NODE: dict[str, Any] = {
    "username": "system:node:worker-0",
    "groups": ("system:nodes", "system:authenticated"),
}


class Site(MachineSite):
    """A Machine that has its host, and the approver."""

    def runtime(self, *_: Any, **__: Any) -> Any:
        from rackless.controllers.runtime.recorder import Recorder
        from rackless.controllers.runtime.runtime import Runtime

        runtime = Runtime(self.clock, self.bus, Recorder(now=self.now))
        csr_controller(runtime, self.resources, self.nodes, now=self.moment)
        return runtime

    async def machine(self, name: str = "m", addresses: Sequence[Any] = ADDRESSES, **status: Any) -> None:
        await self.resources.apply(machine(name))
        self.resources._records[("Machine", "metal3", name)]["metadata"]["creationTimestamp"] = self.now()  # type: ignore[index]
        await self.resources.patch_status("Machine", name, {"addresses": list(addresses), **status})

    async def ask(self, record: Record) -> None:
        await self.nodes.create(record)
        name = record["metadata"]["name"]
        stored = self.nodes._records[("CertificateSigningRequest", "", name)]  # type: ignore[index]
        stored["metadata"]["creationTimestamp"] = self.now()

    async def approved(self) -> bool:
        await self.wait(0.1)
        found = await self.nodes.get("CertificateSigningRequest", "csr-1")
        assert found
        return [each["type"] for each in (found.get("status") or {}).get("conditions") or ()] == ["Approved"]

    async def told(self) -> list[tuple[str, str]]:
        await self.wait(0.1)
        return [(each["reason"], each["message"]) for each in await self.nodes.list("Event", namespace="default")]


async def decided(site: Site, record: Record) -> tuple[bool, str]:
    await site.ask(record)
    async with site.running():
        approved = await site.approved()
        [(_, why)] = await site.told() or [("", "")]
    return approved, why


@pytest.mark.parametrize(
    "record",
    [
        request(),
        request(username="system:bootstrap:abcdef", groups=("system:bootstrappers", "system:authenticated")),
        request(
            username="system:bootstrap:abcdef",
            groups=("system:bootstrappers", f"{BOOTSTRAPPERS_OF_ONE}worker-0"),
        ),
        request(CLIENT, **OF_NODE),
        request(SERVING, sans=("worker-0", "192.0.2.10"), **OF_NODE),
        request(
            SERVING, sans=("192.0.2.10",), usages=["digital signature", "key encipherment", "server auth"], **OF_NODE
        ),
    ],
    ids=["bootstrapper", "token", "token of one node", "renewal", "serving", "serving with key encipherment"],
)
async def test_a_node_that_is_its_machines_is_approved(record: Record) -> None:
    site = Site()
    await site.machine()
    approved, why = await decided(site, record)
    assert approved and "Machine m" in why


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (request(username="eve"), "eve may not ask for a node's first certificate"),
        (request(username="x", groups=("system:bootstrappers", f"{BOOTSTRAPPERS_OF_ONE}other")), "for other only"),
        (request(name="system:node:stranger"), "no Machine has the name stranger"),
        (request(name="worker-0"), "is no node's"),
        (request(name="system:node:"), "is no node's"),
        (request(organizations=("system:nodes", "system:masters")), "the organization of the subject"),
        (request(organizations=()), "the organization of the subject"),
        (request(usages=["digital signature", "server auth"]), "the usages are not"),
        (request(usages=["digital signature", "client auth", "cert sign"]), "the usages are not"),
        (request(sans=("worker-0",)), "no names besides its subject"),
        (request(CLIENT, username="system:node:worker-0", groups=()), "is not in the group"),
        (request(CLIENT, username="system:node:other", groups=("system:nodes",)), "may not ask"),
        (request(SERVING, **OF_NODE), "no address to serve at"),
        (request(SERVING, sans=("192.0.2.11",), **OF_NODE), "192.0.2.11 is no address of Machine m"),
        (request(SERVING, sans=("worker-0", "api.example"), **OF_NODE), "api.example is no address"),
        (request(SERVING, sans=("worker-0",), username="system:node:other", groups=OF_NODE["groups"]), "may not ask"),
        (request(SERVING, sans=("worker-0",)), "may not ask"),
        (request(request="bm8="), "PEM block type must be"),
    ],
)
async def test_a_stranger_stays_pending_and_an_event_says_why(record: Record, said: str) -> None:
    site = Site()
    await site.machine()
    approved, why = await decided(site, record)
    assert not approved and said in why


async def test_requests_for_other_signers_are_left_to_others() -> None:
    site = Site()
    await site.machine()
    record = request()
    record["spec"]["signerName"] = "example.com/mine"
    assert await decided(site, record) == (False, "")


async def test_a_node_that_is_there_already_gets_no_first_certificate() -> None:
    site = Site()
    await site.machine()
    await site.join("worker-0")
    approved, why = await decided(site, request())
    assert not approved and "there is a Node worker-0 already" in why


async def test_a_machine_that_has_its_node_gets_no_second() -> None:
    site = Site()
    await site.machine(nodeRef={"name": "worker-9"})
    approved, why = await decided(site, request())
    assert not approved and "has its Node, worker-9" in why


async def test_a_name_of_two_machines_is_nobodys() -> None:
    site = Site()
    await site.machine("a")
    await site.machine("b")
    approved, why = await decided(site, request())
    assert not approved and "several Machines: a, b" in why


@pytest.mark.parametrize(("seconds", "fits"), [(0, True), (7199, True), (7201, False)])
async def test_a_first_certificate_is_given_within_two_hours(seconds: float, fits: bool) -> None:
    site = Site()
    await site.machine()
    await site.wait(seconds)
    assert (await decided(site, request()))[0] is fits


async def test_the_two_hours_begin_when_the_machine_gets_its_host() -> None:
    site = Site()
    claimed = (BEGIN + timedelta(hours=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    await site.machine(conditions=[{"type": "HostClaimed", "status": "True", "lastTransitionTime": claimed}])
    await site.wait(6 * 3600)
    assert (await decided(site, request()))[0]


async def test_a_request_that_came_too_early_is_approved_when_its_machine_is_there() -> None:
    site = Site()
    await site.ask(request())
    async with site.running():
        assert not await site.approved()
        await site.wait(5)
        await site.machine()
        assert await site.approved()


async def test_a_deleted_machine_speaks_for_nobody() -> None:
    site = Site()
    await site.machine()
    await site.patch("Machine", "m", {"metadata": {"finalizers": ["held"]}})
    await site.resources.delete("Machine", "m")
    approved, why = await decided(site, request())
    assert not approved and "is being deleted" in why


async def test_a_flood_of_requests_stops_all_approvals() -> None:
    site = Site()
    await site.machine()
    for number in range(101):
        stranger = request(name="system:node:stranger")
        stranger["metadata"]["name"] = f"flood-{number}"
        await site.ask(stranger)
    await site.ask(request())
    async with site.running():
        assert not await site.approved()
        assert any("102 requests of the last hour are pending" in why for _, why in await site.told())
        await site.nodes.delete("CertificateSigningRequest", "flood-0")
        await site.wait(61)
        assert await site.approved()


async def test_the_same_reason_is_told_once() -> None:
    site = Site()
    await site.ask(request())
    async with site.running():
        await site.wait(600)
        assert len(await site.told()) == 1
        [event] = await site.nodes.list("Event", namespace="default")
        assert event["count"] == 1


async def test_a_node_that_asks_anew_by_its_own_token_is_let_in_although_its_node_is_there() -> None:
    """Its system was installed anew, or it lost its keys: the token is in its own config drive and nowhere else."""
    site = Site()
    await site.machine(nodeRef={"kind": "Node", "name": "worker-0"})
    await site.join("worker-0")
    await site.wait(3 * 3600)
    own = ("system:bootstrappers", f"{BOOTSTRAPPERS_OF_ONE}worker-0")
    approved, why = await decided(site, request(username="system:bootstrap:abcdef", groups=own))
    assert approved and "was given the token" in why


async def test_a_token_of_one_node_is_no_good_without_its_machine() -> None:
    own = ("system:bootstrappers", f"{BOOTSTRAPPERS_OF_ONE}worker-0")
    approved, why = await decided(Site(), request(username="system:bootstrap:abcdef", groups=own))
    assert not approved and "no Machine has the name worker-0" in why


async def test_what_cannot_be_read_stays_pending() -> None:
    site = Site()
    await site.machine()
    unreadable = request()
    unreadable["spec"]["request"] = "nonsense"
    approved, why = await decided(site, unreadable)
    assert not approved and why
