"""Sign-in by token: a plain form; an HttpOnly cookie keeps the id of a session, and nothing keeps the token."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from gpuwatch.dashboards.client import COOKIE, PLAIN, ApiFailure, Caller, Client, passed_on
from gpuwatch.dashboards.shell.query import ROOT

MAX_FORM = 4096
FORMER_COOKIE = "gpuwatch_token"
"""Earlier versions kept the token itself in it."""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Sign in · gpuwatch</title>
<link rel="icon" type="image/svg+xml" href="{root}/assets/logo.svg">
<link rel="stylesheet" href="{root}/assets/style.css">
</head>
<body class="login">
<main class="card">
<div class="brand"><span class="logo"></span><span class="name">gpuwatch</span></div>
<h1>Sign in</h1>
<p class="soft">Use a token with scope read or admin. An administrator can create one with
<code>gpuwatch token create --scope read</code>.</p>
{error}
<form method="post" action="{root}/login">
<input type="hidden" name="next" value="{next}">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button class="button primary" type="submit">Sign in</button>
</form>
</main>
</body>
</html>
"""


def login_routes(client: Client) -> list[Route]:
    """The routes to show the form, sign in and sign out."""

    async def form(request: Request) -> Response:
        return page(safe_next(request.query_params.get("next")))

    async def sign_in(request: Request) -> Response:
        fields = parse_qs(await body_of(request), max_num_fields=5)
        token, target = fields.get("token", [""])[0].strip(), safe_next(fields.get("next", [""])[0])
        if not PLAIN.fullmatch(token):
            return page(target, "This is not a valid token. Paste the whole line that the command printed.", 400)
        api = client.of(caller_of(request, token))
        try:
            me = await api.me()
            session = {} if me.get("scope") == "ingest" else await api.start_session()
        except ApiFailure as error:
            if error.status == 401:
                return page(target, "This token is unknown, expired or revoked.", 401)
            return page(target, f"{error.message} {error.hint}".strip(), error.status or 502)
        if me.get("scope") == "ingest":
            return page(target, "This token can only send data. Use one with scope read or admin.", 403)
        response = RedirectResponse(target, 303)
        response.set_cookie(
            COOKIE,
            str(session["session"]),
            max_age=int(session["expires_in_s"]),
            path="/",
            secure=is_https(request),
            httponly=True,
            samesite="strict",
        )
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
        Route(f"{ROOT}/logout", sign_out, methods=["POST"]),
    ]


def forget(response: Response, cookie: str, request: Request) -> None:
    """Removes a cookie from the browser."""
    response.delete_cookie(cookie, path="/", secure=is_https(request), httponly=True, samesite="strict")


def page(target: str, error: str = "", status: int = 200) -> Response:
    """The form, with an error above it."""
    alert = f'<p class="error" role="alert">{escape(error)}</p>' if error else ""
    text = PAGE.format(root=ROOT, error=alert, next=escape(target, quote=True))
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
