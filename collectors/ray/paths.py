"""What is asked of the dashboard of a Ray head: paths of its state API and of its own pages."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

LIMIT = 10_000
"""Items that the state API lists at most (RAY_MAX_LIMIT_FROM_API_SERVER)."""
IDS_A_QUESTION = 100
"""Actors asked for by id at once: the address of a question stays below 8 KiB."""

VERSION = "/api/version"
JOBS = "/api/jobs/"
NODES = "/nodes?view=summary"


def listing(what: str, *unlike: tuple[str, str, str]) -> str:
    """Path of a list of the state API with all its details; `unlike` are filters (key, = or !=, value)."""
    query: list[tuple[str, str]] = [("detail", "1"), ("limit", str(LIMIT))]
    for key, predicate, value in unlike:
        query += [("filter_keys", key), ("filter_predicates", predicate), ("filter_values", value)]
    return f"/api/v0/{what}?{urlencode(query)}"


def actors_by_id(ids: Sequence[str]) -> str:
    """Path of the dashboard's word on some actors, with start and end."""
    return f"/logical/actors?{urlencode([('ids', ','.join(ids))])}"
