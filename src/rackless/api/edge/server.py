"""The HTTP server: TLS, authentication, paths that are no resources (/version, /healthz, discovery), and errors as Status
responses."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path as File
from typing import Any

from aiohttp import web

from rackless.api import status
from rackless.api.access.attributes import Attributes
from rackless.api.access.authentication import ANONYMOUS, Tokens, from_certificate
from rackless.api.access.impersonation import impersonated
from rackless.api.access.rbac import Authorizer, refusal
from rackless.api.edge import discovery, respond
from rackless.api.edge.documents import Documents
from rackless.api.edge.request import discovery_form, parse_path
from rackless.api.edge.resources import ResourceRequests
from rackless.api.edge.seen import SeenRequest
from rackless.api.encoding import encode
from rackless.api.kinds.kind import Caller
from rackless.api.metrics import MEDIA, Metrics
from rackless.api.objects.registry import Registry
from rackless.api.status import RequestRefused
from rackless.api.stores.port import Full, StoreUnreachable, TooLarge
from rackless.trust.sni import show_by_name

log = logging.getLogger(__name__)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class Edge:
    def __init__(
        self,
        resources: ResourceRequests,
        registry: Registry,
        authorizer: Authorizer,
        tokens: Tokens,
        checks: Callable[[], Mapping[str, str]],
        metrics: Metrics,
        address: str,
    ) -> None:
        """`checks` gives for each thing that readiness needs its problem, or nothing."""
        self._resources = resources
        self._registry = registry
        self._authorizer = authorizer
        self._tokens = tokens
        self._checks = checks
        self._metrics = metrics
        self._address = address
        self._documents = Documents(registry, resources.offload)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        begun, code, seen = time.perf_counter(), 499, SeenRequest()
        try:
            response = await self._answered(request, seen)
            code = response.status
            return response
        finally:
            seen.leave(self._metrics)
            self._metrics.count(seen.asked, code, time.perf_counter() - begun)

    async def _answered(self, request: web.BaseRequest, seen: SeenRequest) -> web.StreamResponse:
        try:
            return await self._serve(request, seen)
        except RequestRefused as refused:
            return respond.refusal(refused)
        except Full as error:
            return respond.refusal(status.unavailable(f"the store has no room: {error}"))
        except StoreUnreachable as error:
            return respond.refusal(status.unavailable(f"the store cannot be reached: {error}"))
        except TooLarge as error:
            return respond.refusal(RequestRefused(413, "RequestEntityTooLarge", f"Request entity too large: {error}"))
        except RecursionError:
            return respond.refusal(status.bad_request("the object provided is nested too deeply"))
        except Exception:
            log.exception("%s %s failed", request.method, request.rel_url.raw_path)
            if request.writer.output_size:
                raise  # an answer has begun: all that is left is to break it off
            return respond.refusal(status.internal_error())

    async def _serve(self, request: web.BaseRequest, seen: SeenRequest) -> web.StreamResponse:
        if request.method not in _METHODS:
            raise status.method_not_allowed()
        caller = impersonated(self._caller(request), request.headers, self._authorizer)
        raw = request.rel_url.raw_path
        if raw.startswith(("/api/", "/apis/")) and (path := parse_path(raw)) is not None:
            return await self._resources.serve(request, path, caller, seen.enter(self._metrics, caller))
        asked = Attributes(request.method.lower() if request.method != "HEAD" else "get", path=raw)
        if not self._authorizer.allows(caller, asked):
            # As the real server: a path that is no resource has no name in the sentence.
            raise RequestRefused(403, "Forbidden", f"forbidden: {refusal(caller, asked)}", {})
        if request.method not in ("GET", "HEAD"):
            raise status.method_not_allowed()
        return await self._plain(request, raw.rstrip("/") or "/")

    def _caller(self, request: web.BaseRequest) -> Caller:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport else None
        if certificate and (found := from_certificate(certificate)):
            return found
        header = request.headers.get("Authorization", "")
        if header:
            scheme, _, token = header.partition(" ")
            if scheme.lower() != "bearer" or not token.strip():
                raise status.unauthorized()
            return self._tokens.caller(token.strip())
        return ANONYMOUS

    async def _plain(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        accept = request.headers.get("Accept", "")
        match path.strip("/").split("/"):
            case ["version"]:
                return respond.json(discovery.VERSION)
            case ["livez" | "healthz"] | ["livez" | "healthz" | "readyz", "ping"]:
                return self._health(request, path.strip("/"), {})
            case ["readyz"]:
                return self._health(request, "readyz", self._checks())
            case ["readyz", *parts] if "/".join(parts) in (checks := self._checks()):
                return self._health(request, path.strip("/"), {"/".join(parts): checks["/".join(parts)]})
            case ["metrics"]:
                response = respond.answer(self._metrics.page())
                response.headers["Content-Type"] = MEDIA
                return response
            case ["api"]:
                if form := discovery_form(accept):
                    return await self._aggregated(True, form)
                return respond.json(discovery.core_versions(self._address))
            case ["apis"]:
                if form := discovery_form(accept):
                    return await self._aggregated(False, form)
                return await self._document(path, discovery.group_list)
            case ["apis", group] if group in self._registry.groups() and group:
                return respond.json({"kind": "APIGroup", "apiVersion": "v1", **discovery.group(self._registry, group)})
            case ["api", version]:
                return await self._resource_list("", version)
            case ["apis", group, version]:
                return await self._resource_list(group, version)
            case [""]:
                groups = self._registry.groups()
                paths = [
                    "/api",
                    "/api/v1",
                    "/apis",
                    "/livez",
                    "/metrics",
                    "/openapi/v2",
                    "/openapi/v3",
                    "/readyz",
                    "/version",
                ]
                paths += [f"/apis/{g}" for g in groups if g] + [
                    f"/apis/{g}/{v}" for g in groups if g for v in groups[g]
                ]
                return respond.json({"paths": sorted(paths)})
            case ["openapi", *rest]:
                from rackless.api.edge.openapi import serve

                if (found := await serve(self._documents, rest, accept)) is not None:
                    return found
        return respond.text("404 page not found\n", 404)

    def _health(self, request: web.BaseRequest, name: str, checks: Mapping[str, str]) -> web.Response:
        """One word, or with `?verbose` each check, as the real server writes them."""
        failed = any(checks.values())
        if not failed and "verbose" not in request.rel_url.query:
            return respond.text("ok")
        lines = ["[+]ping ok"]
        lines += [f"[-]{check} failed: {why}" if why else f"[+]{check} ok" for check, why in checks.items()]
        lines.append(f"{name} check {'failed' if failed else 'passed'}")
        return respond.text("\n".join(lines) + "\n", 500 if failed else 200)

    async def _document(self, name: Hashable, make: Callable[[Registry], Any]) -> web.Response:
        body = await self._documents.get(name, lambda registry: _encoded(make(registry)), heavy=False)
        return respond.answer(body) if body else respond.text("404 page not found\n", 404)

    async def _aggregated(self, core: bool, form: str) -> web.Response:
        response = await self._document((core, form), lambda registry: discovery.aggregated(registry, core, form))
        response.headers["Content-Type"] = f"application/json;g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList"
        return response

    async def _resource_list(self, group: str, version: str) -> web.Response:
        if version not in self._registry.groups().get(group, ()):
            return respond.text("404 page not found\n", 404)
        name = ("resources", group, version)
        return await self._document(name, lambda registry: discovery.resource_list(registry, group, version))


def _encoded(value: Any) -> bytes:
    return encode(value) if value is not None else b""


def tls_context(
    certificate: File,
    key: File,
    client_ca: File,
    named: Sequence[tuple[File, File]] = (),
    more_clients: File | None = None,
) -> ssl.SSLContext:
    """Our certificate, and clients' certificates where they have one; tokens and anonymous come without. Each of `named` is shown
    to who asks for one of its names (SNI); `more_clients` are CAs besides `client_ca`."""
    main = _one_context(certificate, key, client_ca, more_clients)
    show_by_name(main, [(_one_context(*pair, client_ca, more_clients), pair[0]) for pair in named])
    return main


def _one_context(certificate: File, key: File, client_ca: File, more_clients: File | None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(client_ca))
    if more_clients is not None:
        context.load_verify_locations(cafile=str(more_clients))
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
