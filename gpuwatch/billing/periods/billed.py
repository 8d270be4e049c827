"""Charges of windows with closed periods: the frozen rows of the period itself, and corrections billed in the window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

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
from gpuwatch.billing.periods.repository import FINE, Periods
from gpuwatch.billing.records import Charge, Chargeback
from gpuwatch.core.clock import Window
from gpuwatch.core.money import CENT_PLACES, EXACT_PLACES, largest_remainder
from gpuwatch.ledger.totals import CAUSE, SECOND_PLACES, Totals
from gpuwatch.state import State

CORRECTION = "correction"
PLATFORM = "__platform__"
CORRECTIONS_FROM = 2**40
"""Offset of the first correction row: no answer has that many other rows."""
LACKING = ("gpu_model", "mig_profile", "cluster", "pool")
"""Dimensions that keep unpriced time apart, whatever the query groups by."""


@dataclass
class _Group:
    """Frozen rows that are one row of an answer; `error` of the first that has one."""

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
    """The charges of a closed period whose window is exactly this, from its frozen rows, with the corrections that are
    billed in it. None where no period of this window is closed, and where its rows do not have what is asked for: slices,
    and of a period that an earlier release closed all but COARSE. The live books then answer.

    Cents are divided as in chargeback: over all rows of a currency, by largest remainder, so that every caller gets the
    same numbers; by team they are the published ones.
    """
    periods = Periods(state)
    if not set(by) <= {*WORDS, CAUSE} or (found := periods.at(window)) is None:
        return None
    fine = found.level == FINE
    if not fine and (not set(by) <= set(COARSE) or pool is not None):
        return None
    content = periods.rows(found)
    rows = content["rows"] if fine else coarse(content["rows"])
    rows = [
        row for row in rows if (cluster is None or row["cluster"] == cluster) and (pool is None or row["pool"] == pool)
    ]
    groups = _grouped(rows, by, teams)
    whole = cluster is None and pool is None
    published = content.get("published", ()) if whole and tuple(by) == ("team",) else ()
    published_rows = [one for one in _rounded_groups(groups, _known(published)) if one[0].shown]
    published_rows.sort(key=lambda one: (not one[0].held, -one[2], one[0].place))
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
    page = [_charge(*one) for one in published_rows[offset:end]]
    answer = Chargeback(
        items=tuple(page),
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
    """Corrections of closed periods in a window (Corrections.billed), as charges of kind `correction`, the largest first.

    With `teams` those of these teams only. `cost` is the sum of cents as they were posted. A slice is not known: None.
    """
    groups: dict[Key, tuple[dict[str, str | None], Amounts, Amounts]] = {}
    for line in Corrections(state).billed(window, own):
        words = line.words
        if teams is not None and words["team"] not in teams:
            continue
        if (cluster is not None and words["cluster"] != cluster) or (pool is not None and words["pool"] != pool):
            continue
        group = {name: words.get(name) for name in by}
        key = (*group.values(), line.currency)
        _, exact, posted = groups.get(key, (group, NOTHING, NOTHING))
        amounts = Amounts(pico(f"{line.gpu_seconds:f}"), _pico(line.cost_exact))
        groups[key] = group, exact.plus(amounts), posted.plus(Amounts(0, _pico(line.cost)))
    found = [
        Charge(
            group=group,
            kind=CORRECTION,
            gpu_seconds=rounded(exact.gpu_seconds, SECOND_PLACES),
            cost=None if posted.cost is None else rounded(posted.cost, CENT_PLACES),
            cost_exact=None if exact.cost is None else rounded(exact.cost, EXACT_PLACES),
            currency=key[-1],
            error=None,
            cause=group.get(CAUSE),
            gpu_seconds_exact=rounded(exact.gpu_seconds, EXACT_PLACES),
        )
        for key, (group, exact, posted) in groups.items()
        if exact.gpu_seconds or exact.cost or posted.cost
    ]
    found.sort(key=lambda charge: (-abs(charge.cost or Decimal(0)), canonical(charge.group), charge.currency or ""))
    return found


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
    """An answer with the corrections that are billed in its window: behind its last row, and in its totals on every page."""
    found = corrections_in(state, answer.window, answer.by, teams, cluster=cluster, pool=pool, own=own)
    if not found:
        return answer
    start = max(offset - CORRECTIONS_FROM, 0)
    room = None if limit is None else max(limit - len(answer.items), 0)
    shown: list[Charge] = (
        [] if answer.next_offset is not None else found[start : None if room is None else start + room]
    )
    following = answer.next_offset
    if following is None and start + len(shown) < len(found):
        following = CORRECTIONS_FROM + start + len(shown)
    priced = {charge.currency for charge in found if charge.cost is not None} | (
        {answer.currency} if answer.currency is not None else set()
    )
    several = answer.cost is None and answer.gpu_seconds != answer.unpriced_gpu_seconds
    known = len(priced) == 1 and not several
    money = sum((charge.cost or Decimal(0) for charge in found), answer.cost or Decimal(0))
    return replace(
        answer,
        items=(*answer.items, *shown),
        gpu_seconds=answer.gpu_seconds + sum((charge.gpu_seconds for charge in found), Decimal(0)),
        cost=money if known else None,
        currency=next(iter(priced)) if known else None,
        unpriced_gpu_seconds=answer.unpriced_gpu_seconds
        + sum((charge.gpu_seconds for charge in found if charge.currency is None), Decimal(0)),
        next_offset=following,
    )


def _grouped(rows: Iterable[Mapping[str, Any]], by: Sequence[str], teams: Collection[str] | None) -> list[_Group]:
    """Rows by what is asked for, in the order in which the books publish them."""
    groups: dict[Key, _Group] = {}
    for row in rows:
        lacks, held, origin = row["cost_exact"] is None, row["team"] != PLATFORM, row.get("origin")
        shown = teams is None or row["team"] in teams
        cause = row.get(CAUSE) if CAUSE in by or origin else None
        asked = {name: row[name] if name in by or (lacks and name in LACKING) else None for name in WORDS}
        marks = (
            f"{not held}",
            f"{lacks}",
            row["currency"],
            row["kind"],
            f"{origin is not None}",
            cause,
            f"{not shown}",
        )
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
    """Each group with its GPU microseconds and cents: those that were published, else by largest remainder, where money
    that no device costs is divided separately.
    """
    if known and all(_published_key(group) in known for group in groups):
        return [(group, *known[_published_key(group)]) for group in groups]
    names = [f"{number:09d}" for number in range(len(groups))]
    time = [Fraction(group.amounts.gpu_seconds, 10**EXACT_PLACES) for group in groups]
    micros = [int(value.scaleb(SECOND_PLACES)) for value in largest_remainder(time, SECOND_PLACES, names)]
    cents = [0] * len(groups)
    sums: dict[Key, list[int]] = defaultdict(list)
    for number, group in enumerate(groups):
        sums[(group.currency, group.origin)].append(number)
    for numbers in sums.values():
        money = [Fraction(groups[n].amounts.cost or 0, 10**EXACT_PLACES) for n in numbers]
        for n, value in zip(numbers, largest_remainder(money, CENT_PLACES, [names[n] for n in numbers]), strict=True):
            cents[n] = int(value.scaleb(CENT_PLACES))
    return list(zip(groups, micros, cents, strict=True))


def _published_key(group: _Group) -> Key:
    return group.words["team"], group.kind, group.currency, group.origin, group.cause


def _known(published: Iterable[Mapping[str, Any]]) -> dict[Key, tuple[int, int]]:
    """Microseconds and cents of rows by team, as they were published at the closing; {} where two are of one key."""
    found: dict[Key, tuple[int, int]] = {}
    for row in published:
        key = (row["team"], row["kind"], row["currency"], row.get("origin"), row.get(CAUSE))
        if key in found:
            return {}
        cents = 0 if row["cost"] is None else pico(row["cost"]) // CENT_PICO
        found[key] = pico(row["gpu_seconds"]) // 10 ** (EXACT_PLACES - SECOND_PLACES), cents
    return found


def _charge(group: _Group, micros: int, cents: int) -> Charge:
    cost = group.amounts.cost
    return Charge(
        group=group.words,
        kind=group.kind,
        gpu_seconds=rounded(micros * 10 ** (EXACT_PLACES - SECOND_PLACES), SECOND_PLACES),
        cost=None if cost is None else rounded(cents * CENT_PICO, CENT_PLACES),
        cost_exact=None if cost is None else rounded(cost, EXACT_PLACES),
        currency=group.currency,
        error=group.error,
        cause=group.cause,
        gpu_seconds_exact=rounded(group.amounts.gpu_seconds, EXACT_PLACES),
    )


def _place(key: Key) -> Key:
    """Words in the order of the books: what is absent comes last."""
    return tuple("\U0010ffff" if word is None else word for word in key)


def _pico(amount: Decimal | None) -> int | None:
    return None if amount is None else pico(f"{amount:f}")
