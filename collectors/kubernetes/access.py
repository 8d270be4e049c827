"""Options for access to an API server: address, token and certificates, by default those of the pod."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from gpuwatch.collectors.kubernetes.client import Access
from gpuwatch.collectors.shared.http_json import LOOPBACK
from gpuwatch.collectors.shared.live_options import Options

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/"
"""Folder of the service account's token and the cluster's CA in a pod."""
NOWHERE = Access("https://invalid.invalid")
"""Stands for an invalid server address; the source never runs, since its settings are refused."""


def access_options(options: Options, environment: Mapping[str, str]) -> Access:
    """Where and how to connect; the default is the cluster this process runs in."""
    server = options.text("server").rstrip("/")
    token, ca = options.path("bearer_token_file"), options.path("ca_file")
    cert, key = options.path("cert_file"), options.path("key_file")
    insecure = options.flag("insecure_skip_verify", False)
    if not server:
        server = _server_of_pod(environment)
        token, ca = token or f"{ACCOUNT}token", ca or _ca_of_pod()
    if not server:
        options.wrong("server", "is missing, and this process does not run in a pod: set the URL of the API server")
        return NOWHERE
    if not _is_server(server):
        options.wrong("server", "must be http(s)://host[:port] without a name or password")
        return NOWHERE
    parts = urlsplit(server)
    if parts.scheme == "http" and token and parts.hostname not in LOOPBACK:
        options.wrong("server", "is http: a token would be sent in the clear; use https")
    if bool(cert) != bool(key):
        options.wrong("cert_file", "needs key_file, and key_file needs cert_file")
    return Access(server, token, ca, cert, key, insecure)


def _server_of_pod(environment: Mapping[str, str]) -> str:
    """The API server of the pod this process runs in, "" outside of a pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return ""
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _ca_of_pod() -> str:
    """The file of the cluster's CA in a pod, "" if there is none."""
    file = f"{ACCOUNT}ca.crt"
    return file if os.path.isfile(file) else ""


def _is_server(server: str) -> bool:
    """Whether a text is http(s)://host[:port], without credentials, query or fragment."""
    try:
        parts = urlsplit(server)
        _ = parts.port  # raises ValueError for an invalid port
    except ValueError:
        return False
    unwanted = parts.query or parts.fragment or "@" in parts.netloc
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not unwanted
