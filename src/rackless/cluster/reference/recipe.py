"""Installing the reference cluster, step by step: hosts → nodes → etcd quorum → API.

Knows hosts by their BMC addresses and nodes by their addresses on the network; that both are virtual it does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from rackless.cluster.reference import ignition, joining
from rackless.cluster.reference.keys import Keys
from rackless.cluster.reference.machines import with_user_data
from rackless.events import Bus
from rackless.plan.model import LabPlan, PlannedServer
from rackless.ports.clock import Clock
from rackless.ports.hypervisor import Firmware
from rackless.ports.nodes import Admission, Members, Nodes, NodesUnreachable, Quorum, Vip
from rackless.ports.provisioner import Image
from rackless.ports.resources import Record, Resources
from rackless.provisioning.baremetalhost import (
    BY_HAND,
    KIND,
    BadRecord,
    State,
    System,
    baremetalhost,
    own_user_data,
    read,
    secret,
    strange_host,
    strangers_secret,
)
from rackless.provisioning.waiting import until_state
from rackless.run.files import write
from rackless.run.waiting import until
from rackless.spec.lab import Role
from rackless.spec.servers import ServerFirmware
from rackless.trust.secrets import SshKey

BMC_SECRET = "bmc-credentials"
PROVISION_WITHIN = 3600.0
NODES_WITHIN = 900.0
LOOK_WITHIN = 5.0
"""Seconds for one answer, where somebody waits for the whole."""
PATIENCE = 30.0
"""Seconds for one answer of a node that boots. Shorter timeouts with retries would make a slow node slower."""


@dataclass(frozen=True, slots=True)
class Cluster:
    plan: LabPlan
    keys: Keys
    resources: Resources
    clock: Clock
    bus: Bus
    nodes: Nodes

    @property
    def wanted(self) -> tuple[PlannedServer, ...]:
        """The servers that become nodes."""
        return tuple(server for server in self.plan.servers if server.role is not Role.SPARE)

    async def records(
        self, username: str, password: str, image: Image, own: Mapping[str, System] | None = None
    ) -> list[Record]:
        """The BareMetalHosts of all servers and the Secrets that they name, Secrets first; keys are made for those that become
        nodes.

        `own` are the systems that people want on servers instead of `image`. What a person has said of a host by hand
        is left as it is.
        """
        by_hand, claimed, before = await self.by_hand(), await self.claimed(), await self._provisioned()
        admin = self.keys.ensure_admin(self.plan.name)
        secrets = [secret(BMC_SECRET, {"username": username, "password": password})]
        hosts, known = [], []
        for server in self.plan.servers:
            if server.name in by_hand:
                continue
            wanted = server in self.wanted
            system = (own or {}).get(server.name)
            if system is not None:
                user_data = own_user_data(server.name) if system.user_data else ""
                if user_data:
                    secrets.append(secret(user_data, {"userData": system.user_data}))
                hosts.append(self._host(server, system.image, user_data))
                continue
            user_data = f"{server.name}-user-data"
            if self.wanted:  # spare servers, too: a Machine may claim them
                as_node = server if wanted else replace(server, role=Role.WORKER)
                host_key = self.keys.ensure_host_key(server)
                known.append(f"{server.address},{server.name},{server.fqdn} {host_key.public}\n")
                joins = server.name not in before or self.keys.token(server.name) is not None
                config = ignition.render(
                    as_node, self.plan, admin.public, self._node_secrets(as_node, host_key, joins=joins)
                )
                secrets.append(secret(user_data, {"userData": config}))
            if wanted:
                hosts.append(with_user_data(self._host(server, image, user_data), user_data))
            elif server.name not in claimed:
                spare = self._host(server, None, "")
                hosts.append(with_user_data(spare, user_data) if self.wanted else spare)
        write(self.keys.known_hosts, "".join(known))
        return [*secrets, *hosts]

    async def ensure_hosts(
        self,
        username: str,
        password: str,
        image: Image,
        own: Mapping[str, System] | None = None,
        *,
        only: str | None = None,
        passwords: Mapping[str, str] | None = None,
    ) -> None:
        """Apply the BareMetalHosts with their images; the controller provisions them.

        `only` is one server that was made on demand: the others are not written again. `passwords` are those of hosts that are
        not the lab's own.
        """
        consumers = await self.claimed()
        for record in await self.records(username, password, image, own):
            if only is not None and record["metadata"]["name"] not in (only, f"{only}-user-data"):
                continue
            if record["kind"] == KIND and (consumer := consumers.get(record["metadata"]["name"])):
                record["spec"]["consumerRef"] = consumer  # whose it is, is not ours to say
            await self.resources.apply(record)
        if only is None:
            await self._ensure_metal(passwords or {})

    async def _ensure_metal(self, passwords: Mapping[str, str]) -> None:
        """Real servers (`metal:`). An existing record is left as it is, unless its BMC address changed: then it is another
        server, which is paused until a person lets the lab use it."""
        known = {record["metadata"]["name"]: record for record in await self.resources.list(KIND)}
        for name, host in self.plan.metal.items():
            login = {"username": host.username, "password": passwords[name]}
            await self.resources.apply(secret(strangers_secret(name), login))
            there = known.get(name)
            if there is not None and there["spec"].get("bmc", {}).get("address") == host.bmc:
                continue
            legacy = "legacy" if host.firmware is ServerFirmware.BIOS else ""
            await self.resources.apply(strange_host(name, host.bmc, host.mac, legacy, verify=not host.insecure))

    async def forget(self, server: str) -> None:
        """Delete the Secrets and keys of a server that is removed."""
        await self._dismiss(server)
        await self.resources.delete("Secret", f"{server}-user-data")
        self.keys.forget(server)

    async def claimed(self) -> dict[str, Record]:
        """The consumer of each claimed host."""
        hosts = await self.resources.list(KIND)
        found = {host["metadata"]["name"]: (host.get("spec") or {}).get("consumerRef") for host in hosts}
        return {name: consumer for name, consumer in found.items() if consumer}

    async def by_hand(self) -> set[str]:
        """Hosts that `up` leaves alone: a person chose their image or switched them off, or a Machine has given them back because
        fewer workers are wanted."""
        workers = {server.name for server in self.plan.servers if server.role is Role.WORKER and server.image is None}
        found = set()
        for record in await self.resources.list(KIND):
            name, spec = record["metadata"]["name"], record.get("spec") or {}
            given_back = name in workers and not spec.get("image")
            switched_off = bool(spec.get("image")) and spec.get("online") is False
            if given_back or switched_off or BY_HAND in (record["metadata"].get("annotations") or {}):
                found.add(name)
        return found

    def _host(self, server: PlannedServer, image: Image | None, user_data: str) -> Record:
        return baremetalhost(
            server.name,
            server.bmc_url,
            BMC_SECRET,
            server.boot_nic.mac,
            image,
            user_data,
            online=image is not None,
            boot_mode="legacy" if server.firmware is Firmware.BIOS else "",
            root_device=dict(server.root_device),
        )

    async def lacking_hosts(self) -> str:
        """Which host is not in its wanted state; empty when all are."""
        found = {record["metadata"]["name"]: record for record in await self.resources.list(KIND)}
        by_hand = await self.by_hand()
        for name, host in self.plan.metal.items():
            if name not in found:
                return f"{name} is not written down"
            if found[name]["spec"].get("bmc", {}).get("address") != host.bmc:
                return f"{name} has another BMC"
        for server in self.plan.servers:
            if server.name in by_hand:
                continue
            if server.name not in found:
                return f"{server.name} is not written down"
            try:
                status = read(found[server.name]).status
            except BadRecord as error:
                return f"{server.name} is written down wrongly: {error}"
            if server in self.wanted and (status.state is not State.PROVISIONED or status.error_type is not None):
                return f"{server.name} is {status.state.value or 'new'}"
            if found[server.name]["spec"].get("bmc", {}).get("address") != server.bmc_url:
                return f"{server.name} has another BMC"
        return ""

    async def await_hosts(self) -> None:
        by_hand = await self.by_hand()
        names = [server.name for server in self.wanted if server.name not in by_hand]
        await until_state(self.resources, names, within=PROVISION_WITHIN)

    async def ours(self) -> list[PlannedServer]:
        """The nodes with rackless's own node image: how they answer is known."""
        by_hand = await self.by_hand()
        return [server for server in self.wanted if server.image is None and server.name not in by_hand]

    async def forms(self) -> bool:
        """Whether all control planes have rackless's own node image, so that there is an etcd and an API to wait for."""
        ours = await self.ours()
        return bool(self.plan.control_planes) and all(server in ours for server in self.plan.control_planes)

    async def lacking(self) -> str:
        """What part of the cluster does not answer; empty when all of it does."""
        ours = {server.name for server in await self.ours()}
        if not await self.forms():
            return _silent(ours, await self.observe_nodes())
        # all at once: each takes a good part of a second on an emulated node
        up, quorum, api = await asyncio.gather(self.observe_nodes(), self.observe_quorum(), self.observe_api())
        if silent := _silent(ours, up):
            return silent
        if quorum is None or not quorum.complete:
            return f"etcd: {quorum.describe() if quorum else 'has no keys yet'}"
        return "" if api is not None and api.ready else f"API VIP: {api.describe() if api else 'not there'}"

    async def await_nodes(self) -> None:
        """Every node answers over ssh; the control planes are one quorum, and the API answers at its VIP."""
        # one after the other: answering slows down a node that still boots
        ours = await self.ours()
        async with asyncio.TaskGroup() as group:
            for server in self.wanted:
                group.create_task(self._await_node(server) if server in ours else self._greet(server))
        if await self.forms():
            await self._await_quorum()
            await self._await_api()

    async def lacking_objects(self) -> str:
        """Which node is not ready in the cluster's API; empty when all are that join by themselves."""
        if not await self.forms() or not self.keys.made:
            return ""
        try:
            there = await self.nodes.objects(self.plan.api_vip, self.keys.api_client())
        except NodesUnreachable as error:
            return f"the API does not answer: {error}"
        return joining.lacking(there, [admission.name for admission in await self._admissions()])

    async def observe_quorum(self) -> Quorum | None:
        if not self.plan.control_planes or not self.keys.made:
            return None
        async with self._members(LOOK_WITHIN) as members:
            return await members.observe()

    async def observe_api(self) -> Vip | None:
        if not self.plan.control_planes or not self.keys.made:
            return None
        macs = {nic.mac.lower(): server.name for server in self.plan.servers for nic in server.nics}
        return await self.nodes.vip(self.plan.api_vip, self.plan.cluster.bridge, macs, self.keys.api_client())

    async def observe_nodes(self) -> dict[str, bool]:
        """Which of the servers that become nodes answer, as nodes do."""
        banners = await asyncio.gather(
            *(self.nodes.ssh_banner(str(server.address), LOOK_WITHIN) for server in self.wanted)
        )
        return {server.name: banner is not None for server, banner in zip(self.wanted, banners, strict=True)}

    async def _await_node(self, server: PlannedServer) -> None:
        async def answers() -> tuple[bool, str]:
            banner = await self.nodes.ssh_banner(str(server.address), PATIENCE)
            return banner is not None, banner or f"no ssh at {server.address} yet"

        with self.bus.step("booting its system", subject=f"host/{server.name}") as step:
            step.detail = await until(
                answers,
                what=f"{server.name} to answer over ssh",
                within=NODES_WITHIN,
                every=1.0,
                clock=self.clock,
                hint=f"its console says why: `rackless console {server.name}`",
            )

    async def _greet(self, server: PlannedServer) -> None:
        """Wait for a node's ssh banner. A host with a person's own image is done when that is on the disk: it need not answer."""
        with self.bus.step("your image", subject=f"host/{server.name}") as step:
            banner = await self.nodes.ssh_banner(str(server.address), LOOK_WITHIN)
            step.detail = f"provisioned; {'answers over ssh' if banner else 'what it does from here is its own affair'}"

    async def _await_quorum(self) -> None:
        with self.bus.step("etcd quorum") as step:
            async with self._members(PATIENCE) as members:

                async def stands() -> tuple[bool, str]:
                    quorum = await members.observe()
                    return quorum.complete, quorum.describe()

                step.detail = await until(
                    stands,
                    what="the etcd quorum",
                    within=NODES_WITHIN,
                    every=2.0,
                    clock=self.clock,
                    seen=step.progress,
                    hint="on a control plane: `journalctl -u etcd`",
                )

    def _members(self, patience: float) -> AbstractAsyncContextManager[Members]:
        members = [(member.name, str(member.address)) for member in self.plan.control_planes]
        return self.nodes.members(members, self.keys.etcd_client(self.plan), patience)

    async def _await_api(self) -> None:
        async def answers() -> tuple[bool, str]:
            found = await self.observe_api()
            return found is not None and found.ready, found.describe() if found else "no control planes"

        with self.bus.step("Kubernetes API at its VIP") as step:
            step.detail = await until(
                answers,
                what="the API to answer at its VIP",
                within=NODES_WITHIN,
                every=2.0,
                clock=self.clock,
                seen=step.progress,
                hint="on a control plane: `journalctl -u rackless-api -u haproxy -u rackless-vip`",
            )

    async def await_joined(self) -> None:
        """Admit the nodes to the API and wait until they report Ready.

        An API that has just come up may lose its first request: its etcd elects, its VIP moves. Ask again.
        """
        awaited = [admission.name for admission in await self._admissions()]
        if not awaited or not await self.forms():
            return
        # spare servers, too: whoever claims one finds it let in
        admissions = [joining.admission(server, token) for server, token in self._invited()]
        api, tls = self.plan.api_vip, self.keys.api_client()

        async def ready() -> tuple[bool, str]:
            try:
                await self.nodes.admit(api, tls, admissions)
                lacks = joining.lacking(await self.nodes.objects(api, tls), awaited)
            except NodesUnreachable as error:
                return False, str(error)
            return not lacks, lacks or f"{', '.join(awaited)} ready"

        with self.bus.step("nodes join") as step:
            step.detail = await until(
                ready,
                what="the nodes to be ready",
                within=NODES_WITHIN,
                every=1.0,
                clock=self.clock,
                seen=step.progress,
                hint="on a node that is not: `journalctl -u rackless-node`",
            )

    async def admit(self, name: str) -> None:
        """Let one server that was made on demand join when it has a system. Raises NodesUnreachable."""
        server = self.plan.server(name)
        if server is None or not await self.forms():
            return
        worker = replace(server, role=Role.WORKER)
        token = self.keys.ensure_invitation(worker, self.plan).token
        admissions = [joining.admission(worker, token)]
        await self.nodes.admit(self.plan.api_vip, self.keys.api_client(), admissions)

    def _invited(self) -> list[tuple[PlannedServer, str]]:
        """Every server that was given a token; one that is spare becomes a worker."""
        found = [(server, self.keys.token(server.name)) for server in self.plan.servers]
        return [
            (replace(server, role=Role.WORKER) if server.role is Role.SPARE else server, token)
            for server, token in found
            if token is not None
        ]

    async def _admissions(self) -> list[Admission]:
        """Nodes that join by themselves; those of an earlier version's lab do not."""
        tokens = {server: self.keys.token(server.name) for server in await self.ours()}
        return [joining.admission(server, token) for server, token in tokens.items() if token is not None]

    async def _provisioned(self) -> set[str]:
        """Hosts that are provisioned: their Ignition config has been read and is not changed."""
        found = await self.resources.list(KIND)
        states = {
            record["metadata"]["name"]: (record.get("status") or {}).get("provisioning") or {} for record in found
        }
        return {name for name, status in states.items() if status.get("state") == State.PROVISIONED.value}

    async def _dismiss(self, name: str) -> None:
        server, token = self.plan.server(name), self.keys.token(name)
        if server is None or token is None or not self.keys.made or not self.plan.control_planes:
            return
        try:
            await self.nodes.dismiss(self.plan.api_vip, self.keys.api_client(), joining.admission(server, token))
        except NodesUnreachable as error:
            self.bus.tell("node-not-dismissed", subject=f"host/{name}", host=name, why=str(error))

    def _node_secrets(self, server: PlannedServer, host_key: SshKey, *, joins: bool) -> ignition.NodeSecrets:
        """With `joins` the node gets a bootstrap token, where the reference cluster has an API."""
        private = host_key.private.read_text()
        own_api = bool(self.plan.control_planes) and all(each.image is None for each in self.plan.control_planes)
        return ignition.NodeSecrets(
            private,
            self.keys.control_plane(server, self.plan) if server.role is Role.CONTROL_PLANE else None,
            self.keys.ensure_invitation(server, self.plan) if joins and own_api else None,
        )


def _silent(names: Collection[str], up: Mapping[str, bool]) -> str:
    """Which of these do not answer; empty when all do."""
    silent = sorted(name for name in names if not up.get(name))
    return f"{', '.join(silent)} not answering" if silent else ""
