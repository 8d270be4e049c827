"""Imports, as the API lists them."""

from __future__ import annotations

from typing import Literal

from gpuwatch.api.schema.common import Shape, Time


class Import(Shape):
    """An import: one command, upload or backfill. `cluster` and `timezone` are null if its files differ in them or have
    no naive times. `replaced` counts its records that the import `replaced_by` (the newest of several) reads in another time
    zone or has with exact times; they do not count until that import is taken back.
    """

    id: int
    imported_at: Time
    kind: str
    path: str
    cluster: str | None
    timezone: str | None
    files: int
    records: int
    rejected: int
    replaced: int
    replaced_by: int | None
    state: Literal["complete", "interrupted", "not removable"]


class Imports(Shape):
    items: list[Import]
    next: str | None


class Forgotten(Shape):
    """What was taken back. `kept_files` were given by another import too and stay."""

    id: int
    path: str
    files: int
    kept_files: int
    records: int
