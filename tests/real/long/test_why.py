"""Faults planted in real programs, one at a time: `rackless why` finds that one first, and nothing where nothing is wrong.

No server is needed in these labs, so they cost little. `tests/diagnosis/data` is what such runs wrote.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from rackless.diagnosis import bootstrap_evidence
from rackless.diagnosis.bootstrap_evidence import BootstrapEvidence
from rackless.diagnosis.evidence import read_agent, read_complaint, read_console, read_kernel
from rackless.diagnosis.installer_run import parse_run
from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.lab_rules import LAB_RULES
from rackless.diagnosis.remedy import read_tried
from rackless.diagnosis.rule import explain
from rackless.diagnosis.rules import bootstrap, installer, provisioning
from rackless.diagnosis.rules.logs import JOURNAL_PATTERNS
from rackless.errors import FINDINGS
from rackless.lab.network_boot import read_log
from rackless.run.supervise import HOPELESS
from tests.diagnosis.test_lab_rules import cluster, taken_in
from tests.real import (
    openshift,
    planting,
    planting_agent,
    planting_bootstrap,
    planting_cluster,
    planting_image,
    planting_installer,
    planting_ironic,
    planting_names,
    planting_node,
    planting_pxe,
)
from tests.real.conftest import ROOT, PretendHost, kill
from tests.real.test_lab_life import start, wait_for
from tests.real.test_stranger import KEY, PULL_SECRET

pytestmark = [pytest.mark.real, pytest.mark.long("why")]

JOURNALS = {
    "cluster/vip-stranger": "vip-stranger.log",
    "cluster/etcd-clock": "etcd-clock.log",
    "cluster/etcd-disk-slow": "etcd-disk-slow.log",
    "cluster/etcd-member-slow": "etcd-member-slow.log",
    "cluster/localhost-v6": "journal-localhost-v6.log",
}
LAB = "servers: {node: {role: worker, count: 1, memory: 1GiB}}\n"
BMC = "192.168.112.20"
UP = 900
TRIES = 20
"""To kill an `up` in the moment before it writes the lab's description."""


def test_dnsmasq_and_firmware_say_what_the_rules_know(tmp_path: Path) -> None:
    planting.record(tmp_path)
    said = {
        name: read_log((tmp_path / f"dnsmasq-{name}.log").read_text().splitlines(), mac, planting.ADDRESS)
        for name, mac in (
            *(
                (name, planting.SECOND)
                for name in ("pool-empty", "wrong-network", "leased-to-another", "well", "ignored")
            ),
            ("reserved", planting.FIRST),
        )
    }
    assert said["pool-empty"].refused == "no address available"
    assert said["wrong-network"].refused == "DHCP had no range for the network that it was asked on"
    assert said["leased-to-another"].refused == f"its address {planting.ADDRESS} is leased to {planting.FIRST}"
    assert said["reserved"].refused == f"the address {planting.ADDRESS} that it asks for is reserved for another MAC"
    assert said["well"].refused == "" and said["well"].offered == planting.ADDRESS
    assert said["ignored"].asked and said["ignored"].offered is None and said["ignored"].refused == ""
    consoles = {
        name: "\n".join(read_console(tmp_path / f"console-{name}.log"))
        for name in ("secure-boot", "uefi-bios-image", "bios-uefi-image")
    }
    assert re.search("Access Denied|Security Violation", consoles["secure-boot"])
    assert "Shell>" in consoles["uefi-bios-image"] and "No bootable device" in consoles["bios-uefi-image"]
    assert (
        not read_kernel(tmp_path / "console-no-kernel.log") and read_complaint(tmp_path / "console-no-kernel.log") == ""
    )
    for mode, device in (("uefi", "UEFI QEMU HARDDISK"), ("bios", "Hard Disk")):
        started = read_complaint(tmp_path / f"console-boot-order-{mode}.log")
        assert started.startswith(f"the firmware says: it starts from {device}")
    assert "Permission denied" in (tmp_path / "qemu-permission.txt").read_text()
    assert read_complaint(tmp_path / "console-memory.log").startswith("the kernel says: ")


def test_firmware_that_boots_over_a_network_says_what_the_rules_know(tmp_path: Path) -> None:
    planting_pxe.record(tmp_path)
    said = {case: read_complaint(planting_pxe.file_of(tmp_path, *case)) for case in planting_pxe.ENDS}
    assert said.pop(("ovmf", "tftp")).startswith("the firmware says: PXE-E18: Server response timeout")
    assert said.pop(("ovmf", "dhcp")).startswith("the firmware says: no address: PXE-E18: Server response timeout")
    for (_, fault), words in said.items():
        assert words.startswith("the firmware says: ")
        assert words.endswith(": Connection timed out" if fault == "tftp" else "No configuration methods succeeded")


def test_programs_of_a_node_say_what_the_rules_know(tmp_path: Path) -> None:
    planting_node.record(tmp_path)
    for pattern in JOURNAL_PATTERNS:
        said = (tmp_path / JOURNALS[pattern.rule]).read_text().splitlines()
        assert len([line for line in said if re.search(pattern.pattern, line)]) >= pattern.times, pattern.rule
    fetched = (tmp_path / "console-ignition-missing.log").read_text()
    assert "GET http://127.0.0.1:18099/motd" in fetched and "FAILED: Ignition, stage files" in fetched
    assert "FAILED: Ignition, stage fetch" in (tmp_path / "console-ignition-invalid.log").read_text()
    for file in ("etcd-well.log", "vip-well.log"):
        well = (tmp_path / file).read_text()
        assert well and not any(re.search(pattern.pattern, well) for pattern in JOURNAL_PATTERNS), file


def test_the_agent_says_what_the_rules_know(tmp_path: Path) -> None:
    planting_agent.record(tmp_path)
    said = {
        name: read_complaint(tmp_path / f"console-agent-{name}.log")
        for name in ("address", "certificate", "clock", "not-ironic")
    }
    assert said["address"] == f"the agent says: no way to {planting_agent.URL}: [Errno 111] Connection refused"
    assert (
        said["certificate"]
        == f"the agent says: no way to {planting_agent.URL}: certificate verify failed: self-signed certificate"
    )
    assert (
        said["clock"]
        == f"the agent says: no way to {planting_agent.URL}: certificate verify failed: certificate is not yet valid"
    )
    assert said["not-ironic"] == f"the agent says: no way to {planting_agent.URL}: Error 404"


def test_the_agent_says_of_images_and_disks_what_the_rules_know(tmp_path: Path) -> None:
    planting_image.record(tmp_path)
    found = {name: [one.rule for one in explain(LAB_RULES, taken_in(name, tmp_path))] for name in planting_image.CASES}
    other = {"image-refused": "image-fetch", "image-stalls": "image-fetch", "disk-full": "disk-small"}
    assert found == {name: [f"host/{other.get(name, name)}"] for name in planting_image.CASES}


def test_ironic_and_bmcs_say_what_the_rules_know(tmp_path: Path) -> None:
    planting_ironic.record(tmp_path)
    cases = (*planting_ironic.REGISTERING, *planting_ironic.INSPECTING, "bmc-certificate", "bmc-locked", "media-slow")
    said = {name: (tmp_path / f"error-{name}.txt").read_text() for name in cases}
    hosts = [
        {"metadata": {"name": name}, "status": {"errorType": "registration error", "errorMessage": error}}
        for name, error in said.items()
    ]
    found = explain(provisioning.RULES, LabEvidence("lab", "running", hosts=hosts))
    assert {one.cause.subject: one.rule for one in found} == {f"host/{name}": f"host/{name}" for name in said}
    called = read_agent(tmp_path / "ironic-token.log", [planting_ironic.AGENT])
    assert called is not None and "and was refused with 4" in called


def test_the_real_installer_says_what_the_rules_know(tmp_path: Path) -> None:
    """In seconds; where it waits for 20 minutes and more before it says so, `tests/real/planting_installer.py` is run by hand."""
    codes = planting_installer.record(openshift.installer(), tmp_path, planting_installer.SHORT)
    for rule, code in codes.items():
        folder = tmp_path / rule.partition("/")[2]
        log = (folder / ".openshift_install.log").read_text() + (folder / planting_installer.SAID).read_text()
        (found,) = explain(installer.RULES, parse_run("log", log))
        assert found.rule == rule
        if rule not in planting_installer.ANALYZED:
            assert found.cause.evidence[-1].text.startswith(f"{code}, ")


def test_a_look_at_the_surroundings_sees_what_was_planted(tmp_path: Path) -> None:
    planting_names.record(tmp_path)
    seen = {path.stem.removeprefix("surroundings-"): json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert seen["one-dhcp"]["dhcp"] == {"cluster": []} and seen["two-dhcp"]["dhcp"] == {"cluster": ["192.0.2.99"]}
    answers = {name: {one["question"]: one.get("found") for one in told["names"]} for name, told in seen.items()}
    assert answers["names-well"]["api.lab.test"] == ["192.0.2.5"] and answers["names-missing"]["api.lab.test"] == []
    assert answers["names-wrong"]["api.lab.test"] == ["192.0.2.77"]
    assert answers["names-reverse"]["192.0.2.20"] == ["other.lab.test"]
    assert "dnsmasq" in answers["names-well"]["version.bind"][0] and answers["names-another"]["version.bind"] == []
    assert seen["names-silent"]["names"][0]["problem"] == "Connection refused"


def test_a_cluster_without_machines_is_seen_as_the_rules_know_it(tmp_path: Path) -> None:
    planting_cluster.record(tmp_path)
    found = {
        path.stem.removeprefix("cluster-"): [one.rule for one in explain(LAB_RULES, cluster(path.stem[8:], tmp_path))]
        for path in tmp_path.glob("*.json")
    }
    faults = (
        "no-quorum",
        "vip-two",
        "vip-nobody",
        "vip-not-ready",
        "etcd-member",
        "node-not-ready",
        "csr-ours",
        "csr-pending",
    )
    assert found == {
        **{name: [f"cluster/{name}"] for name in faults}, "no-host": ["machine/no-host"],
        **{name: [] for name in ("etcd-well", "vip-well", "node-well")},
    }  # fmt: skip


def test_the_parts_of_a_bootstrap_machine_tell_what_the_rules_know(tmp_path: Path) -> None:
    planting_bootstrap.record(tmp_path)
    found = {}
    for name in ("no-address", "payload-away", "payload-missing", "etcd-member", "ironic", "hand-over", "manifest"):
        told = bootstrap_evidence.read_console((tmp_path / f"bootstrap-{name}.log").read_text())
        seen = BootstrapEvidence("lab", {"lab-bootstrap": told}, ended=False)
        found[name] = [one.rule for one in explain(bootstrap.RULES, seen)]
    assert found == {
        "no-address": ["bootstrap/no-address"],
        "payload-away": ["bootstrap/payload"],
        "payload-missing": ["bootstrap/payload"],
        "etcd-member": ["bootstrap/etcd-member"],
        "ironic": ["bootstrap/ironic"],
        "hand-over": ["bootstrap/hand-over"],
        "manifest": ["bootstrap/failed"],
    }


def why(host: PretendHost, *more: str) -> list[dict[str, Any]]:
    done = host.rackless("why", "--json", *more, check=False)
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    assert done.returncode == (FINDINGS if findings else 0), done.stderr
    return findings


def rules(host: PretendHost) -> list[str]:
    return [one["rule"] for one in why(host)]


def await_rules(host: PretendHost, *wanted: str, within: float = 240) -> None:
    deadline, seen = time.monotonic() + within, ["nothing yet"]
    while time.monotonic() < deadline:
        if (seen := rules(host)) == list(wanted):
            return
        time.sleep(1)
    pytest.fail(f"{wanted} were not found, but {seen}")


def begin(host: PretendHost, more: str = "") -> None:
    (host.folder / "lab.yaml").write_text(LAB + more)
    host.rackless("up", "--until", "engine", timeout=UP)
    assert rules(host) == []


def test_an_up_that_is_killed_before_and_in_the_middle_of_the_labs_making_is_told_and_goes_on(
    host: PretendHost,
) -> None:
    (host.folder / "lab.yaml").write_text(LAB)
    ledger, state = host.folder / "state/lab.ledger", host.folder / "state/lab"
    for _ in range(TRIES):
        up = start(host, "up", "--until", "lab")
        while not ledger.exists() and up.poll() is None:
            time.sleep(0.0005)
        up.kill()
        up.wait()
        if not (state / "spec.json").exists():
            break
        host.rackless("destroy", "--yes")  # it was quicker
    await_rules(host, "lab/not-begun")
    host.rackless("up", "--until", "lab", timeout=UP)
    await_rules(host)

    up = start(host, "up", "--until", "engine")
    journal = state / "journal.jsonl"
    wait_for(lambda: journal.read_text().count('"begun"') > journal.read_text().count('"ended"'))
    up.kill()
    up.wait()
    kill(int((host.folder / "run/lab/labd.pid").read_text().split()[0]))
    await_rules(host, "lab/up-cut-off")
    host.rackless("up", "--until", "engine", timeout=UP)
    await_rules(host)


def test_a_daemon_of_another_version_is_told_and_replaced(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text(LAB)
    host.rackless("up", "--until", "lab", timeout=UP)
    assert rules(host) == []
    module, other = ROOT / "src/rackless/__init__.py", host.folder / "another-version.py"
    other.write_text(module.read_text() + "\n# of another version\n")
    host.run("mount", "--bind", str(other), str(module))
    assert rules(host) == ["lab/other-version"]
    host.rackless("up", "--until", "lab", timeout=UP)
    await_rules(host)


def test_memory_that_is_used_up_is_told(host: PretendHost, tmp_path: Path) -> None:
    """By what the kernel of a guest says whose memory was really taken; nobody takes all of this computer's."""
    planting.plant_little_memory(tmp_path)
    (host.folder / "lab.yaml").write_text(LAB)
    host.rackless("up", "--until", "lab", timeout=UP)
    assert rules(host) == []
    host.run("mount", "--bind", str(tmp_path / "meminfo-scarce.txt"), "/proc/meminfo")
    (found,) = why(host)
    assert found["rule"] == "lab/no-memory" and found["evidence"][0]["source"] == "/proc/meminfo"
    host.run("umount", "/proc/meminfo")
    assert rules(host) == []


@contextmanager
def obstacle(host: PretendHost, verdict: str) -> Iterator[None]:
    """What Ironic sends to the BMC gets this verdict of a firewall."""
    host.rackless(
        "exec",
        "--",
        "nft",
        "add table inet obstacle; add chain inet obstacle leaving { type filter hook output priority -10; }",
    )
    host.rackless("exec", "--", "nft", f"add rule inet obstacle leaving ip daddr {BMC} tcp dport 443 {verdict}")
    yield
    host.rackless("exec", "--", "nft", "delete table inet obstacle")


def test_a_program_that_cannot_start_is_found_and_started_when_its_cause_is_gone(host: PretendHost) -> None:
    begin(host)
    configuration = host.folder / "state/lab/ironic/ironic.conf"
    away = configuration.rename(configuration.with_suffix(".away"))
    os.kill(int((host.folder / "run/lab/ironic.pid").read_text().split()[0]), signal.SIGKILL)
    await_rules(host, "lab/part-down")
    away.rename(configuration)
    host.rackless("why", "--fix", "--yes", check=False)  # labd itself may have been faster
    await_rules(host)
    assert '"part-ended"' in host.rackless("events", "--json").stdout


def test_a_program_that_ends_again_and_again_and_certificates_that_are_over(host: PretendHost) -> None:
    begin(host)
    written, ended = host.folder / "run/lab/ironic.pid", set[int]()
    while len(ended) < HOPELESS:
        pid = int(written.read_text().split()[0])
        if pid not in ended:
            kill(pid)
            ended.add(pid)
        time.sleep(0.05)
    await_rules(host, "lab/part-dies-again")
    await_rules(host)
    over(host.folder / "state/lab/secrets/tls", "ironic")
    await_rules(host, "lab/certificates-over")
    (found,) = why(host)
    assert [one["source"] for one in found["evidence"]] == ["secrets/tls/ironic.crt"]
    host.rackless("down")
    host.rackless("up", "--until", "engine", timeout=UP)
    await_rules(host)


def test_a_libvirt_that_refuses_the_bootstrap_machine_is_told_from_the_installers_folder(host: PretendHost) -> None:
    """Where the installer wants a folder for its storage pool, there is a file."""
    installer, folder = openshift.installer(), host.folder / "cluster"
    folder.mkdir()
    (host.folder / "pull-secret").write_text(PULL_SECRET)
    (host.folder / "key.pub").write_text(KEY)
    (host.folder / "lab.yaml").write_text("servers: {ctrl: {role: control-plane, count: 3}}\n")
    host.rackless("up", "--until", "bmc", timeout=UP)
    host.rackless("install-config", "--version", "5.0", "--pull-secret", "pull-secret", "--ssh-key", "key.pub")
    (host.folder / "install-config.yaml").rename(folder / "install-config.yaml")
    host.rackless("exec", "--", "touch", "/var/lib/libvirt/openshift-images")
    environment = [
        f"OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE={openshift.RELEASE}", "TERRAFORM_LIBVIRT_TEST_DOMAIN_TYPE=qemu",
        f"XDG_CACHE_HOME={host.folder}/cache", f"HOME={host.folder}", f"TMPDIR={host.folder}",
    ]  # fmt: skip
    run = ["env", *environment, str(installer), "create", "cluster", f"--dir={folder}"]
    assert host.rackless("exec", "--", *run, check=False).returncode == 4
    (found,) = why(host, "--installer-dir", str(folder))
    assert found["rule"] == "installer/bootstrap-not-made" and "openshift-images" in found["message"]


def over(folder: Path, name: str) -> None:
    """The certificate as it would be a long stop later: the same in all but its end, signed by the lab's own CA."""
    old = x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())
    ca = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(old.subject).issuer_name(ca.subject).public_key(old.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=9)).not_valid_after(now - timedelta(days=1))
    )  # fmt: skip
    for extension in old.extensions:
        made = made.add_extension(extension.value, extension.critical)
    signed = made.sign(key, hashes.SHA256())
    (folder / f"{name}.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def test_a_daemon_and_its_keeper_that_were_killed_are_found_gone_and_started(host: PretendHost) -> None:
    begin(host)
    for file in ("holder.pid", "labd.pid"):
        os.kill(int((host.folder / "run/lab" / file).read_text().split()[0]), signal.SIGKILL)
    await_rules(host, "lab/daemon-gone")
    host.rackless("why", "--fix", "--yes", check=False)
    await_rules(host)


def test_what_a_person_did_to_a_lab_and_a_disk_that_is_full_are_told(host: PretendHost) -> None:
    storage = host.folder / "small"
    storage.mkdir()
    host.run("mount", "-t", "tmpfs", "-o", "size=4g", "small", str(storage))
    (host.folder / "lab.yaml").write_text(f"storage: {storage}\n{LAB}")
    host.rackless("up", "--until", "bmc", timeout=UP)
    assert rules(host) == []
    host.run("mount", "-o", "remount,size=8m", str(storage))
    await_rules(host, "lab/no-room")
    host.run("mount", "-o", "remount,size=4g", str(storage))
    await_rules(host)
    host.rackless("bmc", "fault", "add", "refuse", "--server", "node-0")
    assert rules(host) == [], "what has not happened is not told"
    host.rackless("exec", "--", "curl", "-ks", f"https://{BMC}/redfish/v1/Systems")
    await_rules(host, "lab/fault-asked-for")
    host.rackless("bmc", "fault", "clear")
    await_rules(host)
    holder, labd = (int((host.folder / "run/lab" / file).read_text().split()[0]) for file in ("holder.pid", "labd.pid"))
    os.kill(holder, signal.SIGSTOP)  # it would start the daemon within a second
    try:
        os.kill(labd, signal.SIGKILL)
        await_rules(host, "lab/daemon-restarts")
    finally:
        os.kill(holder, signal.SIGCONT)
    await_rules(host)
    host.rackless("gather", "--output", "lab.tar.gz")
    done = host.rackless("why", "--json", "--archive", "lab.tar.gz")
    assert json.loads(done.stdout)["findings"] == []
    host.rackless("down")
    await_rules(host, "lab/stopped")


@pytest.mark.parametrize(
    ("verdict", "rule"),
    [("reject with tcp reset", "host/bmc-refused"), ("reject with icmp host-unreachable", "host/bmc-no-route")],
)
def test_a_bmc_that_refuses_and_one_that_nobody_leads_to_are_told_apart(
    verdict: str, rule: str, host: PretendHost
) -> None:
    begin(host)
    with obstacle(host, verdict):
        done = host.rackless("up", "--until", "hosts", check=False, timeout=UP)
        assert done.returncode == 6, done.stderr
        await_rules(host, rule)
        (found,) = why(host, "node-0")
        assert found["subject"] == "host/node-0" and found["fix"] == "retry-host"


@contextmanager
def stranger(host: PretendHost) -> Iterator[str]:
    """A DHCP server of somebody else's, in a namespace of its own with a cable to the lab's cluster network."""
    holder = int((host.folder / "run/lab/holder.pid").read_text().split()[0])
    other = subprocess.Popen(["unshare", "--net", "sleep", "600"])
    ours, theirs = (["nsenter", "-t", str(pid), "-n"] for pid in (holder, other.pid))
    mine = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{other.pid}/ns/net") == mine:
        time.sleep(0.05)
    bridge = json.loads(host.rackless("exec", "--", "ip", "-json", "route", "show", "192.168.111.0/24").stdout)[0][
        "dev"
    ]
    serving = None
    try:
        for argv in (
            [*ours, "ip", "link", "add", "odd0", "type", "veth", "peer", "name", "odd1"],
            [*ours, "ip", "link", "set", "odd0", "master", bridge, "up"],
            [*ours, "ip", "link", "set", "odd1", "netns", str(other.pid)],
            [*theirs, "ip", "address", "add", "192.168.111.250/24", "dev", "odd1"],
            [*theirs, "ip", "link", "set", "odd1", "up"],
        ):
            subprocess.run(argv, check=True)
        serves = [
            "dnsmasq",
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--user=root",
            "--pid-file=",
            "--port=0",
            "--interface=odd1",
            "--bind-dynamic",
            "--leasefile-ro",
            "--dhcp-range=192.168.111.251,192.168.111.252",
        ]
        serving = subprocess.Popen([*theirs, *serves], stderr=subprocess.DEVNULL)
        yield "192.168.111.250"
    finally:
        for process in (serving, other):
            if process is not None:
                process.kill()
                process.wait()


def test_a_second_dhcp_server_is_seen_in_a_lab_and_gone_when_it_is(host: PretendHost) -> None:
    begin(host)
    with stranger(host) as address:
        await_rules(host, "network/two-dhcp")
        (found,) = why(host)
        assert address in found["message"] and found["subject"] == "network/cluster"
    await_rules(host)


def test_with_auto_a_host_is_tried_again_by_the_lab_itself_and_once(host: PretendHost) -> None:
    begin(host, "remediation: auto\n")
    with obstacle(host, "reject with tcp reset"):
        done = host.rackless("up", "--until", "hosts", check=False, timeout=UP)
        assert done.returncode == 6, done.stderr
        log = host.folder / "state/lab/remedies.jsonl"
        deadline = time.monotonic() + 300
        while not log.exists() and time.monotonic() < deadline:
            time.sleep(1)
        time.sleep(90)  # three looks of the lab's
        tried = read_tried(log.read_text())
        assert [(one.remedy.cure, one.remedy.name, one.by) for one in tried] == [("retry-host", "node-0", "lab")]
    told = host.rackless("events", "--json").stdout
    assert told.count('"remedy-applied"') == 1 and '"by": "lab"' in told
