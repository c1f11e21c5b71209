"""What runs on the bootstrap machine besides a control plane's own: each a unit, with a state that systemd shows. Pure.

They tell how they go on the console too, where the hypervisor reads it: a bootstrap whose network does not work can still say so.
"""

from __future__ import annotations

from typing import Any

from rackless.installer.assets.ignition import front, services
from rackless.installer.assets.ignition.parts import unit

ROOT = "/opt/openshift"
"""Where manifests, keys and rendered configs are, as on OpenShift's."""
LOOPBACK_KUBECONFIG = f"{ROOT}/auth/kubeconfig-loopback"
RELEASE = f"{ROOT}/release.json"
MANIFESTS = "rackless-manifests.service"
"""What is needed later starts after it: on an emulated machine each program takes seconds of the processor to start, and the API
and Ironic come up the later for it."""

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
{services.TOLD}

[Install]
WantedBy=multi-user.target
"""

_HAND_OVER = f"""\
[Unit]
Description=Hand-over to the control plane
Wants=rackless-api.service
After=rackless-api.service {MANIFESTS}
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/rackless bootstrap hand-over --root {ROOT} --vip {{vip}}
TimeoutStartSec=infinity
Restart=on-failure
RestartSec=5
{services.TOLD}

[Install]
WantedBy=multi-user.target
"""


def units(vip: str, *, payload: bool, provisioning: str = "") -> list[dict[str, Any]]:
    """Without a payload nobody is provisioned: there is nothing to do it with."""
    metal3 = services.metal3(LOOPBACK_KUBECONFIG, front.INTERFACE, provisioning=provisioning, whole=False)
    return [
        unit(MANIFESTS, _MANIFESTS),
        services.machine_config_server(
            f"{ROOT}/machine-config",
            f"{ROOT}/tls/machine-config-server.crt",
            f"{ROOT}/tls/machine-config-server.key",
            after=MANIFESTS,
        ),
        unit("rackless-hand-over.service", _HAND_OVER.format(vip=vip)),
        *([services.payload(RELEASE), metal3] if payload else []),
    ]
