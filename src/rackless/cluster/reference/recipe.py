"""Hosts → nodes → quorum → API: the install of the reference cluster, step by step.

Knows hosts by their BMC addresses and nodes by their addresses on the network; that both are virtual it does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aiohttp

from rackless.cluster.reference import etcd, ignition, nodes, vip
from rackless.cluster.reference.keys import Keys
from rackless.events import Bus
from rackless.lab.secrets import SshKey
from rackless.plan.model import LabPlan, PlannedServer
from rackless.ports.clock import Clock
from rackless.ports.hypervisor import Firmware
from rackless.ports.provisioner import Image
from rackless.ports.resources import Record, Resources
from rackless.provisioning.baremetalhost import (
    BY_HAND,
    KIND,
    System,
    baremetalhost,
    own_user_data,
    secret,
)
from rackless.provisioning.waiting import until_state
from rackless.run.files import write
from rackless.run.waiting import until
from rackless.spec.lab import Role

BMC_SECRET = "bmc-credentials"
PROVISION_WITHIN = 3600.0
NODES_WITHIN = 900.0
CONNECT_WITHIN = 2.0
LOOK_WITHIN = 5.0
"""Seconds for one answer, where somebody waits for the whole."""
PATIENCE = 30.0
"""Seconds for one answer of a node that boots. To ask again instead of waiting makes a slow node slower."""


@dataclass(frozen=True, slots=True)
class Cluster:
    plan: LabPlan
    keys: Keys
    resources: Resources
    clock: Clock
    bus: Bus

    @property
    def wanted(self) -> tuple[PlannedServer, ...]:
        """The servers that become nodes."""
        return tuple(server for server in self.plan.servers if server.role is not Role.SPARE)

    async def ensure_hosts(
        self, username: str, password: str, image: Image, own: Mapping[str, System] | None = None
    ) -> None:
        """Write down which hosts there should be, and with what on them; the controller does the rest.

        `own` are the systems that people want on servers instead of `image`. What a person has said of a host by hand
        is left as it is.
        """
        by_hand = await self._by_hand()
        await self.resources.apply(secret(BMC_SECRET, {"username": username, "password": password}))
        admin = self.keys.ensure_admin(self.plan.name)
        known = []
        for server in self.plan.servers:
            if server.name in by_hand:
                continue
            wanted = server in self.wanted
            system = (own or {}).get(server.name)
            if system is not None:
                user_data = own_user_data(server.name) if system.user_data else ""
                if user_data:
                    await self.resources.apply(secret(user_data, {"userData": system.user_data}))
                await self.resources.apply(self._host(server, system.image, user_data))
                continue
            if wanted:
                host_key = self.keys.ensure_host_key(server)
                known.append(f"{server.address},{server.name},{server.fqdn} {host_key.public}\n")
                config = ignition.render(server, self.plan, admin.public, self._node_secrets(server, host_key))
                await self.resources.apply(secret(f"{server.name}-user-data", {"userData": config}))
            await self.resources.apply(
                self._host(server, image if wanted else None, f"{server.name}-user-data" if wanted else "")
            )
        write(self.keys.known_hosts, "".join(known))

    async def forget(self, server: str) -> None:
        """What was written down for a server that goes, besides its host."""
        await self.resources.delete("Secret", f"{server}-user-data")
        self.keys.forget(server)

    async def _by_hand(self) -> set[str]:
        """The hosts of which a person has said what they run."""
        metadata = [record["metadata"] for record in await self.resources.list(KIND)]
        return {found["name"] for found in metadata if BY_HAND in (found.get("annotations") or {})}

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
        )

    async def await_hosts(self) -> None:
        by_hand = await self._by_hand()
        names = [server.name for server in self.wanted if server.name not in by_hand]
        await until_state(self.resources, names, within=PROVISION_WITHIN)

    async def await_nodes(self) -> None:
        """Every node answers over ssh; the control planes are one quorum, and the API at its VIP knows the nodes."""
        # one after the other: a node that still boots has better things to do than to answer questions
        by_hand = await self._by_hand()
        ours = [server for server in self.wanted if server.image is None and server.name not in by_hand]
        async with asyncio.TaskGroup() as group:
            for server in self.wanted:
                group.create_task(self._await_node(server) if server in ours else self._greet(server))
        if self.plan.control_planes and all(server in ours for server in self.plan.control_planes):
            await self._await_quorum()
            await self._await_api()
            await self._ensure_nodes(ours)

    async def observe_quorum(self) -> etcd.Quorum | None:
        if not self.plan.control_planes or not self.keys.made:
            return None
        async with self._members(etcd.PATIENCE) as members:
            return await members.observe()

    async def observe_api(self) -> vip.Vip | None:
        if not self.plan.control_planes or not self.keys.made:
            return None
        return await vip.observe(self.plan, self.keys.api_client())

    async def _await_node(self, server: PlannedServer) -> None:
        async def answers() -> tuple[bool, str]:
            banner = await ssh_banner(str(server.address), PATIENCE)
            return banner is not None, banner or f"no ssh at {server.address} yet"

        with self.bus.step(f"{server.name}: booting its system") as step:
            step.detail = await until(
                answers,
                what=f"{server.name} to answer over ssh",
                within=NODES_WITHIN,
                every=1.0,
                clock=self.clock,
                hint=f"its console says why: `rackless console {server.name}`",
            )

    async def _greet(self, server: PlannedServer) -> None:
        """A system that is not ours is done when it is on the disk; whether and how it answers is its own affair."""
        with self.bus.step(f"{server.name}: your image") as step:
            banner = await ssh_banner(str(server.address), LOOK_WITHIN)
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

    def _members(self, patience: float) -> etcd.Observer:
        members = [(member.name, str(member.address)) for member in self.plan.control_planes]
        return etcd.Observer(members, self.keys.etcd_client(self.plan), patience)

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
                hint="on a control plane: `journalctl -u rackless-api -u haproxy -u keepalived`",
            )

    async def _ensure_nodes(self, ours: Sequence[PlannedServer]) -> None:
        """An API that has just come up may lose its first request: its etcd elects, its VIP moves. Ask again."""
        made: list[str] = []

        async def known() -> tuple[bool, str]:
            try:
                made.extend(await nodes.ensure_nodes(self.plan.api_vip, self.keys.api_client(), ours))
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                return False, str(error) or type(error).__name__
            return True, ", ".join(made)

        with self.bus.step("nodes in the cluster's API") as step:
            step.detail = await until(
                known,
                what="the API to know its nodes",
                within=NODES_WITHIN,
                every=1.0,
                clock=self.clock,
                seen=step.progress,
            )
            if not made:
                step.unchanged()

    def _node_secrets(self, server: PlannedServer, host_key: SshKey) -> ignition.NodeSecrets:
        private = host_key.private.read_text()
        if server.role is not Role.CONTROL_PLANE:
            return ignition.NodeSecrets(private)
        return ignition.NodeSecrets(private, self.keys.control_plane(server, self.plan))


async def ssh_banner(address: str, within: float) -> str | None:
    """What an ssh server says first; None when there is none."""
    try:
        async with asyncio.timeout(CONNECT_WITHIN):
            reader, writer = await asyncio.open_connection(address, 22)
        try:
            async with asyncio.timeout(within):
                line = await reader.readline()
        finally:
            writer.close()
    except (OSError, TimeoutError):
        return None
    text = line.decode(errors="replace").strip()
    return text if text.startswith("SSH-") else None


async def observe_nodes(servers: Sequence[PlannedServer]) -> dict[str, bool]:
    banners = await asyncio.gather(*(ssh_banner(str(server.address), LOOK_WITHIN) for server in servers))
    return {server.name: banner is not None for server, banner in zip(servers, banners, strict=True)}
