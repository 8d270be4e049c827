"""Decisions page: results about spot, slices and pools, and the assumptions of every result."""

from __future__ import annotations

from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query, job_link

MAX_ITEMS = 40
JOBS_A_PAGE = 20


def assumed(answer: Row) -> Component | None:
    """The assumptions of the result."""
    notes = [formats.sentence(formats.clip(note, 300)) for note in answer.get("notes") or []][:MAX_ITEMS]
    if not notes or not answer.get("items"):
        return None
    return html.Section(
        [html.Header(html.H2("Assumptions")), html.Ul([html.Li(note) for note in notes])],
        className="card notes",
    )


def sums(answer: Row) -> str:
    """The total saving, by currency."""
    found = [formats.money(amount, currency) for currency, amount in (answer.get("saving") or {}).items()]
    return " and ".join(found) or formats.MISSING


def job_cell(item: Row, query: Query) -> Component:
    """A job, linked to its page."""
    ident = str(item.get("job"))
    name = str(item.get("name") or ident)
    team = html.Span(formats.clip(formats.owner(item.get("team")), 30), className="soft")
    return html.Div(
        [
            parts.link(formats.clip(name, 44), job_link(query, item.get("cluster"), ident), "title two-lines", name),
            team,
        ],
        className="jobname",
    )


def spot(answer: Row, query: Query) -> Component:
    """Jobs suited to spot capacity, then the others, with the reasons."""
    items: list[Row] = answer.get("items") or []
    if not items:
        return no_spot(answer.get("jobs_without_price") or 0)
    worth = [item for item in items if (formats.number(item.get("saving")) or 0) > 0]
    listed, pages = parts.numbered(
        [*worth, *sorted((item for item in items if item not in worth), key=cost_order)], JOBS_A_PAGE, query
    )
    columns = [
        parts.Column("Job", "wide"),
        parts.Column("Suited"),
        parts.Column("Would save", "r"),
        parts.Column("Cost", "r narrow-hide"),
        parts.Column("GPU-h", "r narrow-hide"),
        parts.Column("Longest run", "r narrow-hide"),
        parts.Column("Why", "narrow-hide"),
    ]
    rows = [spot_row(item, query) for item in listed]
    title = f"Spot capacity would have saved {sums(answer) if worth else 'nothing'} {query.window_words}"
    table = parts.table(columns, rows, label="Jobs")
    return parts.card(title, table, pages, rest(answer, items), note=spot_note(answer, items, bool(worth)))


def no_spot(unpriced: int) -> Component:
    """The reason why no job is listed: none ran, or none has a spot price."""
    if not unpriced:
        return states.empty("No job in this window", "No job ran in this window.")
    return states.empty(
        "No job could be assessed",
        f"{counted(unpriced, 'job')} without a spot price. Enter the spot discount, or add rates with pricing spot.",
    )


def spot_row(item: Row, query: Query) -> list[Component]:
    """A job with its cost and what spot capacity would have saved."""
    currency, suitable = str(item.get("currency") or ""), item.get("suitable")
    why = html.Span(formats.clip(item.get("why"), 120), className="two-lines", title=str(item.get("why") or ""))
    return [
        html.Div([job_cell(item, query), html.Div(why, className="soft small narrow-only")]),
        parts.tag("Yes", "ok") if suitable else parts.tag("No"),
        parts.money(item.get("saving"), currency) if suitable else html.Span(),
        parts.money(item.get("cost"), currency),
        parts.num(f"{formats.number(item.get('gpu_hours')) or 0:,.0f}", item.get("gpu_hours")),
        parts.num(f"{formats.number(item.get('longest_run_hours')) or 0:,.1f} h"),
        html.Span(why, className="soft"),
    ]


def spot_note(answer: Row, items: list[Row], saves: bool) -> str:
    """How many of the jobs are suited, and how many have no spot price."""
    jobs, unpriced = answer.get("jobs") or 0, answer.get("jobs_without_price")
    suited = sum(1 for item in items if item.get("suitable"))
    note = f"{'at least ' if jobs > len(items) else ''}{suited} of {counted(jobs, 'job')} suited"
    if suited and not saves:
        note += ", none of them billed on demand"
    if unpriced:
        note += f"; {unpriced} more without a spot price"
    return note


def cost_order(item: Row) -> Decimal:
    """Sort key: most expensive first, unknown last."""
    return -(formats.number(item.get("cost")) or Decimal(0))


def rest(answer: Row, items: list[Row]) -> Component | None:
    """A note that an answer does not list all of its jobs."""
    if (answer.get("jobs") or 0) <= len(items):
        return None
    words = f"The {counted(len(items), 'job')} that would save the most are listed. Choose a team or fewer days for the others."
    return html.P(words, className="soft")


def counted(number: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def slices(answer: Row, query: Query) -> Component:
    """Jobs that held a whole GPU but would fit in a slice."""
    items: list[Row] = answer.get("items") or []
    unassessed = answer.get("jobs_unjudged") or 0
    note = (
        f"{counted(unassessed, 'job')} had too few measurements to assess"
        if unassessed
        else "All single-GPU jobs were assessed"
    )
    if not items:
        return states.empty("No job would fit in a slice", f"This covers jobs that held one whole GPU. {note}.")
    columns = [
        parts.Column("Job", "wide"),
        parts.Column("Slice"),
        parts.Column("Would save", "r"),
        parts.Column("Cost", "r narrow-hide"),
        parts.Column("Peak memory", "r narrow-hide"),
        parts.Column("Peak SM activity", "r narrow-hide"),
        parts.Column("GPU", "narrow-hide"),
    ]
    shown, pages = parts.numbered(items, JOBS_A_PAGE, query)
    rows = [
        [
            job_cell(item, query),
            html.Span(f"{item.get('mig_profile')}", className="mono nowrap", title=f"{item.get('share')} of the GPU"),
            parts.money(item.get("saving"), str(item.get("currency") or "")),
            parts.money(item.get("cost"), str(item.get("currency") or "")),
            parts.num(
                f"{(formats.number(item.get('memory_mib')) or Decimal(0)) / 1024:,.1f} GiB",
                f"{item.get('memory_mib')} MiB",
            ),
            parts.percent(item.get("sm_active_ratio")),
            html.Span(formats.clip(str(item.get("gpu_model") or "").removeprefix("NVIDIA "), 30), className="soft"),
        ]
        for item in shown
    ]
    title = f"Slices instead of whole GPUs would save {sums(answer)} {query.window_words}"
    return parts.card(title, parts.table(columns, rows, label="Jobs"), pages, rest(answer, items), note=note)


def pools(answer: Row, query: Query) -> Component:
    """What the selected pools would need if merged, by GPU model."""
    items: list[Row] = answer.get("items") or []
    if not items:
        return states.empty("Nothing to merge", "These pools have no GPUs in this window.")
    return html.Div([merged(item) for item in items[:MAX_ITEMS]], className="stack")


def merged(item: Row) -> Component:
    """One GPU model: nodes that could be released, and the utilization before and after."""
    currency, freed = str(item.get("currency") or ""), item.get("freed_nodes") or 0
    model = formats.clip(str(item.get("gpu_model") or "GPUs").removeprefix("NVIDIA "), 40)
    if item.get("needed_gpus") is None:
        why = formats.sentence(str(item.get("missing") or ""))
        return parts.card(f"{model}: how many GPUs are enough is not known", html.P(why, className="soft"))
    saved = formats.money(item.get("saving_a_month"), currency)
    title = (
        f"{model}: {freed} node{'s' if freed != 1 else ''} could be released, saving {saved} per month"
        if freed
        else f"{model}: all nodes are needed at peak"
    )
    before, after = item.get("utilisation_before"), item.get("utilisation_after")
    rows = [
        ["Separate", bar(before), parts.percent(before), parts.num(str(item.get("gpus")))],
        [
            "Merged",
            bar(after),
            parts.percent(after),
            parts.num(str((item.get("gpus") or 0) - (item.get("freed_gpus") or 0))),
        ],
    ]
    columns = [
        parts.Column(""),
        parts.Column("Average allocation", "grow"),
        parts.Column("", "r"),
        parts.Column("GPUs", "r"),
    ]
    peak = formats.number(item.get("peak_gpus")) or Decimal(0)
    held = ", ".join(f"{formats.clip(pool, 30)} {count}" for pool, count in (item.get("pools") or {}).items())
    summary = f"At most {formats.short(peak)} GPUs were allocated at the same time; with headroom, {item.get('needed_gpus')} are needed"
    return parts.card(
        title,
        parts.table(columns, rows, label="Utilization before and after"),
        html.P(summary, className="soft"),
        *(html.P(formats.clip(level.get("why"), 200), className="soft small") for level in item.get("levels") or ()),
        note=held,
    )


def bar(value: object) -> Component:
    """A ratio as a bar."""
    return parts.bar(float(formats.number(value) or 0), "b-owner")
