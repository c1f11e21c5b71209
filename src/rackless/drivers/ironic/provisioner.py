"""`ports.provisioner.Provisioner` by Ironic: one look at the node, at most one push, and how it stands.

Each method is a table from Ironic's provision state to what that means for what is wanted. Nothing is remembered here;
Ironic knows, and when it has forgotten (a new database), the host is registered again on the way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self

from rackless.drivers.ironic.bmc_address import BadAddress
from rackless.drivers.ironic.client import Busy, IronicClient, IronicRefused, IronicUnreachable, Json
from rackless.drivers.ironic.enrolment import Enrolment
from rackless.drivers.ironic.extras import (
    about_media,
    configure,
    have_media,
    outdated,
    settings_of,
    subscribe,
    unsubscribe,
)
from rackless.drivers.ironic.instance import config_drive, deploy_interface, deploy_steps, holds, instance_info
from rackless.drivers.ironic.node import LATER, SOON, doing, reason, under_way
from rackless.drivers.ironic.reasons import explain
from rackless.errors import LabError
from rackless.ports.ironic import Guest
from rackless.ports.provisioner import (
    NO_SETTINGS,
    Again,
    ConfigDrive,
    Done,
    ErrorKind,
    EventReceiver,
    Failed,
    HostAccess,
    Image,
    Result,
    Stranger,
)

_PACE, SLOWEST = 8.0, 15.0
"""How many times as long as its answer took we wait before we ask again, and at most so many seconds."""
SOFT_POWER_OFF = 60
FREE_WITHIN = 60
"""Seconds for which we wait for a node that is not to be had at once, where nobody asks again."""
UNKNOWN = Again(5.0, "Ironic does not know it", busy=True)
"""Who asks for something beside a host's way does not make it known: that is a step of that way."""

P = ParamSpec("P")
Method = Callable[Concatenate["IronicProvisioner", P], Coroutine[Any, Any, Result]]


def at_its_pace(result: Result, seconds: float) -> Result:
    """With an Ironic that took so long to answer: one that is slow, on an emulated machine, is asked less often. It answers us
    instead of working for us."""
    if not isinstance(result, Again):
        return result
    return replace(result, after=max(result.after, min(SLOWEST, _PACE * seconds)))


def _answers(kind: ErrorKind) -> Callable[[Method[P]], Method[P]]:
    """Turn what Ironic's client raises into results: busy is not an error, a refusal is one of this `kind`."""

    def decorate(method: Method[P]) -> Method[P]:
        async def answer(self: IronicProvisioner, /, *args: P.args, **kwargs: P.kwargs) -> Result:
            begun = time.monotonic()
            try:
                return at_its_pace(await method(self, *args, **kwargs), time.monotonic() - begun)
            except Busy:
                return Again(SOON, busy=True)
            except IronicUnreachable as error:
                return Again(5 * SOON, f"Ironic does not answer ({error})", busy=True)
            except IronicRefused as error:
                return Failed(kind, str(error))
            except BadAddress as error:
                return Failed(ErrorKind.REGISTRATION, str(error))

        return answer

    return decorate


class IronicProvisioner:
    """`network_boot` says whether there is a network that hosts can boot from; `database` is Ironic's, when it is our own."""

    def __init__(
        self,
        url: str,
        username: str,
        password: str,
        ca: Path | None,
        guest: Guest | None = None,
        *,
        network_boot: bool = False,
        database: Path | None = None,
    ) -> None:
        self._ironic = IronicClient(url, username, password, ca, database=database)
        self._guest = guest
        self._enrolment = Enrolment(self._ironic, guest, network_boot)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._ironic.close()

    @_answers(ErrorKind.REGISTRATION)
    async def register(self, host: HostAccess, *, restart: bool = False) -> Result:
        node = await self._ironic.node(self._enrolment.name(host))
        if node is None:
            return await self._enrolment.enroll(host)
        changed = await self._enrolment.update(host, node)
        if self._guest is None and outdated(node):
            await self._ironic.patch_node(node["uuid"], {"bios_interface": "redfish", "vendor_interface": "redfish"})
        if node["maintenance"]:
            return await self._maintained(node)
        match node["provision_state"]:
            case "enroll" if node["last_error"] and not restart and not changed:
                return Failed(ErrorKind.REGISTRATION, await self._reason(node))
            case "enroll":
                await self._ironic.provision(node["uuid"], "manage")
                return Again(SOON / 2, "checking access to the BMC")
            case "verifying":
                return Again(SOON / 2, "checking access to the BMC")
        return Done({"id": node["uuid"]})

    @_answers(ErrorKind.INSPECTION)
    async def inspect(self, host: HostAccess, *, restart: bool = False) -> Result:
        node = await self._ironic.node(self._enrolment.name(host))
        if node is None:
            return await self._enrolment.enroll(host)
        match node["provision_state"]:
            case "available":
                await self._ironic.provision(node["uuid"], "manage")
                return Again(SOON, busy=restart)
            case "manageable":
                inventory = None if restart else await self._ironic.inventory(node["uuid"])
                if inventory is not None:
                    return Done(inventory.get("inventory", inventory))
            case "inspect failed" if not restart and "abort" not in (node["last_error"] or ""):
                return Failed(ErrorKind.INSPECTION, await self._reason(node))
            case "inspect failed":
                pass
            case "inspect wait" if restart:
                return await self._abort(node)
            case "enroll":
                return await self._reregistered(host)
            case _:
                return under_way(node)
        await self._ironic.provision(node["uuid"], "inspect")
        return Again(LATER, "starting inspection")

    @_answers(ErrorKind.PREPARATION)
    async def prepare(
        self, host: HostAccess, settings: Mapping[str, str] = NO_SETTINGS, *, restart: bool = False
    ) -> Result:
        node = await self._ironic.node(self._enrolment.name(host))
        if node is None:
            return await self._enrolment.enroll(host)
        if (configuring := await configure(self._ironic, node, settings)) is not None:
            return configuring
        if node["provision_state"] == "available" and restart:
            # cleaned although it is clean; also a host that is otherwise not
            await self._ironic.patch_node(node["uuid"], {"automated_clean": True})
            await self._ironic.provision(node["uuid"], "manage")
            return Again(SOON, "cleaning")
        return await self._cleaned(host, node, restart, ErrorKind.PREPARATION) or Done()

    @_answers(ErrorKind.PROVISIONING)
    async def provision(self, host: HostAccess, image: Image, config: ConfigDrive, *, restart: bool = False) -> Result:
        node = await self._ironic.node(self._enrolment.name(host))
        if node is None:
            return await self._enrolment.enroll(host)
        match node["provision_state"]:
            case "active" if holds(node, image):
                return Done()
            case "active":
                await self._ironic.provision(node["uuid"], "deleted")
                return Again(LATER, "taking another image off", busy=restart)
            case "deploy failed" if holds(node, image) and not restart:
                return Failed(ErrorKind.PROVISIONING, await self._reason(node))
            case "deploy failed":
                return await self._deploy(host, node, image, config)
            case "deploying" | "wait call-back":
                return under_way(node)
            case "error":
                return Failed(ErrorKind.PROVISIONING, await self._reason(node))
        waiting = await self._cleaned(host, node, restart, ErrorKind.PROVISIONING)
        return waiting or await self._deploy(host, node, image, config)

    @_answers(ErrorKind.ADOPTION)
    async def adopt(self, host: HostAccess, image: Image, *, restart: bool = False) -> Result:
        node = await self._ironic.node(self._enrolment.name(host))
        if node is None:
            return await self._enrolment.enroll(host)
        match node["provision_state"]:
            case "enroll":
                return await self._reregistered(host)
            case "adopt failed" if not restart:
                return Failed(ErrorKind.ADOPTION, await self._reason(node))
            case "available":
                await self._ironic.provision(node["uuid"], "manage")
                return Again(SOON, "taking it over as it is")
            case "manageable" | "adopt failed":
                await self._tell_instance(host, node, image)
                await self._ironic.provision(node["uuid"], "adopt")
                return Again(SOON, "taking it over as it is")
            case "adopting":
                return Again(SOON, "taking it over as it is")
        return Done()

    @_answers(ErrorKind.PROVISIONING)
    async def deprovision(self, host: HostAccess, *, restart: bool = False) -> Result:
        node = await self._ironic.node(self._enrolment.name(host))
        if node is None:
            return await self._enrolment.enroll(host)
        match node["provision_state"]:
            case "error" if not restart:
                return Failed(ErrorKind.PROVISIONING, await self._reason(node))
            case "active" | "deploy failed" | "wait call-back" | "error":
                await self._keep_cleaning(host, node)
                await self._ironic.provision(node["uuid"], "deleted")
                return Again(SOON, "taking the system off")
            case "deploying":
                return Again(LATER, "waiting for a moment to stop")
        return await self._cleaned(host, node, restart, ErrorKind.PROVISIONING) or Done()

    @_answers(ErrorKind.POWER)
    async def power(self, host: HostAccess, on: bool, *, hard: bool = False, restart: bool = False) -> Result:
        node = await self._ironic.node(self._enrolment.name(host))
        if node is None:
            return await self._enrolment.enroll(host)
        if node["target_power_state"] or node["target_provision_state"]:
            return Again(SOON, f"switching {'on' if on else 'off'}")
        if node["power_state"] == ("power on" if on else "power off"):
            return Done({"powered_on": on})
        if node["last_error"] and not restart and not about_media(node["last_error"]):
            return Failed(ErrorKind.POWER, await self._reason(node))
        if on or hard or restart:
            await self._ironic.power(node["uuid"], "power on" if on else "power off")
        else:
            await self._ironic.power(node["uuid"], "soft power off", timeout=SOFT_POWER_OFF)
        return Again(SOON, f"switching {'on' if on else 'off'}")

    @_answers(ErrorKind.REGISTRATION)
    async def delete(self, host: HostAccess) -> Result:
        node = await self._ironic.node(self._enrolment.name(host))
        if node is None:
            return Done()
        match node["provision_state"]:
            case "inspect wait" | "clean wait":
                await self._ironic.provision(node["uuid"], "abort")
                return Again(SOON, "stopping the agent")
            case "wait call-back":
                await self._ironic.provision(node["uuid"], "deleted")
                return Again(SOON, "stopping the agent")
            case "verifying" | "inspecting" | "cleaning" | "deploying" | "deleting":
                return Again(SOON, doing(node))
            case "available" | "manageable" | "enroll":
                if node["instance_uuid"]:
                    await self._ironic.patch_node(node["uuid"], {"instance_uuid": None})
            case _ if not node["maintenance"]:
                await self._ironic.maintain(node["uuid"], "the host is being deleted")
        await self._ironic.delete_node(node["uuid"])
        return Done()

    @_answers(ErrorKind.REGISTRATION)
    async def firmware(self, host: HostAccess) -> Result:
        node = await self._ironic.node(self._enrolment.name(host))
        return UNKNOWN if node is None else Done(settings_of(await self._ironic.bios(node["uuid"])))

    @_answers(ErrorKind.POWER)
    async def media(self, host: HostAccess, url: str | None, *, restart: bool = False) -> Result:
        node = await self._ironic.node(self._enrolment.name(host))
        return UNKNOWN if node is None else await have_media(self._ironic, node, url, restart=restart)

    @_answers(ErrorKind.REGISTRATION)
    async def subscribe(self, host: HostAccess, receiver: EventReceiver) -> Result:
        node = await self._ironic.node(self._enrolment.name(host))
        return UNKNOWN if node is None else await subscribe(self._ironic, node, receiver)

    @_answers(ErrorKind.REGISTRATION)
    async def unsubscribe(self, host: HostAccess, id: str) -> Result:
        node = await self._ironic.node(self._enrolment.name(host))
        return UNKNOWN if node is None else await unsubscribe(self._ironic, node, id)

    async def strangers(self) -> list[Stranger]:
        """Not in somebody else's Ironic: what has no name there is not ours."""
        if self._guest is not None:
            return []
        try:
            found = [(node, await self._ironic.inventory(node)) for node in await self._ironic.unnamed()]
        except (Busy, IronicUnreachable, IronicRefused):
            return []
        return [Stranger(node, told.get("inventory", told)) for node, told in found if told is not None]

    async def dismiss(self, stranger: Stranger) -> None:
        with suppress(Busy, IronicUnreachable, IronicRefused):
            await self._ironic.delete_node(stranger.id)

    async def forget_all(self) -> list[str]:
        """Delete all nodes of ours from an Ironic that is not our own; their servers are not touched."""
        prefix = self._guest.prefix if self._guest else ""
        ours = {name: node for name, node in (await self._ironic.nodes()).items() if prefix and name.startswith(prefix)}
        for node in ours.values():
            await self._forget(node)
        return sorted(ours)

    async def _forget(self, node: str) -> None:
        """While Ironic is at something with a node it lets nobody else at it."""
        for left in reversed(range(FREE_WITHIN)):
            try:
                await self._ironic.maintain(node, "the lab is being destroyed")
                await self._ironic.delete_node(node)
                return
            except Busy as error:
                if not left:
                    raise LabError(f"Ironic does not let go of the node {node}", why=str(error)) from error
            await asyncio.sleep(1)

    async def _reregistered(self, host: HostAccess) -> Result:
        """A node that Ironic has only just got to know again: first prove its BMC, then go on."""
        result = await self.register(host, restart=True)
        return Again(SOON, "registering again", busy=True) if isinstance(result, Done) else result

    async def _maintained(self, node: Json) -> Result:
        """Maintenance without a fault is nobody's; with one, Ironic itself ends it when the BMC is back."""
        if node["fault"] == "power failure":
            return Again(10 * SOON, f"the BMC does not answer: {node['maintenance_reason']}", busy=True)
        if node["fault"]:  # a failed step, which the caller is about to see
            return Done({"id": node["uuid"]})
        await self._ironic.end_maintenance(node["uuid"])
        return Again(SOON, "ending maintenance", busy=True)

    async def _cleaned(self, host: HostAccess, node: Json, restart: bool, kind: ErrorKind) -> Result | None:
        """None when the node is clean and free to be given away; else what is being done about it."""
        match node["provision_state"]:
            case "available":
                await self._keep_cleaning(host, node)
                return None
            case "clean wait" if restart:
                return await self._abort(node)
            case "manageable":
                await self._ironic.provision(node["uuid"], "provide")
                return Again(SOON, "cleaning")
            case "clean failed" if not restart:
                return Failed(kind, await self._reason(node))
            case "clean failed":
                if node["maintenance"]:
                    await self._ironic.end_maintenance(node["uuid"])
                await self._ironic.provision(node["uuid"], "manage")
                return Again(SOON, "cleaning again")
            case "inspect failed":
                await self._ironic.provision(node["uuid"], "manage")
                return Again(SOON, busy=True)
            case "enroll":
                return await self._reregistered(host)
        return under_way(node)

    async def _deploy(self, host: HostAccess, node: Json, image: Image, config: ConfigDrive) -> Result:
        try:
            await self._tell_instance(host, node, image)
        except ValueError as error:
            return Failed(ErrorKind.PROVISIONING, str(error))
        checks = await self._ironic.validate(node["uuid"])
        for part in ("boot", "deploy"):
            if checks.get(part, {}).get("result") is False:
                return Failed(ErrorKind.PROVISIONING, explain(f"{part}: {checks[part].get('reason')}"))
        drive = config_drive(host, image, config)
        more: dict[str, Any] = {"configdrive": drive} if drive else {}
        if steps := deploy_steps(image):
            more["deploy_steps"] = steps
        await self._ironic.provision(node["uuid"], "active", **more)
        return Again(LATER, "starting to write the image")

    async def _tell_instance(self, host: HostAccess, node: Json, image: Image) -> None:
        """Raises ValueError for a root device hint that is none."""
        values: dict[str, Any] = {"instance_uuid": host.uid, "instance_info": instance_info(host, image)}
        if node.get("deploy_interface") != deploy_interface(image):
            values["deploy_interface"] = deploy_interface(image)
        await self._ironic.patch_node(node["uuid"], values)

    async def _keep_cleaning(self, host: HostAccess, node: Json) -> None:
        """Whether it is cleaned is what the host's record says, now."""
        if (node.get("automated_clean") is not False) != host.clean:
            await self._ironic.patch_node(node["uuid"], {"automated_clean": host.clean})

    async def _reason(self, node: Json) -> str:
        return explain(reason(node, "" if node["last_error"] else await self._ironic.last_failure(node["uuid"])))

    async def _abort(self, node: Json) -> Result:
        """What waits for an agent that does not call is ended, so that it can begin anew."""
        await self._ironic.provision(node["uuid"], "abort")
        return Again(SOON, "stopping what was waited for", busy=True)
