"""The routes of the page and of its JSON, and what every request must have and every answer carries."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web

from rackless.codec import encode
from rackless.errors import HypervisorError, InputError, LabError, RacklessError, known
from rackless.protocol.failures import Failure, FailureAnswer
from rackless.protocol.messages import ClearFaults, FaultWish
from rackless.web import access, actions, console, live, server_views, views
from rackless.web.access import WebSession
from rackless.web.site import SITE, UnknownLab, WebSite

STATIC = Path(__file__).parent / "static"
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MOST_BYTES = 256 << 10
"""Of a request: a lab.yaml of hundreds of servers one by one."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_NOTE_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; }
body { display: grid; place-items: center; min-height: 90vh; margin: 0; padding: 1rem; }
main { max-width: 34rem; border-left: 4px solid #2f6fd0; padding: .2rem 1.2rem; }
code { font-size: .9em; }
h1 { font-size: 1.3rem; margin: 0 0 .4rem; } p { margin: 0; opacity: .85; }
"""
_NOTE_POLICY = f"style-src 'sha256-{base64.b64encode(hashlib.sha256(_NOTE_STYLE.encode()).digest()).decode()}'"
_NOTE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    "<title>rackless</title><style>{}</style></head><body><main><h1>{}</h1><p>{}</p></main></body></html>"
)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RefusedRequest(RacklessError):
    """A request that is not from our page, or of somebody who was not let in."""

    def __init__(self, status: int, what: str, *, why: str = "", hint: str = "") -> None:
        super().__init__(what, why=why, hint=hint)
        self.status = status


def make_app(site: WebSite) -> web.Application:
    app = web.Application(client_max_size=MOST_BYTES, middlewares=[_guard])
    app[SITE] = site
    app.on_response_prepare.append(_dress)
    lab = "/api/labs/{lab}"
    server = f"{lab}/servers/{{server}}"
    app.add_routes(
        [
            web.get("/", _page),
            web.get("/static/{name}", _static),
            web.get("/api/session", _session),
            web.get("/api/labs", _labs),
            web.get(f"{lab}/rack", _view(views.rack_view)),
            web.get(f"{lab}/install", _view(views.install_view)),
            web.get(f"{lab}/why", _view(views.why_view)),
            web.get(f"{lab}/objects", _view(views.objects_view)),
            web.get(f"{lab}/objects/events", _view(views.object_events_view)),
            web.get(f"{lab}/objects/{{kind}}/{{name}}", _object),
            web.get(f"{lab}/events", _events),
            web.get(f"{lab}/logs", _logs),
            web.get(f"{lab}/logs/{{name}}", _log),
            web.get(f"{lab}/description", _description),
            web.get(f"{lab}/live", _live),
            web.get(server, _of_server(server_views.server_view)),
            web.get(f"{server}/bmc", _of_server(server_views.bmc_view)),
            web.get(f"{server}/timeline", _of_server(server_views.timeline_view)),
            web.get(f"{server}/screen", _screen),
            web.get(f"{server}/console", _console),
            web.post(f"{server}/power", _power),
            web.post(f"{server}/boot", _boot),
            web.post(f"{server}/media", _media),
            web.post(f"{server}/capture", _capture),
            web.post(f"{server}/host", _host),
            web.get(f"{lab}/faults", _view(server_views.faults_view)),
            web.post(f"{lab}/faults", _add_fault),
            web.post(f"{lab}/faults/clear", _clear_faults),
            web.post(f"{lab}/plan", _plan),
            web.post("/api/links", _link),
        ]
    )
    return app


# who may


@web.middleware
async def _guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        _admit(request)
        if "token" in request.query and request.path == "/":
            return _enter(request)
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return _failed(RacklessError(f"{request.method} {request.path}: {error.reason}"), error.status)
    except RefusedRequest as error:
        if request.path == "/" and "text/html" in request.headers.get("Accept", ""):  # a person in front of a browser
            return _note(error.status, error.what, error.why, error.hint)
        return _failed(error, error.status)
    except Exception as error:  # the edge: whatever it is, the page is told
        if (told := known(error)) is None:
            raise
        return _failed(told, _status(told))


def _admit(request: web.Request) -> None:
    """Raises RefusedRequest."""
    site = request.app[SITE]
    if not access.host_allowed(request.headers.get("Host"), site.names):
        raise RefusedRequest(
            421, "this host is not called that", why=f"it is {', '.join(sorted(site.names))}",
            hint="open the address that `rackless web` printed",
        )  # fmt: skip
    if "token" in request.query and request.path == "/":
        return
    session = _who(request)
    if session is None:
        raise RefusedRequest(
            401, "you were not let in", hint="open the link that `rackless web` prints; it can be used once"
        )
    if not access.fetched_by_us(request.headers):
        raise RefusedRequest(403, "another page asked for this", why="its request came with your cookie")
    changes = request.method != "GET"
    if (changes or "Upgrade" in request.headers) and not access.origin_allowed(request.headers, site.scheme):
        raise RefusedRequest(403, "another page asked for this", why="its origin is not this address")
    if changes and request.content_type != "application/json":
        raise RefusedRequest(415, "what is asked for must be JSON")
    if changes and session.read_only:
        raise RefusedRequest(403, "you may look, and change nothing", hint="`rackless web` without --read-only may")


def _who(request: web.Request) -> WebSession | None:
    site = request.app[SITE]
    return site.access.session(request.cookies.get(site.cookie))


def _may_change(request: web.Request) -> bool:
    session = _who(request)
    return session is not None and not session.read_only


def _enter(request: web.Request) -> web.Response:
    """A used link becomes a session. The page is opened by a document of ours: a cookie that is SameSite=Strict would not be sent
    with a redirect that began elsewhere, such as in a mail."""
    site = request.app[SITE]
    if request.method != "GET" or "Sec-Purpose" in request.headers:  # a browser that looks ahead does not use it up
        raise RefusedRequest(403, "this link is opened by a person")
    secret = site.access.enter(request.query["token"])
    if secret is None:
        return _note(
            403, "this link was used, or is not one of ours",
            "`rackless web` prints another when it is started again; Share in a browser that is in makes one for another browser",
        )  # fmt: skip
    response = web.Response(
        content_type="text/html",
        text='<!doctype html><meta charset="utf-8"><title>rackless</title>'
        '<link rel="icon" href="/static/icon.svg" type="image/svg+xml"><meta http-equiv="refresh" content="0;url=/">',
    )
    response.set_cookie(site.cookie, secret, httponly=True, samesite="Strict", secure=site.tls, path="/")
    return response


def _note(status: int, *sentences: str) -> web.Response:
    """A page for who is not in: with its style in it, because files are only for those who are."""
    head, *more = (_with_code(html.escape(f"{one[:1].upper()}{one[1:]}.")) for one in sentences if one)
    return web.Response(
        status=status, content_type="text/html", text=_NOTE.format(_NOTE_STYLE, head, " ".join(more)),
        headers={"Content-Security-Policy": HEADERS["Content-Security-Policy"].replace("style-src 'self'", _NOTE_POLICY)},
    )  # fmt: skip


def _with_code(text: str) -> str:
    """Commands stand between backticks."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", text)


async def _dress(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.pop("Server", None)


def _status(error: RacklessError) -> int:
    match error:
        case RefusedRequest():
            return error.status
        case UnknownLab():
            return 404
        case InputError():
            return 400
        case HypervisorError():
            return 403
        case LabError():
            return 409
    return 500


def _failed(error: RacklessError, status: int) -> web.Response:
    return web.json_response(encode(FailureAnswer(Failure.of(error))), status=status)


# the page


async def _page(_: web.Request) -> web.Response:
    return _file("index.html")


async def _static(request: web.Request) -> web.Response:
    return _file(request.match_info["name"])


def _file(name: str) -> web.Response:
    found = _files().get(name)
    if found is None:
        raise web.HTTPNotFound
    body, kind = found
    return web.Response(body=body, content_type=kind, charset="utf-8")


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """All of them, by name: no path of a request reaches the disk."""
    return {file.name: (file.read_bytes(), _KINDS[file.suffix]) for file in STATIC.iterdir() if file.suffix in _KINDS}


# what there is to see


def _view(look: Callable[[WebSite, str], Awaitable[views.View]]) -> _Handler:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(await look(request.app[SITE], request.match_info["lab"]))

    return answer


async def _session(request: web.Request) -> web.Response:
    return web.json_response({"read_only": not _may_change(request)})


async def _labs(request: web.Request) -> web.Response:
    return web.json_response(await views.labs_view(request.app[SITE]))


def _of_server(look: Callable[[WebSite, str, str], Awaitable[views.View]]) -> _Handler:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(await look(request.app[SITE], *_lab_and_server(request)))

    return answer


async def _object(request: web.Request) -> web.Response:
    lab, kind, name = (request.match_info[part] for part in ("lab", "kind", "name"))
    return web.json_response(await views.object_view(request.app[SITE], lab, kind, name))


async def _events(request: web.Request) -> web.Response:
    since, hear = _number(request, "since", -200), tuple(request.query.getall("hear", []))
    return web.json_response(await views.events_view(request.app[SITE], request.match_info["lab"], since, hear))


async def _logs(request: web.Request) -> web.Response:
    return web.json_response(views.logs_view(request.app[SITE], request.match_info["lab"]))


async def _log(request: web.Request) -> web.Response:
    lines = min(max(_number(request, "lines", 200), 1), 2000)
    return web.json_response(
        views.log_view(request.app[SITE], request.match_info["lab"], request.match_info["name"], lines)
    )


async def _description(request: web.Request) -> web.Response:
    return web.json_response(actions.description_view(request.app[SITE], request.match_info["lab"]))


async def _screen(request: web.Request) -> web.Response:
    picture = await actions.take_picture(request.app[SITE], *_lab_and_server(request))
    return web.Response(body=picture, content_type="image/png")


async def _live(request: web.Request) -> web.WebSocketResponse:
    site, lab = request.app[SITE], request.match_info["lab"]
    paths, since = site.paths(lab), _number(request, "since", -300)
    if lab not in site.watches:
        site.watches[lab] = live.LabWatch(lambda: views.rack_view(site, lab))
    return await live.tell_viewer(request, paths, site.watches[lab], since, site.wording)


async def _console(request: web.Request) -> web.StreamResponse:
    if "Upgrade" not in request.headers:
        return web.json_response(await console.console_view(request.app[SITE], *_lab_and_server(request)))
    return await console.sit_down(request, request.app[SITE], *_lab_and_server(request), typing=_may_change(request))


# what there is to do


async def _power(request: web.Request) -> web.Response:
    asked = actions.read_asked(actions.PowerAsked, await _json(request))
    return web.json_response(await actions.press_power(request.app[SITE], *_lab_and_server(request), asked))


async def _boot(request: web.Request) -> web.Response:
    asked = actions.read_asked(actions.BootAsked, await _json(request))
    return web.json_response(await actions.choose_boot(request.app[SITE], *_lab_and_server(request), asked))


async def _media(request: web.Request) -> web.Response:
    asked = actions.read_asked(actions.MediaAsked, await _json(request))
    return web.json_response(await actions.change_media(request.app[SITE], *_lab_and_server(request), asked))


async def _capture(request: web.Request) -> web.Response:
    asked = actions.read_asked(actions.CaptureAsked, await _json(request))
    packets = await actions.capture_packets(request.app[SITE], *_lab_and_server(request), asked)
    return web.Response(
        body=packets, content_type="application/vnd.tcpdump.pcap", headers={"Content-Disposition": "attachment"}
    )


async def _host(request: web.Request) -> web.Response:
    asked = actions.read_asked(actions.VerbAsked, await _json(request))
    return web.json_response(await actions.ask_of_host(request.app[SITE], *_lab_and_server(request), asked))


async def _add_fault(request: web.Request) -> web.Response:
    asked = actions.read_asked(FaultWish, await _json(request))
    return web.json_response(await actions.add_fault(request.app[SITE], request.match_info["lab"], asked))


async def _clear_faults(request: web.Request) -> web.Response:
    asked = actions.read_asked(ClearFaults, await _json(request))
    return web.json_response(await actions.clear_faults(request.app[SITE], request.match_info["lab"], asked))


async def _plan(request: web.Request) -> web.Response:
    asked = actions.read_asked(actions.PlanAsked, await _json(request))
    return web.json_response(await actions.plan_edit(request.app[SITE], request.match_info["lab"], asked))


async def _link(request: web.Request) -> web.Response:
    asked = actions.read_asked(actions.LinkAsked, await _json(request))
    return web.json_response(actions.make_link(request.app[SITE], request, asked))


def _lab_and_server(request: web.Request) -> tuple[str, str]:
    return request.match_info["lab"], request.match_info["server"]


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    if not re.fullmatch(r"-?\d{1,15}", text):
        raise InputError(f"{name} is a number, and not {text[:40]}")
    return int(text)


async def _json(request: web.Request) -> Any:
    try:
        return await request.json()
    except (ValueError, RecursionError) as error:
        raise InputError("this is no JSON", why=str(error)) from error
