"""A world of fakes in which this package's own programs run: the holder, labd and the API are coroutines of one loop.

Where `open_drivers` is for a computer, this is for none: unit tests, simulations and studies of scale.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from rackless.controllers.leader import Leader
from rackless.drivers import open_drivers
from rackless.drivers.fake.processes import FakeProcess, Program
from rackless.drivers.fake.world import FakeWorld, LoopClock
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.images import catalogue, wheel
from rackless.images.payload import PayloadImage
from rackless.lab.files import FOR_BMCS
from rackless.operations.uplink import PREFIX
from rackless.ports.api import Access, ApiConnection
from rackless.ports.clock import Clock
from rackless.ports.hypervisor import BootDevice, Power
from rackless.protocol import build
from rackless.run.paths import LabPaths, Roots
from rackless.simulation.api import Durable, ServedApi, open_objects


@dataclass
class SimulatedWorld(FakeWorld):
    """The API in it is our own, or, where nobody asks for that, records in memory."""

    own_api: bool = False
    served: ServedApi = field(init=False)
    files: dict[str, Durable] = field(default_factory=dict)
    """What is in the stores' files, by their place."""
    leaders: list[tuple[FakeProcess, Leader]] = field(default_factory=list)
    """Everybody who stood for election, and as which process."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.served = ServedApi(self.script)

    def _open_api(self, access: Access, *, patience: float, namespace: str | None = None) -> ApiConnection:
        if not self.own_api:
            return super()._open_api(access, patience=patience, namespace=namespace)
        network = self.processes._current().network
        return cast(ApiConnection, self.served.open(network, access, LoopClock(), patience, namespace=namespace))

    def leader(self, *given: Any, **named: Any) -> Leader:
        made = Leader(*given, **named)
        self.leaders.append((self.processes._current(), made))
        return made

    def file(self, place: Path) -> Durable:
        """A file that was taken away took its objects along."""
        if not place.exists() or str(place) not in self.files:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
            self.files[str(place)] = Durable()
        return self.files[str(place)]


def make_world(*, seed: int = 0, own_api: bool = False) -> SimulatedWorld:
    answered = dict.fromkeys(("ip", "bridge", "ss", "nft", "virsh", "ps"), _answers)
    programs: Mapping[str, Callable[[SimulatedWorld], Program]] = {
        "rackless.holder.main": _holder,
        "rackless.labd.main": _labd,
        "rackless api serve": _api,
        "rackless.operations.bootstrap.vm": _bootstrap_vm,
        "rackless.operations.bootstrap.server": _bootstrap_server,
        "qemu-img": _disk_image,
        "qemu-system-x86_64": _nothing,
        "dnsmasq": _stays,
        **answered,
    }
    return SimulatedWorld(cast(Programs, programs), seed, own_api=own_api)


Programs = Mapping[str, Callable[[FakeWorld], Program]]


@contextmanager
def at_this_computer(world: SimulatedWorld, paths: LabPaths) -> Iterator[None]:
    """While this lasts, "this computer" is the one of the world, for those who open it themselves, too."""

    def open_api(access: Access, *, clock: Clock, patience: float, **_: object) -> KubernetesResources:
        return world.served.open(str(paths.netns), access, clock, patience)

    def open_end(access: Access, *, namespace: str, patience: float, clock: Clock) -> KubernetesResources:
        outside = world.served.find(None, access.url) is not None
        network = None if outside else str(paths.netns)
        return world.served.open(network, access, clock, patience, namespace=namespace)

    scratch = paths.roots.cache / "tmp"
    with ExitStack() as swapped:
        for module in ("lab", "lab_registry", "sizing", "this_computer"):
            swapped.enter_context(patch(f"rackless.operations.{module}.open_drivers", lambda *_: world.drivers()))
        swapped.enter_context(patch("rackless.operations.controllers.KubernetesResources", open_api))
        swapped.enter_context(patch("rackless.operations.controllers.Leader", world.leader))
        swapped.enter_context(patch("rackless.operations.pivot.KubernetesResources", open_end))
        for module in ("install.cluster", "rehearsal.release"):
            swapped.enter_context(patch(f"rackless.operations.{module}.ensure_payload", _payload))
        swapped.enter_context(patch("rackless.operations.install.cluster.live.build", _disc))
        swapped.enter_context(patch("os.geteuid", return_value=0))  # whoever runs the simulator
        swapped.enter_context(patch("tempfile.tempdir", str(scratch)))
        swapped.enter_context(patch("rackless.operations.access.Path.cwd", return_value=Path("/")))
        # it is made of the lab's folder, which every computer has elsewhere: a trace would not be the same there
        swapped.enter_context(patch("rackless.operations.uplink.link_name", lambda _: f"{PREFIX}51b51b51"))
        swapped.enter_context(patch("rackless.operations.attachment.link_name", lambda _: "rs-51b51b51"))
        swapped.enter_context(looked_at_once())
        scratch.mkdir(parents=True)
        yield


@contextmanager
def looked_at_once() -> Iterator[None]:
    """The files of this very package do not change in a story: what they are is computed for the first one only."""
    with ExitStack() as swapped:
        for name, loaded in list(sys.modules.items()):
            if name.startswith("rackless.") and getattr(loaded, "fingerprint", None) is _by_name:
                swapped.enter_context(patch.object(loaded, "fingerprint", _fingerprint))
        swapped.enter_context(patch("rackless.images.wheel.load_sources", _load_sources))
        swapped.enter_context(patch("rackless.images.wheel.fingerprint", _fingerprint_of_sources))
        swapped.enter_context(patch("rackless.images.catalogue._recipe_parts", _recipe_parts))
        yield


_by_name = build.fingerprint
_fingerprint, _load_sources, _of_sources = cache(_by_name), cache(wheel.load_sources), wheel.fingerprint
_recipe_parts = cache(catalogue._recipe_parts)
_known_sources: list[tuple[object, str]] = []


def _fingerprint_of_sources(sources: dict[str, bytes]) -> str:
    if not _known_sources or _known_sources[0][0] is not sources:
        _known_sources[:] = [(sources, _of_sources(sources))]
    return _known_sources[0][1]


async def _payload(cache: Path, *_: object) -> PayloadImage:
    """What takes minutes to build is a small file."""
    place = cache / "payload.img"
    if not place.exists():
        place.write_bytes(b"payload")
    return PayloadImage(place, "f" * 64, 7)


async def stock(roots: Roots, world: FakeWorld) -> None:
    """What `prepare` would make on this computer, as if it had: images and Ironic's environment."""
    from rackless.images.stand_in import put_stand_ins

    await put_stand_ins(roots.images)
    await world.environment.ensure(roots.cache, Bus())


def _paths(process: FakeProcess) -> LabPaths:
    roots = Roots(*(Path(process.env[f"RACKLESS_{name}"]) for name in ("STATE", "RUN", "CACHE")))
    return LabPaths(roots, process.argv[-1])


def _holder(world: FakeWorld) -> Program:
    async def program(process: FakeProcess) -> int:
        from rackless.holder import main as holder

        paths, drivers = _paths(process), open_drivers(world)
        return await holder.keep_open(paths, holder.enter(paths, drivers), drivers)

    return program


def _labd(world: FakeWorld) -> Program:
    async def program(process: FakeProcess) -> int:
        from rackless.labd import main as labd

        await labd.serve(_paths(process), open_drivers(world))
        return 0

    return program


def _api(world: SimulatedWorld) -> Program:
    """`rackless api serve`: the objects that stand at the place of its store, for as long as it runs."""

    async def program(process: FakeProcess) -> int:
        from rackless.api.access import keys

        words = list(process.argv)
        given = {name: words[words.index(name) + 1] for name in words if name.startswith("--")}
        url = f"https://{given['--address']}:{given['--port']}"
        await asyncio.sleep(1.0)
        keys.ensure_kubeconfig(keys.ensure_authority(Path(given["--pki"])), Path(given["--kubeconfig-out"]), url)
        place = (process.network, url)
        store = Path(given["--store"].partition(":")[2])
        if world.own_api:
            objects = await open_objects(world.file(store))
            process.at_end += [objects.hub.close, lambda: world.served.places.__delitem__(place)]
            world.served.places[place] = objects
        else:
            world.apis.served[place] = world.store(store)
            process.at_end.append(lambda: world.apis.served.__delitem__(place))
        await asyncio.get_running_loop().create_future()
        return 0

    return program


def _bootstrap_vm(world: FakeWorld) -> Program:
    """It goes into the lab's namespaces before it begins."""

    async def program(process: FakeProcess) -> int:
        from rackless.operations.bootstrap.vm import VmSetting, carry_out

        setting = VmSetting(**json.loads(Path(process.argv[-1]).read_text()))
        run = Path(setting.state).parent.parent / "run" / Path(setting.state).name
        process.network = next((pin for pin in world.pinned if Path(pin).parent == run), None)
        try:
            answer: Mapping[str, object] = await carry_out(setting, open_drivers(world))
        except RacklessError as error:
            answer = {"failed": error.what, "why": error.why, "hint": error.hint}
        process.say(json.dumps(answer))
        return 0

    return program


def _bootstrap_server(world: FakeWorld) -> Program:
    """What a BMC makes of it, which has the discs of the release server."""

    async def program(process: FakeProcess) -> int:
        from rackless.operations.bootstrap.server import ServerSetting

        setting = ServerSetting(**json.loads(Path(process.argv[-1]).read_text()))
        state = Path(process.argv[-1]).parent
        run = state.parent.parent / "run" / state.name
        process.network = next((pin for pin in world.pinned if Path(pin).parent == run), None)
        metal = open_drivers(world).open_metal(lambda _: Path("/dev/null"), kvm=False, shown={})
        name, disc = setting.server, state / "release" / FOR_BMCS / setting.image.rpartition("/")[2]
        try:
            found = await metal.hypervisor.observe(name)
            assert found is not None
            mine = found.media == disc
            changed = mine if setting.action == "retire" else not (mine and found.power is Power.ON)
            if changed and found.power is Power.ON:
                await metal.hypervisor.power_off(name)
            if changed and setting.action == "retire":
                await metal.hypervisor.eject_media(name)
            elif changed:
                await metal.hypervisor.insert_media(name, disc)
                await metal.hypervisor.power_on(name, boot=BootDevice.CDROM)
            process.say(json.dumps({"changed": changed}))
        except RacklessError as error:
            process.say(json.dumps({"failed": error.what, "why": error.why, "hint": error.hint}))
        finally:
            await metal.close()
        return 0

    return program


async def _disc(processes: object, node: Path, esp: Path, config: str, target: Path) -> None:
    target.write_text(config)


def _disk_image(world: FakeWorld) -> Program:
    async def program(process: FakeProcess) -> int:
        path = Path(process.argv[-2])
        path.write_bytes(b"QFI\xfb")
        world.script.change("processes", "qemu-img", path.stem)
        return 0

    return program


def _stays(world: FakeWorld) -> Program:
    async def program(process: FakeProcess) -> int:
        await asyncio.get_running_loop().create_future()
        return 0

    return program


def _nothing(world: FakeWorld) -> Program:
    async def program(process: FakeProcess) -> int:
        return 0

    return program


def _answers(world: FakeWorld) -> Program:
    async def program(process: FakeProcess) -> int:
        process.say(f"as {process.name} says it")
        return 0

    return program
