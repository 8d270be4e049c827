"""Callers on this machine: by peer address, Host and Origin headers, and the absence of a proxy."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from fastapi import Request

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
FORWARDED = frozenset(
    [
        "cdn-loop",
        "cf-connecting-ip",
        "cf-connecting-ipv6",
        "cf-ipcountry",
        "cf-ray",
        "cf-visitor",
        "client-ip",
        "fastly-client-ip",
        "fly-client-ip",
        "forwarded",
        "forwarded-for",
        "front-end-https",
        "proxy-client-ip",
        "remote-addr",
        "remote-ip",
        "true-client-ip",
        "via",
        "wl-proxy-client-ip",
        "x-amzn-trace-id",
        "x-appengine-user-ip",
        "x-arr-ssl",
        "x-azure-clientip",
        "x-azure-socketip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-envoy-external-address",
        "x-envoy-original-path",
        "x-forwarded",
        "x-host",
        "x-nf-client-connection-ip",
        "x-original-forwarded-for",
        "x-original-host",
        "x-original-uri",
        "x-original-url",
        "x-originating-ip",
        "x-proxyuser-ip",
        "x-real-ip",
        "x-remote-addr",
        "x-remote-ip",
        "x-rewrite-url",
        "x-scheme",
        "x-url-scheme",
        "x-vercel-forwarded-for",
    ]
)
FORWARDED_PREFIX = "x-forwarded-"
"""Headers that proxies add: a caller behind one is not local. Any single one counts, whatever its value."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def is_local(request: Request, hosts: frozenset[str]) -> bool:
    """Whether a request comes from this machine on purpose.

    The peer is loopback, no proxy stands between, the Host header is one of ours (a name that an attacker's DNS points
    at 127.0.0.1 is not), and no page of another site sent it.
    """
    headers = request.headers
    return (
        request.client is not None
        and is_loopback(request.client.host)
        and not forwarded(request)
        and host_name(headers.get("host", "")) in hosts
        and same_origin(request)
    )


def forwarded(request: Request) -> bool:
    """Whether a proxy passed the request on: it has a header that only proxies add."""
    return any(name in FORWARDED or name.startswith(FORWARDED_PREFIX) for name in request.headers)


def from_own_address(request: Request) -> bool:
    """Whether the peer is the very address that was asked: this machine, of a server bound to one of its addresses."""
    server = request.scope.get("server")
    return (
        request.client is not None
        and server is not None
        and request.client.host == server[0]
        and not forwarded(request)
    )


def is_loopback(address: str) -> bool:
    """Whether an address is this machine's own, also written as IPv6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def host_name(host: str) -> str:
    """The name of a Host header, without port and brackets, in lower case; empty where it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def same_origin(request: Request) -> bool:
    """Whether what a browser says of the sending page, if it says anything, is our own host."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        # A link on another page may open a page of ours; it may not change anything, and its script reads nothing.
        navigates = request.headers.get("sec-fetch-mode") == "navigate" and request.method in SAFE_METHODS
        if not navigates:
            return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
