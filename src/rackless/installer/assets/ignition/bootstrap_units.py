"""What runs on the bootstrap machine besides a control plane's own: each a unit, with a state that systemd shows. Pure.

They tell how they go on the console too, where the hypervisor reads it: a bootstrap whose network does not work can still say so.
"""

from __future__ import annotations

from typing import Any

from rackless.installer.assets.ignition import front
from rackless.installer.assets.ignition.parts import unit

ROOT = "/opt/openshift"
"""Where manifests, keys and rendered configs are, as on OpenShift's."""
LOOPBACK_KUBECONFIG = f"{ROOT}/auth/kubeconfig-loopback"
RELEASE = f"{ROOT}/release.json"
PAYLOAD = "/opt/payload"

_TOLD = "StandardOutput=journal+console"

_MANIFESTS = f"""\
[Unit]
Description=The cluster's manifests, brought into its API
Wants=rackless-api.service
After=rackless-api.service haproxy.service
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/rackless bootstrap manifests --root {ROOT} --kubeconfig {LOOPBACK_KUBECONFIG}
# the API of a slow machine comes up minutes after this unit is started
TimeoutStartSec=infinity
Restart=on-failure
RestartSec=5
{_TOLD}

[Install]
WantedBy=multi-user.target
"""

_MACHINE_CONFIGS = f"""\
[Unit]
Description=Machine-config server
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/rackless bootstrap machine-configs --folder {ROOT}/machine-config \\
    --certificate {ROOT}/tls/machine-config-server.crt --key {ROOT}/tls/machine-config-server.key
# it reads files of root's, and may do nothing else that only root may
CapabilityBoundingSet=
NoNewPrivileges=yes
Restart=always
RestartSec=2
{_TOLD}

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
ExecStart=/usr/bin/rackless bootstrap payload --release {RELEASE} --mount {PAYLOAD}
TimeoutStartSec=infinity
Restart=on-failure
RestartSec=5
{_TOLD}

[Install]
WantedBy=multi-user.target
"""

_METAL3 = f"""\
[Unit]
Description=Ironic, its file server and the controllers of hosts
# not Requires: a payload that came at the second try would find this one given up
Wants=rackless-payload.service
After=rackless-payload.service rackless-api.service
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/rackless bootstrap metal3 --kubeconfig {LOOPBACK_KUBECONFIG} --payload {PAYLOAD} \
    --interface {front.INTERFACE}
Restart=always
RestartSec=5
{_TOLD}

[Install]
WantedBy=multi-user.target
"""


_HAND_OVER = f"""\
[Unit]
Description=Hand-over to the control plane
Wants=rackless-api.service
After=rackless-api.service
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/rackless bootstrap hand-over --root {ROOT} --vip {{vip}}
TimeoutStartSec=infinity
Restart=on-failure
RestartSec=5
{_TOLD}

[Install]
WantedBy=multi-user.target
"""


def units(vip: str, *, payload: bool) -> list[dict[str, Any]]:
    """Without a payload nobody is provisioned: there is nothing to do it with."""
    return [
        unit("rackless-manifests.service", _MANIFESTS),
        unit("rackless-machine-config.service", _MACHINE_CONFIGS),
        unit("rackless-hand-over.service", _HAND_OVER.format(vip=vip)),
        *([unit("rackless-payload.service", _PAYLOAD), unit("rackless-metal3.service", _METAL3)] if payload else []),
    ]
