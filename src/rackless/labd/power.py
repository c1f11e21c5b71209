"""Power of a lab's servers (on, off, reset, shutdown): through their BMCs where those run, through libvirt where not."""

from __future__ import annotations

from dataclasses import dataclass

from rackless.bmc.core.power import Reset
from rackless.errors import LabError
from rackless.labd.bmcs import LabBmcs
from rackless.labd.hosts import LabHosts
from rackless.labd.report import describe_power
from rackless.ports.hypervisor import Hypervisor, Power, Unreachable
from rackless.protocol.messages import PowerAction, PowerState


@dataclass(frozen=True, slots=True)
class LabPower:
    hypervisor: Hypervisor
    bmcs: LabBmcs
    hosts: LabHosts

    async def press(self, name: str, action: PowerAction) -> PowerState:
        """Press the power button of one server. A provisioned host's record is changed too, or its controller would undo it."""
        if action in ("on", "off", "shutdown"):
            await self.hosts.keep_power(name, online=action == "on")
        match action:
            case "on":
                await self._switch_on(name)
            case "off":
                await self.hypervisor.power_off(name)
            case "shutdown":
                await self.hypervisor.shut_down(name)
            case "cycle":
                await self.hypervisor.power_off(name)
                await self._switch_on(name)
            case "reset" | "nmi":
                await self._require_on(name, action)
                if action == "nmi":
                    await self.hypervisor.interrupt(name)
                elif not await self.bmcs.press(name, Reset.FORCE_RESTART):
                    await self.hypervisor.reset(name)
        state = await self.hypervisor.observe(name)
        return PowerState(name, state.power.value if state is not None else None)

    async def _switch_on(self, name: str) -> None:
        if not await self.bmcs.press(name, Reset.ON):
            await self.hypervisor.power_on(name)

    async def _require_on(self, name: str, action: PowerAction) -> None:
        state = await self.hypervisor.observe(name)
        if state is None or state.power is not Power.ON:
            raise LabError(f"{name} is off, and {action} is for one that is on", hint=f"`rackless power {name} on`")

    async def observe(self) -> dict[str, str | None]:
        """The power state of each server from the BMCs, which also know which servers wait for their turn to start; without BMCs,
        from libvirt."""
        if bmcs := self.bmcs.observe():
            return {name: describe_power(bmc) for name, bmc in bmcs.items()}
        try:
            return {state.name: state.power.value for state in await self.hypervisor.servers()}
        except Unreachable:
            return {}
