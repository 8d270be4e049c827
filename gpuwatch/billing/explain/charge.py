"""A charge, opened: every line that it is the sum of."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from typing import Any

from gpuwatch.billing.charge_id import Asked, encode
from gpuwatch.billing.explain import closed
from gpuwatch.billing.explain.lines import amounts, line, sum_line, without_pool
from gpuwatch.billing.explain.segments import LiveCharge, NoSuchCharge, opened, shown_window
from gpuwatch.billing.explain.text import summary
from gpuwatch.policy.policy import Policy, as_dict
from gpuwatch.rates.card import missing_rate
from gpuwatch.state import State
from gpuwatch.store.database import Store

__all__ = ["LINES", "NoSuchCharge", "explain"]

LINES = 100
"""Lines of a page, where nobody says how many."""


def explain(
    store: Store,
    state: State,
    asked: Asked,
    teams: Collection[str] | None = None,
    *,
    limit: int = LINES,
    offset: int = 0,
) -> dict[str, Any]:
    """A charge (charge_id.decode) and the lines from `offset` on that it is the sum of, as JSON has them.

    `gpu_seconds` and `cost_exact` of all lines add up to `gpu_seconds_exact` and `cost_exact` of the charge, to the last
    digit. What no device's time makes (shared costs, what a policy deals, corrections, what a closed period has frozen)
    are lines that say so. `teams` is the row filter of cost.chargeback. `next_offset` is where the next page starts, or
    None. Raises NoSuchCharge, and UsageError as chargeback does.
    """
    words = _head(asked)
    if asked.kind == closed.CORRECTION:
        return _correction(state, asked, teams, limit, offset)
    frozen = closed.frozen(state, asked, teams)
    if frozen is not None and frozen.charge is None:
        raise NoSuchCharge
    with opened(store, state, asked, teams) as live:
        if live is None and frozen is None:
            raise NoSuchCharge
        head = words | _live(live, asked)
        count = 0 if live is None else live.lines
        items = [] if live is None else _lines(live, limit, offset, whole=teams is None)
        others = [_unbooked(live)]
    if frozen is not None:
        others.append(closed.difference(frozen, head))
        head |= closed.frozen_head(frozen, teams)
    # The lines of the ledger come first, then those that are not in it.
    more = [one for one in others if one is not None]
    items += more[max(offset - count, 0) : max(offset + limit - count, 0)]
    return _page(asked, head, items, count + len(more), offset)


def _page(asked: Asked, head: dict[str, Any], items: list[dict[str, Any]], lines: int, offset: int) -> dict[str, Any]:
    end = offset + len(items)
    following = end if items and end < lines else None
    return head | {"summary": summary(asked, head), "lines": lines, "items": items, "next_offset": following}


def _head(asked: Asked) -> dict[str, Any]:
    """What the id says. Raises NoSuchCharge."""
    return {
        "charge": encode(asked),
        "kind": asked.kind,
        "group": dict(asked.group),
        "cause": asked.cause,
        "currency": asked.currency,
        "window": shown_window(asked),
        "cluster": asked.cluster,
        "pool": asked.pool,
        "closed": None,
        "sums": [],
        "policies": [],
        "error": None,
    }


def _live(live: LiveCharge | None, asked: Asked) -> dict[str, Any]:
    """The charge in the live ledger; zero if it has no such row."""
    priced = asked.currency is not None
    if live is None:
        zero = "0.000000000000"
        cost = {"cost": "0.00", "cost_exact": zero} if priced else {"cost": None, "cost_exact": None}
        return {"gpu_seconds": "0.000000", "gpu_seconds_exact": zero} | cost
    row, scale = live.charge, live.scale
    answer = amounts(scale, row, priced=priced) | {
        "sums": [sum_line(one, scale) for one in live.sums],
        "policies": [_policy(one, live.version) for one in dict.fromkeys(span.policy for span in live.spans)],
    }
    if not priced:
        words = (row["cluster"], row["pool"], row["gpu_model"] or "", row["mig_profile"], row["first_us"])
        answer["error"] = missing_rate(*words)
    return answer


def _lines(live: LiveCharge, limit: int, offset: int, *, whole: bool) -> list[dict[str, Any]]:
    """The lines of a page. Team-scoped callers do not see which pool a shared charge came from."""
    found = [line(row, live.scale, live.spans, live.version) for row in live.page(offset, limit)]
    return found if whole else [without_pool(one) if "dealt" in one else one for one in found]


def _unbooked(live: LiveCharge | None) -> dict[str, Any] | None:
    """A note about hours that are being recomputed, whose time the lines lack."""
    if live is None:
        return None
    units, amount = (int(live.charge[name]) - int(live.totals[name]) for name in ("units", "amount"))
    if not units and not amount:
        return None
    scale, row, totals = live.scale, live.charge, live.totals
    seconds = scale.gpu_seconds_exact(int(row["units"])) - scale.gpu_seconds_exact(int(totals["units"]))
    money = scale.money_exact(int(row["amount"])) - scale.money_exact(int(totals["amount"]))
    text = "Some hours are waiting to be recomputed; ask again after the next analysis."
    return closed.plain_line("unbooked", text, seconds, money if row["priced"] else None)


def _policy(policy: Policy, version: int | None) -> dict[str, Any]:
    fields = as_dict(policy)
    return {name: fields[name] for name in ("name", "valid_from", "valid_to", "basis")} | {"version": version}


def _correction(state: State, asked: Asked, teams: Collection[str] | None, limit: int, offset: int) -> dict[str, Any]:
    found = closed.corrections(state, asked, teams)
    if not found:
        raise NoSuchCharge
    lines = closed.correction_lines(found)
    priced = asked.currency is not None
    seconds = sum((one.gpu_seconds for one in found), Decimal(0))
    exact = sum((one.cost_exact or Decimal(0) for one in found), Decimal(0))
    cents = sum((one.cost or Decimal(0) for one in found), Decimal(0))
    head = _head(asked) | closed.sums(seconds, exact if priced else None, cents if priced else None)
    return _page(asked, head, lines[offset : offset + limit], len(lines), offset)
