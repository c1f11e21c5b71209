"""`rackless install gather bootstrap`: logs and objects of a bootstrap machine that failed, in one archive.

The console log is read from a file; journal and Ironic's log come over ssh, objects from the bootstrap's API. What could not be
had is listed in `absent.json`. No Secret goes in, and the install's passwords are blotted out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rackless.cluster.bootstrap import vm
from rackless.cluster.bootstrap.following import MACHINE_API
from rackless.cluster.reference.keys import Keys
from rackless.errors import RacklessError
from rackless.operations.access import USER, inside_command
from rackless.operations.archives import as_json, blot, end_of, pack
from rackless.operations.install import assets
from rackless.operations.install.cluster import InstallFolder, load_folder, open_api
from rackless.operations.lab_registry import READING, require_lab, require_root
from rackless.ports.drivers import Drivers
from rackless.ports.resources import Resources
from rackless.run.paths import LabPaths, Roots

SSH_WITHIN = 60.0
QUESTIONS = {
    "journal.txt": "sudo -n journalctl -b --no-pager -o short-monotonic",
    "units.txt": "systemctl list-units --all --plain --no-pager",
    "ironic.log": "sudo -n tail -c 5000000 /var/lib/rackless/metal3/ironic.log",
    "addresses.txt": "ip address; ip route",
    "disks.txt": "df -h; free -m",
}
"""What the machine is asked over ssh."""
KINDS = (
    ("BareMetalHost", MACHINE_API), ("Machine", MACHINE_API), ("MachineSet", MACHINE_API), ("Lease", MACHINE_API),
    ("Event", MACHINE_API), ("ConfigMap", "kube-system"), ("Node", None), ("CertificateSigningRequest", None),
)  # fmt: skip


async def gather_bootstrap(
    folder: Path, lab: str | None, output: Path, key: Path | None, roots: Roots, drivers: Drivers
) -> dict[str, Any]:
    require_root("read a lab's logs", drivers.computer, why=READING)
    found = load_folder(folder)
    paths = require_lab(lab or found.cluster, roots)
    files: dict[str, bytes] = {}
    absent: dict[str, str] = {}
    for path in _consoles(found, paths):
        files[f"console/{path.name}"] = end_of(path)
    if (log := folder / assets.LOG).exists():
        files["install.log"] = end_of(log)
    await _ask_machine(found, paths, key, drivers, files, absent)
    try:
        async with open_api(found, paths, drivers) as api:
            await _ask_api(api, files, absent)
    except RacklessError as error:
        absent["objects"] = str(error)
    files["absent.json"] = as_json(absent)
    secrets = [text.encode() for text in _secrets(folder)]
    pack(output, f"bootstrap-{found.infrastructure}", {name: blot(data, secrets) for name, data in files.items()})
    return {"file": str(output), "files": len(files), "absent": absent, "bytes": output.stat().st_size}


def _consoles(found: InstallFolder, paths: LabPaths) -> Iterator[Path]:
    own = paths.console(vm.name_of(found.infrastructure))
    yield from sorted(path for path in own.parent.glob("*") if path.is_file())


def _secrets(folder: Path) -> Iterator[str]:
    config = assets.load_install_config(folder)
    yield from {host.bmc_password for host in config.hosts if host.bmc_password}
    yield from (text for text in (config.text("pullSecret"),) if text)


async def _ask_machine(
    found: InstallFolder,
    paths: LabPaths,
    key: Path | None,
    drivers: Drivers,
    files: dict[str, bytes],
    absent: dict[str, str],
) -> None:
    identity = key or Keys(paths.cluster_keys).admin
    if not identity.exists():
        absent["machine"] = f"there is no ssh key {identity}"
        return
    options = {"IdentityFile": identity, "IdentitiesOnly": "yes", "UserKnownHostsFile": "/dev/null", "BatchMode": "yes",
               "StrictHostKeyChecking": "no", "LogLevel": "ERROR", "ConnectTimeout": "10"}  # fmt: skip
    words = ["ssh", "-F", "none", *(f"-o{name}={value}" for name, value in options.items())]
    config = assets.load_install_config(found.folder)
    target = f"{USER}@bootstrap.{config.name}.{config.base_domain}"
    for name, question in QUESTIONS.items():
        command = inside_command(paths.name, [*words, target, "--", question], paths.roots, drivers)
        try:
            done = await drivers.processes.run(command, check=False, within=SSH_WITHIN)
        except RacklessError as error:
            absent["machine"] = str(error)
            return
        if done.code == 255:  # ssh's own: the machine did not answer
            absent["machine"] = done.stderr.strip()[-500:]
            return
        files[f"machine/{name}"] = (done.stdout + done.stderr).encode()


async def _ask_api(api: Resources, files: dict[str, bytes], absent: dict[str, str]) -> None:
    for kind, namespace in KINDS:
        try:
            files[f"objects/{kind}.json"] = as_json(await api.list(kind, namespace=namespace))
        except RacklessError as error:
            absent[f"objects/{kind}"] = str(error)
