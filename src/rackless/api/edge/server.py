"""The HTTP server: TLS, who asks, paths that are no resources, and refusals as responses."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path as File

from aiohttp import web

from rackless.api import discovery, status
from rackless.api.access.authentication import ANONYMOUS, Tokens, from_certificate
from rackless.api.access.impersonation import impersonated
from rackless.api.access.rbac import Attributes, Authorizer, refusal
from rackless.api.edge import respond
from rackless.api.edge.request import discovery_form, parse_path
from rackless.api.edge.resources import Resources
from rackless.api.kinds.kind import Caller
from rackless.api.registry import Registry
from rackless.api.status import Refused
from rackless.api.stores.port import TooLarge, Unreachable

log = logging.getLogger(__name__)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class Edge:
    def __init__(
        self,
        resources: Resources,
        registry: Registry,
        authorizer: Authorizer,
        tokens: Tokens,
        ready: Callable[[], str],
        address: str,
    ) -> None:
        self._resources = resources
        self._registry = registry
        self._authorizer = authorizer
        self._tokens = tokens
        self._ready = ready
        self._address = address

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._serve(request)
        except Refused as refused:
            return respond.refusal(refused)
        except Unreachable as error:
            return respond.refusal(status.unavailable(f"the store cannot be reached: {error}"))
        except TooLarge as error:
            return respond.refusal(Refused(413, "RequestEntityTooLarge", f"Request entity too large: {error}"))
        except Exception:
            log.exception("%s %s failed", request.method, request.rel_url.raw_path)
            if request.writer.output_size:
                raise  # an answer has begun: all that is left is to break it off
            return respond.refusal(status.internal_error())

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in _METHODS:
            raise status.method_not_allowed()
        caller = impersonated(self._caller(request), request.headers, self._authorizer)
        raw = request.rel_url.raw_path
        if raw.startswith(("/api/", "/apis/")) and (path := parse_path(raw)) is not None:
            return await self._resources.serve(request, path, caller)
        asked = Attributes(request.method.lower() if request.method != "HEAD" else "get", path=raw)
        if not self._authorizer.allows(caller, asked):
            # As the real server: a path that is no resource has no name in the sentence.
            raise Refused(403, "Forbidden", f"forbidden: {refusal(caller, asked)}", {})
        if request.method not in ("GET", "HEAD"):
            raise status.method_not_allowed()
        return self._plain(request, raw.rstrip("/") or "/")

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

    def _plain(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        accept = request.headers.get("Accept", "")
        match path.strip("/").split("/"):
            case ["version"]:
                return respond.json(discovery.VERSION)
            case ["livez" | "healthz"] | ["livez" | "healthz" | "readyz", "ping"]:
                return self._health(request, path.strip("/"), "")
            case ["readyz"]:
                return self._health(request, "readyz", self._ready())
            case ["api"]:
                if form := discovery_form(accept):
                    return self._aggregated(True, form)
                return respond.json(discovery.core_versions(self._address))
            case ["apis"]:
                if form := discovery_form(accept):
                    return self._aggregated(False, form)
                return respond.json(discovery.group_list(self._registry))
            case ["apis", group] if group in self._registry.groups() and group:
                return respond.json({"kind": "APIGroup", "apiVersion": "v1", **discovery.group(self._registry, group)})
            case ["api", version]:
                return self._resource_list("", version)
            case ["apis", group, version]:
                return self._resource_list(group, version)
            case [""]:
                groups = self._registry.groups()
                paths = ["/api", "/api/v1", "/apis", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
                paths += [f"/apis/{g}" for g in groups if g] + [
                    f"/apis/{g}/{v}" for g in groups if g for v in groups[g]
                ]
                return respond.json({"paths": sorted(paths)})
            case ["openapi", *rest]:
                from rackless.api.edge.openapi import serve

                if (found := serve(self._registry, rest, accept)) is not None:
                    return found
        return respond.text("404 page not found\n", 404)

    def _health(self, request: web.BaseRequest, name: str, problem: str) -> web.Response:
        """One word, or with `?verbose` each check, as the real server writes them."""
        if not problem and "verbose" not in request.rel_url.query:
            return respond.text("ok")
        store = f"[-]etcd failed: {problem}" if problem else "[+]etcd ok"
        verdict = "failed" if problem else "passed"
        return respond.text(f"[+]ping ok\n{store}\n{name} check {verdict}\n", 500 if problem else 200)

    def _aggregated(self, core: bool, form: str) -> web.Response:
        response = respond.json(discovery.aggregated(self._registry, core, form))
        response.headers["Content-Type"] = f"application/json;g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList"
        return response

    def _resource_list(self, group: str, version: str) -> web.Response:
        found = discovery.resource_list(self._registry, group, version)
        if found is None:
            return respond.text("404 page not found\n", 404)
        return respond.json(found)


def tls_context(certificate: File, key: File, client_ca: File) -> ssl.SSLContext:
    """Our certificate, and clients' certificates where they have one; tokens and anonymous come without."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(client_ca))
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
