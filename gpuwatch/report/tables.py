"""The tables of a report: MIG slices, who pays, jobs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from gpuwatch.report import chart, words
from gpuwatch.report.facts import PLATFORM, PRODUCTIVE, UNOWNED, Amount, Facts, Payer, SliceHold
from gpuwatch.report.headlines import compared_cost
from gpuwatch.report.markup import Html, name, tag

PAYERS_SHOWN = 60
JOBS_SHOWN = 20
SLICES_SHOWN = 10
SHORT = 14
"""Rows of a table that is not torn by a page break."""
OTHERS = "the others, in the table file"


def header(columns: Sequence[tuple[str, str]]) -> Html:
    """A table head of (words, classes)."""
    return tag("thead", tag("tr", [tag("th", text, cls=kind or None, scope="col") for text, kind in columns]))


def payers(facts: Facts) -> Html:
    """Teams of a fleet, or users and jobs of a team; the rows add up to what is paid."""
    word = "team" if facts.team is None else "user"
    people = _bounded([p for p in facts.payers if p.kind == "allocated"], PAYERS_SHOWN)
    rest = [p for p in facts.payers if p.kind != "allocated"]
    parts = [tag("h2", _title(facts)), _table(facts, word, [*people, *rest], total=True)]
    if facts.team is not None and facts.jobs:
        shown = _bounded(list(facts.jobs), JOBS_SHOWN)
        count = len(facts.jobs)
        parts.append(tag("h3", f"{count:,} {'job' if count == 1 else 'jobs'}, the dearest first"))
        parts.append(_table(facts, "job", shown, total=False))
    return tag("section", parts)


def _title(facts: Facts) -> str:
    people = [p for p in facts.payers if p.kind == "allocated" and p.name is not None and p.name != UNOWNED]
    if not people:
        return "Who pays: nobody held a GPU"
    first = people[0]
    who = f"{'team' if facts.team is None else 'user'} {name(first.name)}"
    cost, whole = first.amount.cost_in(facts.currency), facts.total.cost_in(facts.currency)
    if cost is None or not whole:
        return f"Who pays: {who} held the most"
    return f"Who pays: most by {who}, {words.money(cost, facts.currency)} ({words.percent(Fraction(cost / whole))})"


def _table(facts: Facts, word: str, rows: Sequence[Payer], total: bool) -> Html:
    clusters = word == "job" and len({row.cluster for row in rows if row.kind == "allocated"}) > 1
    columns = [(word.capitalize(), "")]
    columns += [("Cluster", "wide")] if clusters else []
    columns += [("User", "wide")] if word == "job" else []
    columns += [("", "chart"), ("Cost", "n"), ("GPU-hours", "n"), ("Productive", "n wide"), ("Held idle", "n wide")]
    columns += [("Change", "n")] if word != "job" else []
    costs = [row.amount.cost_in(facts.currency) for row in rows]
    said = words.column(costs, facts.currency)
    if facts.currency is None:
        said = [words.amount_money(row.amount) for row in rows]
    largest = max((abs(c) for c, r in zip(costs, rows, strict=True) if c is not None and _bars(r)), default=Decimal(0))
    body = [_row(facts, word, row, cost, largest, clusters) for row, cost in zip(rows, said, strict=True)]
    if total:
        # Rows are rounded so that they add up: the total needs no rounding of its own.
        cost = facts.total.cost_in(facts.currency)
        shown = words.amount_money(facts.total) if cost is None else words.column([cost], facts.currency)[0]
        whole = Payer("Total", facts.total, facts.total_before, kind="total")
        body.append(_row(facts, word, whole, shown, Decimal(0), clusters))
    return tag("table", header(columns), tag("tbody", body), cls="pay short" if len(body) <= SHORT else "pay")


def _bars(row: Payer) -> bool:
    """Whether a row is one of those that are compared by length."""
    return row.kind == "allocated"


def _row(facts: Facts, word: str, row: Payer, cost: str, largest: Decimal, clusters: bool) -> Html:
    exact = row.amount.cost_in(facts.currency)
    bar = chart.size(Fraction(exact / largest)) if _bars(row) and largest and exact is not None else None
    held = row.amount.gpu_seconds if row.kind == "allocated" else None
    productive = words.percent(words.ratio(row.of(*PRODUCTIVE).gpu_seconds, held)) if held else ""
    idle = words.percent(words.ratio(row.of("hoarded").gpu_seconds, held)) if held else ""
    cells = [tag("td", _label(word, row), cls="who")]
    cells += [tag("td", name(row.cluster, ""), cls="user wide")] if clusters else []
    if word == "job":
        user = name(row.user) if row.kind == "allocated" else ""
        cells.append(tag("td", user, cls="user wide"))
    cells += [
        tag("td", bar, cls="chart"),
        tag("td", cost, cls="n"),
        tag("td", words.count(row.amount.gpu_hours), cls="n"),
        tag("td", productive, cls="n wide"),
        tag("td", idle, cls="n wide"),
    ]
    if word != "job":
        change = compared_cost(facts, row.amount, row.before) if facts.compared is not None else ""
        cells.append(tag("td", change, cls="n"))
    return tag("tr", cells, cls={"total": "sum", "other": "other"}.get(row.kind))


def _label(word: str, row: Payer) -> str:
    if row.kind in ("other", "total"):
        return str(row.name)
    if row.kind == "correction":
        return f"{_own(word, row.name)}, correction of a closed period"
    return _own(word, row.name)


def _own(word: str, who: str | None) -> str:
    if word == "team" and who == PLATFORM:
        return "Not allocated (platform)"
    if word == "team" and who == UNOWNED:
        return "Held, no team known"
    return name(who, f"{word} not told")


def _bounded(rows: list[Payer], most: int) -> list[Payer]:
    """The first rows and one that sums the others, so that the table still adds up."""
    if len(rows) <= most:
        return rows
    shown, rest = rows[: most - 1], rows[most - 1 :]
    before: Amount | None = Amount()
    for row in rest:
        before = None if before is None or row.before is None else before + row.before
    amount = sum((row.amount for row in rest), start=Amount())
    return [*shown, Payer(f"{len(rest):,} more: {OTHERS}", amount, before, kind="other")]


def slices(facts: Facts) -> Html | None:
    """MIG slices by who held them and of which size; nothing where there is no slice."""
    remainder = facts.of("mig_remainder")
    if not facts.slices and not remainder.gpu_seconds:
        return None
    groups: dict[tuple[str | None, str, str], list[SliceHold]] = defaultdict(list)
    for hold in facts.slices:
        who = hold.team if facts.team is None else hold.user
        groups[(who, hold.gpu_model, hold.profile)].append(hold)
    lines = [_Line(key, holds) for key, holds in groups.items()]
    lines.sort(key=lambda line: (-(line.amount.cost_in(facts.currency) or 0), -line.amount.gpu_seconds, str(line.key)))
    word = "Team" if facts.team is None else "User"
    columns = [(word, ""), ("Slice", ""), ("Slices", "n wide"), ("Cost", "n"), ("GPU-hours", "n wide")]
    columns += [("Idle", "n"), ("Busy", "n wide")]
    shown = lines[:SLICES_SHOWN]
    costs = words.column([line.amount.cost_in(facts.currency) for line in shown], facts.currency)
    if facts.currency is None:
        costs = [words.amount_money(line.amount) for line in shown]
    rows = [line.row(facts, cost) for line, cost in zip(shown, costs, strict=True)]
    more = len(lines) - len(shown)
    note = "A slice counts as its share of the GPU. Idle and busy are of the slice itself."
    if remainder.gpu_seconds and facts.team is None:
        cost = words.amount_money(remainder, facts.currency)
        note += f" Parts of GPUs that no slice covers cost {cost} ({words.hours(remainder.gpu_hours)})."
    return tag(
        "section",
        tag("h2", _slices_title(facts)),
        tag("p", note, cls="soft"),
        tag("table", header(columns), tag("tbody", rows), cls="mig short") if rows else None,
        tag("p", f"{more} more: {OTHERS}.", cls="soft") if more > 0 else None,
    )


def _slices_title(facts: Facts) -> str:
    if not facts.slices:
        return "MIG slices: none was held"
    total = sum((hold.amount for hold in facts.slices), start=Amount())
    slices_ = len({(hold.cluster, hold.slice) for hold in facts.slices})
    device = sum((hold.device_seconds for hold in facts.slices), Decimal(0))
    idle = sum((hold.idle_seconds for hold in facts.slices), Decimal(0))
    word = "slice" if slices_ == 1 else "slices"
    paid = words.amount_money(total, facts.currency)
    return f"MIG: {slices_} {word} held for {paid}, idle {words.percent(words.ratio(idle, device))} of the time"


class _Line:
    """Holds of one owner and slice size, added up."""

    def __init__(self, key: tuple[str | None, str, str], holds: Sequence[SliceHold]) -> None:
        self.key, self.holds = key, holds
        self.amount = sum((hold.amount for hold in holds), start=Amount())
        self.device_seconds = sum((hold.device_seconds for hold in holds), Decimal(0))
        self.idle_seconds = sum((hold.idle_seconds for hold in holds), Decimal(0))

    def busy(self) -> float | None:
        """Mean over the time that was measured, None where none was."""
        known = [(hold.busy_ratio, float(hold.device_seconds)) for hold in self.holds if hold.busy_ratio is not None]
        weight = sum(seconds for _, seconds in known)
        return sum(busy * seconds for busy, seconds in known) / weight if weight else None

    def row(self, facts: Facts, cost: str) -> Html:
        """The line as a row of the table."""
        who, model, profile = self.key
        label = _label("team" if facts.team is None else "user", Payer(who, self.amount))
        shares = {hold.share for hold in self.holds}
        # Beside a remainder the same profile counts another share of its GPU.
        share = f", {shares.pop()} of it" if len(shares) == 1 else ""
        size = f"{profile} on {name(model.removeprefix('NVIDIA '), 'a GPU')}{share}"
        return tag(
            "tr",
            tag("td", label, cls="who"),
            tag("td", size),
            tag("td", str(len({(hold.cluster, hold.slice) for hold in self.holds})), cls="n wide"),
            tag("td", cost, cls="n"),
            tag("td", words.count(self.amount.gpu_hours), cls="n wide"),
            tag("td", words.percent(words.ratio(self.idle_seconds, self.device_seconds)), cls="n"),
            tag("td", words.percent(self.busy()), cls="n wide"),
        )
