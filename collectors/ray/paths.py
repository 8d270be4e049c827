"""Paths of the state API and the dashboard of a Ray head."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

LIMIT = 10_000
"""The most items that the state API lists (RAY_MAX_LIMIT_FROM_API_SERVER)."""
IDS_PER_REQUEST = 100
"""Actors per request by id, so that the URL stays below 8 KiB."""

VERSION = "/api/version"
JOBS = "/api/jobs/"
NODES = "/nodes?view=summary"


def listing(what: str, *filters: tuple[str, str, str]) -> str:
    """Path of a detailed list of the state API, with filters (key, = or !=, value)."""
    query: list[tuple[str, str]] = [("detail", "1"), ("limit", str(LIMIT))]
    for key, predicate, value in filters:
        query += [("filter_keys", key), ("filter_predicates", predicate), ("filter_values", value)]
    return f"/api/v0/{what}?{urlencode(query)}"


def actors_by_id(ids: Sequence[str]) -> str:
    """Path of the dashboard's records of some actors, with start and end."""
    return f"/logical/actors?{urlencode([('ids', ','.join(ids))])}"
