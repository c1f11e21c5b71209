"""Faults planted before the real `openshift-install`, and what it writes about them: its log, which `rackless why` reads.

`python -m tests.real.planting_installer FOLDER [CASE…]` records it; no word of it is kept in the tree. Each case has a network
namespace of its own, in which dnsmasq answers for the API's name and a stand-in answers as the API, or nobody does. The
installer's waits cannot be shortened: 20 minutes for the API, an hour for hosts. The cases run side by side, and cost almost no
processor time.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME, VIP = "api.lab.rackless.test", "192.0.2.5"
SAID = "said.txt"
"""What it said on the terminal: `analyze` keeps no log; where `create cluster` does the same, the words are in its log."""
RELEASE = f"registry.invalid/release@sha256:{'a' * 64}"
API_MINUTES, HOSTS_MINUTES = 20, 60
"""How long the installer waits, and longer than that when it is slow."""
_HOSTS = 3
_HOST = """
    - name: ctrl-{n}
      role: master
      bootMACAddress: 02:00:00:00:00:0{n}
      bmc: {{address: "redfish-virtualmedia://192.0.2.1:8000/redfish/v1/Systems/{n}", username: admin, password: planted}}"""
_CONFIG = """\
apiVersion: v1
baseDomain: rackless.test
metadata: {name: lab}
networking:
  networkType: OVNKubernetes
  machineNetwork: [{cidr: 192.0.2.0/24}]
  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
  serviceNetwork: [172.30.0.0/16]
compute: [{name: worker, replicas: 0}]
controlPlane: {name: master, replicas: 3, platform: {baremetal: {}}}
platform:
  baremetal:
    apiVIPs: [192.0.2.5]
    ingressVIPs: [192.0.2.4]
    externalBridge: baremetal
    externalMACAddress: '52:54:00:00:00:01'
    provisioningNetwork: Disabled
    hosts:""" + "".join(_HOST.format(n=n) for n in range(_HOSTS)) + """
pullSecret: '{"auths":{"registry.invalid":{"auth":"eDp5"}}}'
"""  # fmt: skip
TLS = "/opt/openshift/tls/"
CA = Path("/etc/ssl/certs/ca-certificates.crt")
"""Any will do for the router's."""


def configure(installer: Path, folder: Path) -> None:
    """What `create cluster` leaves in its folder before it makes a machine: kubeconfig, metadata, the bootstrap's Ignition."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "install-config.yaml").write_text(_CONFIG)
    environment = {**os.environ, "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": RELEASE}
    argv = ["unshare", "--net", installer, "create", "ignition-configs", f"--dir={folder}"]
    subprocess.run([str(one) for one in argv], check=True, env=environment, capture_output=True)


def _from_ignition(folder: Path, name: str) -> bytes:
    files = json.loads((folder / "bootstrap.ign").read_text())["storage"]["files"]
    source = next(file["contents"]["source"] for file in files if file["path"] == TLS + name)
    return base64.b64decode(source.partition(",")[2])


# the API


class _Api(BaseHTTPRequestHandler):
    """As much of it as the installer asks: a version, hosts that are inspected for ever, an operator that never rests."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = urllib.parse.urlparse(self.path)
        query = urllib.parse.parse_qs(asked.query)
        kind = asked.path.rpartition("/")[2]
        if asked.path == "/version":
            self._answer(200, {"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
        elif kind == "default-ingress-cert":
            data = {"ca-bundle.crt": CA.read_text()}
            self._answer(200, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": kind}, "data": data})
        elif kind not in _LISTS:
            self._answer(
                404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound"}
            )
        elif query.get("watch") not in (["true"], ["1"]):
            items = _LISTS[kind]()
            whole = {"apiVersion": items[0]["apiVersion"], "kind": f"{items[0]['kind']}List"}
            self._answer(200, {**whole, "metadata": {"resourceVersion": "1"}, "items": items})
        else:
            self._watch(_LISTS[kind]())

    def _answer(self, code: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _watch(self, items: Sequence[Mapping[str, object]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
        kind = {"apiVersion": items[0]["apiVersion"], "kind": items[0]["kind"]}
        events: list[dict[str, object]] = [{"type": "ADDED", "object": item} for item in items]
        for event in [*events, {"type": "BOOKMARK", "object": {**kind, "metadata": end}}]:
            self._send(json.dumps(event).encode() + b"\n")
        time.sleep(240)
        self._send(b"")

    def _send(self, piece: bytes) -> None:
        self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        return


def _hosts() -> list[dict[str, object]]:
    labels = {"installer.openshift.io/role": "control-plane"}
    metadata = {"namespace": "openshift-machine-api", "labels": labels, "resourceVersion": "1"}
    status = {"provisioning": {"state": "inspecting"}, "errorType": "", "errorMessage": ""}
    kind = {"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "status": status}
    return [{**kind, "metadata": {**metadata, "name": f"ctrl-{n}"}} for n in range(_HOSTS)]


def _conditions(**values: bool) -> list[dict[str, str]]:
    at = "2026-01-01T00:00:00Z"
    return [
        {"type": kind, "status": str(value), "reason": "Planted", "message": "planted", "lastTransitionTime": at}
        for kind, value in values.items()
    ]


def _versions() -> list[dict[str, object]]:
    """A cluster that says that it is there."""
    status = {
        "conditions": _conditions(Available=True, Failing=False, Progressing=False),
        "desired": {"version": "5.0.0"},
    }
    metadata = {"name": "version", "resourceVersion": "1"}
    return [{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": metadata, "status": status}]


def _operators() -> list[dict[str, object]]:
    kind = {"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator"}
    return [
        {**kind, "metadata": {"name": name, "resourceVersion": "1"},
         "status": {"conditions": _conditions(Available=True, Degraded=False, Progressing=name == "network")}}
        for name in ("console", "network")
    ]  # fmt: skip


_LISTS = {"baremetalhosts": _hosts, "clusterversions": _versions, "clusteroperators": _operators}


@contextmanager
def _api(certificate: Path, key: Path) -> Iterator[None]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with ThreadingHTTPServer((VIP, 6443), _Api) as server:
        server.daemon_threads = True
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


# the cases, each inside a network and mount namespace of its own


@contextmanager
def _network(scratch: Path, *, name: bool = True, vip: bool = False) -> Iterator[None]:
    """A cable that leads nowhere, DNS on loopback, and the VIP here, or behind the cable, where all that is sent there is lost."""
    for argv in (
        ("link", "set", "lo", "up"),
        ("link", "add", "cluster0", "type", "veth", "peer", "name", "nowhere0"),
        ("address", "add", "192.0.2.1/24", "dev", "cluster0"),
        ("link", "set", "nowhere0", "up"),
        ("link", "set", "cluster0", "up"),
        ("address", "add", f"{VIP}/32", "dev", "lo")
        if vip
        else ("neighbour", "add", VIP, "lladdr", "02:00:00:00:00:99", "dev", "cluster0"),
    ):
        subprocess.run(["ip", *argv], check=True)
    resolver = scratch / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\n")
    subprocess.run(["mount", "--bind", resolver, "/etc/resolv.conf"], check=True)
    record = [f"--host-record={NAME},{VIP}"] if name else []
    serving = subprocess.Popen(
        ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file=", "--no-resolv", "--no-hosts",
         "--local=/rackless.test/", "--listen-address=127.0.0.1", "--bind-interfaces", *record],
    )  # fmt: skip
    try:
        yield
    finally:
        serving.terminate()
        serving.wait()


def _run(installer: Path, folder: Path, minutes: float, *argv: str) -> int:
    """Its exit code. Keys of this computer's owner are nobody's business."""
    environment = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"} | {"HOME": str(folder)}
    with (folder / SAID).open("w") as sink:
        argv = (str(installer), *argv, f"--dir={folder}")
        return subprocess.run(argv, env=environment, timeout=60 * minutes, stdout=sink, stderr=sink).returncode


def _wait(installer: Path, folder: Path, minutes: float) -> int:
    return _run(installer, folder, minutes, "wait-for", "bootstrap-complete")


def name_unknown(installer: Path, folder: Path) -> int:
    with _network(folder, name=False):
        return _wait(installer, folder, API_MINUTES + 5)


def silent(installer: Path, folder: Path) -> int:
    with _network(folder):
        return _wait(installer, folder, API_MINUTES + 5)


def certificate(installer: Path, folder: Path) -> int:
    """Another cluster's API at this one's address: right names, another CA."""
    other, key = folder / "other.crt", folder / "other.key"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=another",
            "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", key, "-out", other]  # fmt: skip
    subprocess.run([str(one) for one in argv], check=True, capture_output=True)
    with _network(folder, vip=True), _api(other, key):
        return _wait(installer, folder, API_MINUTES + 5)


def _own(folder: Path) -> tuple[Path, Path]:
    """The certificate and key that the installer made for the API."""
    crt, key = folder / "api.crt", folder / "api.key"
    crt.write_bytes(_from_ignition(folder, "kube-apiserver-lb-server.crt"))
    key.write_bytes(_from_ignition(folder, "kube-apiserver-lb-server.key"))
    return crt, key


def hosts_slow(installer: Path, folder: Path) -> int:
    with _network(folder, vip=True), _api(*_own(folder)):
        return _wait(installer, folder, API_MINUTES + HOSTS_MINUTES + 10)


def unstable(installer: Path, folder: Path) -> int:
    with _network(folder, vip=True), _api(*_own(folder)):
        return _run(installer, folder, 45, "wait-for", "install-complete")


def bad_config(installer: Path, folder: Path) -> int:
    """A VIP outside of the machine network."""
    text = _CONFIG.replace("apiVIPs: [192.0.2.5]", "apiVIPs: [198.51.100.5]")
    return _create(installer, folder, text)


def no_libvirt(installer: Path, folder: Path) -> int:
    return _create(installer, folder, _CONFIG)


def _create(installer: Path, folder: Path, text: str) -> int:
    fresh = folder / "fresh"
    fresh.mkdir()
    (fresh / "install-config.yaml").write_text(text)
    with _network(folder):
        subprocess.run(
            ["mount", "-t", "tmpfs", "none", "/run"], check=True
        )  # whoever's libvirt runs here is not for it
        code = _run(installer, fresh, 5, "create", "cluster")
    for name in (SAID, ".openshift_install.log"):
        shutil.copy(fresh / name, folder / name)
    return code


def no_gather(installer: Path, folder: Path) -> int:
    with _network(folder):
        return _run(installer, folder, 5, "gather", "bootstrap")


def _analyze(installer: Path, folder: Path, services: Mapping[str, Sequence[Mapping[str, str]]]) -> int:
    """What a bootstrap machine's units wrote down of themselves, as its gathering packs it."""
    bundle = folder / "log-bundle.tar.gz"
    with tarfile.open(bundle, "w:gz") as packed:
        for service, entries in services.items():
            data = json.dumps(list(entries)).encode()
            member = tarfile.TarInfo(f"log-bundle-1/bootstrap/services/{service}.json")
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    return _run(installer, folder, 5, "analyze", f"--file={bundle}")


def _began(**more: str) -> dict[str, str]:
    return {"timestamp": "2026-01-01T00:00:00Z", "phase": "service start", **more}


def _ended(**more: str) -> dict[str, str]:
    return {"timestamp": "2026-01-01T00:00:09Z", "phase": "service end", "result": "failure", **more}


def release_image(installer: Path, folder: Path) -> int:
    words = "Error: initializing source docker://registry.invalid/release: no such host"
    return _analyze(installer, folder, {"release-image": [_began(), _ended(errorMessage=words)]})


def bootkube(installer: Path, folder: Path) -> int:
    stage = {"timestamp": "2026-01-01T00:00:02Z", "phase": "stage start", "stage": "cb-bootstrap"}
    failed = {
        **stage,
        "phase": "stage end",
        "result": "failure",
        "errorLine": "12 main bootkube.sh",
        "errorMessage": "time-out",
    }
    well = [_began(), {**_ended(), "result": "success"}]
    return _analyze(installer, folder, {"release-image": well, "bootkube": [_began(), stage, failed, _ended()]})


CASES: dict[str, Callable[[Path, Path], int]] = {
    "installer/api-name-unknown": name_unknown,
    "installer/api-silent": silent,
    "installer/api-certificate": certificate,
    "installer/hosts-slow": hosts_slow,
    "installer/operators-unstable": unstable,
    "installer/install-config": bad_config,
    "installer/site": no_libvirt,
    "installer/no-gather": no_gather,
    "installer/release-image": release_image,
    "installer/bootkube": bootkube,
}
"""By the rule that is to find it."""
SHORT = (
    "installer/install-config", "installer/site", "installer/no-gather", "installer/release-image", "installer/bootkube",
)  # fmt: skip
"""Those that end within seconds, or minutes."""
ANALYZED = ("installer/release-image", "installer/bootkube")
"""Where it was asked what a failure was: that it was told is no failure."""


def record(installer: Path, folder: Path, cases: Sequence[str] = tuple(CASES)) -> dict[str, int]:
    """The exit code of each; its folder is left as the installer left it."""
    running = {}
    configured = folder / "configured"
    configure(installer, configured)
    for case in cases:
        place = folder / case.partition("/")[2]
        shutil.copytree(configured, place)
        inside = [sys.executable, "-m", "tests.real.planting_installer", "--inside", case, str(installer), str(place)]
        running[case] = subprocess.Popen(["unshare", "--net", "--mount", *inside], cwd=ROOT)
    return {case: process.wait() for case, process in running.items()}


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        sys.exit(CASES[sys.argv[2]](Path(sys.argv[3]), Path(sys.argv[4])))
    found = record(Path(os.environ["INSTALLER"]), Path(sys.argv[1]), sys.argv[2:] or tuple(CASES))
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
