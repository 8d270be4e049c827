"""The `[[dcgm]]` tables of gpuwatch.toml: what to scrape, how often, with which credentials."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from gpuwatch.collectors.shared.credentials import Secret, Tls

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
MAX_TEXT = 4_096

KEYS = (
    "cluster",
    "targets",
    "file_sd",
    "dns",
    "kubernetes",
    "refresh_s",
    "interval_s",
    "timeout_s",
    "max_bytes",
    "username",
    "password",
    "password_file",
    "bearer_token",
    "bearer_token_file",
    "ca_file",
    "cert_file",
    "key_file",
    "insecure_skip_verify",
    "labels",
)
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True)
class Target:
    """One endpoint and how it is scraped."""

    url: str
    cluster: str = DEFAULT_CLUSTER
    interval_s: float = DEFAULT_INTERVAL_S
    timeout_s: float = DEFAULT_TIMEOUT_S
    max_bytes: int = DEFAULT_MAX_BYTES
    username: str = ""
    password: Secret | None = None
    bearer_token: Secret | None = None
    tls: Tls | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Target labels, with `instance`; as in Prometheus they displace a label of the page to `exported_<name>`."""

    @property
    def shown(self) -> str:
        """The address without its query, which may hold a secret."""
        return self.url.partition("?")[0]

    def at(self, url: str, labels: Mapping[str, str] | None = None) -> Target:
        """The same at an address that url_of gave, with further labels."""
        return replace(
            self,
            url=url,
            tls=self.tls if url.startswith("https:") else None,
            labels={"instance": urlsplit(url).netloc} | dict(self.labels) | dict(labels or {}),
        )


@dataclass(frozen=True)
class Group:
    """What one table names: its targets, and how to find others."""

    number: int
    """Of the table, from 1."""
    template: Target
    """A target of it without an address."""
    targets: tuple[Target, ...] = ()
    file_sd: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    kubernetes: tuple[Mapping[str, Any], ...] = ()
    refresh_s: float = DEFAULT_REFRESH_S


def groups_of(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> list[Group]:
    """What all tables name; every wrong value is added to `problems` and its target or table left out."""
    groups: list[Group] = []
    found: set[str] = set()
    for number, table in enumerate(tables, 1):
        wrong: list[str] = []
        group = _Table(table, wrong).group(number)
        kept: list[Target] = []
        for target in group.targets:
            if target.shown in found:
                wrong.append(f"targets: {target.shown} is listed twice: remove one")
            elif len(found) >= MAX_TARGETS:
                wrong.append(f"targets: more than {MAX_TARGETS}")
                break
            else:
                found.add(target.shown)
                kept.append(target)
        groups.append(replace(group, targets=tuple(kept)))
        problems += [f"[[dcgm]] table {number}: {text}" for text in wrong]
    return groups


class _Table:
    """One table, read value by value; what is wrong goes to `wrong`."""

    def __init__(self, table: Mapping[str, Any], wrong: list[str]) -> None:
        self._table = table
        self._wrong = wrong

    def group(self, number: int) -> Group:
        """What it names; without targets when there is no good one."""
        for name in self._table:
            if name not in KEYS:
                close = difflib.get_close_matches(name, KEYS, 1)
                self._wrong.append(f"unknown name {name!r}" + (f": did you mean {close[0]}?" if close else ""))
        cluster = self._text("cluster", DEFAULT_CLUSTER)
        interval_s = self._number("interval_s", DEFAULT_INTERVAL_S, MIN_INTERVAL_S, MAX_INTERVAL_S)
        default = min(DEFAULT_TIMEOUT_S, 0.8 * interval_s)
        timeout_s = self._number("timeout_s", default, 0.1, MAX_INTERVAL_S)
        if timeout_s >= interval_s:
            self._wrong.append(f"timeout_s: {timeout_s:g} must be less than interval_s ({interval_s:g})")
        max_bytes = int(self._number("max_bytes", DEFAULT_MAX_BYTES, LEAST_MAX_BYTES, MOST_MAX_BYTES))
        username, password, token = self._credentials()
        tls = self._tls()
        template = Target(
            url="",
            cluster=cluster,
            interval_s=interval_s,
            timeout_s=timeout_s,
            max_bytes=max_bytes,
            username=username,
            password=password,
            bearer_token=token,
            tls=tls,
            labels=self._labels(),
        )
        file_sd, dns, kubernetes = self._texts("file_sd"), self._texts("dns"), self._tables("kubernetes")
        return Group(
            number,
            template,
            tuple(template.at(url) for url in self._urls(bool(file_sd or dns or kubernetes))),
            file_sd,
            dns,
            kubernetes,
            self._number("refresh_s", DEFAULT_REFRESH_S, MIN_REFRESH_S, MAX_REFRESH_S),
        )

    def _urls(self, finds: bool) -> list[str]:
        given = self._table.get("targets")
        if given is None and finds:
            return []
        if not isinstance(given, list) or not given:
            self._wrong.append('targets: must be a list of addresses such as ["http://n1:9400/metrics", "n2:9400"]')
            return []
        urls = []
        for text in given:
            try:
                urls.append(url_of(text))
            except ValueError as error:
                self._wrong.append(f"targets: {error}")
        return urls

    def _texts(self, name: str) -> tuple[str, ...]:
        given = self._table.get(name, [])
        listed = isinstance(given, list) and len(given) <= MAX_DISCOVERIES
        if listed and all(isinstance(text, str) and text and len(text) <= MAX_TEXT for text in given):
            return tuple(dict.fromkeys(given))
        self._wrong.append(f"{name}: must be a list of at most {MAX_DISCOVERIES} texts")
        return ()

    def _tables(self, name: str) -> tuple[Mapping[str, Any], ...]:
        given = self._table.get(name, [])
        tables = [given] if isinstance(given, Mapping) else given
        if isinstance(tables, list) and len(tables) <= MAX_DISCOVERIES and all(isinstance(t, Mapping) for t in tables):
            return tuple(tables)
        self._wrong.append(
            f'{name}: must be a table such as {{ namespace = "gpu-operator", service = "dcgm-exporter" }}'
        )
        return ()

    def _credentials(self) -> tuple[str, Secret | None, Secret | None]:
        username = self._text("username")
        password, token = self._secret("password"), self._secret("bearer_token")
        if bool(username) != (password is not None):
            self._wrong.append("username and password (or password_file) belong together")
        if ":" in username:
            self._wrong.append("username: must not hold a colon")
        if token is not None and (username or password is not None):
            self._wrong.append("give username and password, or bearer_token, not both")
        return username, password, token

    def _secret(self, name: str) -> Secret | None:
        text, file = self._text(name), self._text(f"{name}_file")
        if text and file:
            self._wrong.append(f"give {name} or {name}_file, not both")
            return Secret(text)
        if not text and not file:
            return None
        secret = Secret(text, file)
        self._try(f"{name}_file" if file else name, secret.read)
        return secret

    def _tls(self) -> Tls:
        ca, cert, key = self._text("ca_file"), self._text("cert_file"), self._text("key_file")
        insecure = self._table.get("insecure_skip_verify", False)
        if not isinstance(insecure, bool):
            self._wrong.append(f"insecure_skip_verify: {insecure!r} must be true or false")
        if key and not cert:
            self._wrong.append("key_file: needs cert_file")
        tls = Tls(ca, cert, key, insecure is True)
        if ca or cert:
            self._try("TLS", tls.context)
        return tls

    def _try(self, name: str, read: Callable[[], object]) -> None:
        try:
            read()
        except ValueError as error:
            self._wrong.append(f"{name}: {error}")

    def _labels(self) -> dict[str, str]:
        given = self._table.get("labels", {})
        if not isinstance(given, Mapping) or len(given) > MAX_LABELS:
            self._wrong.append(f'labels: must be at most {MAX_LABELS} names with text, such as {{ node = "n1" }}')
            return {}
        for name, value in given.items():
            if not (_LABEL_NAME.fullmatch(name) and isinstance(value, str) and len(value) <= MAX_TEXT):
                self._wrong.append(f"labels: {name} = {value!r} is no label: a name of letters, digits and _, and text")
        return {name: str(value) for name, value in given.items()}

    def _text(self, name: str, default: str = "") -> str:
        value = self._table.get(name, default)
        if isinstance(value, str) and len(value) <= MAX_TEXT and value.isprintable() and (value or not default):
            return value
        self._wrong.append(f"{name}: must be text of one line")
        return default

    def _number(self, name: str, default: float, least: float, most: float) -> float:
        value = self._table.get(name, default)
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if good and least <= value <= most:
            return float(value)
        self._wrong.append(f"{name}: {value!r} must be a number from {least:g} to {most:g}")
        return default


def url_of(text: object) -> str:
    """The whole address of a target: "n1" and "n1:9400" are http://n1:9400/metrics. Raises ValueError."""
    if not isinstance(text, str) or not text or len(text) > MAX_TEXT or not text.isprintable() or " " in text:
        raise ValueError("an address must be text without spaces, such as n1:9400")
    plain = "://" not in text
    try:
        parts = urlsplit(f"http://{text}" if plain else text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{_without_secret(text)} is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{_without_secret(text)} is no address: write http://host:port/path or host:port")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{_without_secret(text)}: credentials belong in username and password, not in the address")
    if parts.fragment:
        raise ValueError(f"{_without_secret(text)}: an address has no #fragment")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if port is None:
        port = DEFAULT_PORT if plain else 443 if parts.scheme == "https" else 80
    path = parts.path if parts.path not in ("", "/") else DEFAULT_PATH
    return f"{parts.scheme}://{host}:{port}{path}" + (f"?{parts.query}" if parts.query else "")


def _without_secret(text: str) -> str:
    """An address to show: no user, no query."""
    scheme, mark, rest = text.rpartition("://")
    return f"{scheme}{mark}{rest.partition('?')[0].rpartition('@')[2]}"
