"""Charges of closed periods: their frozen rows, and the corrections billed in a window."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpuwatch.billing.inferred_teams import Mark
from gpuwatch.billing.periods.corrections.repository import Corrections
from gpuwatch.billing.periods.frozen import (
    CENT_PICO,
    COARSE,
    NOTHING,
    WORDS,
    Amounts,
    Key,
    canonical,
    coarse,
    pico,
    rounded,
)
from gpuwatch.billing.periods.repository import FINE, Closing, Periods
from gpuwatch.billing.records import Charge, Chargeback
from gpuwatch.core.clock import Window
from gpuwatch.core.money import CENT_PLACES, EXACT_PLACES, divided
from gpuwatch.ledger.dimensions import CAUSE
from gpuwatch.ledger.totals import SECOND_PLACES, Totals
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.state import State

CORRECTION = "correction"
CORRECTIONS_FROM = 2**40
"""Offset of the first correction row: no answer has that many other rows."""
LACKING = ("gpu_model", "mig_profile", "cluster", "pool")
"""Dimensions that keep unpriced time apart, whatever the query groups by."""


@dataclass
class _Group:
    """Frozen rows that make one row of an answer; `error` is the first one found."""

    words: dict[str, str | None]
    kind: str
    cause: str | None
    origin: str | None
    currency: str | None
    held: bool
    shown: bool
    place: Key
    amounts: Amounts = NOTHING
    error: str | None = None


def frozen_answer(
    state: State,
    window: Window,
    by: Sequence[str],
    cluster: str | None = None,
    teams: Collection[str] | None = None,
    *,
    pool: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> Chargeback | None:
    """The charges of the closed period with exactly this window, from its frozen rows, with the corrections billed in it.

    None if no period with this window is closed, or if its rows lack a requested dimension (slices; everything but COARSE
    in periods that earlier releases closed). The caller then uses the live ledger. Cents are divided as in chargeback: over
    the visible rows of a currency, by largest remainder; by team they are the published ones.
    """
    periods = Periods(state)
    if not set(by) <= {*WORDS, CAUSE} or (found := periods.at(window)) is None or not _answers(found, by, pool):
        return None
    content = periods.rows(found)
    rows = content["rows"] if found.level == FINE else coarse(content["rows"])
    groups = _grouped((row for row in rows if _in_scope(row, cluster, pool)), by, teams)
    by_team_only = cluster is None and pool is None and tuple(by) == ("team",)
    published_rows = _published_rows(groups, content.get("published", ()) if by_team_only else ())
    totals = Totals.of(
        {
            "currency": group.currency,
            "lacks": group.amounts.cost is None,
            "external": group.origin is not None,
            "micros": micros,
            "cents": cents,
        }
        for group, micros, cents in published_rows
    )
    end = None if limit is None else offset + limit
    inferred = found.context.get("inferred_teams", ())
    answer = Chargeback(
        items=tuple(_charge(*one, inferred) for one in published_rows[offset:end]),
        window=window,
        gpu_seconds=totals.gpu_seconds,
        cost=totals.cost,
        currency=totals.currency,
        unpriced_gpu_seconds=totals.unpriced_gpu_seconds,
        by=tuple(by),
        next_offset=end if end is not None and end < len(published_rows) else None,
        external_cost=totals.external_cost,
        cluster=cluster,
        pool=pool,
    )
    return corrected(state, answer, cluster, teams, pool=pool, limit=limit, offset=offset, own=found.name)


def _published_rows(groups: Sequence[_Group], published: Iterable[Mapping[str, Any]]) -> list[tuple[_Group, int, int]]:
    """The visible groups with microseconds and cents: most expensive first, unallocated time last."""
    shown = [one for one in _rounded_groups(groups, _known(published)) if one[0].shown]
    return sorted(shown, key=lambda one: (not one[0].held, -one[2], one[0].place))


def _answers(found: Closing, by: Sequence[str], pool: str | None) -> bool:
    """Whether the rows of a closing have these dimensions."""
    return found.level == FINE or (pool is None and set(by) <= set(COARSE))


def _in_scope(words: Mapping[str, Any], cluster: str | None, pool: str | None) -> bool:
    return cluster in (None, words["cluster"]) and pool in (None, words.get("pool"))


def corrections_in(
    state: State,
    window: Window,
    by: Sequence[str],
    teams: Collection[str] | None = None,
    *,
    cluster: str | None = None,
    pool: str | None = None,
    own: str | None = None,
) -> list[Charge]:
    """Corrections of closed periods billed in a window, as charges of kind `correction`, the largest first.

    `teams` filters them. `cost` is the sum of the posted cents. Corrections have no slice.
    """
    groups: dict[Key, tuple[dict[str, str | None], Amounts, Amounts]] = {}
    for line in Corrections(state).billed(window, own):
        if not (teams is None or line.words["team"] in teams) or not _in_scope(line.words, cluster, pool):
            continue
        group = {name: line.words.get(name) for name in by}
        key = (*group.values(), line.currency)
        _, exact, posted = groups.get(key, (group, NOTHING, NOTHING))
        amounts = Amounts(pico(f"{line.gpu_seconds:f}"), _pico(line.cost_exact))
        groups[key] = group, exact.plus(amounts), posted.plus(Amounts(0, _pico(line.cost)))
    found = [
        _correction(group, key[-1], exact, posted)
        for key, (group, exact, posted) in groups.items()
        if exact.gpu_seconds or exact.cost or posted.cost
    ]
    found.sort(key=lambda charge: (-abs(charge.cost or Decimal(0)), canonical(charge.group), charge.currency or ""))
    return found


def _correction(group: dict[str, str | None], currency: str | None, exact: Amounts, posted: Amounts) -> Charge:
    return Charge(
        group=group,
        kind=CORRECTION,
        gpu_seconds=rounded(exact.gpu_seconds, SECOND_PLACES),
        cost=_rounded(posted.cost, CENT_PLACES),
        cost_exact=_rounded(exact.cost, EXACT_PLACES),
        currency=currency,
        error=None,
        cause=group.get(CAUSE),
        gpu_seconds_exact=rounded(exact.gpu_seconds, EXACT_PLACES),
    )


def corrected(
    state: State,
    answer: Chargeback,
    cluster: str | None = None,
    teams: Collection[str] | None = None,
    *,
    pool: str | None = None,
    limit: int | None = None,
    offset: int = 0,
    own: str | None = None,
) -> Chargeback:
    """An answer with the corrections billed in its window: after its last row, and in the totals of every page."""
    found = corrections_in(state, answer.window, answer.by, teams, cluster=cluster, pool=pool, own=own)
    if not found:
        return answer
    shown, following = answer.items, answer.next_offset
    if following is None:
        start = max(offset - CORRECTIONS_FROM, 0)
        end = len(found) if limit is None else min(start + max(limit - len(shown), 0), len(found))
        shown = (*shown, *found[start:end])
        following = CORRECTIONS_FROM + end if end < len(found) else None
    currency = _common_currency(answer, found)
    unpriced = [charge for charge in found if charge.currency is None]
    return replace(
        answer,
        items=shown,
        gpu_seconds=sum((charge.gpu_seconds for charge in found), answer.gpu_seconds),
        cost=sum((charge.cost or Decimal(0) for charge in found), answer.cost or Decimal(0)) if currency else None,
        currency=currency,
        unpriced_gpu_seconds=sum((charge.gpu_seconds for charge in unpriced), answer.unpriced_gpu_seconds),
        next_offset=following,
    )


def _common_currency(answer: Chargeback, corrections: Iterable[Charge]) -> str | None:
    """The currency of an answer and its corrections; None where they have several, or none."""
    several = answer.cost is None and answer.gpu_seconds != answer.unpriced_gpu_seconds
    currencies = {charge.currency for charge in corrections if charge.cost is not None} | {answer.currency}
    known = currencies - {None}
    return known.pop() if len(known) == 1 and not several else None


def _grouped(rows: Iterable[Mapping[str, Any]], by: Sequence[str], teams: Collection[str] | None) -> list[_Group]:
    """Rows by dimension, in the order in which the live ledger publishes them."""
    groups: dict[Key, _Group] = {}
    for row in rows:
        lacks, held, origin = row["cost_exact"] is None, row["team"] != PLATFORM, row.get("origin")
        shown = teams is None or row["team"] in teams
        cause = row.get(CAUSE) if CAUSE in by or origin else None
        asked = {name: row[name] if name in by or (lacks and name in LACKING) else None for name in WORDS}
        marks = (f"{not held}", f"{lacks}", row["currency"], row["kind"], f"{bool(origin)}", cause, f"{not shown}")
        key = (*asked.values(), *marks)
        group = groups.get(key)
        if group is None:
            words = {name: cause if name == CAUSE else row[name] for name in by}
            group = _Group(words, row["kind"], cause, origin, row["currency"], held, shown, _place(key))
            groups[key] = group
        cost = None if lacks else pico(row["cost_exact"])
        group.amounts = group.amounts.plus(Amounts(pico(row["gpu_seconds"]), cost))
        group.error = group.error or row.get("error")
    return sorted(groups.values(), key=lambda group: group.place)


def _rounded_groups(groups: Sequence[_Group], known: Mapping[Key, tuple[int, int]]) -> list[tuple[_Group, int, int]]:
    """Each group with its GPU microseconds and cents: the published ones, else by largest remainder: hidden groups and
    money that is not the cost of a device separately. Which groups others have decides nothing about the shown ones.
    """
    kinds = [(one.shown, one.currency, one.origin) for one in groups]
    micros = divided([one.amounts.gpu_seconds for one in groups], SECOND_PLACES, [one.shown for one in groups])
    cents = divided([one.amounts.cost or 0 for one in groups], CENT_PLACES, kinds)
    rounded_here = zip(groups, micros, cents, strict=True)
    return [(group, *known.get(_published_key(group), amounts)) for group, *amounts in rounded_here]


def _published_key(group: _Group) -> Key:
    return group.words.get("team"), group.kind, group.currency, group.origin, group.cause


def _known(published: Iterable[Mapping[str, Any]]) -> dict[Key, tuple[int, int]]:
    """Microseconds and cents of rows by team, as published at the closing; without rows that have the same key, which are
    those of time without a price."""
    found: dict[Key, list[tuple[int, int]]] = {}
    for row in published:
        key = (row["team"], row["kind"], row["currency"], row.get("origin"), row.get(CAUSE))
        cents = 0 if row["cost"] is None else pico(row["cost"]) // CENT_PICO
        found.setdefault(key, []).append((pico(row["gpu_seconds"]) // 10 ** (EXACT_PLACES - SECOND_PLACES), cents))
    return {key: rows[0] for key, rows in found.items() if len(rows) == 1}


def _charge(group: _Group, micros: int, cents: int, inferred: Collection[str]) -> Charge:
    amounts = group.amounts
    return Charge(
        group=group.words,
        kind=group.kind,
        gpu_seconds=rounded(micros * 10 ** (EXACT_PLACES - SECOND_PLACES), SECOND_PLACES),
        cost=None if amounts.cost is None else rounded(cents * CENT_PICO, CENT_PLACES),
        cost_exact=_rounded(amounts.cost, EXACT_PLACES),
        currency=group.currency,
        error=group.error,
        cause=group.cause,
        gpu_seconds_exact=rounded(amounts.gpu_seconds, EXACT_PLACES),
        mark=Mark(group.words.get("team") in inferred, False),
    )


def _place(key: Key) -> Key:
    return tuple("\U0010ffff" if word is None else word for word in key)


def _rounded(units: int | None, places: int) -> Decimal | None:
    return None if units is None else rounded(units, places)


def _pico(amount: Decimal | None) -> int | None:
    return None if amount is None else pico(f"{amount:f}")
