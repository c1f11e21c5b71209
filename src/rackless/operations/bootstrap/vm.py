"""Making and deleting the VM of a bootstrap machine: a short process inside the lab's namespaces, where the lab's libvirt is.

It is started by `operations/install/cluster.py` with a file that says all it needs, and answers with one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rackless.cluster.bootstrap import vm
from rackless.drivers import open_drivers
from rackless.errors import RacklessError
from rackless.lab.accounts import observe_accounts
from rackless.ports.drivers import Drivers


@dataclass(frozen=True, slots=True)
class VmSetting:
    action: str
    """`ensure` or `retire`."""
    infrastructure: str
    state: str
    """The lab's state folder: which user QEMU runs as depends on it."""
    folder: str
    console_log: str
    shown: dict[str, str]
    """For each folder of the lab, its path as QEMU sees it."""
    bridges: tuple[tuple[str, str], ...] = ()
    image: str = ""
    config: str = ""
    """A file with the Ignition config."""
    kvm: bool = False

    def dump(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    setting = VmSetting(**json.loads(Path(sys.argv[1]).read_text()))
    try:
        answer = asyncio.run(carry_out(setting, open_drivers()))
    except RacklessError as error:
        sys.stdout.write(json.dumps({"failed": error.what, "why": error.why, "hint": error.hint}) + "\n")
        sys.exit(error.exit_code)
    sys.stdout.write(json.dumps(answer) + "\n")


async def carry_out(setting: VmSetting, drivers: Drivers) -> dict[str, bool]:
    log: Callable[[str], Path] = lambda name: Path(setting.console_log)  # noqa: E731
    shown = {Path(ours): Path(theirs) for ours, theirs in setting.shown.items()}
    metal = drivers.open_metal(log, kvm=setting.kvm, shown=shown)
    try:
        folder = Path(setting.folder)
        if setting.action == "retire":
            return {"changed": await vm.retire(setting.infrastructure, folder, metal.hypervisor)}
        accounts = observe_accounts(kvm_closed=setting.kvm and not drivers.computer.kvm_open())
        name = vm.name_of(setting.infrastructure)
        wanted = vm.BootstrapVm(
            setting.infrastructure,
            vm.bridges_to_nics(setting.bridges),
            folder,
            Path(setting.console_log),
            Path(setting.image),
            accounts.of_server(Path(setting.state), name),
        )
        config = Path(setting.config).read_text()
        return {"changed": await vm.ensure(wanted, config, metal.hypervisor, drivers.processes)}
    finally:
        await metal.close()


if __name__ == "__main__":
    main()
