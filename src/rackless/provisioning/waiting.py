"""Waiting for hosts: until all are in the wanted state, or one of them has failed too often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from rackless.errors import GaveUp, LabError, ProvisioningFailed
from rackless.ports.resources import Resources
from rackless.provisioning.baremetalhost import KIND, RETRY, BadRecord, Host, State, read


async def until_state(
    resources: Resources,
    names: Collection[str],
    state: str = State.PROVISIONED,
    *,
    retries: int = 1,
    within: float | None = None,
) -> None:
    """Return when all these hosts are in `state`.

    Raises ProvisioningFailed when one has failed more than `retries` times in a row, GaveUp after `within` seconds.
    """
    waiting = {name: "not there yet" for name in names}
    try:
        async with asyncio.timeout(within):
            await _watch(resources, waiting, State(state), retries)
    except TimeoutError as error:
        last = ", ".join(f"{name} is {what}" for name, what in sorted(waiting.items()))
        raise GaveUp(f"hosts to be {state}", within or 0.0, last) from error


async def until_host(
    resources: Resources,
    name: str,
    reached: Callable[[Host], bool],
    *,
    what: str,
    within: float,
    wanted: Callable[[Host], bool] = lambda _: True,
) -> Host:
    """The host, when it is as wanted; `what` says that in words.

    Raises ProvisioningFailed at its next failure, LabError when its record does not ask for that any more (`wanted`), GaveUp after
    `within` seconds. A failure from before does not count,
    when a retry was asked for: it is forgotten with the answer.
    """
    last = "not there"
    try:
        async with asyncio.timeout(within):
            async for event in resources.watch(KIND):
                if event.record["metadata"]["name"] != name:
                    continue
                if event.type == "DELETED":
                    raise LabError(f"the host {name} was deleted meanwhile")
                host = read(event.record)
                if reached(host):
                    return host
                last = host.status.state.value or "new"
                if not wanted(host):
                    raise LabError(
                        f"host {name} is not to be {what} any more",
                        why=f"its Machine gave it back, or somebody changed its record meanwhile; it is {last}",
                        hint=f"`rackless host show {name}` tells what is wanted of it now",
                    )
                if RETRY not in host.annotations and host.status.error_count > 0:
                    _check(host, retries=0)
    except TimeoutError as error:
        raise GaveUp(f"host {name} to be {what}", within, last) from error
    raise AssertionError("a watch has no end")


async def _watch(resources: Resources, waiting: dict[str, str], state: State, retries: int) -> None:
    if not waiting:
        return
    async for event in resources.watch(KIND):
        name = event.record["metadata"]["name"]
        if name not in waiting or event.type == "DELETED":
            continue
        try:
            host = read(event.record)
        except BadRecord as error:
            waiting[name] = f"unreadable ({error})"
            continue
        if host.status.state is state and host.status.error_type is None:
            del waiting[name]
            if not waiting:
                return
        else:
            waiting[name] = host.status.state.value or "new"
            _check(host, retries)


def _check(host: Host, retries: int) -> None:
    status = host.status
    failures = max(status.error_count, status.provisioning_fail_count + 1)
    if status.error_type is None or failures <= retries:
        return
    raise ProvisioningFailed(
        f"host {host.name} failed while {status.state.value}",
        why=f"{status.error_type.value}: {status.error_message}",
        hint=f"`rackless host show {host.name}` tells its whole story; it is tried again as long as the lab is up",
    )
