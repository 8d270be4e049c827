"""The tables of a report: MIG slices, who pays, jobs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from gpuwatch.advisor.stranded import STRANDED
from gpuwatch.ledger.measures import WORDS
from gpuwatch.report import text as report_text
from gpuwatch.report.document import SIZE, Bar, Block, Cell, Column, Heading, Row, Section, Table, Text, row
from gpuwatch.report.facts import UNOWNED, Amount, Facts, Payer, SliceHold, added
from gpuwatch.report.headlines import avoidable_part, bucket_money, compared_cost, working_ratio
from gpuwatch.report.html.markup import name, owner_name

PAYERS_SHOWN = 60
JOBS_SHOWN = 20
SLICES_SHOWN = 10
LABEL_SHOWN = 48
"""Characters of a name in a table: two lines."""
NOBODY = "\u2013"
"""The working part of GPUs that nobody held."""
OTHERS = "more in the data files"


def payers(facts: Facts) -> Section:
    """Teams of a fleet, or users and jobs of a team; the rows add up to what is paid."""
    word = "team" if facts.team is None else "user"
    people = _people(facts)
    corrections = [p for p in facts.payers if p.kind == "correction"]
    rest = [p for p in facts.payers if p.kind == "platform"]
    if corrections:
        amount = added(p.amount for p in corrections)
        rest = [Payer("Corrections of closed periods", amount, kind="correction"), *rest]
    listed = [*_bounded(people, PAYERS_SHOWN), *rest]
    blocks: list[Block] = [_table(facts, word, listed, total=True)]
    free = any(p.kind == "platform" and p.of(STRANDED).gpu_seconds for p in listed)
    of_free = " Of unallocated GPUs, the part that usual requests could not use is avoidable." if free else ""
    blocks.append(Text(f"{_bases(facts)}{of_free}", "soft"))
    if facts.team is not None and facts.jobs:
        shown = _bounded(list(facts.jobs), JOBS_SHOWN)
        count = len(facts.jobs)
        blocks.append(Heading(f"{count:,} {'job' if count == 1 else 'jobs'}, most expensive first"))
        blocks.append(_table(facts, "job", shown, total=False))
    return Section(_title(facts, people, listed), tuple(blocks))


def _bases(facts: Facts) -> str:
    """What the shares are parts of."""
    if facts.currency is None:
        return "Working and avoidable are parts of the GPU time of the row."
    return "Working is a part of the GPU time of the row, avoidable of its cost."


def _people(facts: Facts) -> list[Payer]:
    """What each team or user pays in total: for what they held, and what a policy passes on. Most expensive first."""
    found: dict[tuple[str | None, bool], Payer] = {}
    for payer in facts.payers:
        if payer.kind not in ("allocated", "shared"):
            continue
        ownerless = payer.kind == "shared" and payer.name is None
        key, known = (payer.name, ownerless), found.get((payer.name, ownerless))
        if known is None:
            found[key] = replace(payer, kind="shared" if ownerless else "allocated")
        else:
            before = None if known.before is None or payer.before is None else known.before + payer.before
            buckets = known.buckets or payer.buckets
            found[key] = replace(known, amount=known.amount + payer.amount, before=before, buckets=buckets)
    return sorted(found.values(), key=lambda p: (p.name == UNOWNED, p.kind == "shared", -money_of(p.amount)))


def money_of(amount: Amount) -> Decimal:
    """The sum over currencies, to sort by."""
    return sum((cost for _, cost in amount.costs), Decimal(0))


def _title(facts: Facts, payers: Sequence[Payer], listed: Sequence[Payer]) -> str:
    people = [p for p in payers if p.name is not None and p.name != UNOWNED]
    if not people:
        unassigned = any(p.name == UNOWNED and p.amount.gpu_seconds for p in payers)
        if unassigned:
            return "Who pays: the held GPU time has no team"
        held = any(p.kind == "allocated" and p.amount.gpu_seconds for p in payers)
        word = "team" if facts.team is None else "user"
        return f"Who pays: the {word} of the held GPU time is not known" if held else "Who pays: no GPU was held"
    first = people[0]
    who = f"{'team' if facts.team is None else 'user'} {name(first.name)}"
    cost, whole = first.amount.cost_in(facts.currency), facts.total.cost_in(facts.currency)
    if cost is None or not whole:
        return f"Who pays: {who} held the most"
    shown_cost = report_text.money(cost, facts.currency)
    if first in listed:
        # The figure of its row, rounded so that all rows add up.
        costs = [payer.amount.cost_in(facts.currency) for payer in listed]
        places = report_text.places_of(costs)
        shown = report_text.figures(costs, places)[listed.index(first)]
        shown_cost = shown_cost if shown is None else report_text.figure(shown, places, facts.currency)
    most = f"{who} pays the most, {shown_cost} ({report_text.percent(Fraction(cost / whole))})"
    free = sum((p.amount.cost_in(facts.currency) or 0 for p in listed if p.kind == "platform"), Decimal(0))
    if facts.team is None and free > cost:
        return f"Who pays: GPUs that nobody held cost {report_text.money(free, facts.currency)}; of the teams, {most}"
    return f"Who pays: {most}"


def _table(facts: Facts, word: str, rows: Sequence[Payer], total: bool) -> Table:
    clusters = word == "job" and len({row.cluster for row in rows if row.kind == "allocated"}) > 1
    columns = [Column(word.capitalize(), part=2.4)]
    columns += [Column("Cluster", wide=True)] if clusters else []
    columns += [Column("User", wide=True)] if word == "job" else []
    columns += [Column("", chart=True, part=1.6), Column("Cost", number=True), Column("GPU-hours", number=True)]
    columns += [Column(WORDS[name], number=True, wide=True) for name in ("working", "avoidable")]
    columns += [Column("Change", number=True)] if word != "job" and facts.compared is not None else []
    costs = [row.amount.cost_in(facts.currency) for row in rows]
    shown_costs = report_text.cells([row.amount for row in rows], facts.currency)
    largest = max((abs(c) for c, r in zip(costs, rows, strict=True) if c is not None and _bars(r)), default=Decimal(0))
    all_hours, *hours = report_text.hour_column([row.amount.gpu_hours for row in rows])
    body = [
        _row(facts, word, row, cost, held, largest, clusters)
        for row, cost, held in zip(rows, shown_costs, hours, strict=True)
    ]
    if total:
        # Rows are rounded so that they add up to the total.
        shown = report_text.cells([facts.total], facts.currency, report_text.places_of(costs))[0]
        whole = Payer("Total", facts.total, facts.total_before, kind="total")
        body.append(_row(facts, word, whole, shown, all_hours, Decimal(0), clusters))
    return Table(tuple(columns), tuple(body), "pay")


def _bars(row: Payer) -> bool:
    """Whether a row has a bar."""
    return row.kind == "allocated"


def _row(facts: Facts, word: str, payer: Payer, cost: str, hours: str, largest: Decimal, clusters: bool) -> Row:
    exact = payer.amount.cost_in(facts.currency)
    drawn = _bars(payer) and largest and exact is not None
    bar = Bar(SIZE, Fraction(0), Fraction(exact / largest)) if drawn and exact is not None else None
    called = facts.job_names.get((payer.cluster, payer.name)) if word == "job" else None
    cells: list[Cell | str] = [_label(word, payer) if called is None else _own(word, f"{called} ({payer.name})")]
    cells += [name(payer.cluster, "")] if clusters else []
    cells += [name(payer.user) if payer.kind == "allocated" else ""] if word == "job" else []
    cells += [Cell(bar=bar), cost, hours, *_shares(facts, payer)]
    if word != "job" and facts.compared is not None:
        cells.append(compared_cost(facts, payer.amount, payer.before))
    return row(cells, {"total": "sum", "other": "other"}.get(payer.kind, ""))


def _shares(facts: Facts, payer: Payer) -> tuple[str, str]:
    """The working and the avoidable part of the GPU time of a row; of free GPUs, what requests could not use is avoidable."""
    if payer.kind == "total":
        works, part = working_ratio(facts), avoidable_part(facts)
        return ("", "") if works is None or part is None else (report_text.percent(works), report_text.percent(part[0]))
    if payer.kind == "platform" and facts.team is None and payer.amount.gpu_seconds:
        stranded = report_text.ratio(payer.of(STRANDED).gpu_seconds, payer.amount.gpu_seconds)
        return NOBODY, report_text.percent(_of_cost(facts, payer) or stranded)
    if payer.kind != "allocated" or not payer.amount.gpu_seconds:
        return "", ""
    shares = payer.shares()
    if shares is None:
        return WORDS["not_measured"], ""
    return report_text.percent(shares[0]), report_text.percent(_of_cost(facts, payer) or shares[1])


def _of_cost(facts: Facts, payer: Payer) -> Fraction | None:
    """The avoidable part of the cost of what a row held, as the pages show it; None without prices, and for a job."""
    lost = None if payer.avoidable is None else payer.avoidable.cost_in(facts.currency)
    whole = added(payer.buckets.values()).cost_in(facts.currency)
    return Fraction(lost / whole) if lost is not None and whole else None


def _label(word: str, row: Payer) -> str:
    if row.kind in ("other", "total", "correction"):
        return str(row.name)
    if row.kind == "shared":
        return "Passed on by a policy, no user"
    return _own(word, row.name) + (" (inferred)" if row.inferred else "")


def _own(word: str, who: str | None) -> str:
    label = owner_name(who) if word == "team" and who is not None else name(who, f"unknown {word}")
    return label if len(label) <= LABEL_SHOWN else f"{label[: LABEL_SHOWN - 1]}…"


def _bounded(rows: list[Payer], most: int) -> list[Payer]:
    """The first rows and one that sums the others, so that the table still adds up."""
    if len(rows) <= most:
        return rows
    shown, rest = rows[: most - 1], rows[most - 1 :]
    before: Amount | None = Amount()
    for payer in rest:
        before = None if before is None or payer.before is None else before + payer.before
    amount = added(payer.amount for payer in rest)
    return [*shown, Payer(f"{len(rest):,} {OTHERS}", amount, before, kind="other")]


def slices(facts: Facts) -> Section | None:
    """MIG slices by owner and size; None where there is no slice."""
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
    columns = (
        Column(word, part=1.5),
        Column("Slice", part=3.2),
        Column("Slices", number=True, wide=True, part=0.8),
        Column("Cost", number=True),
        Column("GPU-hours", number=True, wide=True),
        Column("Idle", number=True, part=0.8),
        Column("Busy", number=True, wide=True, part=0.8),
    )
    shown = lines[:SLICES_SHOWN]
    costs = report_text.cells([line.amount for line in shown], facts.currency)
    rows = tuple(line.row(facts, cost) for line, cost in zip(shown, costs, strict=True))
    more = len(lines) - len(shown)
    note = "A slice counts as its share of the GPU (in brackets where all slices of a row have the same). Several may hold a slice one after the other: it is in the row of each, so rows have more slices together than the title. Idle and busy refer to the slice itself."
    if remainder.gpu_seconds and facts.team is None:
        cost = bucket_money(facts, "mig_remainder")
        worth = f"cost {cost}" if remainder.costs else "have no price"
        note += f" Parts of GPUs that no slice covers {worth} ({report_text.hours(remainder.gpu_hours)})."
    blocks: list[Block] = [Text(note, "soft")]
    if rows:
        blocks.append(Table(columns, rows, "mig"))
    if more > 0:
        blocks.append(Text(f"{more} {OTHERS}.", "soft"))
    return Section(_slices_title(facts), tuple(blocks))


def _slices_title(facts: Facts) -> str:
    if not facts.slices:
        return "MIG slices: none held"
    total = added(hold.amount for hold in facts.slices)
    slices_ = len({(hold.cluster, hold.slice) for hold in facts.slices})
    word = "slice" if slices_ == 1 else "slices"
    paid = f"for {report_text.amount_money(total, facts.currency)}" if total.costs else "without a price"
    return f"MIG: {slices_} {word} held {paid}, idle {report_text.percent(_idle(facts.slices))} of the time"


def _idle(holds: Sequence[SliceHold]) -> Fraction | None:
    """The idle part of the measured slices' time, None without any."""
    known = [(hold.idle_seconds, hold.device_seconds) for hold in holds if hold.idle_seconds is not None]
    return report_text.ratio(sum((idle for idle, _ in known), Decimal(0)), sum((held for _, held in known), Decimal(0)))


class _Line:
    """Holds of one owner and slice size, added up."""

    def __init__(self, key: tuple[str | None, str, str], holds: Sequence[SliceHold]) -> None:
        self.key, self.holds = key, holds
        self.amount = added(hold.amount for hold in holds)

    def busy(self) -> float | None:
        """Mean over the measured time, None without any."""
        known = [(hold.busy_ratio, float(hold.device_seconds)) for hold in self.holds if hold.busy_ratio is not None]
        weight = sum(seconds for _, seconds in known)
        return sum(busy * seconds for busy, seconds in known) / weight if weight else None

    def row(self, facts: Facts, cost: str) -> Row:
        """The line as a row of the table."""
        who, model, profile = self.key
        shares = {hold.share for hold in self.holds}
        # On a GPU with a remainder the same profile has another share.
        share = f" ({shares.pop()})" if len(shares) == 1 else ""
        return row(
            [
                _label("team" if facts.team is None else "user", Payer(who, self.amount)),
                f"{profile} on {name(model.removeprefix('NVIDIA '), 'a GPU')}{share}",
                str(len({(hold.cluster, hold.slice) for hold in self.holds})),
                cost,
                report_text.count(self.amount.gpu_hours),
                report_text.percent(_idle(self.holds)),
                report_text.percent(self.busy()),
            ]
        )
