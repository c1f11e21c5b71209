"""The fields under `platform.baremetal`."""

from __future__ import annotations

from rackless.installer.install_config.schema_fields import (
    ANY,
    BOOL,
    CIDR,
    DURATION,
    INT64,
    STRING,
    Items,
    Struct,
    field,
)

_PHASE = "checked only by `create cluster`, after install-config.yaml was consumed"

BMC = Struct("bmc", (
    field("address", STRING, "Where the BMC is, and by its scheme how the host is driven: "
          "`redfish-virtualmedia+https://HOST/redfish/v1/Systems/1`, `redfish://…`, `ipmi://HOST:623`, …",
          "required and unique (exact text); " + _PHASE,
          "with provisioningNetwork Disabled: a virtual-media scheme (4.11+ says so, older releases hang)",
          "unknown schemes are accepted in Managed and Unmanaged, and fail later in the Metal3 operator"),
    field("username", STRING, "User of the BMC.", "required; " + _PHASE),
    field("password", STRING, "Password of the BMC.", "required; " + _PHASE, secret=True),
    field("disableCertificateVerification", BOOL, "Accept any certificate of the BMC (self-signed ones).",
          default="false"),
))  # fmt: skip

ROOT_HINTS = Struct("rootDeviceHints", (
    field("deviceName", STRING, "Device to install on, e.g. `/dev/sda`.",
          "`/dev/NAME` or `/dev/disk/by-path/NAME` (checked from 4.14 on)"),
    field("hctl", STRING, "SCSI address, e.g. `0:0:0:0`; must match exactly."),
    field("model", STRING, "Part of the model name."),
    field("vendor", STRING, "Part of the vendor's name."),
    field("serialNumber", STRING, "Serial number; must match exactly."),
    field("minSizeGigabytes", INT64, "Smallest size."),
    field("wwn", STRING, "World-wide name; must match exactly."),
    field("wwnWithExtension", STRING, "World-wide name with the vendor's extension."),
    field("wwnVendorExtension", STRING, "The vendor's extension of the world-wide name."),
    field("rotational", BOOL, "Whether it must be a spinning disk."),
))  # fmt: skip

BGP_PEER = Struct("bgpPeer", (
    field("peerAddress", STRING, "Address of the router.", "an IP address", since="5.1"),
    field("peerASN", INT64, "AS number of the router.", "1 to 4294967295", since="5.1"),
    field("password", STRING, "TCP MD5 password of the session.", since="5.1", secret=True),
    field("port", INT64, "TCP port of the session.", "1 to 65535", since="5.1", default="179"),
    field("bfdEnabled", STRING, "Whether BFD watches the session.", '"true" or "false"', since="5.1"),
    field("ebgpMultiHop", STRING, "Whether the router may be several hops away.", '"true" or "false"', since="5.1"),
    field("holdTime", DURATION, "Hold time, e.g. `90s`.", "together with keepaliveTime; whole seconds up to 65535",
          since="5.1"),
    field("keepaliveTime", DURATION, "Keep-alive interval, e.g. `30s`.", "together with holdTime; whole seconds",
          since="5.1"),
), open=True)  # fmt: skip

BGP = Struct("bgpVIPConfig", (
    field("localASN", INT64, "AS number of the cluster.", "1 to 4294967295", since="5.1"),
    field("peers", Items(BGP_PEER), "The routers that hear the VIPs.", "1 to 16", since="5.1"),
    field("communities", Items(STRING), "Communities on the announcements.", "`N:N` or `N:N:N`", since="5.1"),
), open=True)  # fmt: skip

LOAD_BALANCER = Struct("loadBalancer", (
    field("type", STRING, "Who balances the API and the ingress: `OpenShiftManagedDefault` (keepalived and haproxy on "
          "the nodes) or `UserManaged` (yours; VIPs may then lie outside the machine network and be the same).",
          "OpenShiftManagedDefault or UserManaged", since="4.13", default="OpenShiftManagedDefault"),
))  # fmt: skip

HOST = Struct("host", (
    field("name", STRING, "Name of the BareMetalHost.", "required, unique, RFC 1123 (4.12+)",
          "a label longer than 63 characters is accepted and cannot be a host name"),
    field("role", STRING, "`master`, `worker` or `arbiter`; without one a host fills what is missing, in list order.",
          "anything else is taken as no role",
          "in Managed mode do not mix role-less masters with `role: master`: the bootstrap's DHCP drops the former"),
    field("bmc", BMC, "The management controller."),
    field("bootMACAddress", STRING, "MAC of the NIC the host boots from (on the provisioning network, if there "
                                    "is one).",
          "required, unique by exact text; not parsed by the installer"),
    field("bootMode", STRING, "`UEFI`, `UEFISecureBoot` or `legacy`.", "UEFISecureBoot only with drivers that "
    "can (not ipmi)",
          default="UEFI (4.9+), before: left to the firmware"),
    field("hardwareProfile", STRING, "Metal3 hardware profile.", "not checked by the installer", default="default"),
    field("rootDeviceHints", ROOT_HINTS, "Which disk to install on."),
    field("networkConfig", ANY, "NMState of the host: static addresses, VLANs, bonds.", "a map",
          "mtu an integer without quotes (checked from 4.20 on)", since="4.10", vital=True),
    field("bgpPeers", Items(BGP_PEER), "Routers of this host, instead of those of bgpVIPConfig.",
          "only with bgpVIPConfig; at most 16", since="5.1"),
))  # fmt: skip

BAREMETAL = Struct("baremetal", (
    field("apiVIPs", Items(STRING), "Virtual address(es) of the API; dual stack: one of each family, primary "
                                    "family first.",
          "1 or 2; required with ingressVIPs; two are one IPv4 and one IPv6",
          "in a machine network and none of the ingressVIPs, unless loadBalancer is UserManaged",
          "dual stack: the family of the first is the primary family of all three networks",
          "not the network or broadcast address, not any other address of the site (accepted, cannot work)",
          since="4.12", default="what `api.CLUSTER.DOMAIN` resolves to"),
    field("ingressVIPs", Items(STRING), "Virtual address(es) of the ingress (`*.apps`).", "as apiVIPs",
          since="4.12", default="what `test.apps.CLUSTER.DOMAIN` resolves to"),
    field("apiVIP", STRING, "The one address of the API.", "not together with an apiVIPs that lacks it",
          deprecated="4.12", instead="apiVIPs"),
    field("ingressVIP", STRING, "The one address of the ingress.", "not together with an ingressVIPs that lacks it",
          deprecated="4.12", instead="ingressVIPs"),
    field("hosts", Items(HOST, null_panics=True), "The hosts.",
          "enough masters, arbiters and workers for all replicas; no empty entry (the installer panics)"),
    field("provisioningNetwork", STRING, "`Managed`: a provisioning network with DHCP by the cluster; `Unmanaged`: the "
          "network without our DHCP; `Disabled`: none, everything by virtual media on the machine network.",
          "Managed, Unmanaged or Disabled, in this spelling", default="Managed"),
    field("provisioningNetworkCIDR", CIDR, "The provisioning network.", "no host bits; no overlap with a "
    "machine network",
          "Managed IPv6: /64 or longer", "overlap with the cluster or service network is accepted and cannot work",
          default="172.22.0.0/24 (Disabled: none)"),
    field("provisioningNetworkInterface", STRING, "NIC of the control plane on the provisioning network.",
          "required up to 4.8 unless Disabled"),
    field("provisioningNetworkGateway", STRING, "Gateway handed out on the provisioning network.",
          "in the CIDR, not its first or last address, not in the DHCP range, not clusterProvisioningIP; " + _PHASE,
          since="4.22"),
    field("provisioningDHCPRange", STRING, "`START,END`, without spaces.",
          "two addresses of the CIDR that leave out both provisioning IPs and the gateway; " + _PHASE,
          "a reversed range is accepted and serves nobody", default="the CIDR from its .10 to its last address "
          "but one"),
    field("bootstrapProvisioningIP", STRING, "Address of the bootstrap VM for provisioning.",
          "in the provisioning network and in no machine network; Disabled: in a machine network",
          default="the CIDR's .2"),
    field("clusterProvisioningIP", STRING, "Address of the Metal3 services once they run in the cluster.",
          "in the provisioning network; Disabled: in a machine network", since="4.7", default="the CIDR's .3"),
    field("provisioningHostIP", STRING, "Former name of clusterProvisioningIP.", "not with another "
    "clusterProvisioningIP",
          deprecated="4.7", instead="clusterProvisioningIP"),
    field("provisioningDHCPExternal", BOOL, "Former way to say `provisioningNetwork: Unmanaged`.",
          deprecated="4.6", instead="provisioningNetwork: Unmanaged"),
    field("provisioningBridge", STRING, "Bridge on the provisioning host for the provisioning network.",
          "an active libvirt interface, or network of the same name as its bridge; not looked at when Disabled; "
          "" + _PHASE,
          default="provisioning"),
    field("provisioningMACAddress", STRING, "MAC of the bootstrap VM on the provisioning network.",
          "unicast; not externalMACAddress", since="4.7", default="random 52:54:00:…, new at every load (4.11+)"),
    field("externalBridge", STRING, "Bridge on the provisioning host for the machine network.",
          "an active libvirt interface, or network of the same name as its bridge; " + _PHASE, default="baremetal"),
    field("externalMACAddress", STRING, "MAC of the bootstrap VM on the machine network; set it for DHCP "
                                        "reservations.",
          "unicast; not provisioningMACAddress", since="4.7", default="random 52:54:00:…, new at every load (4.11+)"),
    field("libvirtURI", STRING, "The libvirt that runs the bootstrap VM.", "an absolute URI that answers",
          default="qemu:///system"),
    field("bootstrapExternalStaticIP", STRING, "Fixed address of the bootstrap VM, where there is no DHCP.",
          "all of IP, Gateway (and from 4.14 DNS) or none; " + _PHASE, "never parsed by the installer",
          since="4.11", vital=True),
    field("bootstrapExternalStaticGateway", STRING, "Gateway of the bootstrap VM.", "with "
    "bootstrapExternalStaticIP",
          since="4.11", vital=True),
    field("bootstrapExternalStaticDNS", STRING, "Name server of the bootstrap VM (up to 4.13: the gateway).",
          "with bootstrapExternalStaticIP", since="4.14"),
    field("additionalNTPServers", Items(STRING), "More time servers for the hosts.",
          "IP addresses or domain names (not looked at when Disabled)", since="4.18"),
    field("loadBalancer", LOAD_BALANCER, "Who balances API and ingress.", since="4.13", vital=True),
    field("dnsRecordsType", STRING, "`Internal`: CoreDNS on the nodes; `External`: yours.",
          "External only with loadBalancer UserManaged and the feature gate OnPremDNSRecords", since="4.21",
          default="Internal"),
    field("bmcVerifyCA", STRING, "CA certificates for the BMCs, PEM.", since="4.21"),
    field("bgpVIPConfig", BGP, "VIPs announced by BGP instead of ARP.",
          "feature gate BGPBasedVIPManagement; networkType OVNKubernetes", since="5.1", vital=True),
    field("defaultMachinePlatform", Struct("machinePlatform", ()), "Has no fields on bare metal."),
    field("bootstrapOSImage", STRING, "Image of the bootstrap VM, with `?sha256=`.",
          "http(s) URL with a sha256 of 64 digits that answers HEAD with 200; " + _PHASE, deprecated="4.10",
          instead=""),
    field("clusterOSImage", STRING, "Image of the hosts, with `?sha256=`.",
          "http(s) URL with a sha256 of 64 digits that answers HEAD with 200; " + _PHASE, deprecated="4.10",
          instead=""),
))  # fmt: skip
