"""The `[[dcgm]]` tables of gpuwatch.toml: what to scrape, how often, with which credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import SplitResult, urlsplit

from gpuwatch.collectors.shared.credentials import ANONYMOUS, Credentials, Tls, credential_options, tls_options
from gpuwatch.collectors.shared.live_options import MAX_TEXT, Options

DEFAULT_CLUSTER = "default"
DEFAULT_PORT = 9400
DEFAULT_PATH = "/metrics"
DEFAULT_INTERVAL_S, MIN_INTERVAL_S, MAX_INTERVAL_S = 15.0, 1.0, 3600.0
DEFAULT_TIMEOUT_S = 10.0
DEFAULT_MAX_BYTES, LEAST_MAX_BYTES, MOST_MAX_BYTES = 16_000_000, 1_000, 256_000_000
DEFAULT_REFRESH_S, MIN_REFRESH_S, MAX_REFRESH_S = 30.0, 1.0, 3600.0
MAX_TARGETS = 100_000
MAX_DISCOVERIES = 100
"""Patterns, names and services of one table."""
MAX_LABELS = 32

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True)
class Target:
    """One endpoint and how to scrape it."""

    url: str
    cluster: str = DEFAULT_CLUSTER
    interval_s: float = DEFAULT_INTERVAL_S
    timeout_s: float = DEFAULT_TIMEOUT_S
    max_bytes: int = DEFAULT_MAX_BYTES
    credentials: Credentials = ANONYMOUS
    tls: Tls | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Target labels, including `instance`. As in Prometheus, a label of the page with that name becomes `exported_<name>`."""

    @property
    def shown(self) -> str:
        """The address without its query, which may hold a secret."""
        return self.url.partition("?")[0]

    def at(self, url: str, labels: Mapping[str, str] | None = None) -> Target:
        """The same target at an address from url_of, with further labels."""
        return replace(
            self,
            url=url,
            tls=self.tls if url.startswith("https:") else None,
            labels={"instance": urlsplit(url).netloc} | dict(self.labels) | dict(labels or {}),
        )


@dataclass(frozen=True)
class Group:
    """One table: its targets, and how to discover others."""

    number: int
    """Number of the table, from 1."""
    template: Target
    """A target without an address."""
    targets: tuple[Target, ...] = ()
    file_sd: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    kubernetes: tuple[Mapping[str, Any], ...] = ()
    refresh_s: float = DEFAULT_REFRESH_S


def read_groups(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> list[Group]:
    """Reads all tables; every wrong value is added to `problems` and its target or table is skipped."""
    groups: list[Group] = []
    found: set[str] = set()
    for number, table in enumerate(tables, 1):
        options = Options(table, f"[[dcgm]] table {number}:", problems)
        group = _group(options, number)
        options.finish()
        kept: list[Target] = []
        for target in group.targets:
            if target.shown in found:
                options.wrong("targets", f"{target.shown} is listed twice: remove one")
            elif len(found) >= MAX_TARGETS:
                options.wrong("targets", f"more than {MAX_TARGETS}")
                break
            else:
                found.add(target.shown)
                kept.append(target)
        groups.append(replace(group, targets=tuple(kept)))
    return groups


def _group(options: Options, number: int) -> Group:
    """What one table names; without targets if none is valid."""
    cluster = options.text("cluster", DEFAULT_CLUSTER)
    if not cluster:
        options.wrong("cluster", "must not be empty")
    interval_s = options.number("interval_s", DEFAULT_INTERVAL_S, MIN_INTERVAL_S, MAX_INTERVAL_S)
    timeout_s = options.number("timeout_s", min(DEFAULT_TIMEOUT_S, 0.8 * interval_s), 0.1, MAX_INTERVAL_S)
    if timeout_s >= interval_s:
        options.wrong("timeout_s", f"{timeout_s:g} must be less than interval_s ({interval_s:g})")
    template = Target(
        url="",
        cluster=cluster,
        interval_s=interval_s,
        timeout_s=timeout_s,
        max_bytes=int(options.number("max_bytes", DEFAULT_MAX_BYTES, LEAST_MAX_BYTES, MOST_MAX_BYTES)),
        credentials=credential_options(options),
        tls=tls_options(options),
        labels=_labels(options),
    )
    file_sd, dns = options.texts("file_sd", MAX_DISCOVERIES), options.texts("dns", MAX_DISCOVERIES)
    kubernetes = _kubernetes_tables(options)
    targets = [template.at(url) for url in _urls(options, required=not (file_sd or dns or kubernetes))]
    refresh_s = options.number("refresh_s", DEFAULT_REFRESH_S, MIN_REFRESH_S, MAX_REFRESH_S)
    return Group(number, template, tuple(targets), file_sd, dns, kubernetes, refresh_s)


def _urls(options: Options, required: bool) -> list[str]:
    given = options.take("targets")
    if given is None and not required:
        return []
    if not isinstance(given, list) or not given:
        options.wrong("targets", 'must be a list of addresses such as ["http://n1:9400/metrics", "n2:9400"]')
        return []
    urls = []
    for text in given:
        try:
            urls.append(url_of(text))
        except ValueError as error:
            options.wrong("targets", str(error))
    return urls


def _kubernetes_tables(options: Options) -> tuple[Mapping[str, Any], ...]:
    given = options.take("kubernetes", [])
    tables = [given] if isinstance(given, Mapping) else given
    if isinstance(tables, list) and len(tables) <= MAX_DISCOVERIES and all(isinstance(t, Mapping) for t in tables):
        return tuple(tables)
    options.wrong("kubernetes", 'must be a table such as { namespace = "gpu-operator", service = "dcgm-exporter" }')
    return ()


def _labels(options: Options) -> dict[str, str]:
    given = options.take("labels", {})
    if not isinstance(given, Mapping) or len(given) > MAX_LABELS:
        options.wrong("labels", f'must be at most {MAX_LABELS} names with text, such as {{ node = "n1" }}')
        return {}
    for name, value in given.items():
        if not (_LABEL_NAME.fullmatch(name) and isinstance(value, str) and len(value) <= MAX_TEXT):
            options.wrong("labels", f"{name} = {value!r} is not a label: a name of letters, digits and _, and text")
    return {name: str(value) for name, value in given.items()}


def url_of(text: object) -> str:
    """The full address of a target: "n1" and "n1:9400" become http://n1:9400/metrics. Raises ValueError."""
    if not isinstance(text, str) or not _is_word(text):
        raise ValueError("an address must be text without spaces, such as n1:9400")
    plain = "://" not in text
    try:
        parts = urlsplit(f"http://{text}" if plain else text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{_without_secret(text)} is not an address: {error}") from None
    name = _host_name(text, parts)
    host = f"[{name}]" if ":" in name else name
    if port is None:
        port = DEFAULT_PORT if plain else 443 if parts.scheme == "https" else 80
    path = parts.path if parts.path not in ("", "/") else DEFAULT_PATH
    return f"{parts.scheme}://{host}:{port}{path}" + (f"?{parts.query}" if parts.query else "")


def _is_word(text: str) -> bool:
    """Whether a text is printable, without spaces and not too long."""
    return 0 < len(text) <= MAX_TEXT and text.isprintable() and " " not in text


def _host_name(text: str, parts: SplitResult) -> str:
    """The host of an address; refuses one of another scheme, with credentials or with a fragment."""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{_without_secret(text)} is not an address: write http://host:port/path or host:port")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{_without_secret(text)}: credentials belong in username and password, not in the address")
    if parts.fragment:
        raise ValueError(f"{_without_secret(text)}: an address must not have a #fragment")
    return parts.hostname


def _without_secret(text: str) -> str:
    """An address without user and query, for messages."""
    scheme, mark, rest = text.rpartition("://")
    return f"{scheme}{mark}{rest.partition('?')[0].rpartition('@')[2]}"
