"""An Ironic that is not the lab's: started by a test, inside the lab's networks or beside them, until it is told to end.

`python -m tests.real.other_ironic FOLDER ADDRESS PORT [agent]`; says `ready` when it answers. With `agent` servers boot the real
deploy image of the cache, else nothing that boots.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from ipaddress import IPv4Address
from pathlib import Path

from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.environment import current_environment
from rackless.drivers.ironic.service import IronicService
from rackless.drivers.process import LocalProcesses
from rackless.events import Bus
from rackless.images.catalogue import DeployImage, ensure_deploy_image
from rackless.lab.files import FileServer
from rackless.run.paths import Roots
from tests.drivers.ironic.certificates import write_certificates

USERNAME, PASSWORD = "theirs", "their password"
FILES_PORT = 6181


def make_config(folder: Path, address: str, port: int, image: DeployImage | None) -> IronicConfig:
    ca, certificate, key = folder / "ca.crt", folder / "server.crt", folder / "server.key"
    if not ca.exists():
        write_certificates(folder, address)
    names = ("kernel", "ramdisk", "esp.img")
    kernel, ramdisk, esp = (image.kernel, image.initramfs, image.esp) if image else (folder / name for name in names)
    for file in () if image else (kernel, ramdisk, esp):
        file.write_bytes(os.urandom(1000))
    return IronicConfig(
        state=folder / "ironic",
        address=IPv4Address(address),
        certificate=certificate,
        key=key,
        ca=ca,
        username=USERNAME,
        password=PASSWORD,
        http_url=f"http://{address}:{FILES_PORT}",
        http_root=folder / "http",
        kernel=kernel,
        ramdisk=ramdisk,
        esp=esp,
        port=port,
    )


async def main(folder: Path, address: str, port: int, agent: bool) -> None:
    processes, roots = LocalProcesses(), Roots.from_environment()
    venv = await current_environment(roots.cache, processes)
    image = await ensure_deploy_image(roots.images, processes, Bus()) if agent else None
    service = IronicService(make_config(folder, address, port, image), venv, processes)
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    await service.start()
    files = FileServer(folder / "http", address, port=FILES_PORT)
    await files.start()
    try:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await ending.wait()
    finally:
        await files.stop()
        await service.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), "agent" in sys.argv[4:]))
