"""What a host's way is told as in Kubernetes Events: Metal3's words for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rackless.controllers.runtime.controller import Happened
from rackless.ports.provisioner import Failed, HostAccess
from rackless.provisioning.baremetalhost import Host, State, Status
from rackless.provisioning.credentials import NoCredentials
from rackless.provisioning.settle import camel
from rackless.provisioning.states import Move, Stay

REASONS: Mapping[tuple[State, State], str] = {
    (State.NONE, State.UNMANAGED): "Discovered",
    (State.REGISTERING, State.INSPECTING): "Registered",
    (State.REGISTERING, State.PREPARING): "InspectionSkipped",
    (State.REGISTERING, State.EXTERNALLY_PROVISIONED): "Registered",
    (State.INSPECTING, State.PREPARING): "InspectionComplete",
    (State.AVAILABLE, State.INSPECTING): "InspectionStarted",
    (State.AVAILABLE, State.PROVISIONING): "ProvisioningStarted",
    (State.PROVISIONING, State.PROVISIONED): "ProvisioningComplete",
    (State.PROVISIONING, State.DEPROVISIONING): "DeprovisioningStarted",
    (State.PROVISIONED, State.DEPROVISIONING): "DeprovisioningStarted",
    (State.DEPROVISIONING, State.AVAILABLE): "DeprovisioningComplete",
    (State.DEPROVISIONING, State.POWERING_OFF): "DeprovisioningComplete",
}
"""What Metal3 calls a change of state in an Event; of one that it does not tell, the new state is the reason."""


def changed(before: Status, after: Status, outcome: Stay | Move | Failed) -> tuple[Happened, ...]:
    if isinstance(outcome, Failed):
        reason = "BMCCredentialError" if isinstance(outcome, NoCredentials) else camel(outcome.kind.value)
        return (Happened(reason, outcome.message, "Warning"),)
    if after.state is not before.state:
        reason = REASONS.get((before.state, after.state)) or camel(after.state.value)
        return (Happened(reason, f"from {before.state.value or 'new'} to {after.state.value}"),)
    return ()


def switched(before: Status, after: Status) -> tuple[Happened, ...]:
    """A host that rests was switched on or off; in other states that is a part of the work."""
    if after.powered_on == before.powered_on:
        return ()
    return (Happened("PowerOn", "Host powered on") if after.powered_on else Happened("PowerOff", "Host powered off"),)


def let_in(before: Status, after: Status) -> tuple[Happened, ...]:
    """Its BMC took credentials that were changed."""
    if not before.good_credentials or after.good_credentials == before.good_credentials:
        return ()
    return (Happened("BMCAccessValidated", "Verified access to BMC"),)


def unused(host: Host, outcome: Stay | Move | Failed, access: tuple[HostAccess, str] | None) -> tuple[Happened, ...]:
    """Addresses that were given in a way that the deploy ramdisk does not read."""
    if not isinstance(outcome, Move) or host.status.state is not State.REGISTERING or not host.spec.agent_network_name:
        return ()
    if access is None or access[0].network is not None:
        return ()
    name = host.spec.agent_network_name
    why = f"secret {name} has nmstate, and the deploy ramdisk asks DHCP: it is told addresses of NICs by virtual media only"
    return (Happened("NetworkDataNotUsed", why, "Warning"),)
