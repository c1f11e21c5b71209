"""labd's request handlers at its control socket: for every exchange of `protocol/messages.py`, the part of the lab that answers
it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from rackless import __version__
from rackless.cluster.reference import kubeconfigs
from rackless.lab.folder_watch import FolderWatch
from rackless.labd.running_lab import RunningLab
from rackless.plan.actions import Action, Verb
from rackless.protocol import messages as say
from rackless.protocol.build import fingerprint
from rackless.protocol.exchange import Nothing, Served


def answers(
    lab: RunningLab, folders: Callable[[], FolderWatch], own: int, stop: Callable[[], Awaitable[None]]
) -> list[Served]:
    """`own` is labd's process id."""
    return [*_looks(lab, folders, own), *_works(lab, stop), *_bmcs(lab), *_faults(lab), *_shows(lab)]


def _looks(lab: RunningLab, folders: Callable[[], FolderWatch], own: int) -> list[Served]:
    daemon = say.Daemon(own, __version__, fingerprint())

    async def health(_: Nothing) -> say.Daemon:
        return daemon

    async def status(_: Nothing) -> say.LabStatus:
        found = await lab.status()
        return replace(found, warnings=(*found.warnings, *folders().warnings))

    async def hosts(_: Nothing) -> say.HostList:
        return say.HostList(tuple(await lab.hosts.records()))

    async def objects(_: Nothing) -> say.LabObjects:
        return await lab.machines.objects()

    async def object_events(asked: say.WantObjectEvents) -> say.ObjectEvents:
        return await lab.machines.object_events(asked.kind, asked.name)

    async def observe(_: Nothing) -> say.LabSeen:
        return await lab.observe()

    async def observe_all(_: Nothing) -> say.LabSeen:
        return await lab.observe(costly=True)

    return [
        say.HEALTH.by(health),
        say.STATUS.by(status),
        say.HOSTS.by(hosts),
        say.OBJECTS.by(objects),
        say.OBJECT_EVENTS.by(object_events),
        say.OBSERVE.by(observe),
        say.OBSERVE_ALL.by(observe_all),
    ]


def _works(lab: RunningLab, stop: Callable[[], Awaitable[None]]) -> list[Served]:
    async def begin(asked: say.BeginUp) -> say.LabSeen:
        return await lab.observe(begins=asked.goals)

    async def reach(asked: say.ReachGoal) -> Nothing:
        await lab.reach(asked.goal)
        return Nothing()

    async def host(asked: say.HostWish) -> say.HostDone:
        return await lab.hosts.wish(asked)

    async def forget_nodes(_: Nothing) -> say.NodeList:
        return say.NodeList(tuple(await lab.hosts.forget_nodes()))

    async def pause(asked: say.PauseServers) -> say.ServerList:
        return say.ServerList(tuple(await lab.pause(force=asked.force)))

    async def remove(asked: say.CarryOutLosses) -> Nothing:
        await lab.remove([Action(loss.subject, Verb(loss.verb), loss.reason) for loss in asked.losses])
        return Nothing()

    async def power(asked: say.PressPower) -> say.PowerState:
        lab.require(asked.server)
        done = await lab.power.press(asked.server, asked.action)
        lab.bus.tell(
            "power-pressed", level="info", subject=f"server/{asked.server}", server=asked.server, action=asked.action
        )
        return done

    async def kubeconfig(asked: say.WantKubeconfig) -> say.Kubeconfig:
        if asked.inside:
            return say.Kubeconfig(kubeconfigs.inner_kubeconfig(lab.paths))
        cluster = asked.cluster or (asked.whichever and kubeconfigs.has_cluster(lab.paths))
        make = kubeconfigs.cluster_kubeconfig if cluster else kubeconfigs.lab_kubeconfig
        return say.Kubeconfig(make(lab.paths), cluster)

    async def scale(asked: say.ScaleWorkers) -> say.Scaled:
        return await lab.machines.scale(asked.wanted)

    async def serve_release(_: Nothing) -> Nothing:
        await lab.serve_release()
        return Nothing()

    async def remedy(asked: say.ApplyRemedy) -> say.RemedyOutcome:
        return await lab.remedies.apply(asked.rule, asked.subject)

    async def tell(_: Nothing) -> Nothing:
        return Nothing()

    async def end(_: Nothing) -> Nothing:
        await stop()
        return Nothing()

    return [
        say.BEGIN.by(begin),
        say.REACH.by(reach),
        say.HOST.by(host),
        say.FORGET_NODES.by(forget_nodes),
        say.PAUSE.by(pause),
        say.REMOVE.by(remove),
        say.POWER.by(power),
        say.KUBECONFIG.by(kubeconfig),
        say.SCALE.by(scale),
        say.SERVE_RELEASE.by(serve_release),
        say.REMEDY.by(remedy),
        say.TELL.by(tell),
        say.STOP.by(end),
    ]


def _bmcs(lab: RunningLab) -> list[Served]:
    async def bmcs(_: Nothing) -> say.BmcsSeen:
        return say.BmcsSeen(lab.bmcs.seen())

    async def bmc(asked: say.WantBmc) -> say.BmcInside:
        return lab.bmcs.inside(asked.server)

    async def insert(asked: say.InsertMedia) -> say.BmcSeen:
        done = await lab.insert_media(asked.server, asked.image)
        lab.bus.tell(
            "media-inserted",
            level="info",
            subject=f"server/{asked.server}",
            server=asked.server,
            image=_without_secrets(done.media or ""),
        )
        return done

    async def eject(asked: say.EjectMedia) -> say.BmcSeen:
        done = await lab.bmcs.eject(asked.server)
        lab.bus.tell("media-ejected", level="info", subject=f"server/{asked.server}", server=asked.server)
        return done

    async def set_boot(asked: say.SetBoot) -> say.BmcSeen:
        done = await lab.bmcs.set_boot(asked.server, asked.device, once=asked.once)
        lab.bus.tell(
            "boot-chosen",
            level="info",
            subject=f"server/{asked.server}",
            server=asked.server,
            device=asked.device,
            how="once" if asked.once else "always",
        )
        return done

    return [
        say.BMCS.by(bmcs),
        say.BMC.by(bmc),
        say.INSERT_MEDIA.by(insert),
        say.EJECT_MEDIA.by(eject),
        say.SET_BOOT.by(set_boot),
    ]


def _without_secrets(url: str) -> str:
    """Without a user, a password or a signed query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _shows(lab: RunningLab) -> list[Served]:
    """Requests that show files of the lab: for an owner who is not root and cannot read its folders."""

    async def screen(asked: say.LookAt) -> say.Screen:
        lab.require(asked.server)
        return await lab.showing.screen(asked.server)

    async def console(asked: say.LookAt) -> say.ConsoleSeen:
        lab.require(asked.server)
        return await lab.showing.console(asked.server, asked.lines)

    async def ssh_keys(_: Nothing) -> say.SshKeys:
        return lab.showing.ssh_keys()

    return [say.SCREEN.by(screen), say.CONSOLE.by(console), say.SSH_KEYS.by(ssh_keys)]


def _faults(lab: RunningLab) -> list[Served]:
    async def faults(_: Nothing) -> say.FaultList:
        return say.FaultList(lab.bmcs.faults())

    async def add_fault(asked: say.FaultWish) -> say.FaultStatus:
        return lab.bmcs.add_fault(asked)

    async def clear_faults(asked: say.ClearFaults) -> say.ClearedFaults:
        cleared = lab.bmcs.clear_faults(asked.ids)
        if cleared:
            lab.bus.tell("faults-cleared", level="info", count=cleared)
        return say.ClearedFaults(cleared)

    return [say.FAULTS.by(faults), say.ADD_FAULT.by(add_fault), say.CLEAR_FAULTS.by(clear_faults)]
