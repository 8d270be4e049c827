"""The headers of a browser that the API is sent too."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

ZONE_COOKIE = "gpuwatch_zone"
"""The IANA name of the time zone in which the browser shows times; assets/zone.js sets it."""
ZONE_MAX = 100
"""Characters of its name."""
OWN_HEADERS = (
    "accept",
    "authorization",
    "connection",
    "content-",
    "cookie",
    "expect",
    "if-",
    "keep-alive",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
)
"""How the headers begin that are of the browser's own exchange with the pages."""


def passed_on(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The browser's headers for the API, which recognizes the caller, and any proxy in between, by them."""
    lower = ((name.lower(), value) for name, value in headers.items())
    return tuple((name, value) for name, value in lower if not name.startswith(OWN_HEADERS))


def zone_of(cookies: Mapping[str, str]) -> str | None:
    """The time zone that the browser chose."""
    return unquote(cookies.get(ZONE_COOKIE) or "")[:ZONE_MAX] or None
