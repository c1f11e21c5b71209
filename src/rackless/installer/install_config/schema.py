"""The fields of an install-config: type, meaning, since which release, default, rules. One table for everything.

The decoder takes names and types from it, `explain` and the reference page the words. Fields of other platforms are
known by name only; this is about bare metal (whose fields are in `schema_baremetal`).
"""

from __future__ import annotations

from collections.abc import Iterator

from rackless.installer.install_config.schema_baremetal import BAREMETAL
from rackless.installer.install_config.schema_fields import (
    ANY,
    BOOL,
    CIDR,
    INT32,
    INT64,
    STRING,
    UINT32,
    ConfigField,
    Items,
    Struct,
    field,
)

OTHER_PLATFORMS = (
    "aws", "azure", "external", "gcp", "ibmcloud", "none", "nutanix", "openstack", "ovirt", "powervc", "powervs",
    "vsphere",
)  # fmt: skip
_OTHERS = tuple(field(name, ANY, f"Another platform ({name}); not bare metal.") for name in OTHER_PLATFORMS)

_POOL_OTHERS = tuple(one for one in _OTHERS if one.name not in ("none", "external"))

METADATA = Struct("metadata", (
    field("name", STRING, "Name of the cluster; part of every DNS name of it.",
          "RFC 1123, without dots, at most 54 characters"),
    field("namespace", STRING, "Not used."),
    field("labels", ANY, "Not used."),
    field("annotations", ANY, "Not used."),
    *(field(name, ANY, "Not used.") for name in (
        "generateName", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields")),
))  # fmt: skip

_CLUSTER_NETWORK = Struct("clusterNetwork", (
    field("cidr", CIDR, "Network of the pods.", "no host bits; overlaps nothing else"),
    field("hostPrefix", INT32, "Size of the part every node gets; /23 is 510 pods.",
          "not shorter than the network; IPv4: the same everywhere; IPv6: 64", default="23 when clusterNetwork "
          "is unset"),
    field("hostSubnetLength", INT32, "Former way to say hostPrefix, from the other end.", deprecated="4.6",
          instead="hostPrefix"),
))  # fmt: skip

_OBSERVABILITY = field("networkObservability", Struct("networkObservability", (
    field("installationPolicy", STRING, "`InstallAndEnable` or `NoAction`.", "required", since="5.0"),)),
    "Network observability operator.", since="5.0")  # fmt: skip

NETWORKING = Struct("networking", (
    _OBSERVABILITY,
    field("networkType", STRING, "The network plug-in.", "OpenShiftSDN and Kuryr rejected from 4.15 on",
          "any other name is accepted, and needs that plug-in's manifests", default="OVNKubernetes (4.12+)"),
    field("machineNetwork", Items(Struct("machineNetwork", (
        field("cidr", CIDR, "Network of the hosts.", "no host bits"),))),
        "Networks of the hosts; the VIPs lie in them.", "at least one; no overlaps", default="10.0.0.0/16"),
    field("clusterNetwork", Items(_CLUSTER_NETWORK), "Networks of the pods.", "at least one; no overlaps",
          default="10.128.0.0/14, hostPrefix 23"),
    field("serviceNetwork", Items(CIDR), "Network of the services.", "one; dual stack: two, one of each family",
          "IPv4 /12 or longer, IPv6 /108 or longer", default="172.30.0.0/16"),
    field("clusterNetworkMTU", UINT32, "MTU of the pod network.", "only on AWS", since="4.13"),
    field("ovnKubernetesConfig", Struct("ovnKubernetesConfig", (
        field("ipv4", Struct("ovnIPv4", (
            field("internalJoinSubnet", CIDR, "Network OVN-Kubernetes uses inside.",
                  "overlaps nothing; one address per possible node", since="4.18", default="100.64.0.0/16"),)),
            "IPv4 settings.", since="4.18"),)),
        "Settings of OVN-Kubernetes.", "only with networkType OVNKubernetes", since="4.18"),
    field("machineCIDR", CIDR, "Former machineNetwork.", deprecated="4.6", instead="machineNetwork"),
    field("serviceCIDR", CIDR, "Former serviceNetwork.", deprecated="4.6", instead="serviceNetwork"),
    field("type", STRING, "Former networkType.", deprecated="4.6", instead="networkType"),
    field("clusterNetworks", Items(_CLUSTER_NETWORK), "Former clusterNetwork.", deprecated="4.6",
          instead="clusterNetwork"),
))  # fmt: skip

_FENCING = Struct("fencing", (
    field("credentials", Items(Struct("fencingCredential", (
        field("hostName", STRING, "The node this BMC belongs to.", "hostName or macAddress; unique", since="4.19"),
        field("macAddress", STRING, "The node, by MAC.", "hostName or macAddress; unique", since="5.0"),
        field("username", STRING, "User of the BMC.", "required", since="4.19"),
        field("password", STRING, "Password of the BMC.", "required", since="4.19", secret=True),
        field("address", STRING, "Redfish address of the BMC.", "required, unique, Redfish, with a port or http(s)",
              since="4.19"),
        field("certificateVerification", STRING, "Whether the BMC's certificate is verified.", "Enabled or Disabled",
              since="4.19", default="Enabled"),
    )), null_panics=True), "BMCs by which one node switches off the other.", "exactly two", since="4.19"),
))  # fmt: skip


def _pool(kind: str) -> Struct:
    return Struct(kind, (
        field("name", STRING, "Name of the pool.", {"controlPlane": "always "
        "master", "arbiter": "arbiter"}.get(kind, "worker"),
              default={"controlPlane": "master", "arbiter": "arbiter"}.get(kind, "")),
        field("replicas", INT64, "How many machines.", "positive" if kind != "compute" else "not negative",
              default="0" if kind == "arbiter" else "3"),
        field("architecture", STRING, "`amd64`, `arm64`, `ppc64le` or `s390x`.",
              "bare metal mixes only amd64 control planes with arm64 workers", default="the installer's own"),
        field("hyperthreading", STRING, "`Enabled` or `Disabled`.", default="Enabled"),
        field("platform", Struct("poolPlatform", (
            field("baremetal", Struct("poolBaremetal", ()), "Has no fields on bare metal."), *_POOL_OTHERS)),
            "Platform settings of the pool; must match `platform`."),
        field("fencing", _FENCING, "Fencing of a two-node cluster.", "only in controlPlane; gate DualReplica",
              since="4.19", vital=True),
        field("diskSetup", ANY, "Extra disks.", "gate MultiDiskSetup", since="4.20"),
        field("management", STRING, "Who manages the machines.", "ClusterAPI not on bare metal", since="5.0"),
    ))  # fmt: skip


_MIRRORS = (
    field("source", STRING, "Repository named in pull specs.", "a repository without tag or digest"),
    field("mirrors", Items(STRING), "Repositories that have the same content.", "repositories or registry hosts"),
)

ROOT = Struct("install-config", (
    field("apiVersion", STRING, "Version of this format.", "v1"),
    field("kind", STRING, "Not used."),
    field("metadata", METADATA, "Name of the cluster."),
    field("baseDomain", STRING, "Domain under which the cluster's names live: `api.NAME.DOMAIN`, `*.apps.NAME.DOMAIN`.",
          "RFC 1123; a single label is accepted, and rarely meant"),
    field("additionalTrustBundle", STRING, "CA certificates for proxies and mirrors, PEM.", "certificates only"),
    field("additionalTrustBundlePolicy", STRING, "When nodes trust the bundle: `Proxyonly` or `Always`.",
          since="4.13", default="Proxyonly"),
    field("sshKey", STRING, "Public key(s) for user `core`.", "authorized_keys lines; FIPS: RSA or ECDSA only",
          "empty is accepted, and leaves no way into a failed host"),
    field("networking", NETWORKING, "The networks."),
    field("controlPlane", _pool("controlPlane"), "The control plane."),
    field("arbiter", _pool("arbiter"), "A small third voter beside two control planes.",
          "controlPlane.replicas at least 2", since="4.19", vital=True),
    field("compute", Items(_pool("compute")), "The workers.", "names unique; a pool `worker` of 3 is added if "
    "there is none"),
    field("platform", Struct("platform", (
        field("baremetal", BAREMETAL, "Bare metal, installer-provisioned."), *_OTHERS)), "Where to install.",
        "exactly one; `none` beside another slips through"),
    field("pullSecret", STRING, "Registry credentials as JSON text.", "`auths` not empty; every entry has auth "
    "or credsStore",
          secret=True),
    field("proxy", Struct("proxy", (
        field("httpProxy", STRING, "Proxy for http.", "an http:// URL, not in the cluster or service network"),
        field("httpsProxy", STRING, "Proxy for https.", "an http:// or https:// URL"),
        field("noProxy", STRING, "What goes direct, separated by commas.",
              "IPs, networks, domains (a leading dot is fine, a wildcard is not), or just `*`; no spaces"),
    )), "Proxies of the cluster.", "httpProxy or httpsProxy"),
    field("imageContentSources", Items(Struct("imageContentSource", _MIRRORS)), "Mirrors of the release.",
          "not with imageDigestSources", deprecated="4.14", instead="imageDigestSources"),
    field("imageDigestSources", Items(Struct("imageDigestSource", (*_MIRRORS,
        field("sourcePolicy", STRING, "Whether the source itself may be asked.",
              "NeverContactSource or AllowContactingSource; needs mirrors", since="4.18")))),
        "Mirrors of the release.", since="4.14", vital=True),
    field("publish", STRING, "How endpoints are published.", "External on bare metal", default="External"),
    field("operatorPublishingStrategy", ANY, "Per-operator publishing.", "only with publish Mixed", since="4.16"),
    field("fips", BOOL, "FIPS cryptography.", "only with a FIPS installer on a FIPS host", default="false"),
    field("cpuPartitioningMode", STRING, "`None` or `AllNodes`.", since="4.13", default="None"),
    field("credentialsMode", STRING, "Cloud credentials.", "not on bare metal"),
    field("bootstrapInPlace", Struct("bootstrapInPlace", (
        field("installationDisk", STRING, "Disk of the single node.", since="4.8"),)),
        "Single node without a bootstrap VM.", "not on bare metal (4.23+ says so)", since="4.8"),
    field("capabilities", Struct("capabilities", (
        field("baselineCapabilitySet", STRING, "`None`, `vCurrent` or `v4.11` …", since="4.11", default="vCurrent"),
        field("additionalEnabledCapabilities", Items(STRING), "More of them.", "known names", since="4.11"),
    )), "Optional components.", "bare metal needs baremetal, MachineAPI and (4.16+) Ingress", since="4.11"),
    field("featureSet", STRING, "`TechPreviewNoUpgrade`, `DevPreviewNoUpgrade` or `CustomNoUpgrade`.", since="4.12"),
    field("featureGates", Items(STRING), "`Name=true` …", "only with CustomNoUpgrade", since="4.14"),
    field("osImageStream", STRING, "`rhel-9` or `rhel-10`.", "another than the default needs the gate OSStreams",
          since="4.22", default="rhel-9 before 5.0, rhel-10 from 5.0"),
    field("pki", ANY, "Keys of the cluster's own CAs.", "gate ConfigurablePKI", since="4.22"),
    _OBSERVABILITY,
))  # fmt: skip


def walk(struct: Struct = ROOT, path: str = "") -> Iterator[tuple[str, ConfigField]]:
    """Every field with its path; lists are written `name[]`."""
    for one in struct.fields:
        here = f"{path}.{one.name}" if path else one.name
        yield here, one
        inner = one.type
        if isinstance(inner, Items):
            here, inner = here + "[]", inner.of
        if isinstance(inner, Struct):
            yield from walk(inner, here)
