"""The stages that labd carries out, as values over the lab's running parts."""

from __future__ import annotations

from collections.abc import Sequence

from rackless.lab import site_boot
from rackless.lab.network_boot import find_loaders
from rackless.lab.networks import ensure_networks, unplugged
from rackless.lab.servers import differs, ensure_servers
from rackless.labd.running_lab import RunningLab
from rackless.plan.actions import Action, Observed
from rackless.ports.api import ApiUnreachable
from rackless.ports.fabric import Bridge, Vlan
from rackless.ports.hypervisor import Unreachable
from rackless.run.stage import Stage, stage

Work = Sequence[Action]


def lab_stages(lab: RunningLab) -> list[Stage]:
    """In the order of `plan.stages`."""
    return [
        _libvirtd(lab),
        _networks(lab),
        _time(lab),
        _api(lab),
        _servers(lab),
        _bmc(lab),
        _power(lab),
        _provisioning(lab),
        _hosts(lab),
        _cluster(lab),
        _nodes(lab),
    ]


def _lacking(subject: str, why: str) -> Observed:
    return Observed(differing={subject: why} if why else {})


def _libvirtd(lab: RunningLab) -> Stage:
    async def observe() -> Observed:
        return _lacking("service/libvirtd", "" if lab.libvirtd.started else "does not run")

    async def ensure(_: Work) -> None:
        await lab.links.ensure_loopback()
        await lab.libvirtd.ensure()

    # not retired here: other stages still speak to libvirtd while they end; `RunningLab.stop` ends it last
    return stage("libvirtd", "libvirtd", observe=observe, ensure=ensure)


def _networks(lab: RunningLab) -> Stage:
    async def observe() -> Observed:
        names, plan = await lab.links.names(), lab.plan
        try:
            active = await lab.networks.active()
            changed = {
                network.name: "is not as described"
                for network in (plan.cluster, plan.provisioning_dhcp)
                if network is not None
                and (await lab.networks.differs(network) or (lab.paths.run / f"{network.bridge}.unplugged").exists())
            }
        except Unreachable:  # not made yet, or restarting
            return Observed()
        there = active | names
        links: list[Bridge | Vlan] = [plan.baremetal, *plan.extra, *plan.vlans]
        links += [plan.provisioning] if plan.provisioning is not None else []
        for link in links:
            if link.name in there and await lab.links.differs(link):
                changed[link.name] = "is not as described"
        if set(plan.attached) & names:
            there.add("attached")
        if late := await unplugged(plan, lab.links):
            changed["baremetal"] = f"{', '.join(late)} is not plugged in"
        if "baremetal" not in active or await lab.links.differs(plan.cable):
            there.discard("baremetal")
        if lab.bmc_site.there or (plan.bmc_site.router is None and not await lab.links.differs(plan.bmc)):
            there.add("bmc")
            if not lab.bmc_site.ruled:
                changed["bmc"] = "who may talk to the BMCs is said anew"
        else:
            there.discard("bmc")
        differing = {f"network/{name}": why for name, why in changed.items()}
        return Observed(networks=frozenset(there), differing=differing)

    async def ensure(work: Work) -> None:
        if (site := lab.plan.provisioning_dhcp) is not None and site.boot is not None:
            site_boot.ensure(lab.paths.inner_run, find_loaders(lab.drivers.computer), site)
        await ensure_networks(lab.plan, lab.links, lab.networks, lab.paths.run, lab.bus)
        if any(action.subject == "network/bmc" for action in work):
            await lab.bmc_site.ensure()

    async def retire() -> None:
        lab.bmc_site.close()

    return stage("networks", "networks", observe=observe, ensure=ensure, retire=retire)


def _time(lab: RunningLab) -> Stage:
    async def observe() -> Observed:
        return _lacking("service/time", "" if lab.time.running else "does not run")

    async def ensure(_: Work) -> None:
        await lab.time.start()

    async def retire() -> None:
        lab.time.stop()

    return stage("time", "time server", observe=observe, ensure=ensure, retire=retire)


def _api(lab: RunningLab) -> Stage:
    async def observe() -> Observed:
        return _lacking("service/api", "" if lab.api.started else "does not run")

    async def ensure(_: Work) -> None:
        await lab.ensure_api()

    return stage("api", "Kubernetes API", observe=observe, ensure=ensure, retire=lab.api.stop)


def _servers(lab: RunningLab) -> Stage:
    async def observe() -> Observed:
        try:
            states = {state.name: state.power.value for state in await lab.hypervisor.servers()}
            differing = {
                f"server/{server.name}": "is not as described"
                for server in lab.plan.servers
                if server.name in states
                and await differs(server, lab.plan, lab.paths, lab.hypervisor, lab.libvirtd.accounts())
            }
        except Unreachable:
            return Observed()
        return Observed(servers=states, differing=differing)

    async def ensure(work: Work) -> None:
        names = {action.subject.removeprefix("server/") for action in work}
        await ensure_servers(
            lab.plan, lab.paths, lab.hypervisor, lab.processes, lab.bus, lab.libvirtd.accounts(), names
        )

    async def remove(work: Work) -> None:
        for action in work:
            await lab.take_away(action.subject.removeprefix("server/"))

    many = {"servers": len(lab.plan.servers)}
    return stage("servers", "servers", observe=observe, ensure=ensure, remove=remove, numbers=many)


def _power(lab: RunningLab) -> Stage:
    async def observe() -> Observed:
        try:
            return Observed(resting=frozenset(lab.paths.resting.read_text().split()))
        except FileNotFoundError:
            return Observed()

    async def ensure(_: Work) -> None:
        await lab.return_power()

    return stage("power", "servers that were on", observe=observe, ensure=ensure)


def _bmc(lab: RunningLab) -> Stage:
    async def observe() -> Observed:
        return _lacking("stage/bmc", "" if lab.bmcs.running else "not running yet")

    async def ensure(_: Work) -> None:
        await lab.bmcs.ensure()

    many = {"BMCs": len(lab.plan.servers)}
    return stage("bmc", "BMCs", observe=observe, ensure=ensure, retire=lab.bmcs.stop, numbers=many)


def _provisioning(lab: RunningLab) -> Stage:
    async def observe() -> Observed:
        return _lacking("stage/engine", lab.hosts.lacking())

    async def ensure(_: Work) -> None:
        await lab.hosts.ensure_provisioning()

    async def restore(_: Work) -> None:
        await lab.hosts.ensure_provisioning(checked=False)

    async def retire() -> None:
        await lab.hosts.stop_provisioning()
        await lab.hosts.files.stop()

    return stage("engine", "Ironic", observe=observe, ensure=ensure, restore=restore, retire=retire)


def _hosts(lab: RunningLab) -> Stage:
    async def observe() -> Observed:
        try:
            return _lacking("stage/hosts", await lab.cluster.lacking_hosts() if lab.api.started else "not written yet")
        except ApiUnreachable as error:
            return _lacking("stage/hosts", str(error))

    async def ensure(_: Work) -> None:
        await lab.write_hosts()  # the host controller runs since the stage `engine`
        await lab.cluster.await_hosts()

    async def restore(_: Work) -> None:
        """Nothing to wait for: the host controller, which starts with Ironic, goes on with them."""

    return stage("hosts", "hosts", observe=observe, ensure=ensure, restore=restore)


def _cluster(lab: RunningLab) -> Stage:
    async def observe() -> Observed:
        try:
            return _lacking("stage/cluster", await lab.cluster.lacking() if lab.api.started else "not there yet")
        except ApiUnreachable as error:
            return _lacking("stage/cluster", str(error))

    async def ensure(_: Work) -> None:
        await lab.cluster.await_nodes()

    async def restore(_: Work) -> None:
        """Nothing to do: nodes that run have kept running."""

    return stage("cluster", "cluster", observe=observe, ensure=ensure, restore=restore, costly=True)


def _nodes(lab: RunningLab) -> Stage:
    async def observe() -> Observed:
        try:
            if not lab.api.started:
                return _lacking("stage/nodes", "not there yet")
            return _lacking("stage/nodes", await lab.cluster.lacking_objects() or await lab.machines.lacking())
        except ApiUnreachable as error:
            return _lacking("stage/nodes", str(error))

    async def ensure(_: Work) -> None:
        # Machines first: they decide which nodes may join
        await lab.machines.ensure(lab.hosts.node_image())
        await lab.cluster.await_joined()

    async def restore(_: Work) -> None:
        """The cluster's API has kept its Nodes; the controllers of Machines are started again."""
        lab.machines.start()

    title = "nodes join"
    return stage("nodes", title, observe=observe, ensure=ensure, restore=restore, retire=lab.machines.stop, costly=True)
