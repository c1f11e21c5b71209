"""Which system is put on hosts. Pure."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit, urlunsplit

from rackless.installer.assets.manifests.objects import Json
from rackless.installer.assets.release import NODE, Release
from rackless.installer.install_config.config import Config

METHOD = "install_coreos"
"""The deploy step of OpenShift's ramdisk, which brings the system along: what the installer writes when no image is named."""


def os_image(config: Config, release: Release) -> Json | None:
    """`clusterOSImage: http://…/node.qcow2?sha256=…` as hosts and machines name it, else the release's; None where neither names
    one."""
    assert config.metal is not None
    given = config.metal.images.get("clusterOSImage")
    if not given:
        node = release.get(NODE)
        return {"url": node.url, "checksum": node.sha256, "checksumType": "sha256"} if node is not None else None
    parts = urlsplit(given)
    (checksum,) = parse_qs(parts.query)["sha256"]  # the rules of an install-config ask for it
    return {"url": urlunsplit(parts._replace(query="")), "checksum": checksum, "checksumType": "sha256"}
