"""The folder of a cluster's keys and certificates, made once and kept: CAs, administrator, bootstrap tokens, ssh keys."""

from __future__ import annotations

import secrets
import shutil
import ssl
import string
from dataclasses import dataclass
from pathlib import Path

from rackless.api.access import keys as api_keys
from rackless.cluster.reference.joining import Invitation
from rackless.installer.assets.ignition.control_plane import ControlPlaneSecrets
from rackless.plan.model import LabPlan, PlannedServer
from rackless.run.files import write_secret
from rackless.trust.authority import BOTH_USES, Authority
from rackless.trust.secrets import SshKey, ensure_ssh_key

_TOKEN_LETTERS = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True)
class Keys:
    folder: Path

    @property
    def admin(self) -> Path:
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def etcd(self) -> Path:
        """etcd's own CA: a client with a certificate of it has full access to etcd."""
        return self.folder / "etcd"

    @property
    def api(self) -> Path:
        """The CA of the cluster's API, and its administrator."""
        return self.folder / "api"

    @property
    def made(self) -> bool:
        """Whether there are control planes that were given keys."""
        return (self.etcd / "ca.crt").exists() and (self.api / "admin.crt").exists()

    def take(self, etcd: tuple[str, str], api: tuple[str, str], admin: tuple[str, str]) -> None:
        """Store the keys of a cluster that installed itself: the CAs of etcd and of its API, and its administrator; each a
        certificate and its key."""
        for folder, name, pair in ((self.etcd, "ca", etcd), (self.api, "ca", api), (self.api, "admin", admin)):
            for end, text in zip(("key", "crt"), reversed(pair), strict=True):
                write_secret(folder / f"{name}.{end}", text)

    def forget_cluster(self) -> None:
        """Delete what `take` stored, and what was made from it."""
        for folder in (self.etcd, self.api):
            shutil.rmtree(folder, ignore_errors=True)

    def ensure_admin(self, lab: str) -> SshKey:
        return ensure_ssh_key(self.admin, f"rackless@{lab}")

    def ensure_host_key(self, server: PlannedServer) -> SshKey:
        return ensure_ssh_key(self.folder / "hosts" / server.name, server.fqdn)

    def token(self, server: str) -> str | None:
        """The bootstrap token of a server; None for one that was made before nodes joined by themselves."""
        try:
            return self._token(server).read_text().strip()
        except FileNotFoundError:
            return None

    def ensure_invitation(self, server: PlannedServer, plan: LabPlan) -> Invitation:
        if self.token(server.name) is None:
            parts = ("".join(secrets.choice(_TOKEN_LETTERS) for _ in range(length)) for length in (6, 16))
            write_secret(self._token(server.name), ".".join(parts) + "\n")
        return Invitation(self._ensure_api(plan).certificate.read_text(), self.token(server.name) or "")

    def _token(self, server: str) -> Path:
        return self.folder / "tokens" / server

    def forget(self, server: str) -> None:
        """The keys that were made for one server."""
        self._token(server).unlink(missing_ok=True)
        leaves = [self.etcd / f"{name}{end}" for name in (server, f"api-{server}") for end in (".key", ".crt")]
        for path in (self.folder / "hosts" / server, self.folder / "hosts" / f"{server}.pub", *leaves):
            path.unlink(missing_ok=True)

    def control_plane(self, server: PlannedServer, plan: LabPlan) -> ControlPlaneSecrets:
        etcd, api = self._ensure_etcd(plan), self._ensure_api(plan)
        member = etcd.ensure_leaf(
            server.name, [str(server.address), "127.0.0.1", server.name, server.fqdn], uses=BOTH_USES
        )
        store = etcd.ensure_leaf(f"api-{server.name}", uses=BOTH_USES)
        return ControlPlaneSecrets(
            etcd_ca=etcd.certificate.read_text(),
            etcd_certificate=member.certificate.read_text(),
            etcd_key=member.key.read_text(),
            store_certificate=store.certificate.read_text(),
            store_key=store.key.read_text(),
            api_ca=api.certificate.read_text(),
            api_ca_key=(self.api / "ca.key").read_text(),
            api_token_key=(self.api / "sa.key").read_text(),
        )

    def etcd_client(self, plan: LabPlan) -> ssl.SSLContext:
        authority = self._ensure_etcd(plan)
        leaf = authority.ensure_leaf("observer", uses=BOTH_USES)
        context = ssl.create_default_context(cafile=authority.certificate)
        context.load_cert_chain(leaf.certificate, leaf.key)
        return context

    def api_client(self) -> ssl.SSLContext:
        """The administrator of the cluster's API."""
        context = ssl.create_default_context(cafile=self.api / "ca.crt")
        context.load_cert_chain(self.api / "admin.crt", self.api / "admin.key")
        return context

    def _ensure_etcd(self, plan: LabPlan) -> Authority:
        return Authority.ensure(self.etcd, f"etcd of {plan.domain}")

    def _ensure_api(self, plan: LabPlan) -> Authority:
        """The CA, and beside it the key of the tokens and the administrator's certificate."""
        authority = Authority.ensure(self.api, f"API of {plan.domain}")
        api_keys.ensure_token_key(self.api)
        api_keys.ensure_kubeconfig(authority, self.api / "kubeconfig", f"https://{plan.api_vip}:6443")
        return authority
