from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHDcHGSRzTJ/jkCaq/0plLMwaXHkQ5xzSVmDU4b1jCVx user@example"


def host(name: str, number: int, role: str, more: str = "") -> str:
    return f"""\
    - name: {name}
      role: {role}
      bootMACAddress: 02:00:00:aa:bb:{number:02x}
{more}      bmc:
        address: redfish-virtualmedia://192.168.111.{20 + number}/redfish/v1/Systems/1
        username: admin
        password: hunter2-{number}
"""


def install_config(masters: int = 3, workers: int = 2, *, more: str = "", hosts: str = "", top: str = "") -> str:
    listed = "".join(host(f"master-{i}", i, "master") for i in range(masters))
    listed += "".join(host(f"worker-{i}", 10 + i, "worker") for i in range(workers))
    return f"""\
apiVersion: v1
baseDomain: example.com
metadata:
  name: ostest
networking:
  machineNetwork:
  - cidr: 192.168.111.0/24
compute:
- name: worker
  replicas: {workers}
controlPlane:
  name: master
  replicas: {masters}
platform:
  baremetal:
    apiVIPs: [192.168.111.5]
    ingressVIPs: [192.168.111.4]
{more}    provisioningNetwork: Disabled
    hosts:
{listed}{hosts}{top}pullSecret: '{{"auths":{{"registry.example.com":{{"auth":"aHVudGVyMzpodW50ZXIz"}}}}}}'
sshKey: {SSH_KEY}
"""


@pytest.fixture
def site(tmp_path: Path) -> Callable[..., Path]:
    """A folder with an install-config of so many masters and workers."""

    def make(masters: int = 3, workers: int = 2, **more: str) -> Path:
        folder = tmp_path / "site"
        folder.mkdir(exist_ok=True)
        (folder / "install-config.yaml").write_text(install_config(masters, workers, **more))
        return folder

    return make
