"""What this computer knows by itself, without root and without asking anyone else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from rackless.installer.install_config.site import DEFAULT_BRIDGES, Site
from rackless.installer.install_config.values import parse_ip

_SYS_NET = Path("/sys/class/net")
_FIPS = Path("/proc/sys/crypto/fips_enabled")


def site(named_bridges: Iterable[str] = ()) -> Site:
    """The defaults, what was named, and what is here."""
    return Site(
        bridges=DEFAULT_BRIDGES | set(named_bridges) | local_bridges(),
        fips=fips(),
        image_answers=loopback_image_answers,
    )


def local_bridges(sys_net: Path = _SYS_NET) -> frozenset[str]:
    try:
        return frozenset(one.name for one in sys_net.iterdir() if (one / "bridge").is_dir())
    except OSError:
        return frozenset()


def fips(flag: Path = _FIPS) -> bool:
    try:
        return flag.read_text().strip() == "1"
    except OSError:
        return False


def loopback_image_answers(url: str) -> bool | None:
    """An image on this very computer can be asked for; any other is not our business without `--live`."""
    parts = urlsplit(url)
    address = parse_ip(parts.hostname or "")
    if parts.hostname != "localhost" and not (address and address.is_loopback):
        return None
    return image_answers(url, within=2.0)


def image_answers(url: str, within: float = 10.0) -> bool:
    import http.client
    import ssl

    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}"
    try:
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=within, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=within)
        try:
            connection.request("HEAD", target)
            return connection.getresponse().status == 200
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError):
        return False
