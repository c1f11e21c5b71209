"""The config drive of a new system (user data, network data, metadata), from the Secrets that a host names."""

from __future__ import annotations

from typing import Any

import yaml

from rackless.ports.provisioner import ConfigDrive, ErrorKind, Failed
from rackless.ports.resources import Reader
from rackless.provisioning.baremetalhost import Host, secret_text
from rackless.yaml_weight import TooHeavy, load_weighed

NMSTATE = "nmstate"
"""The key of OpenShift's own format, which is made for its own ramdisk."""
MOST_BYTES, MOST_NODES = 256 * 1024, 20_000
"""Limits of network data and metadata, with YAML aliases expanded: somebody who may write a Secret must not be able to stop the
provisioning of other hosts."""


async def config_drive(resources: Reader, host: Host) -> ConfigDrive | Failed:
    try:
        user_data = await _text(resources, host.spec.user_data_name, "userData")
        meta_data = await _mapping(resources, host.spec.meta_data_name, "metaData")
        network_data = await _mapping(resources, host.spec.network_data_name, "networkData")
        if network_data is None:  # the system is told what the ramdisk was told, unless it is told something else
            network_data = await agent_network(resources, host)
    except ValueError as error:
        return Failed(ErrorKind.PROVISIONING, str(error))
    return ConfigDrive(user_data or "", meta_data or {}, network_data)


async def agent_network(resources: Reader, host: Host) -> dict[str, Any] | None:
    """The addresses of the deploy ramdisk; None where DHCP gives them. Raises ValueError."""
    name = host.spec.agent_network_name
    record = await resources.get("Secret", name) if name else None
    if record is not None and NMSTATE in (record.get("data") or {}):
        return None  # for the image of an installer that reads it; ours asks DHCP
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
