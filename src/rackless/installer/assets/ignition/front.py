"""The API VIP (keepalived) and the load balancer (haproxy) of a cluster's API. Pure.

Every control plane runs the same three things: keepalived, of which one holds the API VIP; haproxy, which takes
whatever comes to port 6443 and passes it on, bytes as they are, to an API server that is ready; and its own API server.
keepalived asks haproxy, haproxy asks the API servers: a control plane that cannot lead anybody to a ready API server
does not hold the VIP. Adverts go from address to address (unicast), so no multicast is needed between the nodes.
"""

from __future__ import annotations

from rackless.installer.assets.ignition.machines import ConfiguredCluster, ConfiguredMachine
from rackless.installer.install_config.live.vrrp import router_ids

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
CHECK_SECONDS = 30
"""Between two questions to an API server that is well. Each is a TLS handshake, on an emulated node 40 ms at both ends; a
server that fails a client, or one question, is asked every 2 s at once."""
CA = "/etc/rackless/pki/ca.crt"

READY = f"/usr/bin/busybox wget -q -O /dev/null http://127.0.0.1:{HEALTH_PORT}/ready"
"""Does haproxy know an API server that is ready? One static program: on an emulated node, starting a shell takes six times
as long. Debian's cannot be told when to give up; keepalived ends it."""

_HIGHEST, _LOWEST = 200, 50


def keepalived_conf(
    server: ConfiguredMachine,
    plan: ConfiguredCluster,
    *,
    interface: str = "",
    known: bool = True,
    place: tuple[int, int] | None = None,
) -> str:
    """`known` says whether all control planes are in the plan, and `place` which of how many this one is where they are not;
    `interface` is the NIC, where it has another name."""
    vip, interface = plan.api_vip, interface or INTERFACE
    return f"""\
global_defs {{
    router_id {server.name}
    enable_script_security
    script_user nobody nogroup
    vrrp_garp_master_refresh 30
}}

vrrp_script api {{
    script "{READY}"
    interval 10
    timeout 10
    fall 3
    rise 1
    init_fail
}}

vrrp_instance api {{
    state BACKUP
    nopreempt
    interface {interface}
    virtual_router_id {router_ids(plan.name)[0]}
    priority {_priority(*(place or (plan.control_planes.index(server), len(plan.control_planes))))}
    advert_int {ADVERT_SECONDS}
{_adverts(server, plan, known)}    virtual_ipaddress {{
        {vip}/{vip.max_prefixlen} dev {interface}
    }}
    track_script {{
        api
    }}
}}
"""


def _adverts(server: ConfiguredMachine, plan: ConfiguredCluster, known: bool) -> str:
    """VRRP adverts by unicast; by multicast where a machine does not know its own address beforehand, or not the other control
    planes'."""
    if server.address.is_loopback or not known:
        return ""
    peers = "".join(f"        {peer.address}\n" for peer in plan.control_planes if peer is not server)
    return f"    unicast_src_ip {server.address}\n    unicast_peer {{\n{peers}    }}\n"


def _priority(place: int, members: int) -> int:
    """VRRP priorities: all different and far apart, so that the next control plane takes the VIP well before the others would."""
    return _HIGHEST - place * (_HIGHEST - _LOWEST) // max(members - 1, 1)


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
