"""The units that a bootstrap machine and, after it, a control plane run: the machine-config server, the payload, metal3. Pure.

Where their files are is told by whoever has them. They tell how they go on the console too, where the hypervisor reads it: a
machine whose network does not work can still say so.
"""

from __future__ import annotations

from typing import Any

from rackless.installer.assets.ignition.parts import unit

MACHINE_CONFIG, PAYLOAD, METAL3 = (f"rackless-{name}.service" for name in ("machine-config", "payload", "metal3"))
LATER = PAYLOAD.replace(".service", ".timer")
MOUNT = "/opt/payload"
TOLD = "StandardOutput=journal+console"


def machine_config_server(folder: str, certificate: str, key: str, *, after: str = "") -> dict[str, Any]:
    """`after` is a unit whose work comes first, on a machine that has several to start."""
    text = _MACHINE_CONFIGS.format(folder=folder, certificate=certificate, key=key, after=f" {after}" if after else "")
    return unit(MACHINE_CONFIG, text)


def payload(release: str) -> dict[str, Any]:
    return unit(PAYLOAD, _PAYLOAD.format(release=release))


def late_payload(release: str) -> list[dict[str, Any]]:
    """For a control plane: metal3 starts it when it leads. The others have no use for it until that one is lost, and fetch it
    when the install is over: it takes a minute of an emulated machine's processor."""
    return [{**payload(release), "enabled": False}, unit(LATER, _LATER)]


def metal3(kubeconfig: str, interface: str, *, provisioning: str = "", whole: bool) -> dict[str, Any]:
    """`whole` also looks after MachineSets and health checks, which a bootstrap leaves to the cluster; `provisioning` is the NIC
    with an address of its own on the network that hosts boot from."""
    more = (f" --provisioning {provisioning}" if provisioning else "") + (" --whole" if whole else "")
    words = f"--kubeconfig {kubeconfig} --payload {MOUNT} --interface {interface}{more}"
    return unit(METAL3, _METAL3.format(words=words, needs="" if whole else _NEEDS_PAYLOAD))


_MACHINE_CONFIGS = f"""\
[Unit]
Description=Machine-config server
Wants=network-online.target
After=network-online.target{{after}}
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/rackless bootstrap machine-configs --folder {{folder}} \\
    --certificate {{certificate}} --key {{key}}
# it reads files of root's, and may do nothing else that only root may
CapabilityBoundingSet=
NoNewPrivileges=yes
Restart=always
RestartSec=2
{TOLD}

[Install]
WantedBy=multi-user.target
"""

_PAYLOAD = f"""\
[Unit]
Description=Payload from the release server
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/rackless bootstrap payload --release {{release}} --mount {MOUNT}
TimeoutStartSec=infinity
Restart=on-failure
RestartSec=5
{TOLD}

[Install]
WantedBy=multi-user.target
"""

_LATER = """\
[Unit]
Description=Payload from the release server, before it is needed

[Timer]
OnActiveSec=20min
RandomizedDelaySec=10min

[Install]
WantedBy=timers.target
"""

_NEEDS_PAYLOAD = f"""\
# not Requires: a payload that came at the second try would find this one given up
Wants={PAYLOAD}
After={PAYLOAD}
"""

_METAL3 = f"""\
[Unit]
Description=Ironic, its file server and the controllers of hosts
{{needs}}After=rackless-api.service
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/rackless bootstrap metal3 {{words}}
Restart=always
RestartSec=5
{TOLD}

[Install]
WantedBy=multi-user.target
"""
