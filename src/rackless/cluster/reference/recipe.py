"""Hosts → nodes → quorum: the install of the reference cluster, step by step.

Knows hosts by their BMC addresses and nodes by their addresses on the network; that both are virtual it does not know.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rackless.cluster.reference import etcd, ignition
from rackless.events import Bus
from rackless.lab.certificates import Authority
from rackless.lab.secrets import SshKey, ensure_ssh_key
from rackless.plan.addressing import LabPlan, PlannedServer
from rackless.ports.clock import Clock
from rackless.ports.hypervisor import Firmware
from rackless.ports.provisioner import Image
from rackless.ports.resources import Resources
from rackless.provisioning.baremetalhost import baremetalhost, secret
from rackless.provisioning.waiting import until_state
from rackless.run.files import write
from rackless.run.waiting import until
from rackless.spec.lab import Role

BMC_SECRET = "bmc-credentials"
PROVISION_WITHIN = 3600.0
NODES_WITHIN = 900.0


@dataclass(frozen=True, slots=True)
class Keys:
    """The folder of a cluster's keys, and what is in it."""

    folder: Path

    @property
    def admin(self) -> Path:
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def ensure_admin(self, lab: str) -> SshKey:
        return ensure_ssh_key(self.admin, f"rackless@{lab}")

    def ensure_host_key(self, server: PlannedServer) -> SshKey:
        return ensure_ssh_key(self.folder / "hosts" / server.name, server.fqdn)

    def ensure_etcd(self, plan: LabPlan) -> Authority:
        return Authority.ensure(self.folder / "etcd", f"etcd of {plan.domain}")


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

    async def ensure_hosts(self, username: str, password: str, image: Image) -> None:
        """Write down which hosts there should be, and with what on them; the controller does the rest."""
        await self.resources.apply(secret(BMC_SECRET, {"username": username, "password": password}))
        admin = self.keys.ensure_admin(self.plan.name)
        known = []
        for server in self.plan.servers:
            wanted = server in self.wanted
            if wanted:
                host_key = self.keys.ensure_host_key(server)
                known.append(f"{server.address},{server.name},{server.fqdn} {host_key.public}\n")
                config = ignition.render(server, self.plan, admin.public, self._node_secrets(server, host_key))
                await self.resources.apply(secret(f"{server.name}-user-data", {"userData": config}))
            await self.resources.apply(
                baremetalhost(
                    server.name,
                    server.bmc_url,
                    BMC_SECRET,
                    server.boot_nic.mac,
                    image if wanted else None,
                    f"{server.name}-user-data" if wanted else "",
                    online=wanted,
                    boot_mode="legacy" if server.firmware is Firmware.BIOS else "",
                )
            )
        write(self.keys.known_hosts, "".join(known))

    async def await_hosts(self) -> None:
        await until_state(self.resources, [server.name for server in self.wanted], within=PROVISION_WITHIN)

    async def await_nodes(self) -> None:
        """Every node answers over ssh; the control planes are one quorum."""
        async with asyncio.TaskGroup() as group:
            for server in self.wanted:
                group.create_task(self._await_node(server))
            if self.plan.control_planes:
                group.create_task(self._await_quorum())

    async def observe_quorum(self) -> etcd.Quorum | None:
        members = self.plan.control_planes
        if not members or not (self.keys.folder / "etcd" / "ca.crt").exists():
            return None
        return await etcd.observe([(m.name, str(m.address)) for m in members], self._etcd_client())

    async def _await_node(self, server: PlannedServer) -> None:
        async def answers() -> tuple[bool, str]:
            banner = await ssh_banner(str(server.address))
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

    async def _await_quorum(self) -> None:
        async def stands() -> tuple[bool, str]:
            quorum = await self.observe_quorum()
            return quorum is not None and quorum.complete, quorum.describe() if quorum else "no members"

        with self.bus.step("etcd quorum") as step:
            step.detail = await until(
                stands, what="the etcd quorum", within=NODES_WITHIN, every=1.0, clock=self.clock, seen=step.progress
            )

    def _node_secrets(self, server: PlannedServer, host_key: SshKey) -> ignition.NodeSecrets:
        private = host_key.private.read_text()
        if server.role is not Role.CONTROL_PLANE:
            return ignition.NodeSecrets(private)
        authority = self.keys.ensure_etcd(self.plan)
        leaf = authority.ensure_leaf(server.name, [str(server.address), "127.0.0.1", server.name, server.fqdn])
        return ignition.NodeSecrets(
            private, leaf.key.read_text(), leaf.certificate.read_text(), authority.certificate.read_text()
        )

    def _etcd_client(self) -> ssl.SSLContext:
        authority = self.keys.ensure_etcd(self.plan)
        leaf = authority.ensure_leaf("observer", [])
        context = ssl.create_default_context(cafile=authority.certificate)
        context.load_cert_chain(leaf.certificate, leaf.key)
        return context


async def ssh_banner(address: str, within: float = 2.0) -> str | None:
    """What an ssh server says first; None when there is none."""
    try:
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_connection(address, 22)
            try:
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    text = line.decode(errors="replace").strip()
    return text if text.startswith("SSH-") else None


async def observe_nodes(servers: Sequence[PlannedServer]) -> dict[str, bool]:
    banners = await asyncio.gather(*(ssh_banner(str(server.address), 1.0) for server in servers))
    return {server.name: banner is not None for server, banner in zip(servers, banners, strict=True)}
