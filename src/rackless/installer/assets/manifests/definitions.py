"""Definitions of the kinds that a cluster's configuration is written in and that no API has by itself. Pure.

In OpenShift they come with the release's payload; here they are manifests like the others (`ground`).
"""

from __future__ import annotations

from rackless.api.definitions.shape import definition, flag, free, many, one_of, struct, text, whole
from rackless.installer.assets.manifests.objects import Json

_CONFIG = "config.openshift.io"


def _cluster_wide(
    group: str, version: str, kind: str, plural: str, words: str, spec: Json, status: Json | None
) -> Json:
    """With its status in place: whoever installs a cluster says how it is, too."""
    made = definition(group, version, kind, plural, words, spec, status, status_apart=False)
    return {**made, "spec": {**made["spec"], "scope": "Cluster"}}


def _config(kind: str, plural: str, words: str, spec: Json) -> Json:
    return _cluster_wide(_CONFIG, "v1", kind, plural, words, spec, free())


_ADDRESSES = many(text())
_BAREMETAL = struct(
    apiServerInternalIP=text(), apiServerInternalIPs=_ADDRESSES, dnsRecordsType=one_of("Internal", "External"),
    ingressIP=text(), ingressIPs=_ADDRESSES, loadBalancer=struct(type=text()), machineNetworks=_ADDRESSES,
)  # fmt: skip
INFRASTRUCTURE = _config(
    "Infrastructure", "infrastructures", "Where the cluster is, and by which names and addresses it is reached.",
    struct(
        cloudConfig=struct(key=text(), name=text()), platformSpec=struct(baremetal=_BAREMETAL, type=text()),
    ),
)  # fmt: skip
DNS = _config("DNS", "dnses", "The domain of the cluster.", struct(baseDomain=text(), platform=free()))
INGRESS = _config(
    "Ingress", "ingresses", "The domain of what runs in the cluster.", struct(domain=text(), loadBalancer=free())
)
NETWORK = _config(
    "Network", "networks", "The networks inside the cluster.",
    struct(
        clusterNetwork=many(struct(cidr=text(), hostPrefix=whole())), externalIP=free(), networkDiagnostics=free(),
        networkType=text(), serviceNetwork=many(text()),
    ),
)  # fmt: skip
PROXY = _config(
    "Proxy", "proxies", "The way out of the cluster.",
    struct(
        httpProxy=text(), httpsProxy=text(), noProxy=text(), readinessEndpoints=many(text()), trustedCA=struct(name=text()),
    ),
)  # fmt: skip
SCHEDULER = _config(
    "Scheduler", "schedulers", "Where work may run.",
    struct(
        defaultNodeSelector=text(), mastersSchedulable=flag(), policy=struct(name=text()), profile=text(),
        profileCustomizations=free(),
    ),
)  # fmt: skip
MACHINE_CONFIG = _cluster_wide(
    "machineconfiguration.openshift.io", "v1", "MachineConfig", "machineconfigs",
    "A part of what machines of a role are told at their first boot, as an Ignition config.",
    struct(
        baseOSExtensionsContainerImage=text(), config=free(), extensions=many(text(), nullable=True), fips=flag(),
        kernelArguments=many(text(), nullable=True), kernelType=text(), osImageURL=text(),
    ),
    None,
)  # fmt: skip
PROVISIONING = _cluster_wide(
    "metal3.io", "v1alpha1", "Provisioning", "provisionings", "How hosts are provisioned: network, addresses, DHCP.",
    struct(
        additionalNTPServers=many(text()), bootIsoSource=text(), disableVirtualMediaTLS=flag(),
        preProvisioningOSDownloadURLs=free(), provisioningDHCPExternal=flag(), provisioningDHCPRange=text(),
        provisioningDNS=flag(), provisioningIP=text(), provisioningInterface=text(),
        provisioningMacAddresses=many(text()), provisioningNetwork=one_of("Managed", "Unmanaged", "Disabled"),
        provisioningNetworkCIDR=text(), provisioningNetworkGateway=text(), provisioningOSDownloadURL=text(),
        unsupportedConfigOverrides=free(), virtualMediaViaExternalNetwork=flag(), watchAllNamespaces=flag(),
    ),
    free(),
)  # fmt: skip
DEFINITIONS = (INFRASTRUCTURE, DNS, INGRESS, NETWORK, PROXY, SCHEDULER, MACHINE_CONFIG, PROVISIONING)
