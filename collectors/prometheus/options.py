"""Options of a Prometheus server: address, credentials, TLS and query limits."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from gpuwatch.collectors.prometheus.chunking import QueryRunner, parse_matchers
from gpuwatch.collectors.prometheus.http import DEFAULT_TIMEOUT_S, Access, Client, base_url
from gpuwatch.collectors.prometheus.kube_state_metrics import SchedulerRecords
from gpuwatch.collectors.prometheus.metrics import History
from gpuwatch.collectors.shared.credentials import credential_options
from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.core.model import hash64

DEFAULT_SAMPLES, LEAST_SAMPLES, MOST_SAMPLES = 250_000, 100, 10_000_000
NOWHERE = Access("https://invalid.invalid")
"""Stands for an invalid address; it is never queried, since the options are refused."""

Opened = tuple[History, SchedulerRecords, str, threading.Event, Callable[[], None]]


def history(table: Mapping[str, Any], cluster: str, problems: list[str]) -> Opened:
    """Opens the history of a server: (samples, scheduler records, its identity, stop event, close function).

    Every wrong option is added to `problems`.
    """
    options = Options(table, "--prometheus", problems)
    access = access_options(options)
    match = match_option(options)
    most = max_samples_option(options)
    options.finish()
    stop = threading.Event()
    client = Client(access)
    asker = QueryRunner(client, match, most, stop)
    return (
        History(asker, cluster),
        SchedulerRecords(asker, cluster),
        identity(access, match, cluster),
        stop,
        client.close,
    )


def identity(access: Access, match: str, cluster: str) -> str:
    """Identifies a server's history of a cluster, without any secret."""
    return f"{hash64(access.url, access.tenant, cluster, match) & (1 << 64) - 1:016x}"


def match_option(options: Options) -> str:
    """Additional matchers for every query."""
    try:
        return parse_matchers(options.text("match"))
    except ValueError as error:
        options.wrong("match", str(error))
        return ""


def max_samples_option(options: Options) -> int:
    """Maximum number of samples per query."""
    return int(options.number("max_samples", DEFAULT_SAMPLES, LEAST_SAMPLES, MOST_SAMPLES))


def access_options(options: Options) -> Access:
    """Address, credentials and TLS; NOWHERE if the address is wrong."""
    timeout_s = options.number("timeout_s", DEFAULT_TIMEOUT_S, 1, 3600)
    credentials, tenant = credential_options(options), options.text("tenant")
    ca, cert, key = (_file(options, name) for name in ("ca_file", "cert_file", "key_file"))
    insecure = options.flag("insecure_skip_verify", False)
    if key and not cert:
        options.wrong("key_file", "needs cert_file")
    if not tenant.isascii():
        options.wrong("tenant", "must be ASCII")
    try:
        url = base_url(options.text("url"))
    except ValueError as error:
        options.wrong("url", str(error))
        return NOWHERE
    return Access(url, credentials, tenant, ca, cert, key, insecure, timeout_s)


def _file(options: Options, name: str) -> str:
    """The absolute path of a readable file."""
    path = options.text(name)
    try:
        if path:
            with open(path, "rb") as file:
                file.read(1)
    except OSError as error:
        options.wrong(name, f"{path}: {error.strerror or error}")
    return os.path.abspath(path) if path else ""
