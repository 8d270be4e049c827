"""The bucket of a lake as DuckDB's secret, on any connection that reads or writes its files."""

from __future__ import annotations

from urllib.parse import urlsplit

from gpuwatch.lake import extensions
from gpuwatch.lake.literals import text
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.store.connection import Connection

SILENT_S = 60
"""A catalogue or bucket that says nothing for so long is given up."""


def open_bucket(store: Connection, settings: LakeSettings) -> None:
    """Lets a store in memory read and write the files of the lake's bucket, without its catalogue."""
    if not settings.in_bucket:
        return
    version = str(store.sql("select version()")[0][0]).removeprefix("v")
    store.sql(f"load {text(str(extensions.path_of('httpfs', version)))}")
    store.sql(secret(settings)[0])
    store.sql(f"set http_timeout = {SILENT_S}")


def secret(settings: LakeSettings) -> tuple[str, tuple[str, ...]]:
    """The statement that makes the secret of the bucket, and what of it no message may show."""
    options = {"region": text(settings.s3_region)}
    hidden: tuple[str, ...] = ()
    if (keys := settings.keys()) is not None:
        access, key, token = keys
        hidden = tuple(each for each in (key, token) if each)
        options |= {"key_id": text(access), "secret": text(key)}
        options |= {"session_token": text(token)} if token else {}
    if settings.s3_endpoint is not None:
        parts = urlsplit(settings.s3_endpoint)
        options |= {"endpoint": text(parts.netloc), "use_ssl": str(parts.scheme == "https").lower()}
    if settings.s3_path_style:
        options["url_style"] = "'path'"
    named = ", ".join(f"{name} {value}" for name, value in options.items())
    return f"create temporary secret bucket (type s3, {named})", hidden
