"""`understudy serve`: cards, catalogue, ledger and plans over HTTP, for a team. Reads, unless a token lets it approve.

What can be reached is a fixed set of pages: the catalogue of the given places, of each release its card, manifest and
signature, the ledger's page, and plans of the given specs. Nothing in an address is ever joined to a path: it is
looked up among the releases that are there. A card is served only while it has the hash its manifest gives. The
store, the ledger's database, the home and comparisons with private rows are not among the pages, whatever is asked.

Approvals: with UNDERSTUDY_SERVE_TOKEN set and approvers in the policy, a paused run can be resumed by a signature that
`understudy approve` printed. The token only opens the form; the signature is what counts, here as everywhere.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any
from urllib.parse import parse_qs, quote

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from understudy.pipelines.errors import UnderstudyError
from understudy.pipelines.publishing.catalogue import Listed, catalogue_page
from understudy.pipelines.publishing.pages.page import Html, content_policy, page, paragraph
from understudy.pipelines.publishing.shelves import Shelf, card_is_published
from understudy.pipelines.publishing.stored import CARD
from understudy.pipelines.releasing.tokens import approver_of

TOKEN = "UNDERSTUDY_SERVE_TOKEN"  # noqa: S105 - the name of the variable
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
LEAST_TOKEN = 24
MOST_TYPED = 20_000
FIELDS = (
    ("token", "Token of this server", "password"),
    ("run", "Run (its id in Prefect)", "text"),
    ("release_id", "Release", "text"),
    ("spec_hash", "Hash of its spec", "text"),
    ("signature", "Signature, as understudy approve prints it", "text"),
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
Resume = Callable[[str, str], bool]
"""Given a paused run and a signature, resume it; False if no such run waits."""


@dataclass(frozen=True)
class Approvals:
    """Whose signatures count, the token that opens the form, and how a run is resumed."""

    token: str = field(repr=False)
    approvers: Mapping[str, str]
    resume: Resume


@dataclass(frozen=True)
class Site:
    """What is served. `ledger` and `plans` make their page when it is asked for."""

    releases: Sequence[Shelf]
    ledger: Callable[[], str] | None = None
    plans: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    approvals: Approvals | None = None
    hosts: Sequence[str] = LOOPBACK


def site_app(site: Site) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, title="Understudy")

    @app.middleware("http")
    async def guarded(request: Request, handle: Callable[[Request], Awaitable[Response]]) -> Response:
        answer = await handle(request)
        answer.headers.update(HEADERS)
        answer.headers["Content-Security-Policy"] = content_policy(forms=site.approvals is not None)
        return answer

    # Outside of all others: a page of another site must not read this one under a name of its own.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(site.hosts), www_redirect=False)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(UnderstudyError, _failed)

    @app.get("/", response_class=HTMLResponse)
    def catalogue() -> str:
        return _with_links(catalogue_page(_linked(site)), site)

    @app.get("/releases/{name}/{release_id}/{file}")
    def of_release(name: str, release_id: str, file: str) -> Response:
        return _file_of(site, name, release_id, file)

    if site.ledger is not None:
        app.get("/ledger", response_class=HTMLResponse)(site.ledger)

    @app.get("/plans/{name}", response_class=HTMLResponse)
    def plan(name: str) -> str:
        if name not in site.plans:
            raise HTTPException(404)
        return site.plans[name]()

    if site.approvals is not None:
        _add_approvals(app, site.approvals)
    return app


def _linked(site: Site) -> list[Listed]:
    """Of all places, each with a link that this server answers."""
    found = [one for shelf in site.releases for one in shelf.listed()]
    return [
        Listed(one.manifest, f"releases/{one.manifest.name}/{one.manifest.release_id}/{CARD}", one.latest, one.retired)
        if one.card is not None
        else one
        for one in found
    ]


def _with_links(text: str, site: Site) -> str:
    links = [("/ledger", "The privacy ledger")] if site.ledger is not None else []
    links += [(f"/plans/{quote(name)}", f"Plan: {name}") for name in site.plans]
    links += [("/approvals", "Approve a release")] if site.approvals is not None else []
    listed = "".join(f'<li><a href="{escape(href)}">{escape(name)}</a></li>' for href, name in links)
    return text.replace("</main>", f"<ul>{listed}</ul>\n</main>", 1) if links else text


def _file_of(site: Site, name: str, release_id: str, file: str) -> Response:
    """One of the three public papers of a release that is there, and only unchanged."""
    for shelf in site.releases:
        if (found := shelf.paper(name, release_id, file)) is None:
            continue
        manifest, content = found
        if file == CARD and not card_is_published(content, manifest):
            raise HTTPException(409, "The card was changed after publication: ask for another copy.")
        kind = "text/html" if file == CARD else "application/json"
        return Response(content, media_type=f"{kind}; charset=utf-8")
    raise HTTPException(404)


def _add_approvals(app: FastAPI, approvals: Approvals) -> None:
    @app.get("/approvals", response_class=HTMLResponse)
    def form() -> str:
        return _form()

    @app.post("/approvals", response_class=HTMLResponse)
    async def approve(request: Request) -> Response:
        said, status = await run_in_threadpool(_approved, await _typed(request), approvals)
        return HTMLResponse(_form(said), status)


async def _typed(request: Request) -> dict[str, str]:
    """What was typed into the form; nothing where it is longer than any form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_TYPED:
            return {}
    return {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}


def _approved(typed: dict[str, str], approvals: Approvals) -> tuple[str, int]:
    """What came of it. The whole form is sent each time and nothing is kept in a cookie, so that no other site can send
    it for somebody."""
    told = {name: typed.get(name, "").strip() for name, _, _ in FIELDS}
    if not hmac.compare_digest(told["token"].encode(), approvals.token.encode()):
        return "That is not this server's token. Nothing was approved.", 403
    who = approver_of(told["signature"], approvals.approvers, told["release_id"], told["spec_hash"])
    if who is None:
        return "That signature is not of an approver for this release. Nothing was approved.", 403
    if not approvals.resume(told["run"], told["signature"]):
        return "No such run waits for approval. Nothing was approved.", 409
    return f"Approved by {who}: {told['release_id']}. The run goes on and publishes it.", 200


def _form(said: str = "") -> str:
    inputs = "".join(
        f'<p><label for="{name}">{escape(label)}</label><br><input id="{name}" name="{name}" type="{kind}" '
        f'autocomplete="off" required size="60"></p>'
        for name, label, kind in FIELDS
    )
    told = Html(f'<p role="status"><b>{escape(said)}</b></p>') if said else Html("")
    lead = paragraph("A paused run publishes once an approver of this machine's policy has signed for its release.")
    form = f'<form method="post" action="/approvals">{inputs}<p><button type="submit">Approve</button></p></form>'
    return page("Approve a release", Html("by a signature"), (), Html(told + lead + form), (), forms=True)


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    told = error.detail if isinstance(error, HTTPException) and status == 409 else "There is no such page."
    return HTMLResponse(page("Not here", Html(""), (), paragraph(str(told)), ()), status)


async def _failed(request: Request, error: Exception) -> Response:
    """Its text may name places of this machine: it is for the operator's terminal."""
    return HTMLResponse(page("Not now", Html(""), (), paragraph("This page cannot be made now."), ()), 503)


def run_site(app: Any, listening: socket.socket) -> None:
    import uvicorn

    config = uvicorn.Config(app, server_header=False, access_log=False, log_level="warning", proxy_headers=False)
    uvicorn.Server(config).run(sockets=[listening])
