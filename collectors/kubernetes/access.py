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
        host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            options.wrong("server", "is missing, and this process does not run in a pod: set the URL of the API server")
            return NOWHERE
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        token, ca = token or f"{ACCOUNT}token", ca or (f"{ACCOUNT}ca.crt" if os.path.isfile(f"{ACCOUNT}ca.crt") else "")
    try:
        parts = urlsplit(server)
        plain = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
        invalid = "@" in parts.netloc or (parts.port or 1) < 1
    except ValueError:
        plain, invalid = None, True
    if not plain or invalid:
        options.wrong("server", "must be http(s)://host[:port] without a name or password")
        return NOWHERE
    if parts.scheme == "http" and token and parts.hostname not in LOOPBACK:
        options.wrong("server", "is http: a token would be sent in the clear; use https")
    if bool(cert) != bool(key):
        options.wrong("cert_file", "needs key_file, and key_file needs cert_file")
    return Access(server, token, ca, cert, key, insecure)
