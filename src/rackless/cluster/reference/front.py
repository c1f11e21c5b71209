"""The front door of the reference cluster's API: one address that moves, and a balancer behind it. Pure.

Every control plane runs the same three things: keepalived, of which one holds the API VIP; haproxy, which takes
whatever comes to port 6443 and passes it on, bytes as they are, to an API server that is ready; and its own API server.
keepalived asks haproxy, haproxy asks the API servers: a control plane that cannot lead anybody to a ready API server
does not hold the VIP. Adverts go from address to address (unicast), so no multicast is needed between the nodes.
"""

from __future__ import annotations

from rackless.cluster.install_config.live.vrrp import router_ids
from rackless.plan.model import LabPlan, PlannedServer

API_PORT = 6443
"""Of haproxy, on every address of a control plane: the VIP too, when it is there."""
SERVER_PORT = 6444
"""Of the API server, on the node's own address."""
HEALTH_PORT = 6445
"""Of haproxy, on loopback: whether it knows an API server that is ready."""

INTERFACE = "cluster0"
"""The name of the node's NIC on the cluster network, whatever others it has."""
ADVERT_SECONDS = 3
"""Slow machines are the rule: three of these without an advert, and another control plane takes the VIP."""
CA = "/etc/rackless/pki/ca.crt"
READY = "/etc/keepalived/api-ready"

_HIGHEST, _LOWEST = 200, 50


def keepalived_conf(server: PlannedServer, plan: LabPlan) -> str:
    peers = "".join(f"        {peer.address}\n" for peer in plan.control_planes if peer is not server)
    return f"""\
global_defs {{
    router_id {server.name}
    enable_script_security
    script_user nobody nogroup
    vrrp_garp_master_refresh 30
}}

vrrp_script api {{
    script {READY}
    interval 5
    timeout 30
    fall 6
    rise 2
    init_fail
}}

vrrp_instance api {{
    state BACKUP
    nopreempt
    interface {INTERFACE}
    virtual_router_id {router_ids(plan.name)[0]}
    priority {_priority(server, plan)}
    advert_int {ADVERT_SECONDS}
    unicast_src_ip {server.address}
    unicast_peer {{
{peers}    }}
    virtual_ipaddress {{
        {plan.api_vip}/32 dev {INTERFACE}
    }}
    track_script {{
        api
    }}
}}
"""


def ready_script() -> str:
    """What keepalived runs: one shell without a child, because on an emulated node every process costs."""
    return f"""\
#!/bin/bash
# Does haproxy know an API server that is ready?
exec 3<>/dev/tcp/127.0.0.1/{HEALTH_PORT} || exit 1
printf 'GET /ready HTTP/1.0\\r\\n\\r\\n' >&3
read -r -t 3 _ code _ <&3
[ "$code" = 200 ]
"""


def _priority(server: PlannedServer, plan: LabPlan) -> int:
    """All different, and far apart: whoever is next takes the VIP well before the others would."""
    place, members = plan.control_planes.index(server), len(plan.control_planes)
    return _HIGHEST - place * (_HIGHEST - _LOWEST) // max(members - 1, 1)


def haproxy_cfg(plan: LabPlan) -> str:
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
    # a watch may be silent for long; whether the other side still lives, TCP finds out
    timeout client 24h
    timeout server 24h
    option clitcpka
    option srvtcpka
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
    default-server inter 10s fastinter 2s downinter 3s fall 2 rise 1 on-marked-down shutdown-sessions
    default-server observe layer4 error-limit 1 on-error fastinter
{servers}
frontend health
    mode http
    bind 127.0.0.1:{HEALTH_PORT}
    timeout client 5s
    monitor-uri /ready
    monitor fail if {{ nbsrv(api) lt 1 }}
"""
