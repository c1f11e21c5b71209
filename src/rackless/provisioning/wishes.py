"""`rackless host …`: what a person asks of one host, as a change of its BareMetalHost; the controller carries it out.

Every wish first checks whether the host is in a state for it. A host that has failed before is retried at once, with its failures
forgotten. Writes carry the resourceVersion that was read: on a conflict the wish is checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rackless.errors import LabError
from rackless.ports.provisioner import Image
from rackless.ports.resources import Conflict, Record, Resources
from rackless.provisioning.baremetalhost import (
    BY_HAND,
    CLEAN,
    INSPECT,
    KIND,
    NOT_TAKEN,
    PAUSED,
    RETRY,
    Host,
    State,
    System,
    image_record,
    own_user_data,
    read,
    secret,
)
from rackless.provisioning.states import replaces
from rackless.provisioning.waiting import until_host

WITHIN = 3600.0
TRIES = 20
BEFORE_AVAILABLE = (State.NONE, State.REGISTERING, State.INSPECTING, State.PREPARING)
RESTS = (State.AVAILABLE, State.EXTERNALLY_PROVISIONED, State.UNMANAGED)


@dataclass(frozen=True, slots=True)
class Goal:
    """The state that a wish leads to, in words and as a predicate."""

    what: str
    reached: Callable[[Host], bool]
    wanted: Callable[[Host], bool] = lambda _: True
    """Whether the record still asks for it: others write there, too."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The result of a wish."""

    host: str
    changed: bool
    """False when the host was already as wished."""
    state: str


Change = Callable[[Record, Host], bool]
"""Changes the record to what is wanted; False when nothing needs to change. Raises LabError in a wrong state."""


class HostWishes:
    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    async def inspect(self, name: str, *, wait: bool) -> Granted:
        return await self._annotate(name, INSPECT, "inspected", wait=wait)

    async def clean(self, name: str, *, wait: bool) -> Granted:
        return await self._annotate(name, CLEAN, "cleaned", wait=wait)

    async def take(self, name: str, *, wait: bool) -> Granted:
        """Let the lab use a real server (`metal:`): removes the pause. From then on it is rebooted, inspected and cleaned like
        any other host."""

        def change(record: Record, host: Host) -> bool:
            return lift(record)

        return await self._wish(name, change, Goal("available", _at_rest) if wait else None, untaken=True)

    async def retry(self, name: str, *, wait: bool) -> Granted:
        def change(record: Record, host: Host) -> bool:
            if host.status.error_type is None:
                raise LabError(f"host {name} has not failed", why=f"it is {_state(host)}")
            annotate(record, **{RETRY: ""})
            return True

        goal = Goal("where it should be, without an error", _at_rest)
        return await self._wish(name, change, goal if wait else None)

    async def provision(self, name: str, system: System, *, replace: bool, wait: bool) -> Granted:
        """Provision this image on the host, also while another one is being written."""

        def change(record: Record, host: Host) -> bool:
            user_data = {"name": own_user_data(name)} if system.user_data else None
            wanted = {"image": image_record(system.image), "userData": user_data, "online": True}
            spec = record["spec"]
            if {field: spec.get(field) for field in wanted} == wanted and host.status.error_type is None:
                return False
            _require_room(host, replace=replace)
            _require_other(host, system.image)
            spec.update(wanted)
            for field in [field for field, value in wanted.items() if value is None]:
                spec.pop(field)
            annotate(record, **{BY_HAND: "provision"})
            return True

        await self._require(name)
        if system.user_data:
            await self._resources.apply(secret(own_user_data(name), {"userData": system.user_data}))
        image = system.image
        goal = Goal(
            "provisioned",
            lambda host: host.status.state is State.PROVISIONED and host.status.image == image,
            lambda host: host.spec.image == image,
        )
        return await self._wish(name, change, goal if wait else None)

    async def deprovision(self, name: str, *, wait: bool) -> Granted:
        """Deprovision the host, also one that was provisioned externally."""

        def change(record: Record, host: Host) -> bool:
            spec = record["spec"]
            theirs = bool(spec.pop("externallyProvisioned", False))
            had = [spec.pop(field, None) for field in ("image", "userData")]
            marked = (record["metadata"].get("annotations") or {}).pop(BY_HAND, None)
            if theirs:  # the engine has never written it, so that taking it back would not clean it
                annotate(record, **{CLEAN: ""})
            return theirs or any(had) or marked is not None

        def reached(host: Host) -> bool:
            return host.status.state is State.AVAILABLE and host.status.image is None and CLEAN not in host.annotations

        return await self._wish(name, change, Goal("available", reached) if wait else None)

    async def adopt(self, name: str, image: Image | None, *, wait: bool) -> Granted:
        """Adopt the host as provisioned, without writing its disk: with this image, or with an unknown system (externally
        provisioned)."""

        def theirs(record: Record, host: Host) -> bool:
            spec, state = record["spec"], host.status.state
            if spec.get("externallyProvisioned") and spec["online"]:
                return False
            if state not in (State.NONE, State.REGISTERING, State.AVAILABLE, State.EXTERNALLY_PROVISIONED):
                raise LabError(
                    f"host {name} cannot be adopted while it is {_state(host)}",
                    why="only a host that nobody is working on and that has no system of ours can be taken as it is",
                    hint=f"`rackless host show {name}` tells where it is",
                )
            spec.update(externallyProvisioned=True, online=True)
            spec.pop("image", None)
            lift(record)  # it stays as it is, so that nothing is lost by that
            annotate(record, **{BY_HAND: "adopt"})
            return True

        def ours(record: Record, _: Host) -> bool:
            assert image is not None
            record["spec"].pop("externallyProvisioned", None)
            record["spec"]["image"] = image_record(image)
            return True

        external = Goal("externally provisioned", lambda host: host.status.state is State.EXTERNALLY_PROVISIONED)
        if image is None:
            return await self._wish(name, theirs, external if wait else None, untaken=True)
        if _runs(await self._require(name), image):
            return Granted(name, False, State.PROVISIONED.value)
        await self._wish(name, theirs, external, untaken=True)
        provisioned = Goal("provisioned", lambda host: _runs(host, image))
        return await self._wish(name, ours, provisioned if wait else None)

    async def _annotate(self, name: str, wish: str, done: str, *, wait: bool) -> Granted:
        def change(record: Record, host: Host) -> bool:
            if host.status.state is not State.AVAILABLE:
                raise LabError(
                    f"host {name} is {_state(host)}, and only an available one can be {done}",
                    why="a system that is on it would be lost" if host.status.image else "it is not at rest",
                    hint=f"`rackless host deprovision {name}` takes its system off first"
                    if host.status.image
                    else f"`rackless host show {name}` tells what it is at",
                )
            annotate(record, **{wish: ""})
            return True

        def reached(host: Host) -> bool:
            return wish not in host.annotations and _at_rest(host)

        return await self._wish(name, change, Goal(done, reached) if wait else None)

    async def _wish(self, name: str, change: Change, goal: Goal | None, *, untaken: bool = False) -> Granted:
        """`untaken`: also of a host that nobody has let the lab have yet."""

        def allowed(record: Record, host: Host) -> bool:
            if not untaken and host.annotations.get(PAUSED) == NOT_TAKEN:
                raise LabError(
                    f"nobody has said that the lab may have {name}",
                    why="it is metal that somebody may be using: it would be restarted, and its disks would be cleaned",
                    hint=f"`rackless host take {name}` says so; `rackless host adopt {name}` leaves on it what is on it",
                )
            return change(record, host)

        changed = await self._change(name, allowed)
        host = await self._require(name)
        if goal is not None:
            host = await until_host(
                self._resources, name, goal.reached, what=goal.what, within=WITHIN, wanted=goal.wanted
            )
        return Granted(name, changed, host.status.state.value)

    async def _change(self, name: str, change: Change) -> bool:
        for _ in range(TRIES):
            record = await self._resources.get(KIND, name)
            if record is None:
                raise _unknown(name)
            host = read(record)
            if host.deleting:
                raise LabError(f"host {name} is being deleted", why=f"it is {_state(host)}")
            if not change(record, host):
                return False
            if host.status.error_type is not None:
                annotate(record, **{RETRY: ""})
            try:
                await self._resources.apply(record)
            except Conflict:  # the controller wrote meanwhile: look again
                continue
            return True
        raise LabError(f"the record of host {name} changes all the time", hint="try again")

    async def _require(self, name: str) -> Host:
        record = await self._resources.get(KIND, name)
        if record is None:
            raise _unknown(name)
        return read(record)


def lift(record: Record) -> bool:
    """Take away the pause of a host that nobody had let the lab have; False when there is none."""
    annotations = record["metadata"].get("annotations") or {}
    if annotations.get(PAUSED) != NOT_TAKEN:
        return False
    del annotations[PAUSED]
    return True


def annotate(record: Record, **annotations: str) -> None:
    record["metadata"]["annotations"] = {**(record["metadata"].get("annotations") or {}), **annotations}


def _require_room(host: Host, *, replace: bool) -> None:
    state = host.status.state
    if state in (*BEFORE_AVAILABLE, State.AVAILABLE, State.DEPROVISIONING):
        return
    if state in (State.PROVISIONING, State.PROVISIONED) and replace:
        return
    hints: Mapping[State, str] = {
        State.PROVISIONED: "--replace takes off what is there and writes the new one",
        State.PROVISIONING: "--replace stops that and writes the new one",
        State.EXTERNALLY_PROVISIONED: f"`rackless host deprovision {host.name}` first",
    }
    raise LabError(
        f"host {host.name} is {_state(host)}, and would lose what is on it",
        hint=hints.get(state, "wait until it rests"),
    )


def _require_other(host: Host, image: Image) -> None:
    """Metal3 tells systems apart by their URLs: the same one is not written again because its checksum is another."""
    there, state = host.status.image, host.status.state
    installed = state is State.PROVISIONED or (state is State.PROVISIONING and host.status.error_type is None)
    if installed and there is not None and there != image and not replaces(image, there):
        raise LabError(
            f"host {host.name} has the image of that URL on it",
            why="a checksum or a format that is another one does not make it another image",
            hint=f"`rackless host deprovision {host.name}` takes it off, and then it can be written again",
        )


def _runs(host: Host, image: Image) -> bool:
    return host.status.state is State.PROVISIONED and host.status.image == image and host.status.error_type is None


def _at_rest(host: Host) -> bool:
    """Whether the host is in the state that its spec wants, without an error."""
    wanted = State.PROVISIONED if host.spec.online and host.spec.image is not None else None
    return (
        host.status.error_type is None
        and RETRY not in host.annotations
        and (host.status.state is wanted if wanted else host.status.state in RESTS)
    )


def _state(host: Host) -> str:
    return host.status.state.value or "new"


def _unknown(name: str) -> LabError:
    return LabError(f"there is no host {name}", hint="`rackless host list` shows the hosts there are")
