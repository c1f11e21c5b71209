"""DNS names of exposed ports for a computer's resolver: drop-in files, and the commands that apply them. Pure.

Nothing here is done by rackless: a person pastes it, and pastes the way back when the names are no longer wanted.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rackless.plan.exposure import Forward, dnsmasq_lines

NAMES_PORT = 17053
"""The loopback port of a dnsmasq that systemd-resolved asks: by itself it knows only the names in /etc/hosts."""


class Resolver(StrEnum):
    DNSMASQ = "dnsmasq"
    NETWORK_MANAGER = "networkmanager"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class DropIn:
    files: tuple[tuple[str, str], ...]
    """Path and text of each."""
    apply: tuple[str, ...]
    """Commands after the files are there …"""
    undo: tuple[str, ...]
    """… and those after they were deleted."""

    @property
    def script(self) -> str:
        """What a shell, run by root, does it with."""
        lines: list[str] = []
        for path, text in self.files:
            lines += [
                f"mkdir -p {shlex.quote(path.rpartition('/')[0])}",
                f"cat > {shlex.quote(path)} <<'EOF'",
                text + "EOF",
            ]
        return "\n".join([*lines, *self.apply, ""])

    @property
    def way_back(self) -> str:
        return "\n".join([f"rm -f {shlex.join(path for path, _ in self.files)}", *self.undo, ""])


def drop_in(resolver: Resolver, lab: str, known: Sequence[Forward]) -> DropIn:
    names = "".join(f"{line}\n" for line in dnsmasq_lines(known))
    own = f"rackless-{lab}"
    match resolver:
        case Resolver.DNSMASQ:
            again = ("systemctl restart dnsmasq",)
            return DropIn(((f"/etc/dnsmasq.d/{own}.conf", names),), again, again)
        case Resolver.NETWORK_MANAGER:
            again = ("systemctl reload NetworkManager",)
            chosen = (f"/etc/NetworkManager/conf.d/{own}.conf", "[main]\ndns=dnsmasq\n")
            return DropIn(((f"/etc/NetworkManager/dnsmasq.d/{own}.conf", names), chosen), again, again)
        case Resolver.RESOLVED:
            asked = " ".join(dict.fromkeys(f"~{one.host.removeprefix('*.')}" for one in known if one.host))
            conf, unit = f"/etc/{own}-names.conf", f"{own}-names"
            place = f"port={NAMES_PORT}\nlisten-address=127.0.0.1\nbind-interfaces\nno-resolv\nno-hosts\n"
            told = f"[Resolve]\nDNS=127.0.0.1:{NAMES_PORT}\nDomains={asked}\n"
            anew = "systemctl restart systemd-resolved"
            run = f"systemd-run --unit={unit} dnsmasq --keep-in-foreground --conf-file={conf}"
            return DropIn(
                ((conf, place + names), (f"/etc/systemd/resolved.conf.d/{own}.conf", told)),
                (run, anew),
                (f"systemctl stop {unit}", anew),
            )
