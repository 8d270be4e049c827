"""A client of gpuwatch's REST API that returns pandas DataFrames: `pip install gpuwatch[client]`.

from gpuwatch.client import Client

with Client("http://127.0.0.1:8765", token="gw_...") as client:
    charges = client.chargeback(window="lastweek", by=["team", "user"])
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    import pandas as pd

PAGE_ITEMS = 1000
PAGES_MAX = 10_000
"""Pages of one list; a longer one is refused instead of filling memory."""
BUSY = (429, 503)
BUSY_S = 60.0
"""How long requests are repeated while the server asks to wait."""
EXACT = (
    "cost",
    "cost_exact",
    "gpu_seconds",
    "gpu_seconds_exact",
    "avoidable_gpu_seconds",
    "wasted_cost",
    "wasted_gpu_seconds",
)
"""Columns that the API gives as decimal text."""
TIMES = ("started_at", "ended_at", "last_seen_at", "start", "end", "submitted_at")


class ApiError(Exception):
    """An answer that is not 2xx, with the status, the code and the hint of the API. `status` is 0 if nobody answered."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.status, self.code, self.message, self.hint = status, code, message, hint


class Client:
    """Requests to one gpuwatch server. For one thread at a time; use it as a context manager, or call close()."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 120.0,
        verify: bool | str = True,
        http: httpx.Client | None = None,
    ) -> None:
        """`url` is the address of the server, without /api. `verify` is the path of a CA file, or False for no check of TLS.
        `http` replaces the connection, for a proxy or a test.
        """
        self._http = http or httpx.Client(base_url=url.rstrip("/"), timeout=timeout_s, verify=verify)
        if token is not None:
            self._http.headers["Authorization"] = f"Bearer {token}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def chargeback(
        self, window: str = "7d", by: Sequence[str] = ("team",), *, exact: bool = False, **filters: Any
    ) -> pd.DataFrame:
        """Who pays what: a row for each group of `by`, with `gpu_seconds`, `gpu_hours`, `cost` and `currency`.

        `window`, dimensions and filters (`cluster`, `team`, ...) are those of GET /api/v1/chargeback. Amounts are floats; with
        `exact` they are Decimal. An unknown cost is missing, never 0. Raises ApiError, as all methods.
        """
        return self._table("chargeback", {"window": window, "by": ",".join(by), **filters}, exact)

    def ledger(
        self, window: str = "7d", by: Sequence[str] = ("bucket",), *, exact: bool = False, **filters: Any
    ) -> pd.DataFrame:
        """GPU time by bucket and any of the ledger's dimensions, with `gpu_hours` and `cost`."""
        return self._table("ledger", {"window": window, "by": ",".join(by), **filters}, exact)

    def findings(self, *, exact: bool = False, **filters: Any) -> pd.DataFrame:
        """Findings, most expensive first: `detector`, `severity`, `state`, `team`, `wasted_cost`, `summary`, `remedy`, ..."""
        return self._table("findings", filters, exact)

    def jobs(self, window: str = "7d", *, exact: bool = False, **filters: Any) -> pd.DataFrame:
        """Jobs of a window with what they held, used and cost."""
        return self._table("jobs", {"window": window, **filters}, exact)

    def slices(self, window: str = "7d", *, exact: bool = False, **filters: Any) -> pd.DataFrame:
        """MIG slices of a window: profile, use, owner."""
        return self._table("slices", {"window": window, **filters}, exact)

    def table(self, route: str, *, exact: bool = False, **parameters: Any) -> pd.DataFrame:
        """Any list of the API below /api/v1 as a DataFrame: all its pages."""
        return self._table(route, parameters, exact)

    def get(self, route: str, **parameters: Any) -> Any:
        """The JSON of a route below /api/v1, e.g. `client.get("fleet")`."""
        given = {name: value for name, value in parameters.items() if value is not None}
        until_s = time.monotonic() + BUSY_S
        while True:
            try:
                answer = self._http.get(f"/api/v1/{route.strip('/')}", params=given)
            except httpx.HTTPError as error:
                raise ApiError(0, "unreachable", f"{self._http.base_url} does not answer: {error}") from error
            wait = answer.headers.get("Retry-After", "")
            if answer.status_code not in BUSY or not wait.isdecimal() or time.monotonic() + int(wait) > until_s:
                break
            time.sleep(int(wait))
        if not answer.is_success:
            raise _failure(answer)
        return answer.json()

    def items(self, route: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """The items of a list, page by page."""
        given = {"limit": PAGE_ITEMS, **parameters}
        for _ in range(PAGES_MAX):
            page = self.get(route, **given)
            yield from page["items"]
            if page.get("next") is None:
                return
            given["cursor"] = page["next"]
        raise ApiError(0, "too_long", f"{route}: more than {PAGES_MAX * PAGE_ITEMS} items; narrow the question")

    def _table(self, route: str, parameters: Mapping[str, Any], exact: bool) -> pd.DataFrame:
        import pandas as pd

        found = pd.DataFrame(list(self.items(route, **parameters)))
        for name in found.columns.intersection(EXACT):
            found[name] = [_number(value, exact) for value in found[name]]
        if "gpu_seconds" in found:
            hours = [None if value is None else value / 3600 for value in found["gpu_seconds"]]
            found.insert(found.columns.get_loc("gpu_seconds") + 1, "gpu_hours", hours)
        for name in found.columns.intersection(TIMES):
            found[name] = pd.to_datetime(found[name], utc=True, errors="coerce")
        return found


def _number(value: Any, exact: bool) -> Any:
    """A Decimal or float of decimal text; None stays None."""
    if value is None:
        return None
    try:
        return Decimal(str(value)) if exact else float(value)
    except (InvalidOperation, ValueError):
        return value


def _failure(answer: httpx.Response) -> ApiError:
    try:
        failure = answer.json()["error"]
        return ApiError(answer.status_code, failure["code"], failure["message"], failure.get("hint") or "")
    except (ValueError, KeyError, TypeError):
        return ApiError(answer.status_code, "http", f"HTTP {answer.status_code}: {answer.text[:200]}")
