"""Corrections of closed periods that are billed in a week, with the period that each corrects. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

from gpuwatch.report import text as report_text
from gpuwatch.report.document import Block, Column, Row, Section, Table, Text, row
from gpuwatch.report.facts import Amount, Correction, Facts, added
from gpuwatch.report.html.markup import name, owner_name

SHOWN = 20
_Key = tuple[str, str, str | None]


def corrections(facts: Facts) -> Section | None:
    """Corrections billed this week by period, reason and team (for a team: job); None without any."""
    if not facts.corrected:
        return None
    groups: dict[_Key, list[Correction]] = defaultdict(list)
    for line in facts.corrected:
        groups[line.period, line.why, line.team if facts.team is None else line.job].append(line)
    sums = {key: added(line.amount for line in lines) for key, lines in groups.items()}
    listed = [key for key, amount in sums.items() if amount.gpu_seconds or any(c for _, c in amount.costs)]
    listed.sort(key=lambda key: (key[0], -abs(_money(sums[key])), str(key)))
    shown, rest = listed[:SHOWN], listed[SHOWN:]
    rows = [_row(facts, [key[0], key[1], _who(facts, key[2])], sums[key]) for key in shown]
    if rest:
        rows.append(_row(facts, [f"{len(rest):,} more", "in the data files", ""], _sum(rest, sums), "other"))
    rows.append(_row(facts, ["Total", "", ""], facts.corrections, "sum"))
    columns = (
        Column("Corrects"),
        Column("Why", part=3, wide=True),
        Column("Team" if facts.team is None else "Job", part=1.6),
        Column("Cost", number=True),
        Column("GPU-hours", number=True),
    )
    text = "A closed period never changes. Later corrections are billed here: they are part of the total, but of no bucket."
    blocks: tuple[Block, ...] = (Text(text, "soft"), Table(columns, tuple(rows)))
    cost = report_text.amount_money(facts.corrections, facts.currency)
    return Section(f"Corrections of closed periods: {cost}", blocks)


def _row(facts: Facts, texts: list[str], amount: Amount, kind: str = "") -> Row:
    cost = amount.cost_in(facts.currency)
    money = (
        report_text.amount_money(amount, facts.currency) if cost is None else report_text.plain(cost, 2, facts.currency)
    )
    return row([*texts, money, report_text.count(amount.gpu_hours)], kind)


def _who(facts: Facts, who: str | None) -> str:
    return owner_name(who) if facts.team is None else name(who, "unknown job")


def _sum(keys: Sequence[_Key], sums: dict[_Key, Amount]) -> Amount:
    return added(sums[key] for key in keys)


def _money(amount: Amount) -> Decimal:
    return sum((cost for _, cost in amount.costs), Decimal(0))
