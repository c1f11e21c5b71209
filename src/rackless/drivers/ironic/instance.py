"""What Ironic is told about the system a host should have: the image and the config drive. Pure."""

from __future__ import annotations

from typing import Any

from rackless.drivers.ironic.client import Json
from rackless.drivers.ironic.root_device import root_device
from rackless.ports.provisioner import ConfigDrive, HostAccess, Image

LIVE_ISO = "live-iso"


def deploy_interface(image: Image) -> str:
    """A live ISO is booted where it is; everything else is written by the agent, in its own way where one is named."""
    if image.method:
        return "custom-agent"
    return "ramdisk" if image.format == LIVE_ISO else "direct"


def instance_info(host: HostAccess, image: Image) -> dict[str, Any]:
    """Raises ValueError for a root device hint that is none."""
    mode = "bios" if host.boot_mode == "legacy" else "uefi"
    if image.format == LIVE_ISO:
        return {"boot_iso": image.url, "capabilities": {"boot_mode": mode}}
    if image.method and not image.url:
        return {
            "custom_deploy": image.method,
            "capabilities": {"boot_mode": mode},
            **({"root_device": root_device(host.root_device)} if host.root_device else {}),
        }
    checksum = (
        {"image_checksum": image.checksum}
        if image.checksum_type in ("", "auto")
        else {"image_os_hash_algo": image.checksum_type, "image_os_hash_value": image.checksum}
    )
    return {
        "image_source": image.url,
        "image_type": "whole-disk",
        # Without it a raw image is taken for something that qemu-img should know.
        "image_disk_format": image.format,
        "capabilities": {"boot_mode": mode},
        **({"root_device": root_device(host.root_device)} if host.root_device else {}),
        **checksum,
        **({"custom_deploy": image.method} if image.method else {}),
    }


def deploy_steps(image: Image) -> list[dict[str, Any]]:
    """The agent's own step, where one is named; else Ironic's, which need no naming."""
    if not image.method:
        return []
    return [{"interface": "deploy", "step": image.method, "priority": 80, "args": {}}]


def holds(node: Json, image: Image) -> bool:
    """Whether this is the image the node was last told to have."""
    info = node["instance_info"]
    if (info.get("custom_deploy") or "") != image.method:
        return False
    if image.method and not image.url:
        return not info.get("image_source")
    if image.format == LIVE_ISO:
        return bool(info.get("boot_iso") == image.url)
    checksum = info.get("image_os_hash_value") or info.get("image_checksum")
    return (info.get("image_source"), checksum) == (image.url, image.checksum)


def config_drive(host: HostAccess, image: Image, config: ConfigDrive) -> dict[str, Any] | None:
    """None for a live ISO that nothing is to be handed to: it has no disk to put a config drive on."""
    if image.format == LIVE_ISO and not (config.user_data or config.network_data or config.meta_data):
        return None
    own = {
        "uuid": host.uid,
        "metal3-name": host.name,
        "name": host.name,
        "hostname": host.name,
        "local-hostname": host.name,
        "local_hostname": host.name,
    }
    drive: dict[str, Any] = {"meta_data": {**own, **config.meta_data}, "user_data": config.user_data}
    if config.network_data is not None:
        drive["network_data"] = dict(config.network_data)
    return drive
