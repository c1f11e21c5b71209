"""Attempts to get more than was given, over HTTP, by clients that hold a little."""

# ruff: noqa: E501 (tables)

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rackless.api.access.keys import ensure_authority
from rackless.api.duties.defaults import SYSTEM
from rackless.api.edge import seen
from rackless.api.kinds.access import CLUSTER_ROLE_BINDING
from rackless.api.objects.operations import now
from rackless.api.objects.writes import Context
from rackless.api.process import ApiServer
from rackless.trust.authority import BOTH_USES, Authority, Use

from ..api.conftest import WIDGETS, Client, Json, api, client, issue_client, settings, widget  # noqa: F401
from ..api.test_nodes import request as certificate_request

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
MAPS = "/api/v1/namespaces/default/configmaps"
APPLY = "application/apply-patch+yaml"


class Site:
    """An API, its administrator, and others with certificates of its CA."""

    def __init__(self, admin: Client, stack: AsyncExitStack, folder: Path) -> None:
        self.admin, self._stack, self._folder = admin, stack, folder
        self.authority = ensure_authority(admin.pki)

    async def user(self, name: str, *groups: str) -> Client:
        return await self.holder(*issue_client(self.authority, name, groups))

    async def holder(self, certificate: bytes, key: bytes) -> Client:
        """Somebody with this certificate."""
        file = self._folder / f"{len(list(self._folder.iterdir()))}.pem"
        file.write_bytes(certificate + key)
        context = ssl.create_default_context(cafile=str(self.admin.pki / "ca.crt"))
        context.load_cert_chain(file)
        found = Client(self.admin.url, self.admin.pki)
        found.session = await self._stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))
        )
        return found

    async def grant(self, user: str, *rules: Json, namespace: str = "") -> None:
        role: Json = {"metadata": {"name": f"{user}-{namespace or 'all'}"}, "rules": list(rules)}
        await self.admin.create(f"{RBAC}/clusterroles", role)
        where = f"{RBAC}/namespaces/{namespace}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
        subjects = [{"kind": "User", "name": user}]
        reference = {"kind": "ClusterRole", "name": role["metadata"]["name"]}
        await self.admin.create(where, {"metadata": role["metadata"], "roleRef": reference, "subjects": subjects})


@pytest.fixture
async def site(client: Client, tmp_path: Path) -> AsyncIterator[Site]:  # noqa: F811
    folder = tmp_path / "users"
    folder.mkdir()
    async with AsyncExitStack() as stack:
        yield Site(client, stack, folder)


def rule(verbs: str, group: str, resources: str, names: str = "") -> Json:
    found = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return found | ({"resourceNames": names.split()} if names else {})


async def test_patch_alone_does_not_create_by_server_side_apply(site: Site) -> None:
    bob = await site.user("bob")
    await site.grant(
        "bob", rule("patch get", "example.com", "widgets"), rule("patch", "", "configmaps"), namespace="default"
    )
    for path, body in (
        (f"{WIDGETS}/a", widget("a")),
        (f"{MAPS}/a", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
    ):
        for dry in ({}, {"dryRun": "All"}):
            code, answer = await bob.call("PATCH", path, body, media=APPLY, fieldManager="m", **dry)
            assert code == 403 and 'User "bob" cannot create resource' in answer["message"], answer
        assert (await site.admin.get(path))[0] == 404
    await site.admin.create(WIDGETS, widget("a"))
    assert (await bob.call("PATCH", f"{WIDGETS}/a", widget("a", size=4), media=APPLY, fieldManager="m", force="true"))[
        0
    ] == 200


async def test_update_alone_does_not_create_by_put(site: Site) -> None:
    bob = await site.user("bob")
    group = "rbac.authorization.k8s.io"
    await site.grant(
        "bob", rule("update", "coordination.k8s.io", "leases"), rule("update", group, "roles"), namespace="default"
    )
    for path in (LEASES.format("default") + "/l", f"{RBAC}/namespaces/default/roles/r"):
        code, answer = await bob.call("PUT", path, {"metadata": {"name": path[-1]}})
        assert code == 403 and "cannot create resource" in answer["message"], answer
        assert (await site.admin.get(path))[0] == 404
    await site.grant("bob", rule("create", "coordination.k8s.io", "leases", names="l"))
    assert (await bob.call("PUT", LEASES.format("default") + "/l", {"metadata": {"name": "l"}}))[0] == 201
    assert (await bob.call("PUT", LEASES.format("default") + "/m", {"metadata": {"name": "m"}}))[0] == 403


async def test_a_right_to_create_one_name_does_not_create_another(site: Site) -> None:
    """A POST to the path of a name was allowed under that name, and made what the body said."""
    bob = await site.user("bob")
    await site.grant("bob", rule("create delete", "", "configmaps", names="mine"))
    code, answer = await bob.call("POST", f"{MAPS}/mine", {"metadata": {"name": "other"}})
    assert (code, answer["reason"]) == (405, "MethodNotAllowed")
    assert (await bob.call("POST", MAPS, {"metadata": {"name": "mine"}}))[0] == 403
    assert (await site.admin.get(f"{MAPS}/other"))[0] == 404
    for method in ("PUT", "PATCH"):
        assert (await site.admin.call(method, MAPS, {"metadata": {"name": "x"}}))[0] in (405, 415)
    assert (await bob.call("DELETE", MAPS))[0] == 403


async def test_a_list_of_one_name_is_asked_for_as_that_name(site: Site) -> None:
    bob = await site.user("bob")
    await site.grant("bob", rule("list watch", "", "configmaps", names="mine"))
    for selector, code in (
        ("metadata.name=mine", 200), ("metadata.name==mine", 200), ("metadata.namespace=default,metadata.name=mine", 200),
        ("metadata.name=other", 403), ("metadata.name!=mine", 403), ("", 403), ("metadata.namespace=mine", 403),
    ):  # fmt: skip
        assert (await bob.get(MAPS, fieldSelector=selector))[0] == code, selector
        assert bob.session
        query = {"fieldSelector": selector, "watch": "1", "timeoutSeconds": "1"}
        async with bob.session.get(bob.url + MAPS, params=query) as response:
            assert response.status == code, selector


@pytest.mark.parametrize(
    "selector",
    [r"type!=a\,metadata.name=mine", r"type!=\,metadata.name=mine\,", r"metadata.name!=x\,metadata.name=mine"],
)
async def test_a_name_inside_a_value_of_a_selector_is_nobodys_name(site: Site, selector: str) -> None:
    """A comma after a backslash is the value's: what follows was taken for the name that is asked for, and all were listed."""
    bob = await site.user("bob")
    await site.grant("bob", rule("list watch", "", "secrets", names="mine"))
    secrets = "/api/v1/namespaces/default/secrets"
    await site.admin.create(secrets, {"metadata": {"name": "other"}, "stringData": {"password": "hush"}})
    assert (await bob.get(secrets, fieldSelector=selector))[0] == 403
    assert (await bob.get(secrets, fieldSelector=selector, watch=1, timeoutSeconds=1))[0] == 403
    assert (await bob.get(secrets, fieldSelector="metadata.name=mine"))[0] == 200


async def test_a_label_that_has_a_roles_rules_gathered_is_given_by_who_holds_them(site: Site) -> None:
    """Labels say which rules an aggregated role gathers: a label on `cluster-admin` was a way to all of its rights."""
    bob = await site.user("bob")
    gather = {"clusterRoleSelectors": [{"matchLabels": {"to": "bob"}}]}
    await site.admin.create(f"{RBAC}/clusterroles", {"metadata": {"name": "sum"}, "aggregationRule": gather})
    subjects = [{"kind": "User", "name": "bob"}]
    bound = {"metadata": {"name": "sum"}, "roleRef": {"kind": "ClusterRole", "name": "sum"}, "subjects": subjects}
    await site.admin.create(f"{RBAC}/clusterrolebindings", bound)
    await site.grant("bob", rule("get patch update", "rbac.authorization.k8s.io", "clusterroles"))
    path = f"{RBAC}/clusterroles/cluster-admin"
    labels = {"metadata": {"labels": {"to": "bob"}}}
    code, answer = await bob.merge(path, labels)
    assert code == 403 and "not currently held" in answer["message"], answer
    code, _ = await bob.call("PATCH", path + "?fieldManager=bob", labels, media=APPLY)
    assert code in (400, 403)
    _, stored = await bob.get(path)
    stored["metadata"]["labels"] = {"to": "bob"}
    assert (await bob.call("PUT", path, stored))[0] == 403
    assert (await bob.get("/api/v1/secrets"))[0] == 403
    assert (await bob.merge(path, {"metadata": {"annotations": {"seen": "by bob"}}}))[0] == 200
    await site.grant(
        "bob", rule("escalate", "rbac.authorization.k8s.io", "clusterroles", "cluster-admin"), namespace="default"
    )
    assert (await bob.merge(path, labels))[0] == 403, "in a namespace it is no right on what is the cluster's"


async def test_a_token_ends_with_its_account_and_is_bound_to_nothing_that_is_not_watched(site: Site) -> None:
    """Deleted is deleted, although a finalizer holds what is left of it."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await site.admin.create(accounts, {"metadata": {"name": "robot", "finalizers": ["example.com/hold"]}})
    answer = await site.admin.create(f"{accounts}/robot/token", {"spec": {"expirationSeconds": 3600}})
    headers = {"Authorization": "Bearer " + answer["status"]["token"]}
    connector = aiohttp.TCPConnector(ssl=site.admin.context(certificate=False))
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        for step, code in (("before", 200), ("after", 401)):
            async with session.get(site.admin.url + "/api") as found:
                assert found.status == code, step
            await site.admin.call("DELETE", f"{accounts}/robot")
    await site.admin.create(accounts, {"metadata": {"name": "other"}})
    reference = {"kind": "Secret", "apiVersion": "v1", "name": "s"}
    code, answer = await site.admin.call("POST", f"{accounts}/other/token", {"spec": {"boundObjectRef": reference}})
    assert code == 422 and answer["details"]["causes"][0]["field"] == "spec.boundObjectRef"


async def test_subresources_are_rights_of_their_own(site: Site) -> None:
    await site.admin.create(WIDGETS, widget("a"))
    bob = await site.user("bob")
    await site.grant("bob", rule("patch", "example.com", "widgets"))
    for sub, body in (("status", {"status": {"phase": "x"}}), ("scale", {"spec": {"replicas": 3}})):
        assert (await bob.merge(f"{WIDGETS}/a/{sub}", body))[0] == 403
    carol = await site.user("carol")
    await site.grant("carol", rule("patch", "example.com", "widgets/status */scale"))
    assert (await carol.merge(f"{WIDGETS}/a", {"spec": {"size": 9}}))[0] == 403
    code, found = await carol.merge(
        f"{WIDGETS}/a/status", {"status": {"phase": "x"}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}}
    )
    assert code == 200 and found["spec"]["size"] == 1 and "labels" not in found["metadata"]
    assert (await carol.merge(f"{WIDGETS}/a/scale", {"spec": {"replicas": 3}}))[0] == 200


async def test_a_binding_to_a_role_that_is_not_there_yet_is_refused(site: Site) -> None:
    bob = await site.user("bob")
    await site.grant("bob", rule("create", "rbac.authorization.k8s.io", "rolebindings clusterrolebindings"))
    body = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "to-come"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    for path in (f"{RBAC}/clusterrolebindings", f"{RBAC}/namespaces/default/rolebindings"):
        code, answer = await bob.call("POST", path, body)
        assert code == 404 and answer["message"] == 'clusterroles.rbac.authorization.k8s.io "to-come" not found'


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": "x"}}, "roleRef.apiGroup"),
        ({"subjects": [{"kind": "User", "name": "a", "apiGroup": "x"}]}, "subjects[0].apiGroup"),
        (
            {
                "subjects": [
                    {"kind": "ServiceAccount", "name": "a", "namespace": "b", "apiGroup": "rbac.authorization.k8s.io"}
                ]
            },
            "subjects[0].apiGroup",
        ),
        ({"subjects": [{"kind": "ServiceAccount", "name": "a"}]}, "subjects[0].namespace"),
        ({"subjects": [{"kind": "Robot", "name": "a"}]}, "subjects[0].kind"),
        ({"subjects": [{"kind": "User", "name": ""}]}, "subjects[0].name"),
        ({"roleRef": {"kind": "Role", "name": "view"}}, "roleRef.kind"),
    ],
)
async def test_a_binding_says_whom_it_means(site: Site, body: Json, field: str) -> None:
    whole = {"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "view"}, **body}
    code, answer = await site.admin.call("POST", f"{RBAC}/clusterrolebindings", whole)
    assert code == 422 and field in {cause["field"] for cause in answer["details"]["causes"]}, answer


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ([{"verbs": []}], "rules[0].verbs"),
        ([{"verbs": ["get"], "resources": ["pods"]}], "rules[0].apiGroups"),
        ([{"verbs": ["get"], "apiGroups": [""]}], "rules[0].resources"),
        ([{"verbs": ["get"], "nonResourceURLs": ["/a"], "resources": ["pods"]}], "rules[0].nonResourceURLs"),
    ],
)
async def test_a_rule_is_about_resources_or_about_paths(site: Site, rules: list[Json], field: str) -> None:
    code, answer = await site.admin.call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "r"}, "rules": rules})
    assert code == 422 and field in {cause["field"] for cause in answer["details"]["causes"]}, answer
    whole = {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]}
    code, answer = await site.admin.call("POST", f"{RBAC}/namespaces/default/roles", whole)
    assert code == 422 and "namespaced rules cannot apply to non-resource URLs" in answer["message"]


async def test_an_aggregated_role_gathers_and_only_administrators_make_one(site: Site) -> None:
    bob = await site.user("bob")
    await site.grant("bob", rule("create update patch get", "rbac.authorization.k8s.io", "clusterroles"))
    for selector, code in (
        ({"matchExpressions": [{"key": "a", "operator": "Near"}]}, 422), ({"matchExpressions": [{"key": "a", "operator": "In"}]}, 422),
        ({"matchLabels": {"a": 5}}, 422), ({"matchLabels": {"a": "b"}}, 201),
    ):  # fmt: skip
        body = {"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": [selector]}}
        assert (await bob.call("POST", f"{RBAC}/clusterroles", body))[0] == (403 if code == 201 else 422)
        assert (await site.admin.call("POST", f"{RBAC}/clusterroles", body))[0] == code
    assert (
        await site.admin.call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "none"}, "aggregationRule": {}})
    )[0] == 422
    await site.admin.create(
        f"{RBAC}/clusterroles",
        {"metadata": {"name": "part", "labels": {"a": "b"}}, "rules": [rule("list", "", "configmaps")]},
    )
    reference, subjects = {"kind": "ClusterRole", "name": "sum"}, [{"kind": "User", "name": "bob"}]
    await site.admin.create(
        f"{RBAC}/clusterrolebindings", {"metadata": {"name": "sum"}, "roleRef": reference, "subjects": subjects}
    )
    assert (await bob.get(MAPS))[0] == 200


async def test_a_local_review_is_about_its_own_namespace(site: Site) -> None:
    path = "/apis/authorization.k8s.io/v1/namespaces/{}/localsubjectaccessreviews"
    await site.grant("bob", rule("get", "", "configmaps"), namespace="default")
    about = {"verb": "get", "resource": "configmaps", "namespace": "default"}
    answer = await site.admin.create(path.format("default"), {"spec": {"user": "bob", "resourceAttributes": about}})
    assert answer["status"]["allowed"] is True
    for namespace, spec, code in (
        ("kube-system", {"user": "bob", "resourceAttributes": about}, 400),
        ("default", {"user": "bob", "resourceAttributes": {**about, "namespace": ""}}, 400),
        ("default", {"user": "bob", "nonResourceAttributes": {"path": "/", "verb": "get"}}, 422),
        ("default", {"user": "bob"}, 422),
        ("default", {"resourceAttributes": about}, 422),
        ("default", {"user": 5, "resourceAttributes": about}, 400),
        ("default", {"user": "bob", "groups": "system:masters", "resourceAttributes": about}, 400),
        ("default", {"user": "bob", "resourceAttributes": about, "nonResourceAttributes": {"path": "/"}}, 422),
    ):
        found, answer = await site.admin.call("POST", path.format(namespace), {"spec": spec})
        assert found == code, answer
    assert (await site.admin.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {}}))[
        0
    ] == 400


async def test_one_caller_takes_a_share_of_what_all_have(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred halves of a question that everybody may ask, and nobody else could write for a minute."""
    monkeypatch.setattr(seen, "MOST_WRITING", 8)
    monkeypatch.setattr(seen, "MOST_READING", 8)
    monkeypatch.setattr(seen, "MOST_WATCHING_EACH", 3)
    bob, carol = await site.user("bob"), await site.user("carol")
    review, body = (
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"nonResourceAttributes": {"verb": "get"}}},
    )
    rest = asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        yield b"{"
        await rest.wait()
        yield b"}"

    async def stuck() -> int:
        assert bob.session
        async with bob.session.post(bob.url + review, data=half()) as response:
            return response.status

    tasks = [asyncio.create_task(stuck()) for _ in range(8)]
    done: set[asyncio.Task[int]] = set()
    while len(done) < 6:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=20)
        assert done, "none of them is refused"
        await asyncio.sleep(0.05)
    assert {task.result() for task in done} == {429}
    assert (await bob.call("POST", review, body))[0] == 429
    assert (await carol.call("POST", review, body))[0] == 201
    assert (await site.admin.call("POST", MAPS, {"metadata": {"name": "a"}}))[0] == 201
    rest.set()
    await asyncio.gather(*tasks)
    assert (await bob.call("POST", review, body))[0] == 201
    await site.grant("bob", rule("watch", "", "configmaps"))
    assert bob.session and site.admin.session
    for who, codes in ((bob, [200, 200, 200, 429]), (site.admin, [200] * 4)):
        assert who.session
        streams = [await who.session.get(who.url + MAPS, params={"watch": "1"}) for _ in range(4)]
        assert [stream.status for stream in streams] == codes
        for stream in streams:
            stream.close()


async def test_a_right_in_one_namespace_is_none_in_another_or_in_all(site: Site) -> None:
    bob = await site.user("bob")
    await site.grant("bob", rule("*", "", "*"), namespace="default")
    assert (await bob.get(MAPS))[0] == 200
    assert (await bob.get("/api/v1/namespaces/default"))[0] == 200
    for path in ("/api/v1/configmaps", "/api/v1/namespaces/kube-system/secrets", "/api/v1/namespaces//secrets", "/api/v1/nodes", "/api/v1/namespaces",
                 "/api/v1/namespaces/kube-system", "/api/v1/namespaces/default%2f..%2fkube-system/secrets"):  # fmt: skip
        assert (await bob.get(path))[0] in (403, 404), path


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_namespaces_that_everything_stands_on_are_not_deleted(site: Site, name: str) -> None:
    code, answer = await site.admin.call("DELETE", f"/api/v1/namespaces/{name}")
    assert code == 403 and "this namespace may not be deleted" in answer["message"]


# -- Certificates and nodes -------------------------------------------------------------------------------------------


def _asked(name: str, encoded: str, signer: str, *usages: str) -> Json:
    spec = {"request": encoded, "signerName": f"kubernetes.io/{signer}", "usages": ["digital signature", *usages]}
    return {"metadata": {"name": name}, "spec": spec}


async def _signed(site: Site, name: str) -> Json:
    approved = {"type": "Approved", "status": "True", "reason": "x", "message": "x"}
    code, answer = await site.admin.merge(f"{REQUESTS}/{name}/approval", {"status": {"conditions": [approved]}})
    assert code == 200, answer
    for _ in range(3000):
        _, found = await site.admin.get(f"{REQUESTS}/{name}")
        if found["status"].get("certificate") or any(c["type"] == "Failed" for c in found["status"]["conditions"]):
            return dict(found["status"])
        await asyncio.sleep(0.01)
    raise AssertionError(found)


async def test_two_common_names_are_refused_when_asked_and_when_shown(site: Site) -> None:
    names = (
        (NameOID.ORGANIZATION_NAME, "system:nodes"),
        (NameOID.COMMON_NAME, "system:node:n1"),
        (NameOID.COMMON_NAME, "system:admin"),
    )
    body = _asked("two", certificate_request(*names), "kube-apiserver-client-kubelet", "client auth")
    code, answer = await site.admin.call("POST", REQUESTS, body)
    assert code == 422 and "more than one common name" in answer["message"]
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in names])
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    holder = await site.holder(site.authority.sign(key.public_key(), subject, uses=(Use.CLIENT,)), pem)
    for path in ("/version", "/api/v1/nodes"):
        assert (await holder.get(path))[0] == 401


@pytest.mark.parametrize(
    ("root", "user", "groups", "uses"),
    [
        ("lab", "bmc", (), (Use.SERVER,)),
        ("lab", "bmc", (), BOTH_USES),
        ("lab", "system:admin", ("system:masters",), (Use.CLIENT,)),
        ("etcd", "ctrl-0", (), BOTH_USES),
        ("etcd", "system:admin", ("system:masters",), (Use.CLIENT,)),
        ("pki", "kube-apiserver", (), (Use.SERVER,)),
        ("pki", "system:admin", ("system:masters",), (Use.SERVER,)),
    ],
)
async def test_only_a_client_certificate_of_the_apis_own_root_is_let_in(
    site: Site, tmp_path: Path, root: str, user: str, groups: tuple[str, ...], uses: tuple[Use, ...]
) -> None:
    """A BMC's certificate, a member of etcd's, and the API's own serving certificate are no clients."""
    authority = Authority.ensure(tmp_path / root, root)
    assert (authority.certificate.read_bytes() == site.authority.certificate.read_bytes()) is (root == "pki")
    stranger = await site.holder(*issue_client(authority, user, groups, uses))
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
        await stranger.get("/version")
    known = await site.holder(*issue_client(site.authority, "system:admin", ("system:masters",)))
    assert (await known.get("/version"))[0] == 200


async def test_a_request_that_is_not_the_signers_is_told_so_and_others_are_signed_after_it(site: Site) -> None:
    node = ((NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, "system:node:n1"))
    odd = certificate_request(*node, names=[x509.DNSName("n1"), x509.UniformResourceIdentifier("spiffe://x")])
    await site.admin.create(REQUESTS, _asked("odd", odd, "kubelet-serving", "server auth"))
    status = await _signed(site, "odd")
    assert "certificate" not in status and "URI subjectAltNames are not allowed" in status["conditions"][-1]["message"]
    good = certificate_request(*node, names=[x509.DNSName("n1")])
    await site.admin.create(REQUESTS, _asked("good", good, "kubelet-serving", "server auth"))
    assert base64.b64decode((await _signed(site, "good"))["certificate"]).startswith(b"-----BEGIN CERTIFICATE")


async def test_who_may_write_the_status_of_requests_does_not_sign_without_a_right_on_the_signer(site: Site) -> None:
    await site.admin.create(
        REQUESTS, _asked("c", certificate_request((NameOID.COMMON_NAME, "x")), "kube-apiserver-client", "client auth")
    )
    bob = await site.user("bob")
    group = "certificates.k8s.io"
    await site.grant(
        "bob",
        rule(
            "get patch update",
            group,
            "certificatesigningrequests certificatesigningrequests/status certificatesigningrequests/approval",
        ),
    )
    approved = {"type": "Approved", "status": "True", "reason": "x", "message": "x"}
    code, answer = await bob.merge(f"{REQUESTS}/c/approval", {"status": {"conditions": [approved]}})
    assert code == 403 and "not permitted to approve" in answer["message"]
    code, answer = await bob.merge(
        f"{REQUESTS}/c/status", {"status": {"certificate": base64.b64encode(b"forged").decode()}}
    )
    assert code == 403 and "not permitted to sign" in answer["message"]
    _, found = await bob.merge(f"{REQUESTS}/c", {"status": {"conditions": [approved]}, "spec": {"username": "root"}})
    assert not found.get("status") and found["spec"]["username"] == "system:admin"
    masters = certificate_request((NameOID.ORGANIZATION_NAME, "system:masters"), (NameOID.COMMON_NAME, "x"))
    code, answer = await site.admin.call("POST", REQUESTS, _asked("m", masters, "kube-apiserver-client", "client auth"))
    assert code == 403 and "system:masters group is not allowed" in answer["message"]


async def test_a_node_lives_its_life_and_leaves_the_others_alone(site: Site) -> None:
    node = await site.user("system:node:n1", "system:nodes")
    await site.admin.create("/api/v1/nodes", {"metadata": {"name": "n2"}})
    await node.create("/api/v1/nodes", {"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}})
    code, _ = await node.merge("/api/v1/nodes/n1/status", {"status": {"phase": "x"}})
    assert code == 200 and (await node.get("/api/v1/nodes/n1"))[0] == 200
    assert (await node.get("/api/v1/nodes", fieldSelector="metadata.name=n1"))[0] == 200
    lease = {"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1", "leaseDurationSeconds": 40}}
    made = await node.create(LEASES.format("kube-node-lease"), lease)
    assert (await node.call("PUT", LEASES.format("kube-node-lease") + "/n1", made))[0] == 200
    await node.create(
        "/api/v1/namespaces/default/events", {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
    )
    for method, path, body in (
        ("POST", "/api/v1/nodes", {"metadata": {"name": "n3"}}),
        ("POST", "/api/v1/nodes", {"metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/x": ""}}}),
        ("PATCH", "/api/v1/nodes/n2", {"spec": {"unschedulable": True}}),
        ("PATCH", "/api/v1/nodes/n2/status", {"status": {"phase": "x"}}),
        ("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b"}}}),
        ("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
        ("DELETE", "/api/v1/nodes/n2", None),
        ("DELETE", "/api/v1/nodes", None),
        ("GET", "/api/v1/nodes/n2", None),
        ("GET", "/api/v1/nodes", None),
        ("POST", LEASES.format("kube-node-lease"), {"metadata": {"name": "n2"}}),
        ("POST", LEASES.format("default"), {"metadata": {"name": "n1"}}),
        ("PUT", LEASES.format("kube-node-lease") + "/n2", {"metadata": {"name": "n2"}}),
        ("GET", "/api/v1/namespaces/kube-system/secrets", None),
        ("GET", "/api/v1/namespaces/default/configmaps", None),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {}),
    ):
        code, answer = await node.call(
            method, path, body, media="application/merge-patch+json" if method == "PATCH" else "application/json"
        )
        assert code == 403, (method, path, answer)
    other = certificate_request((NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, "system:node:n2"))
    code, answer = await node.call("POST", REQUESTS, _asked("o", other, "kube-apiserver-client-kubelet", "client auth"))
    assert code == 403 and "can only create a node CSR with CN=system:node:n1" in answer["message"]
    own = certificate_request((NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, "system:node:n1"))
    await node.create(REQUESTS, _asked("n", own, "kube-apiserver-client-kubelet", "client auth"))
    _, rules = await node.call(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    )
    assert rules["status"]["incomplete"] is True


async def test_a_node_that_was_granted_everything_still_leaves_the_others_alone(site: Site) -> None:
    node = await site.user("system:node:n1", "system:nodes")
    await site.admin.create("/api/v1/nodes", {"metadata": {"name": "n2"}})
    await site.grant("system:node:n1", rule("*", "*", "*"))
    assert (await node.get("/api/v1/nodes/n2"))[0] == 200
    for method, path in (
        ("DELETE", "/api/v1/nodes/n2"),
        ("DELETE", "/api/v1/nodes"),
        ("DELETE", LEASES.format("kube-node-lease")),
    ):
        assert (await node.call(method, path))[0] == 403
    code, answer = await node.call(
        "PATCH", "/api/v1/nodes/n9", {"apiVersion": "v1", "kind": "Node"}, media=APPLY, fieldManager="m"
    )
    assert code == 403 and 'is not allowed to modify node "n9"' in answer["message"]


@asynccontextmanager
async def _running(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Client]]:
    async with ApiServer(settings(tmp_path)) as running, Client(running.url, tmp_path / "pki") as admin:
        yield running, admin


@pytest.mark.parametrize("touched", [False, True])
async def test_rights_on_all_nodes_that_an_earlier_version_gave_every_node_are_taken_back(
    tmp_path: Path, touched: bool
) -> None:
    subjects = [{"kind": "Group", "name": "system:nodes"}, *([{"kind": "User", "name": "bob"}] if touched else [])]
    body = {"metadata": {"name": "system:node", "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
            "roleRef": {"kind": "ClusterRole", "name": "system:node"}, "subjects": subjects}  # fmt: skip
    async with _running(tmp_path) as (running, admin):
        assert (await admin.get(f"{RBAC}/clusterrolebindings/system:node"))[0] == 404
        assert running.objects
        await running.objects.create(
            CLUSTER_ROLE_BINDING, CLUSTER_ROLE_BINDING.storage, "", body, Context(SYSTEM, now()), dry=False
        )
    async with _running(tmp_path) as (_, admin):
        code: Any = (await admin.get(f"{RBAC}/clusterrolebindings/system:node"))[0]
        assert code == (200 if touched else 404)
