"""Where a Prometheus server is and how it is asked: read from a table of options."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from gpuwatch.collectors.prometheus.chunking import Asker, matchers_of
from gpuwatch.collectors.prometheus.http import DEFAULT_TIMEOUT_S, Access, Client, base_url
from gpuwatch.collectors.prometheus.kube_state_metrics import Records
from gpuwatch.collectors.prometheus.metrics import History
from gpuwatch.collectors.shared.credentials import Secret
from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.core.model import hash64

DEFAULT_SAMPLES, LEAST_SAMPLES, MOST_SAMPLES = 250_000, 100, 10_000_000
NOWHERE = Access("https://invalid.invalid")
"""Stands for a server that cannot be named; it is never asked, since the options are refused."""

Opened = tuple[History, Records, str, threading.Event, Callable[[], None]]


def history(table: Mapping[str, Any], cluster: str, problems: list[str]) -> Opened:
    """The past of a server: samples, scheduler records, what they are known by, what stops them, what closes them.

    Everything wrong with the options is added to `problems`.
    """
    options = Options(table, "--prometheus", problems)
    access = access_of(options)
    match = match_of(options)
    most = most_of(options)
    options.finish()
    stop = threading.Event()
    client = Client(access)
    asker = Asker(client, match, most, stop)
    return History(asker, cluster), Records(asker, cluster), identity(access, match, cluster), stop, client.close


def identity(access: Access, match: str, cluster: str) -> str:
    """What a server's past of a cluster is known by, without any secret."""
    return f"{hash64(access.url, access.tenant, cluster, match) & (1 << 64) - 1:016x}"


def match_of(options: Options) -> str:
    """Further matchers of every query."""
    try:
        return matchers_of(options.text("match"))
    except ValueError as error:
        options.wrong("match", str(error))
        return ""


def most_of(options: Options) -> int:
    """How many samples one query asks for at most."""
    return int(options.number("max_samples", DEFAULT_SAMPLES, LEAST_SAMPLES, MOST_SAMPLES))


def access_of(options: Options) -> Access:
    """Address, credentials and TLS; NOWHERE where the address is wrong."""
    timeout_s = options.number("timeout_s", DEFAULT_TIMEOUT_S, 1, 3600)
    username, tenant = options.text("username"), options.text("tenant")
    password, token = _secret(options, "password"), _secret(options, "bearer_token")
    ca, cert, key = (_file(options, name) for name in ("ca_file", "cert_file", "key_file"))
    insecure = options.flag("insecure_skip_verify", False)
    if bool(username) != (password is not None):
        options.wrong("username", "and password_file belong together")
    if ":" in username:
        options.wrong("username", "must not hold a colon")
    if token is not None and password is not None:
        options.wrong("bearer_token_file", "and password_file: give one of them")
    if key and not cert:
        options.wrong("key_file", "needs cert_file")
    if not tenant.isascii():
        options.wrong("tenant", "must be ASCII")
    try:
        url = base_url(options.text("url"))
    except ValueError as error:
        options.wrong("url", str(error))
        return NOWHERE
    return Access(url, username, password, token, tenant, ca, cert, key, insecure, timeout_s)


def _secret(options: Options, name: str) -> Secret | None:
    """A secret out of its file, or as given; it is read once, so that a wrong file is told."""
    text, file = options.text(name), options.text(f"{name}_file")
    if text and file:
        options.wrong(name, f"or {name}_file: give one of them")
    if not text and not file:
        return None
    secret = Secret(text, file)
    try:
        secret.read()
    except ValueError as error:
        options.wrong(f"{name}_file", str(error))
    return secret


def _file(options: Options, name: str) -> str:
    """The path of a file that can be read."""
    path = options.text(name)
    try:
        if path:
            with open(path, "rb") as file:
                file.read(1)
    except OSError as error:
        options.wrong(name, f"{path}: {error.strerror or error}")
    return os.path.abspath(path) if path else ""
