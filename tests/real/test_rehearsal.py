"""The real installer, run to "Install complete!" in the twin of a site and of the default lab; and what it leaves."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.installer.twin.configs import config, masters, nmstate
from tests.installer.twin.configs import host as site_host
from tests.real import older_installer, openshift
from tests.real.conftest import PretendHost
from tests.real.test_stranger import KEY, PULL_SECRET

pytestmark = pytest.mark.real


def rehearse(
    host: PretendHost, source: Path, installer: Path, *options: str, quick: bool = True, within: int = 1500
) -> dict[str, Any]:
    how = ("--quick",) if quick else ()
    done = host.rackless(
        "rehearse", str(source), "--installer", str(installer), *how, "--json", "--no-install", *options,
        check=False, timeout=within,
    )  # fmt: skip
    assert done.returncode in (0, 10), f"{done.stdout}\n{done.stderr}"
    assert "very-secret" not in done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def leaves_nothing(host: PretendHost, lab: str) -> None:
    """No process, no file, no mount of the lab."""
    assert host.inhabitants(lab) == []
    left = [str(path) for folder in ("state", "run") for path in (host.folder / folder).glob("*")]
    assert left == []


def proven(report: dict[str, Any]) -> set[str]:
    return {one["subject"] for one in report["proven"]}


def good_config(name: str) -> str:
    data = openshift.tools().parent / "data/install-config"
    if not data.exists():
        pytest.skip("the recorded verdicts of the installer are not at hand")
    return (data / f"good-{name}.yaml").read_text()


def test_the_installer_comes_to_its_end_on_the_default_labs_own_config(host: PretendHost) -> None:
    installer = openshift.installer()
    (host.folder / "pull-secret").write_text(PULL_SECRET)
    (host.folder / "key.pub").write_text(KEY)
    (host.folder / "password").write_text("very-secret")
    options = ("--pull-secret", "pull-secret", "--ssh-key", "key.pub", "--bmc-password-file", "password")
    host.rackless("install-config", "--version", "5.0", *options)
    report = rehearse(host, host.folder / "install-config.yaml", installer)
    assert report["good"] and report["exitCode"] == 0, report
    assert proven(report) >= {"firmware and live ISO", "MAC and lease", "BMC access", "hand-over", "kubeconfig"}
    leaves_nothing(host, "lab")


def test_a_twin_whose_bmcs_share_the_gateway_is_rehearsed(host: PretendHost) -> None:
    installer = openshift.installer()
    source = host.folder / "site.yaml"
    source.write_text(good_config("disabled-vmedia"))
    report = rehearse(host, source, installer, "-o", "out")
    assert report["good"] and report["failed"] == [] and report["notReached"] == [], report
    assert len([one for one in report["proven"] if one["subject"] == "BMC access"]) == 5
    assert "testsuite" in (host.folder / "out/rehearsal.junit.xml").read_text()
    leaves_nothing(host, "ostest")


LAB = """\
name: lab
servers: {ctrl: {role: control-plane, count: 3}}
cluster: {method: openshift, openshift: {installer: %s, payload: %s}}
"""


def test_a_lab_whose_cluster_the_installer_makes_stands_there_and_is_known(host: PretendHost) -> None:
    """By a quick rehearsal; the simulated cluster answers for as long as the lab is there, also after `down` and `up`."""
    (host.folder / "lab.yaml").write_text(LAB % (openshift.installer(), "quick"))
    host.rackless("up", "--no-install")
    assert host.status()["install"]["state"] == "complete"
    _ask_cluster(host)
    assert "nothing is wrong" in host.rackless("why").stdout
    host.rackless("down")
    again = host.rackless("up", "--no-install")
    assert "Install complete!" not in again.stdout
    openshift.within(lambda: _asked(host).returncode == 0, 60)
    _ask_cluster(host)
    host.rackless("destroy", "--yes")
    leaves_nothing(host, "lab")


def _asked(host: PretendHost) -> subprocess.CompletedProcess[str]:
    config = host.folder / "kubeconfig"
    config.write_text(host.rackless("kubeconfig").stdout)
    what = ("get", "clusterversion/version", "-o", "jsonpath={.status.conditions[0].status}")
    return host.run("kubectl", f"--kubeconfig={config}", f"--cache-dir={host.folder / 'cache'}", *what, check=False)


def _ask_cluster(host: PretendHost) -> None:
    """From the hypervisor, by what `rackless kubeconfig` gives."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    done = _asked(host)
    assert done.stdout == "True", done.stderr


def test_a_real_install_goes_as_far_as_its_first_pull_and_why_says_in_a_sentence_what_is_missing(
    host: PretendHost,
) -> None:
    """Nothing leads out of this lab: the release cannot be asked, and the live ISO not be fetched."""
    installer, oc = openshift.installer(), host.folder / "bin/oc"
    oc.parent.mkdir()
    oc.write_text(f'#!/bin/sh\necho "$@" >> {host.folder}/asked\necho "error: no route to the release" >&2\nexit 1\n')
    oc.chmod(0o755)
    (host.folder / "pull-secret").write_text(PULL_SECRET)
    settings = f"real, oc: {oc}, pull_secret: {host.folder / 'pull-secret'}"
    (host.folder / "lab.yaml").write_text(LAB % (installer, settings))
    done = host.rackless("up", "--no-install", check=False)
    assert done.returncode == 5, done.stdout + done.stderr
    assert "exited with 4" in done.stderr and "networks.uplink is none" in done.stdout + done.stderr
    assert "adm release info" in (host.folder / "asked").read_text()  # it was seen from inside the lab
    told = host.status()["install"]
    assert (told["state"], told["code"], told["payload"]) == ("failed", 4, "real")
    why = host.rackless("why", "--json", check=False)
    (found,) = json.loads(why.stdout)["findings"]
    assert found["rule"] == "installer/iso-not-fetched", found
    again = host.rackless("up", "--no-install", check=False)  # what the installer left does not stand in its way
    assert "exited with 4" in again.stderr and "already exists" not in again.stderr
    host.rackless("destroy", "--yes")
    leaves_nothing(host, "lab")


@pytest.mark.long("rehearsal")
@pytest.mark.parametrize("name", ["compact-3-masters", "ntp", "prov-gateway"])
def test_other_good_configs_are_rehearsed(host: PretendHost, name: str) -> None:
    installer = openshift.installer()
    (host.folder / "site.yaml").write_text(good_config(name))
    report = rehearse(host, host.folder / "site.yaml", installer)
    assert report["good"], report
    leaves_nothing(host, "ostest")


@pytest.mark.long("rehearsal")
def test_a_twin_is_asked_live_as_the_site_would_be(host: PretendHost) -> None:
    """And nothing is wrong with it, but that its BMCs have certificates of the lab's CA."""
    (host.folder / "site.yaml").write_text(good_config("disabled-vmedia"))
    host.rackless("init", "--from", "site.yaml", "-o", "lab.yaml")
    host.rackless("up", "--until", "bmc", "--no-install")
    check = ("check", "install-config", "--live", "--json", "site.yaml")
    done = host.rackless("exec", "--", str(openshift.PYTHON), "-P", "-m", "rackless", *check, check=False)
    probes = json.loads(done.stdout)["live"]
    bad = [one for one in probes if one["outcome"] == "failed" and "certificate" not in one["saw"]]
    assert bad == [] and {"ok"} <= {one["outcome"] for one in probes}, json.dumps(probes, indent=1)
    host.rackless("destroy", "--yes")
    leaves_nothing(host, "ostest")


@pytest.mark.long("rehearsal")
def test_an_installer_whose_bootstrap_boots_a_disk_is_rehearsed(host: PretendHost) -> None:
    """A stand-in for one of 4.16 to 4.21; what it leaves to the real installer is that one's."""
    older = older_installer.write(host.folder / "openshift-install", openshift.installer())
    (host.folder / "site.yaml").write_text(good_config("disabled-vmedia"))
    report = rehearse(host, host.folder / "site.yaml", older)
    assert report["good"] and older_installer.RELEASE in report["installer"], report
    leaves_nothing(host, "ostest")


@pytest.mark.long("rehearsal")
def test_a_site_is_rehearsed_in_full_and_its_nodes_are_servers_that_ironic_wrote(host: PretendHost) -> None:
    """Three control planes with BMCs in the machine network."""
    installer = openshift.installer()
    hosts = masters("redfish-virtualmedia://10.20.30.22{n}/redfish/v1/Systems/1")
    mac = {"externalMACAddress": "52:54:00:11:22:33"}
    source = host.folder / "site.yaml"
    source.write_text(config(hosts, provisioningNetwork="Disabled", top={"sshKey": KEY}, **mac))  # type: ignore[arg-type]
    report = rehearse(host, source, installer, quick=False, within=5400)
    assert report["good"] and report["exitCode"] == 0, report
    told = {one["subject"]: one["saw"] for one in report["proven"]}
    assert told["nodes"] == "master-0 ready, master-1 ready, master-2 ready"
    assert told["hosts installed"] == "by Ironic: master-0 provisioned, master-1 provisioned, master-2 provisioned"
    assert "the config of a master" in told["machine-config server"]
    leaves_nothing(host, "site")


def _nmstate_site(**more: object) -> str:
    hosts = [
        site_host(n, f"redfish-virtualmedia://10.9.9.1{n}/redfish/v1/Systems/System.Embedded.1",
                  networkConfig=nmstate(f"10.20.30.20{n}", "10.20.30.254")) for n in range(3)
    ]  # fmt: skip
    return config(hosts, provisioningNetwork="Disabled", top={"sshKey": KEY}, **more)  # type: ignore[arg-type]


@pytest.mark.long("rehearsal")
def test_a_site_with_fixed_addresses_and_bmcs_of_a_vendor_is_rehearsed(host: PretendHost) -> None:
    installer = openshift.installer()
    (host.folder / "site.yaml").write_text(_nmstate_site(externalMACAddress="52:54:00:11:22:33"))
    report = rehearse(host, host.folder / "site.yaml", installer)
    assert report["good"], report


@pytest.mark.long("rehearsal")
def test_a_site_whose_bootstrap_has_a_fixed_address_is_rehearsed(host: PretendHost) -> None:
    """Without a pool, with a MAC of the installer's choice, with a name server elsewhere: only the file knows the address."""
    installer = openshift.installer()
    fixed = {"bootstrapExternalStaticIP": "10.20.30.90", "bootstrapExternalStaticGateway": "10.20.30.254",
             "bootstrapExternalStaticDNS": "10.0.0.53"}  # fmt: skip
    (host.folder / "site.yaml").write_text(_nmstate_site(**fixed))
    report = rehearse(host, host.folder / "site.yaml", installer, "--dhcp", "static-only")
    told = [one["saw"] for one in report["proven"] if one["subject"] in ("MAC and lease", "DNS forward")]
    assert report["good"] and "got 10.20.30.90/24" in told[0] and len(told) == 4, report
    leaves_nothing(host, "site")


_PXE = "redfish://10.20.30.22{n}/redfish/v1/Systems/1"
FULL_SITE = config(
    [
        site_host(0, "idrac-virtualmedia://10.20.30.220/redfish/v1/Systems/System.Embedded.1",
                  networkConfig=nmstate("10.20.30.200", "10.20.30.254", "0c:42:a1:99:00:00"),
                  rootDeviceHints={"serialNumber": "S3XNNX0K10", "minSizeGigabytes": 400}),
        site_host(1, _PXE.format(n=1)), site_host(2, _PXE.format(n=2)), site_host(0, _PXE.format(n=3), "worker"),
    ],
    top={"sshKey": KEY},
    bootstrapExternalStaticIP="10.20.30.90", bootstrapExternalStaticGateway="10.20.30.254",
    bootstrapExternalStaticDNS="10.20.30.254", externalMACAddress="52:54:00:11:22:33",
)  # fmt: skip
"""A network to boot from: one control plane boots by virtual media, the rest by PXE; it and the bootstrap have fixed addresses."""


@pytest.mark.long("rehearsal-more")
def test_a_site_with_a_network_to_boot_from_fixed_addresses_and_a_worker_is_rehearsed_in_full(
    host: PretendHost,
) -> None:
    installer = openshift.installer()
    (host.folder / "site.yaml").write_text(FULL_SITE)
    report = rehearse(host, host.folder / "site.yaml", installer, quick=False, within=5400)
    assert report["good"] and report["exitCode"] == 0, json.dumps(report, indent=1)
    told = {one["subject"]: one["saw"] for one in report["proven"]}
    names = ["master-0", "master-1", "master-2", "worker-0"]
    assert told["hosts installed"] == f"by Ironic: {', '.join(f'{name} provisioned' for name in names)}"
    assert told["nodes"] == ", ".join(f"{name} ready" for name in names)
    assert told["provisioning network"] == "DHCP, iPXE and Ironic at 172.22.0.2"
    assert "10.20.30.90/24" in told["MAC and lease"]
    leaves_nothing(host, "site")


@pytest.mark.long("rehearsal-more")
def test_a_full_rehearsal_whose_first_host_is_to_be_in_error_is_refused_by_its_bmc(host: PretendHost) -> None:
    """Over a network to boot from: Ironic on the bootstrap says so itself."""
    installer = openshift.installer()
    (host.folder / "site.yaml").write_text(FULL_SITE)
    report = rehearse(host, host.folder / "site.yaml", installer, "--fail", "host-error", quick=False, within=2400)
    assert report["good"] and report["exitCode"] == 8, json.dumps(report, indent=1)
    told = {one["subject"]: one["saw"] for one in report["proven"]}
    assert told["provisioning network"] == "DHCP, iPXE and Ironic at 172.22.0.2", json.dumps(report, indent=1)
    assert "master-0, which is in error" in told["exit code"]
    leaves_nothing(host, "site")


@pytest.mark.long("rehearsal")
@pytest.mark.parametrize(
    ("fault", "code"),
    [("iso-missing", 4), ("iso-damaged", 4), ("bootstrap-off", 1), ("no-console", 0), ("host-error", 8), ("configmap-missing", 8),
     ("etcd-stays", 8), ("operator-degraded", 8), ("operator-unstable", 8), ("interrupted", 8)],
)  # fmt: skip
def test_the_installer_ends_as_it_does_at_a_site(host: PretendHost, fault: str, code: int) -> None:
    installer = openshift.installer()
    (host.folder / "site.yaml").write_text(good_config("disabled-vmedia"))
    report = rehearse(host, host.folder / "site.yaml", installer, "--fail", fault)
    assert report["exitCode"] == code and report["good"], report
    leaves_nothing(host, "ostest")


@pytest.mark.long("rehearsal-more")
def test_an_api_that_never_comes_up_is_waited_for_until_the_installers_own_patience_ends(host: PretendHost) -> None:
    """20 minutes."""
    installer = openshift.installer()
    (host.folder / "site.yaml").write_text(good_config("disabled-vmedia"))
    options = ("--fail", "api-never-up", "--patience", "3600")
    report = rehearse(host, host.folder / "site.yaml", installer, *options, within=2400)
    assert report["exitCode"] == 5 and report["good"], report
    leaves_nothing(host, "ostest")


MOMENTS = (
    "twin", "Creating infrastructure", "for the Kubernetes API", "API v", "for bootstrapping to complete",
    "Destroying the bootstrap", "to initialize",
)  # fmt: skip
"""The first moment of the twin, and lines of the installer's."""


@pytest.mark.long("rehearsal")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_rehearsal_that_is_stopped_in_any_phase_is_run_again_and_leaves_nothing(
    host: PretendHost, how: signal.Signals
) -> None:
    """Killed, it leaves what the next one, or `destroy`, takes away: by turns. Interrupted, it takes that away itself."""
    installer = openshift.installer()
    source = host.folder / "site.yaml"
    source.write_text(good_config("disabled-vmedia"))
    argv = host.enter(
        str(openshift.PYTHON), "-P", "-m", "rackless", "rehearse", str(source), "--installer", str(installer), "--quick"
    )
    log, pin = host.folder / "state/ostest/rehearsal/installer.log", host.folder / "run/ostest/net"
    for number, moment in enumerate(MOMENTS):
        log.unlink(missing_ok=True)
        with (host.folder / "said").open("w") as said:
            first = subprocess.Popen(argv, env=host.environment, stdout=said, stderr=said)

            def there(moment: str = moment, first: subprocess.Popen[bytes] = first) -> bool:
                assert first.poll() is None, (moment, (host.folder / "said").read_text())
                return pin.exists() if moment == "twin" else log.exists() and moment in log.read_text()

            openshift.within(there, 600)
            first.send_signal(how)
            code = first.wait(timeout=300)
        if how is signal.SIGINT:
            assert code == 130, (moment, (host.folder / "said").read_text())
            leaves_nothing(host, "ostest")
        elif number % 2:
            host.rackless("destroy", "--yes", "--name", "ostest")
            leaves_nothing(host, "ostest")
    report = rehearse(host, source, installer)
    assert report["good"], report
    leaves_nothing(host, "ostest")
