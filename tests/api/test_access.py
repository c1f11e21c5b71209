"""Who may do what: certificates, tokens, RBAC, and nothing for strangers."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from .conftest import WIDGETS, Client, Json, widget

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@asynccontextmanager
async def _bearer(client: Client, token: str | None) -> AsyncIterator[Client]:
    other = Client(client.url, client.pki)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.TCPConnector(ssl=client.context(certificate=False))
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        other.session = session
        yield other


async def _account(client: Client, name: str) -> str:
    await client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    body = {"spec": {"expirationSeconds": 3600}}
    answer = await client.create(f"/api/v1/namespaces/default/serviceaccounts/{name}/token", body)
    return str(answer["status"]["token"])


async def test_strangers_see_health_and_version_only(client: Client) -> None:
    async with _bearer(client, None) as stranger:
        for path in ("/livez", "/readyz", "/version"):
            assert (await stranger.get(path))[0] == 200
        for path in ("/api", "/apis", "/openapi/v3", "/api/v1/namespaces", WIDGETS, "/metrics"):
            code, answer = await stranger.get(path)
            assert (code, answer["reason"]) == (403, "Forbidden"), path
        code, answer = await stranger.get(f"{WIDGETS}/a")
        assert answer["message"] == (
            'widgets.example.com "a" is forbidden: User "system:anonymous" cannot get resource "widgets" in API group '
            '"example.com" in the namespace "default"'
        )


@pytest.mark.parametrize("token", ["nonsense", "a.b.c", "abcdef.0123456789abcdef", "é"])
async def test_a_wrong_token_is_nobody_not_even_anonymous(client: Client, token: str) -> None:
    async with _bearer(client, token) as stranger:
        code, answer = await stranger.get("/version")
        assert (code, answer["reason"]) == (401, "Unauthorized")


async def test_a_service_account_may_do_what_its_role_says_and_no_more(client: Client) -> None:
    token = await _account(client, "robot")
    async with _bearer(client, token) as robot:
        assert (await robot.get(WIDGETS))[0] == 403
        rules = [{"verbs": ["get", "list"], "apiGroups": ["example.com"], "resources": ["widgets"]}]
        await client.create(f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "reader"}, "rules": rules})
        binding: Json = {
            "metadata": {"name": "robot"},
            "roleRef": {"kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        }
        await client.create(f"{RBAC}/namespaces/default/rolebindings", binding)
        assert (await robot.get(WIDGETS))[0] == 200
        assert (await robot.call("POST", WIDGETS, widget("a")))[0] == 403
        assert (await robot.get(WIDGETS.replace("default", "kube-system")))[0] == 403

        async def can(verb: str) -> bool:
            spec = {
                "resourceAttributes": {
                    "verb": verb,
                    "group": "example.com",
                    "resource": "widgets",
                    "namespace": "default",
                }
            }
            answer = await robot.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": spec})
            return bool(answer["status"]["allowed"])

        assert await can("list") and not await can("delete")
        await client.call("DELETE", f"{RBAC}/namespaces/default/rolebindings/robot")
        assert (await robot.get(WIDGETS))[0] == 403
    answer = await client.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    assert answer["status"]["user"]["username"] == "system:serviceaccount:default:robot"
    await client.call("DELETE", "/api/v1/namespaces/default/serviceaccounts/robot")
    async with _bearer(client, token) as robot:
        assert (await robot.get("/version"))[0] == 401


async def test_nobody_gives_away_more_than_they_have(client: Client) -> None:
    token = await _account(client, "deputy")
    everything = {"metadata": {"name": "roles"}, "rules": [{"verbs": ["create", "patch"],
    "apiGroups": ["rbac.authorization.k8s.io"],
                                                            "resources": ["*"]}]}  # fmt: skip
    await client.create(f"{RBAC}/clusterroles", everything)
    await client.create(
        f"{RBAC}/clusterrolebindings",
        {"metadata": {"name": "deputy"}, "roleRef": {"kind": "ClusterRole", "name": "roles"},
         "subjects": [{"kind": "ServiceAccount", "name": "deputy", "namespace": "default"}]},
    )  # fmt: skip
    async with _bearer(client, token) as deputy:
        grab = {"metadata": {"name": "grab"}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}
        code, answer = await deputy.call("POST", f"{RBAC}/clusterroles", grab)
        assert code == 403 and "attempting to grant RBAC permissions not currently held" in answer["message"]
        bind = {"metadata": {"name": "up"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": "deputy", "namespace": "default"}]}  # fmt: skip
        code, answer = await deputy.call("POST", f"{RBAC}/clusterrolebindings", bind)
        assert code == 403
        code, _ = await deputy.merge(f"{RBAC}/clusterroles/roles", {"rules": grab["rules"]})
        assert code == 403


def _bootstrap(**more: Any) -> Json:
    data = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", **more}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token", "data": encoded}


async def test_a_bootstrap_token_may_ask_for_a_certificate_until_it_expires(client: Client) -> None:
    secrets = "/api/v1/namespaces/kube-system/secrets"
    await client.create(secrets, _bootstrap())
    async with _bearer(client, "abcdef.0123456789abcdef") as joining:
        assert (await joining.get("/apis/certificates.k8s.io/v1/certificatesigningrequests"))[0] == 200
        assert (await joining.get("/api/v1/nodes"))[0] == 403
    code, _ = await client.call(
        "PUT", f"{secrets}/bootstrap-token-abcdef", _bootstrap(expiration="2020-01-01T00:00:00Z")
    )
    assert code == 200
    async with _bearer(client, "abcdef.0123456789abcdef") as joining:
        assert (await joining.get("/version"))[0] == 401


async def test_who_acts_as_somebody_else_is_treated_as_them_where_that_is_allowed(client: Client) -> None:
    assert client.session
    maps = "/api/v1/namespaces/default/configmaps"
    token = await _account(client, "robot")

    async def ask(path: str, by: Client, *headers: tuple[str, str]) -> tuple[int, Any]:
        assert by.session
        async with by.session.get(by.url + path, headers=list(headers)) as response:
            return response.status, await response.json()

    code, answer = await ask(maps, client, ("Impersonate-User", "bob"))
    assert code == 403 and 'User "bob" cannot list resource "configmaps"' in answer["message"]
    masters = [("Impersonate-User", "bob"), ("Impersonate-Group", "a"), ("Impersonate-Group", "system:masters")]
    assert (await ask(maps, client, *masters))[0] == 200
    code, answer = await ask(maps, client, ("Impersonate-Group", "system:masters"))
    assert (code, answer["reason"]) == (400, "BadRequest")
    async with _bearer(client, token) as robot:
        code, answer = await ask(maps, robot, ("Impersonate-User", "system:admin"))
        assert code == 403 and "cannot impersonate resource" in answer["message"]
        rules = [{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]}]
        await client.create(f"{RBAC}/clusterroles", {"metadata": {"name": "as-bob"}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
        await client.create(
            f"{RBAC}/clusterrolebindings",
            {
                "metadata": {"name": "as-bob"},
                "roleRef": {"kind": "ClusterRole", "name": "as-bob"},
                "subjects": [subject],
            },
        )
        code, answer = await ask(maps, robot, ("Impersonate-User", "bob"))
        assert code == 403 and 'User "bob"' in answer["message"]
        code, answer = await ask(maps, robot, *masters)
        assert code == 403 and 'cannot impersonate resource "groups"' in answer["message"]
