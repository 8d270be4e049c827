"""The teams of a scan: what each held, and the avoidable part, as a table and as lines. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.ledger.measures import WORDS
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report import text as report_text
from gpuwatch.report.document import SIZE, Bar, Block, Cell, Column, Row, Section, Table, Text, row
from gpuwatch.report.html.markup import owner_name

TEAMS_MAX = 20
TEAM_LINES = 6
NOT_MEASURED = "not measured"

Json = Mapping[str, Any]


def section(card: Json) -> Section:
    """What each team held, and the avoidable part; only what it held where none of it was measured."""
    if all(one["avoidable_gpu_hours"] is None for one in card["teams"] if one["team"] != PLATFORM):
        return _unmeasured(card)
    priced = card["waste"]["cost"] is not None
    field = "avoidable_cost" if priced else "avoidable_gpu_hours"
    known = [Fraction(one[field]) for one in card["teams"] if one[field] is not None]
    largest = max(known, default=Fraction(0))
    rows = [_team_row(one, card["currency"], field, largest) for one in card["teams"][:TEAMS_MAX]]
    columns = (
        Column("Team", label=True, part=2.2),
        Column("", chart=True, part=2),
        Column(WORDS["avoidable"], number=True, part=1.2),
        Column("Of its cost" if priced else "Of its time", number=True, part=1),
        Column("GPU-hours held", number=True, wide=True, part=1.3),
        Column("Cost", number=True, wide=True, part=1.2),
    )
    return Section("Waste by team", (Table(columns, tuple(rows), "plain"), *_left(card, rows)))


def _unmeasured(card: Json) -> Section:
    """What each team held; what it could have avoided is not known of any."""
    ranked = sorted(card["teams"], key=lambda one: (-Fraction(one["cost"] or 0), -Fraction(one["gpu_hours"])))
    rows = [
        row([_name(one), _hours(one["gpu_hours"]), _money(one["cost"], card["currency"])]) for one in ranked[:TEAMS_MAX]
    ]
    columns = (Column("Team", label=True, part=2.2), Column("GPU-hours held", number=True), Column("Cost", number=True))
    text = "What the teams could have avoided is not known: the GPUs that they held were not measured."
    blocks: list[Block] = [Text(text, "soft"), Table(columns, tuple(rows), "plain"), *_left(card, rows)]
    return Section("Who held the GPUs", tuple(blocks))


def _left(card: Json, rows: Sequence[Row]) -> list[Block]:
    more = len(card["teams"]) - len(rows)
    return [Text(f"{more} more are in scan.json.", "soft")] if more > 0 else []


def _name(one: Json) -> str:
    return owner_name(one["team"]) + (" (inferred)" if one["inferred"] else "")


def _team_row(one: Json, currency: str | None, field: str, largest: Fraction) -> Row:
    lost = None if one[field] is None else Fraction(one[field])
    bar = Cell(bar=Bar(SIZE, Fraction(0), lost / largest if lost and largest else Fraction(0)))
    ratio = _team_share(one, field)
    shown = _money(one["avoidable_cost"], currency) if field == "avoidable_cost" else _hours(one["avoidable_gpu_hours"])
    shown = NOT_MEASURED if one["avoidable_gpu_hours"] is None else shown
    share = NOT_MEASURED if ratio is None else report_text.percent(ratio)
    return row([_name(one), bar, shown, share, _hours(one["gpu_hours"]), _money(one["cost"], currency)])


def _team_share(one: Json, field: str) -> Fraction | None:
    """The avoidable part of a team's cost, or of its time where that has no price."""
    if one["avoidable_ratio"] is None:
        return None
    if field == "avoidable_gpu_hours":
        return Fraction(str(one["avoidable_ratio"]))
    if one["avoidable_cost"] is None or not Fraction(one["cost"] or 0):
        return None
    return Fraction(one["avoidable_cost"]) / Fraction(one["cost"])


def team_lines(card: Json) -> list[str]:
    """`vision: 197 GPU-hours, $1.35 k; avoidable $690 (51 % of its cost)`: the first teams, for a terminal, and what the others are."""
    field = "avoidable_cost" if card["waste"]["cost"] is not None else "avoidable_gpu_hours"
    of = "cost" if field == "avoidable_cost" else "time"
    lines = []
    for one in card["teams"][:TEAM_LINES]:
        name, _, lost, share, held, cost = (
            str(cell.text) for cell in _team_row(one, card["currency"], field, Fraction(0)).cells
        )
        if share != NOT_MEASURED:
            lost = f"{lost} ({share} of its {of})"
        elif (
            one["avoidable_gpu_hours"] is not None
            and one["avoidable_ratio"] is None
            and one["measured_ratio"] is not None
        ):
            measured = report_text.percent(one["measured_ratio"])
            lost = f"at least {lost} ({measured} of what it held was measured)"
        lines.append(f"{name}: {held} GPU-hours, {cost}; avoidable {lost}")
    return lines + _more_teams(card["teams"][TEAM_LINES:], card["currency"])


def _more_teams(rest: Sequence[Json], currency: str | None) -> list[str]:
    """`and 4 more teams, $1.20 k`."""
    if not rest:
        return []
    costs = [one["cost"] for one in rest]
    worth = "" if None in costs else f", {report_text.money(sum(map(Fraction, costs), Fraction(0)), currency)}"
    return [f"and {len(rest)} more {'team' if len(rest) == 1 else 'teams'}{worth}: scan.json has all"]


def _money(cost: str | None, currency: str | None) -> str:
    return report_text.NO_PRICE if cost is None else report_text.money(Decimal(cost), currency)


def _hours(hours: str | None) -> str:
    return report_text.MISSING if hours is None else report_text.count(Fraction(hours))
