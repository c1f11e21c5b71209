"""Faults planted before ironic-python-agent, and what it writes on a server's console: the agent's own client of Ironic.

`python -m tests.real.planting_agent FOLDER` records it; `tests/diagnosis/data` is what it wrote. The agent is that of the deploy
ramdisk, by the same list of wheels, and asks servers on loopback of a network namespace of its own.
"""

from __future__ import annotations

import datetime as dt
import os
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.real.planting_node import NoFile

ROOT = Path(__file__).parents[2]
WHEELS = ROOT / "src/rackless/images/files/deploy/agent-requirements.txt"
URL = "https://127.0.0.1:16385"
_KEPT_LINES = 16
"""Of tracebacks the last are enough."""
_ASK = """
import sys
from oslo_config import cfg
from oslo_log import log
from ironic_python_agent import config  # registers the options
from ironic_python_agent.ironic_api_client import APIClient
CONF = cfg.CONF
log.register_options(CONF)
CONF([f"--cafile={sys.argv[2]}"], project="ironic-python-agent")
log.setup(CONF, "ironic-python-agent")
client = APIClient(sys.argv[1])
class Interface: mac_address = "02:00:00:00:00:02"
try:
    client.lookup_node({"interfaces": [Interface()]}, 4, 1)
except Exception as error:
    log.getLogger("ironic_python_agent.agent").error("%s", error)
"""
"""Looks its node up as the agent does when it has started; only for some seconds, and not for ever."""


def install(target: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps",
         "--require-hashes", "--only-binary=:all:", f"--target={target}", f"--requirement={WHEELS}"],
        check=True,
    )  # fmt: skip


def _certificate(folder: Path, name: str, starts: dt.datetime) -> tuple[Path, Path]:
    """One that signed itself, valid for a day from then on."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key()).serial_number(1)
        .not_valid_before(starts).not_valid_after(starts + dt.timedelta(days=1))
        .add_extension(names, critical=False).add_extension(x509.BasicConstraints(True, None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    certificate, private = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private


@contextmanager
def _server(certificate: Path, key: Path) -> Iterator[None]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", 16385), NoFile) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def _ask(target: Path, cafile: Path) -> None:
    """As the console shows it, after the kernel's first line."""
    argv = [sys.executable, "-c", _ASK, URL, str(cafile)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    said = done.stdout.replace(str(cafile.parent), "/etc/ironic-python-agent.d")
    said = said.replace(f"{os.environ['PYTHONPATH']}/", "/opt/ipa/")
    last = "\n".join(said.splitlines()[-_KEPT_LINES:])
    target.write_text(f"[    0.000000] Linux version 6.1.0\n[deploy 9.00] starting ironic-python-agent\n{last}\n")


def plant(folder: Path) -> None:
    """Call it in a network namespace of its own, with the agent on the path of Python."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    now = dt.datetime.now(dt.UTC)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        believed, key = _certificate(scratch, "believed", now - dt.timedelta(hours=1))
        stranger = _certificate(scratch, "stranger", now - dt.timedelta(hours=1))
        tomorrow, later = _certificate(scratch, "tomorrow", now + dt.timedelta(days=1))
        _ask(folder / "console-agent-address.log", believed)
        with _server(*stranger):
            _ask(folder / "console-agent-certificate.log", believed)
        with _server(tomorrow, later):
            _ask(folder / "console-agent-clock.log", tomorrow)
        with _server(believed, key):
            _ask(folder / "console-agent-not-ironic.log", believed)


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        agent = Path(os.environ.get("PLANTED_AGENT", name))
        if not any(agent.iterdir()):
            install(agent)
        inside = ["unshare", "--net", sys.executable, "-m", "tests.real.planting_agent", "--inside", str(folder)]
        subprocess.run(inside, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(agent)})


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        plant(Path(sys.argv[2]))
    else:
        record(Path(sys.argv[1]))
