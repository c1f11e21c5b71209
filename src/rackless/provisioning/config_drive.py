"""The config drive of a new system (user data, network data, metadata), from the Secrets that a host names."""

from __future__ import annotations

from typing import Any

import yaml

from rackless.ports.provisioner import ConfigDrive, ErrorKind, Failed
from rackless.ports.resources import Reader
from rackless.provisioning.baremetalhost import Host, secret_text
from rackless.provisioning.nmstate import to_network_data
from rackless.yaml_weight import TooHeavy, load_weighed

NMSTATE = "nmstate"
"""The key of OpenShift's own format."""
MOST_BYTES, MOST_NODES = 256 * 1024, 20_000
"""Limits of network data and metadata, with YAML aliases expanded: somebody who may write a Secret must not be able to stop the
provisioning of other hosts."""


async def config_drive(resources: Reader, host: Host) -> ConfigDrive | Failed:
    try:
        user_data = await _text(resources, host.spec.user_data_name, "userData")
        meta_data = await _mapping(resources, host.spec.meta_data_name, "metaData")
        network_data = await _mapping(resources, host.spec.network_data_name, "networkData")
        if network_data is None:  # the system is told what the ramdisk was told, unless it is told something else
            network_data = await _addresses(resources, host)
    except ValueError as error:
        return Failed(ErrorKind.PROVISIONING, str(error))
    return ConfigDrive(user_data or "", meta_data or {}, network_data)


async def agent_network(resources: Reader, host: Host) -> dict[str, Any] | None:
    """The addresses of the deploy ramdisk; None where DHCP gives them, as it does where that is booted over the network. Raises
    ValueError."""
    if not _boots_by_media(host) and await _has_nmstate(resources, host):
        return None  # an installer writes it for the system; networkData is for the ramdisk, and refused where it cannot be told
    return await _addresses(resources, host)


def _boots_by_media(host: Host) -> bool:
    return host.spec.bmc_address.partition("://")[0].partition("+")[0].endswith("virtualmedia")


async def _has_nmstate(resources: Reader, host: Host) -> bool:
    name = host.spec.agent_network_name
    record = await resources.get("Secret", name) if name else None
    return record is not None and NMSTATE in (record.get("data") or {})


async def _addresses(resources: Reader, host: Host) -> dict[str, Any] | None:
    """None where none are told, or in a way that is not read here."""
    name = host.spec.agent_network_name
    if await _has_nmstate(resources, host):
        told = await _mapping(resources, name, NMSTATE)
        only = (
            host.spec.boot_mac if _boots_by_media(host) else ""
        )  # else it boots from another NIC than the one with addresses
        return to_network_data(told, only) if told is not None else None
    return await _mapping(resources, name, "networkData")


async def _text(resources: Reader, name: str, key: str) -> str | None:
    if not name:
        return None
    record = await resources.get("Secret", name)
    if record is None:
        raise ValueError(f"secret {name} with the {key} is not there")
    text = secret_text(record, key, "value")
    if text is None:
        raise ValueError(f"secret {name} has neither {key} nor value")
    return text


async def _mapping(resources: Reader, name: str, key: str) -> dict[str, Any] | None:
    text = await _text(resources, name, key)
    if text is None:
        return None
    try:
        value = load_weighed(text, most_nodes=MOST_NODES, most_bytes=MOST_BYTES)
    except TooHeavy as error:
        raise ValueError(f"{key} in secret {name} is too much: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{key} in secret {name} is not YAML") from error
    if not isinstance(value, dict):
        raise ValueError(f"{key} in secret {name} is not a mapping")
    return value
