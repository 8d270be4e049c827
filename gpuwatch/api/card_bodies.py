"""Cards as requests send them: JSON records or a CSV file, all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from anyio import to_thread
from fastapi import Request
from starlette.responses import Response

from gpuwatch.api.bodies import plain
from gpuwatch.api.common import answer
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import decode, page, question
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.rates.csv_table import RowsRefused, checked, whole

KINDS = ("application/json", "text/csv")
SOURCE = "PUT"
T = TypeVar("T")


def listed(items: list[dict[str, Any]], version: int, limit: int, cursor: str | None, **more: Any) -> Response:
    """A page of a card. A cursor of another version would point into another list."""
    asked = question({"version": version})
    places = list(enumerate(items))
    chosen, following = page(places, limit, decode(cursor, asked), asked, lambda item: str(item[0]))
    content = {"items": [item for _, item in chosen], "version": version, **more, "next": following}
    return answer(content, version=version)


def replaced(changed: bool, version: int, rows: int, warnings: Sequence[str] = ()) -> Response:
    """The answer to a change of a card."""
    content = {"changed": changed, "version": version, "rows": rows, "warnings": list(warnings)}
    return answer(content, version=version)


async def from_csv(request: Request, parse: Callable[[str | bytes, str, Rejects], Sequence[T]]) -> list[T]:
    """Every row of a CSV body, or ApiError 400 naming each bad one."""
    content = await plain(request)
    try:
        return await to_thread.run_sync(whole, parse, content, "body")
    except UnreadableInput as error:
        raise ApiError(400, str(error), "send CSV with the header that the message names", "body") from error
    except RowsRefused as error:
        raise refused(error) from error


def from_json(rows: list[dict[str, Any]], make: Callable[[dict[str, Any], int], T]) -> list[T]:
    """Every row as a record, or ApiError 400 naming each bad one."""
    try:
        return checked(rows, make)
    except RowsRefused as error:
        raise refused(error) from error


def refused(error: UsageError) -> ApiError:
    """A refused table as an answer."""
    return ApiError(400, str(error), "correct these rows and send all", "items")
