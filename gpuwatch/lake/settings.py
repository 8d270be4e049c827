"""The table [lake] of gpuwatch.toml: where the catalogue and the data are, and under which name this cell publishes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpuwatch.core import database_url, option_names
from gpuwatch.core.errors import UnreadableInput, UsageError

NAME = "lake"
TABLE = f"[{NAME}]"
ENV_PREFIX = "GPUWATCH_LAKE_"
SECRET_BYTES_MAX = 10_000
SECONDS = {"every_s": (10, 86_400), "pull_s": (1, 86_400), "lease_s": (2, 3600)}
"""Bounds of the settings that are a time."""
_URLS = {
    "s3_endpoint": "the URL of an S3 server such as https://s3.example.com",
    "address": "the URL of this process such as http://cell-east:8765",
}
SCHEMA_PREFIX = "cell_"
CELL = re.compile(r"[a-z][a-z0-9_]{0,39}")
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_.=-]+)*/?")


@dataclass(frozen=True)
class LakeSettings:
    """Where the lake is. Secrets are in files or in the environment, and never in here."""

    catalogue: str
    """The URL of a PostgreSQL database, or a file: SQLite if its name ends in .sqlite, otherwise DuckDB."""
    data: str
    """A directory, or s3://BUCKET/PREFIX."""
    cell: str = ""
    """The name under which this process publishes; "" for one that only reads."""
    catalogue_password_file: str | None = None
    s3_endpoint: str | None = None
    s3_region: str = "us-east-1"
    s3_path_style: bool = False
    s3_access_key_file: str | None = None
    s3_secret_key_file: str | None = None
    every_s: int = 300
    pull_s: int = 10
    samples: bool = True
    lease_s: int = 30
    address: str = ""
    """Where others reach this process; "" means the address that it listens on."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Where passwords are looked for that are in no file."""

    @property
    def schema(self) -> str:
        """The schema of the lake that has this cell's tables."""
        return f"{SCHEMA_PREFIX}{self.cell}"

    @property
    def on_server(self) -> bool:
        """Whether the catalogue is a PostgreSQL database, which many processes may use at once."""
        return "://" in self.catalogue

    @property
    def in_bucket(self) -> bool:
        """Whether the data is in a bucket."""
        return self.data.startswith("s3://")

    def need_cell(self) -> None:
        """Raises UsageError without a name to publish under."""
        if not self.cell:
            raise UsageError(
                f"settings: {TABLE} cell is missing: the name under which this process publishes, such as east_1"
            )

    def shown(self) -> str:
        """The catalogue without a password."""
        return database_url.shown(self.catalogue) if self.on_server else self.catalogue

    def password(self) -> str | None:
        """The password of the catalogue. Raises UnreadableInput for a file that cannot be read."""
        if self.catalogue_password_file is not None:
            return _secret(self.catalogue_password_file, "catalogue_password_file")
        return self.environ.get("PGPASSWORD")

    def keys(self) -> tuple[str, str, str] | None:
        """Access key, secret key and session token of the bucket; None for a bucket without. Raises UnreadableInput."""
        if self.s3_access_key_file is not None and self.s3_secret_key_file is not None:
            named = (self.s3_access_key_file, "s3_access_key_file"), (self.s3_secret_key_file, "s3_secret_key_file")
            access, secret = (_secret(path, option) for path, option in named)
            return access, secret, ""
        access, secret = self.environ.get("AWS_ACCESS_KEY_ID", ""), self.environ.get("AWS_SECRET_ACCESS_KEY", "")
        return (access, secret, self.environ.get("AWS_SESSION_TOKEN", "")) if access and secret else None


OPTIONS = tuple(each.name for each in fields(LakeSettings) if each.name != "environ")
NEEDED = ("catalogue", "data")
option_names.note(TABLE, OPTIONS)


def configured(tables: Mapping[str, Any], environ: Mapping[str, str]) -> LakeSettings | None:
    """Parses [lake], overridden by GPUWATCH_LAKE_<OPTION>; None without. Raises one UsageError with every problem."""
    given = tables.get(NAME, {})
    if not isinstance(given, Mapping):
        raise UsageError(f"settings: {NAME}: write {TABLE} on a line of its own, and its settings below")
    problems = []
    for name in given.keys() - set(OPTIONS):
        home = option_names.belongs(name, TABLE)
        problems.append(f"{TABLE} {name}: {home or 'is unknown; known: ' + ', '.join(OPTIONS)}")
    values = {name: value for name, value in given.items() if name in OPTIONS}
    for name in OPTIONS:
        if text := environ.get(ENV_PREFIX + name.upper(), "").strip():
            values[name] = _read(name, text)
    if not values and not problems:
        return None
    problems += [
        f"{TABLE} {name} = {_hidden(value)} is not {words}"
        for name, value in values.items()
        if (words := _wrong(name, value))
    ]
    problems += [f"{TABLE} {name} is missing" for name in NEEDED if name not in values]
    if ("s3_access_key_file" in values) != ("s3_secret_key_file" in values):
        problems.append(f"{TABLE} s3_access_key_file and s3_secret_key_file: give both or none")
    if not problems and "://" in values["catalogue"]:
        if (lack := database_url.problem(values["catalogue"])) is not None:
            problems.append(f"{TABLE} catalogue {lack}")
        elif database_url.has_password(values["catalogue"]):
            problems.append(f"{TABLE} catalogue holds a password; put it into catalogue_password_file or PGPASSWORD")
    if problems:
        raise UsageError(f"settings: {'; '.join(problems)}")
    return LakeSettings(**values, environ=dict(environ))


def needed(tables: Mapping[str, Any], environ: Mapping[str, str], cell: bool = True) -> LakeSettings:
    """The same where there must be one, with the name of a `cell` or without."""
    found = configured(tables, environ)
    if found is None:
        raise UsageError(
            f"no lake is configured: write {TABLE} with {', '.join((*NEEDED, 'cell'))} into gpuwatch.toml and give --config FILE, "
            f"or set {', '.join(ENV_PREFIX + name.upper() for name in (*NEEDED, 'cell'))}"
        )
    if cell:
        found.need_cell()
    return found


def _wrong(name: str, value: object) -> str:
    """What a value must be; "" for one that is."""
    text = value if isinstance(value, str) else ""
    if name == "cell":
        return "" if CELL.fullmatch(text) else "a name of at most 40 small letters, digits and _, such as east_1"
    if name == "data":
        if not text or "://" not in text:
            return "" if text else "a directory or s3://BUCKET/PREFIX"
        return "" if _BUCKET.fullmatch(text) else "a directory or s3://BUCKET/PREFIX"
    if name in _URLS:
        parts = urlsplit(text)
        plain = parts.scheme in ("http", "https") and parts.hostname and "@" not in text and not parts.path.strip("/")
        return "" if plain else _URLS[name]
    if name in SECONDS:
        least, most = SECONDS[name]
        whole = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return "" if whole else f"a whole number of seconds from {least} to {most}"
    if name in ("samples", "s3_path_style"):
        return "" if isinstance(value, bool) else "true or false"
    if name == "s3_region":
        return "" if re.fullmatch(r"[a-z0-9-]{1,40}", text) else "a region such as us-east-1"
    return "" if text else "text"


def _read(name: str, text: str) -> object:
    """A value from the environment."""
    if name in SECONDS:
        return int(text) if text.isdecimal() else text
    if name in ("samples", "s3_path_style"):
        return {"true": True, "false": False}.get(text.lower(), text)
    return text


def _hidden(value: object) -> str:
    return "(not shown: it holds an @)" if "@" in str(value) else repr(value)


def _secret(path: str, option: str) -> str:
    """The first line of a file."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(SECRET_BYTES_MAX).decode("utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise UnreadableInput(f"{TABLE} {option}: {path}: {why}") from error
    if not content.strip():
        raise UnreadableInput(f"{TABLE} {option}: {path}: is empty")
    return content.splitlines()[0].strip()
