"""Sign-in by token or through an OpenID Connect provider. An HttpOnly cookie keeps the id of a session; nothing keeps a token."""

from __future__ import annotations

from html import escape
from typing import Literal
from urllib.parse import parse_qs, quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from gpuwatch.dashboards.client import COOKIE, PLAIN, ApiFailure, Caller, Client, passed_on
from gpuwatch.dashboards.shell.query import ROOT

MAX_FORM = 4096
FORMER_COOKIE = "gpuwatch_token"
"""Earlier versions kept the token itself in it."""

AWAY_COOKIE = "gpuwatch_sign_on"
"""Kept while somebody is at the provider. Lax: the browser sends it when the provider's page leads back."""

OAUTH_ERRORS = frozenset(
    [
        "access_denied",
        "consent_required",
        "interaction_required",
        "invalid_request",
        "invalid_scope",
        "login_required",
        "server_error",
        "temporarily_unavailable",
        "unauthorized_client",
        "unsupported_response_type",
    ]
)

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{onward}<title>Sign in · gpuwatch</title>
<link rel="icon" type="image/svg+xml" href="{root}/assets/logo.svg">
<link rel="stylesheet" href="{root}/assets/style.css">
</head>
<body class="login">
<main class="card">
<div class="brand"><span class="logo"></span><span class="name">gpuwatch</span></div>
{content}
</main>
</body>
</html>
"""
FORM = """<h1>Sign in</h1>
{error}
{provider}<p class="soft">Use a token with scope read or admin. An administrator can create one on the page
Tokens, or the first one with <code>gpuwatch token create --scope admin</code>.</p>
<form method="post" action="{root}/login">
<input type="hidden" name="next" value="{next}">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required{focus}>
<button class="button{primary}" type="submit">Sign in{how}</button>
</form>"""
PROVIDER = """<p><a class="button primary" href="{root}/login/away?next={next}">Sign in with {name}</a></p>
<h2 class="or">Or with a token</h2>
"""


def login_routes(client: Client) -> list[Route]:
    """The routes to show the form, sign in and sign out."""

    async def form(request: Request) -> Response:
        return await shown(client, request, safe_next(request.query_params.get("next")))

    async def sign_in(request: Request) -> Response:
        fields = parse_qs(await body_of(request), max_num_fields=5)
        token, target = fields.get("token", [""])[0].strip(), safe_next(fields.get("next", [""])[0])
        if not PLAIN.fullmatch(token):
            return await shown(
                client,
                request,
                target,
                "This is not a valid token. Paste the whole line that the command printed.",
                400,
            )
        api = client.of(caller_of(request, token))
        try:
            me = await api.me()
            session = {} if me.get("scope") == "ingest" else await api.start_session()
        except ApiFailure as error:
            if error.status == 401:
                return await shown(client, request, target, "This token is unknown, expired or revoked.", 401)
            return await shown(client, request, target, f"{error.message} {error.hint}".strip(), error.status or 502)
        if me.get("scope") == "ingest":
            return await shown(
                client, request, target, "This token can only send data. Use one with scope read or admin.", 403
            )
        response = RedirectResponse(target, 303)
        keep(response, COOKIE, str(session["session"]), int(session["expires_in_s"]), request)
        forget(response, FORMER_COOKIE, request)
        return response

    async def sign_out(request: Request) -> Response:
        response = RedirectResponse(f"{ROOT}/login", 303)
        if cookie := request.cookies.get(COOKIE):
            try:
                await client.of(caller_of(request, cookie=cookie)).end_session()
            except ApiFailure as error:
                if error.status != 401:  # the session has not ended on the server: say so instead of hiding it
                    return page(
                        f"{ROOT}/",
                        f"You are still signed in. {error.message} {error.hint}".strip(),
                        error.status or 502,
                    )
        forget(response, COOKIE, request)
        forget(response, FORMER_COOKIE, request)
        return response

    return [
        Route(f"{ROOT}/login", form, methods=["GET"]),
        Route(f"{ROOT}/login", sign_in, methods=["POST"]),
        *provider_routes(client),
        Route(f"{ROOT}/logout", sign_out, methods=["POST"]),
    ]


def provider_routes(client: Client) -> list[Route]:
    """The routes to sign in through an OpenID Connect provider: to it, and back."""

    async def away(request: Request) -> Response:
        target = safe_next(request.query_params.get("next"))
        try:
            leaving = await client.of(caller_of(request)).leave(target)
        except ApiFailure as error:
            return await shown(client, request, target, error.message, error.status or 502)
        response = RedirectResponse(str(leaving["location"]), 303)
        keep(response, AWAY_COOKIE, str(leaving["sealed"]), int(leaving["expires_in_s"]), request, "lax")
        return response

    async def back(request: Request) -> Response:
        asked, kept = request.query_params, request.cookies.get(AWAY_COOKIE, "")
        if "error" in asked:
            # Anybody can write such a link: no word of it is shown but a code of OAuth 2.0.
            code = asked["error"] if asked["error"] in OAUTH_ERRORS else "an unknown error"
            return await shown(client, request, safe_next(None), f"The provider did not sign you in: {code}.", 403)
        if not kept:
            return await shown(client, request, safe_next(None), "This sign-in took too long. Please try again.", 400)
        try:
            brought = {"sealed": kept, "state": asked.get("state", ""), "code": asked.get("code", "")}
            session = await client.of(caller_of(request)).arrive(**brought)
        except ApiFailure as error:
            response = await shown(client, request, safe_next(None), error.message, error.status or 502)
            forget(response, AWAY_COOKIE, request)
            return response
        # A redirect would still count as coming from the provider's site, and the browser would not send a strict cookie.
        response = onward(safe_next(str(session["target"])))
        keep(response, COOKIE, str(session["session"]), int(session["expires_in_s"]), request)
        forget(response, AWAY_COOKIE, request)
        return response

    return [
        Route(f"{ROOT}/login/away", away, methods=["GET"]),
        Route(f"{ROOT}/login/back", back, methods=["GET"]),
    ]


async def shown(client: Client, request: Request, target: str, error: str = "", status: int = 200) -> Response:
    """The form, with a button for the provider if the API has one."""
    try:
        provider = await client.of(caller_of(request)).sign_on()
    except ApiFailure:
        provider = None  # the form for tokens needs no answer
    return page(target, error, status, str(provider["name"]) if provider else "")


def keep(
    response: Response,
    cookie: str,
    value: str,
    seconds: int,
    request: Request,
    samesite: Literal["lax", "strict"] = "strict",
) -> None:
    """Gives the browser a cookie that no script can read."""
    response.set_cookie(
        cookie, value, max_age=seconds, path="/", secure=is_https(request), httponly=True, samesite=samesite
    )


def forget(response: Response, cookie: str, request: Request) -> None:
    """Removes a cookie from the browser."""
    response.delete_cookie(cookie, path="/", secure=is_https(request), httponly=True, samesite="strict")


def page(target: str, error: str = "", status: int = 200, provider: str = "") -> Response:
    """The form, with an error above it, and with a button for the provider if there is one."""
    alert = f'<p class="error" role="alert">{escape(error)}</p>' if error else ""
    button = PROVIDER.format(root=ROOT, next=quote(target), name=escape(provider)) if provider else ""
    content = FORM.format(
        root=ROOT,
        error=alert,
        provider=button,
        next=escape(target, quote=True),
        focus="" if provider else " autofocus",
        primary="" if provider else " primary",
        how=" with a token" if provider else "",
    )
    return document(content, "", status)


def onward(target: str) -> Response:
    """A page that leads on at once."""
    address = escape(target, quote=True)
    refresh = f'<meta http-equiv="refresh" content="0; url={address}">\n'
    return document(f'<h1>Signed in</h1>\n<p><a href="{address}" class="button primary">Go on</a></p>', refresh, 200)


def document(content: str, head: str, status: int) -> Response:
    """A page of the sign-in; no cache keeps it."""
    text = PAGE.format(root=ROOT, content=content, onward=head)
    return HTMLResponse(text, status, headers={"cache-control": "no-store"})


async def body_of(request: Request) -> str:
    """The form's body; empty if it is too large."""
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > MAX_FORM:
            return ""
    return found.decode("utf-8", "replace")


def safe_next(text: str | None) -> str:
    """Where to go after signing in: always one of our own pages."""
    home = f"{ROOT}/"
    if not text or not text.startswith(home) or "\\" in text or not text.isprintable():
        return home
    parts = urlsplit(text)
    return text if not parts.scheme and not parts.netloc and ".." not in parts.path else home


def is_https(request: Request) -> bool:
    """Whether the browser uses TLS, directly or to a proxy that reports it."""
    return (
        request.url.scheme == "https" or request.headers.get("x-forwarded-proto", "").split(",")[0].strip() == "https"
    )


def caller_of(request: Request, token: str | None = None, cookie: str | None = None) -> Caller:
    """The caller of a plain HTTP request."""
    address = (request.client.host, request.client.port) if request.client else ("", 0)
    return Caller(token, cookie, address, passed_on(request.headers))
