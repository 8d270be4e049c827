"""Windows of data that has ended, as that of imported files has: the last days of the data instead of days without any."""

from __future__ import annotations

from dataclasses import replace

from gpuwatch.dashboards.client import Api
from gpuwatch.dashboards.components import formats
from gpuwatch.dashboards.components.ledger_math import optional
from gpuwatch.dashboards.shell.query import ROLLING, Query


async def anchored(api: Api, query: Query) -> Query:
    """The query with the ends of its data, if it asks for the last days and the data has ended."""
    if query.window_name not in ROLLING or query.ended is not None:
        return query
    cluster = query.get("cluster")
    found = await optional(api.get("coverage", **({"cluster": cluster} if cluster else {}))) or {}
    start, end = formats.moment(found.get("start")), formats.moment(found.get("end"))
    if not found.get("ended") or start is None or end is None:
        return query
    return replace(query, ended=(start, end))
