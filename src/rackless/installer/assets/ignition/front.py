"""The API VIP (`rackless-vip`) and the load balancer (haproxy) of a cluster's API. Pure.

Every control plane runs the same three things: `rackless-vip`, of which the one that a record in etcd names holds the API VIP;
haproxy, which takes whatever comes to port 6443 and passes it on, bytes as they are, to an API server that is ready; and its own
API server. `rackless-vip` asks haproxy, haproxy asks the API servers: a control plane that cannot lead anybody to a ready API
server does not hold the VIP.
"""

from __future__ import annotations

from rackless.installer.assets.ignition.machines import ConfiguredCluster
from rackless.spec.address import Ip

API_PORT = 6443
"""Of haproxy, on every address of a control plane: the VIP too, when it is there."""
SERVER_PORT = 6444
"""Of the API server, on the node's own address."""
HEALTH_PORT = 6445
"""Of haproxy, on loopback: whether it knows an API server that is ready."""

INTERFACE = "cluster0"
"""The name of the node's NIC on the cluster network, whatever others it has."""
VIP_UNIT = "rackless-vip.service"
CHECK_SECONDS = 30
"""Between two questions to an API server that is well. Each is a TLS handshake, on an emulated node 40 ms at both ends; a
server that fails a client, or one question, is asked every 2 s at once."""
CA = "/etc/rackless/pki/ca.crt"


def vip_unit(vip: Ip, interface: str, keys: str, user: str, slack: str) -> str:
    """`keys` is the folder with a client's certificate for etcd, which `user` may read."""
    return f"""\
[Unit]
Description=The API's address, while etcd says that it is here
Wants=network-online.target
After=network-online.target etcd.service haproxy.service
StartLimitIntervalSec=0

[Service]
User={user}
# the address, and ARP
AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW
NoNewPrivileges=yes
# the standard library and our own modules, nothing else: each costs an emulated machine time
Environment=PYTHONPATH=/opt/rackless/rackless.whl
ExecStart=/usr/bin/python3 -SP -m rackless.node.vip.main {vip} {interface} {HEALTH_PORT} {keys}
Restart=always
RestartSec=2
{slack}

[Install]
WantedBy=multi-user.target
"""


def haproxy_cfg(plan: ConfiguredCluster) -> str:
    servers = "".join(
        f"    server {member.name} {member.address}:{SERVER_PORT} check-sni {member.fqdn} verifyhost {member.fqdn}\n"
        for member in plan.control_planes
    )
    return f"""\
global
    log stderr format short daemon notice
    user haproxy
    group haproxy
    maxconn 2000
    nbthread 1

defaults
    log global
    mode tcp
    maxconn 2000
    timeout connect 5s
    timeout check 20s
    # a watch may be silent for long; whether the other side still lives, TCP finds out, within half a minute
    timeout client 24h
    timeout server 24h
    option clitcpka
    option srvtcpka
    srvtcpka-idle 10s
    srvtcpka-intvl 5s
    srvtcpka-cnt 3
    # who leads to a server that has just died tries another one at once
    option redispatch 1
    retries 2

frontend api
    bind :{API_PORT}
    default_backend api

backend api
    balance leastconn
    option httpchk GET /readyz
    http-check expect status 200
    default-server check check-ssl verify required ca-file {CA}
    default-server inter {CHECK_SECONDS}s fastinter 2s downinter 3s fall 2 rise 1 on-marked-down shutdown-sessions
    default-server observe layer4 error-limit 1 on-error fastinter
{servers}
frontend health
    mode http
    bind 127.0.0.1:{HEALTH_PORT}
    timeout client 5s
    monitor-uri /ready
    monitor fail if {{ nbsrv(api) lt 1 }}
"""
