"""A bootstrap Ignition config of our own, in the shape of the installer's: certificates, manifests, hosts with their Secrets."""

from __future__ import annotations

import base64
import gzip
import io
import json
from datetime import UTC, datetime, timedelta

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rackless.images.cpio import Archive

DOMAIN = "site.example.net"
HOME = "/opt/openshift"


class Ca:
    """A certificate authority that lives as long as a test."""

    def __init__(self, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self.name, self.key, None, ca=True)

    def _sign(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, hosts: list[str] | None, *, ca: bool) -> str:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name).issuer_name(self.name).public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )  # fmt: skip
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False
            )
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()

    def leaf(self, name: str, hosts: list[str] | None = None, group: str = "") -> tuple[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if group:
            parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self._sign(x509.Name(parts), key, hosts, ca=False), pem.decode()


class Made:
    """The config and what a client of the cluster has."""

    def __init__(
        self,
        hosts: int = 3,
        bmc: str = "redfish-virtualmedia+http://127.0.0.1:1/redfish/v1/Systems/{n}",
        api_vip: str = "10.20.30.5",
    ) -> None:
        self.root = Ca("root-ca")
        self.clients = Ca("admin-kubeconfig-signer")
        self.admin = self.clients.leaf("system:admin", group="system:masters")
        files = {f"{HOME}/tls/root-ca.crt": self.root.certificate}
        files[f"{HOME}/tls/kube-apiserver-complete-client-ca-bundle.crt"] = self.clients.certificate
        for name, host in (
            ("kube-apiserver-lb-server", f"api.{DOMAIN}"),
            ("kube-apiserver-internal-lb-server", f"api-int.{DOMAIN}"),
            ("kube-apiserver-localhost-server", "localhost"),
            ("kube-apiserver-service-network-server", "kubernetes"),
            ("machine-config-server", f"api-int.{DOMAIN}"),
        ):
            files[f"{HOME}/tls/{name}.crt"], files[f"{HOME}/tls/{name}.key"] = self.root.leaf(name, [host])
        files[f"{HOME}/manifests/cluster-infrastructure-02-config.yml"] = yaml.safe_dump(_infrastructure(api_vip))
        files[f"{HOME}/manifests/cluster-ingress-02-config.yml"] = yaml.safe_dump(
            {**_config("Ingress"), "spec": {"domain": f"apps.{DOMAIN}"}}
        )
        for number in range(hosts):
            secret, host_ = _host(number, bmc.format(n=number))
            files[f"{HOME}/openshift/99_openshift-cluster-api_host-bmc-secrets-{number}.yaml"] = yaml.safe_dump(secret)
            files[f"{HOME}/openshift/99_openshift-cluster-api_hosts-{number}.yaml"] = yaml.safe_dump(host_)
        self.files = files

    def add_installing(self, provisioning: str = "Disabled", *, arbiter: bool = False) -> None:
        """What only a bootstrap that installs reads: networks, the machine-config server's Secret, machines, who may log in."""
        metal = {"provisioningNetwork": provisioning, "provisioningMACAddress": "52:54:00:AA:00:02"}
        network = {"provisioningNetwork": provisioning, "provisioningOSDownloadURL": "http://127.0.0.1:1/rehearsal.iso"}
        if provisioning != "Disabled":
            metal |= {"bootstrapProvisioningIP": "172.22.0.2", "provisioningNetworkCIDR": "172.22.0.0/24"}
            network |= {"provisioningIP": "172.22.0.3", "provisioningNetworkCIDR": "172.22.0.0/24",
                        "provisioningDHCPRange": "172.22.0.10,172.22.0.254"}  # fmt: skip
        certificate, key = self.files[f"{HOME}/tls/root-ca.crt"], "rehearsed"
        install_config = {
            "baseDomain": "example.net",
            "metadata": {"name": "site"},
            "sshKey": "ssh-ed25519 AAAA me@here",
            "networking": {"machineNetwork": [{"cidr": "10.20.30.0/24"}]},
            "platform": {"baremetal": metal},
            **({"arbiter": {"name": "arbiter", "replicas": 1}} if arbiter else {}),
        }
        deploy: dict[str, object] = {
            "customDeploy": {"method": "install_coreos"},
            "userData": {"name": "master-user-data-managed"},
        }
        value = {**deploy, "image": {"url": "", "checksum": ""}, "hostSelector": {}, "metadata": {}}
        value |= {"apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec"}
        machine = {"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
                   "metadata": {"name": "site-abcde-master-0", "namespace": "openshift-machine-api"},
                   "spec": {"lifecycleHooks": {}, "metadata": {}, "providerSpec": {"value": value}}, "status": {}}  # fmt: skip
        things: dict[str, object] = {
            "manifests/cluster-config.yaml": {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-config-v1", "namespace": "kube-system"},
                "data": {"install-config": yaml.safe_dump(install_config)},
            },
            "manifests/cvo-overrides.yaml": {
                "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
                "metadata": {"name": "version", "namespace": "openshift-cluster-version"}, "spec": {"channel": "stable"},
            },
            "manifests/machine-config-server-tls-secret.yaml": {
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "machine-config-server-tls", "namespace": "openshift-machine-config-operator",
                             "annotations": {"auth.openshift.io/certificate-not-after": datetime(2036, 11, 15, tzinfo=UTC)}},
                "type": "Opaque", "data": {"tls.crt": _encoded(certificate), "tls.key": _encoded(key)},
            },
            "openshift/99_baremetal-provisioning-config.yaml": {
                "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning", "metadata": {"name": "provisioning-configuration"},
                "spec": network,
            },
            "openshift/99_osimagestream.yaml": {
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "OSImageStream", "metadata": {"name": "cluster"},
                "spec": {"defaultStream": "ten"},
            },
            "openshift/99_openshift-cluster-api_master-machines-0.yaml": machine,
            "openshift/99_openshift-machineconfig_99-master-ssh.yaml": {
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
                "metadata": {"name": "99-master-ssh", "labels": {"machineconfiguration.openshift.io/role": "master"}},
                "spec": {"config": {"ignition": {"version": "3.2.0"}, "passwd": {
                    "users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA me@here"]}]}}},
            },
        }  # fmt: skip
        for path, one in things.items():
            self.files[f"{HOME}/{path}"] = yaml.safe_dump(one)
        self.files[f"{HOME}/auth/kubeconfig"] = "{}"
        for path in [path for path in self.files if "api_hosts-" in path]:
            host = yaml.safe_load(self.files[path])
            host["spec"] |= deploy
            self.files[path] = yaml.safe_dump(host)

    def text(self) -> bytes:
        storage = [{"path": path, "contents": {"source": _data(text)}} for path, text in self.files.items()]
        return json.dumps({"ignition": {"version": "3.2.0"}, "storage": {"files": storage}}).encode()

    def embedded(self) -> bytes:
        """As the installer writes it into an ISO."""
        archive = io.BytesIO()
        writer = Archive(archive)
        writer.add("config.ign", 0o100644, self.text())
        writer.add("usr/lib/ignition/base.d/30-scratch-disk.ign", 0o100644, b"{}")
        writer.finish()
        return gzip.compress(archive.getvalue())


def _config(kind: str) -> dict[str, object]:
    return {"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": "cluster"}}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _data(text: str) -> str:
    return "data:text/plain;charset=utf-8;base64," + base64.b64encode(text.encode()).decode()


def _infrastructure(api_vip: str) -> dict[str, object]:
    return {
        **_config("Infrastructure"),
        "status": {
            "infrastructureName": "site-abcde",
            "apiServerURL": f"https://api.{DOMAIN}:6443",
            "apiServerInternalURI": f"https://api-int.{DOMAIN}:6443",
            "platformStatus": {"baremetal": {"apiServerInternalIPs": [api_vip], "ingressIPs": ["10.20.30.4"]}},
        },
    }


def _host(number: int, bmc: str) -> tuple[dict[str, object], dict[str, object]]:
    secret: dict[str, object] = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"m-{number}-bmc-secret", "namespace": "openshift-machine-api"},
        "data": {"username": base64.b64encode(b"admin").decode(), "password": base64.b64encode(b"very-secret").decode()},
    }  # fmt: skip
    spec = {
        "online": True,
        "bootMACAddress": f"0c:42:a1:00:00:0{number}",
        "bmc": {"address": bmc, "credentialsName": f"m-{number}-bmc-secret"},
    }
    labels = {"installer.openshift.io/role": "control-plane"} if number < 3 else {}
    metadata = {
        "name": f"m-{number}",
        "namespace": "openshift-machine-api",
        "labels": labels,
        "creationTimestamp": None,
    }
    return secret, {"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": metadata, "spec": spec}
