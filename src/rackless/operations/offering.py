"""Files of this computer that a lab's file server is to offer.

Root, who can write into the lab's folder, places them there. The lab's owner reads them and sends what is in them: a file that
the owner cannot read is not offered.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from rackless.errors import InputError
from rackless.lab.user_images import UserImages, check_checksum, look_into
from rackless.protocol.client import ControlClient
from rackless.protocol.messages import ANY_FORMAT
from rackless.run.paths import LabPaths
from rackless.spec.images import ImageFormat, ImageSpec


async def offer(image: ImageSpec, paths: LabPaths) -> ImageSpec:
    """Returns the image by the name that the lab knows it by. Raises InputError for a file that cannot be read."""
    if os.access(paths.state, os.W_OK):
        await UserImages(paths).offer(image)
        return image
    path = Path(image.url)
    try:
        look_into(path, image.format)
        await asyncio.to_thread(check_checksum, path, image.checksum)
        with await asyncio.to_thread(path.open, "rb") as file:
            form = image.format.value if image.format is not None else ANY_FORMAT
            offered = await ControlClient(paths.socket).offer(file, form)
    except OSError as error:
        raise InputError(
            f"the image {path} cannot be read", why=error.strerror or str(error), hint="name a file or a URL"
        ) from error
    return image.model_copy(update={"url": offered.path, "format": ImageFormat(offered.format), "checksum": ""})
