"""Jobs by what was avoidable of them, and what to change: for the pages of a team and of a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import columns, formats, ledger_math, parts
from gpuwatch.dashboards.shell.query import Query, job_link
from gpuwatch.dashboards.shell.theme import BUCKET, MEASURES

ASKED = 100
"""Jobs requested, those of which the most was avoidable."""
SHOWN = 15
MEASURED_MIN = Decimal("0.5")
WORTH = Decimal("0.05")
"""A job is asked to change something if at least this part of its time was avoidable."""
ADVICE = {
    "hoarded": "end it when done; release GPUs that wait.",
    "gap": "load data in parallel, checkpoint in the background.",
    "communication": "overlap it with work, or use fewer nodes.",
    "stalled": "use larger batches or a MIG slice.",
}
"""What to change about a job, by its largest avoidable bucket: with the word of the bucket, two lines of the column."""
EFFECTIVE = "Share of the measured time close to peak compute or memory bandwidth"
HELD = tuple(name for name in MEASURES["avoidable"] if BUCKET[name].allocated)


@dataclass(frozen=True)
class Work:
    """A job with what was avoidable of it."""

    job: Row
    lost: Decimal | None
    """Its share (0..1) of the GPU time held; None if less than half of it was measured."""
    worst: str | None
    """The bucket with the largest avoidable part."""

    @property
    def cost(self) -> Decimal | None:
        """What was avoidable, at the mean price of the job."""
        cost = formats.number(self.job.get("cost"))
        return None if cost is None or self.lost is None else cost * self.lost

    @property
    def seconds(self) -> Decimal | None:
        """Avoidable GPU-seconds."""
        whole = formats.number(self.job.get("gpu_seconds"))
        return None if whole is None or self.lost is None else whole * self.lost


def of(job: Row) -> Work:
    """What was avoidable of a job, from its buckets."""
    found = job.get("buckets")
    sizes = (
        {name: formats.number(size) or Decimal(0) for name, size in found.items()} if isinstance(found, dict) else {}
    )
    whole, unseen = sum(sizes.values(), Decimal(0)), sizes.get("unobserved", Decimal(0))
    if not whole or whole - unseen < whole * MEASURED_MIN:
        return Work(job, None, None)
    lost = {name: sizes[name] for name in HELD if sizes.get(name)}
    worst = max(lost, key=lambda name: lost[name], default=None)
    return Work(job, sum(lost.values(), Decimal(0)) / whole, worst)


def ranked(jobs: Sequence[Row]) -> list[Work]:
    """Jobs by avoidable cost, or GPU time without prices; unknown ones last."""
    return sorted(
        (of(job) for job in jobs),
        key=lambda one: (-(one.cost or Decimal(0)), -(one.seconds or Decimal(0)), one.lost is None),
    )


def card(answer: Row | None, query: Query, whose: str, users: bool) -> Component:
    """A table of the jobs with the most avoidable cost, each with what to change. `users`: with users, and without the effective share."""
    more = parts.link("All jobs", query.link("/jobs", **listed(query)), "more")
    if answer is None:
        return parts.card("Jobs", html.P("Jobs could not be loaded. Retrying.", className="soft"), note=more)
    items: list[Row] = answer.get("items") or []
    if not items:
        return parts.card(f"{whose} ran no jobs {query.window_words}", note=more)
    works = ranked(items)
    shown = works[:SHOWN]
    currency = next((str(item["currency"]) for item in items if item.get("currency")), "")
    unit = f" ({formats.sign_of(currency)})" if currency else ""
    places = formats.money_places(work.job.get("cost") for work in shown)
    heads = [
        parts.Column("Job", "wide"),
        *([parts.Column("User", "narrow-hide")] if users else []),
        parts.Column("GPU-h", "r narrow-hide"),
        parts.Column(f"Cost{unit}", "r narrow-hide"),
        parts.Column(f"Avoidable{unit}" if currency else "Avoidable (GPU-h)", "r"),
        parts.Column("% of time", "r", hint="Avoidable part of the GPU time held"),
        *([] if users else [parts.Column("Effective %", "r narrow-hide", hint=EFFECTIVE)]),
    ]
    rows = [line(work, currency, places, query, users) for work in shown]
    of_many = f"{len(items)}{'+' if answer.get('next') else ''} jobs"
    note = html.Span([f"{of_many}, those with the most avoidable {'cost' if currency else 'time'} first. ", more])
    return parts.card(
        "Jobs", parts.table(heads, rows, label="Jobs by what was avoidable"), note=note, name="tight work"
    )


def listed(query: Query) -> dict[str, str | None]:
    """The parameters of the list of these jobs."""
    return {"user": query.get("user") or None, "sort": "avoidable"}


def line(work: Work, currency: str, places: int, query: Query, users: bool) -> list[Any]:
    """The cells of a job."""
    job = work.job
    ident = str(job.get("id"))
    name = str(job.get("name") or ident)
    title = parts.link(
        formats.clip(name, 44), job_link(query, job.get("cluster"), ident), "title two-lines", f"{name} ({ident})"
    )
    person = str(job.get("user") or "")
    mine = [
        parts.link(formats.clip(person, 28), query.link("/me", user=person, team=None)) if person else formats.MISSING
    ]
    return [
        html.Div([html.Div([title, id_of(ident, name), marked(work)], className="jobname"), change(work)]),
        *(mine if users else []),
        parts.hours(job.get("gpu_seconds")),
        columns.amount(job.get("cost"), places, currency),
        avoidable(work, currency, places),
        columns.share(work.lost),
        *([] if users else [columns.share(ledger_math.effective(job))]),
    ]


def avoidable(work: Work, currency: str, places: int) -> Component:
    """What was avoidable of a job: money, or GPU-hours without a currency."""
    if work.lost is None:
        return html.Span("not measured", className="soft small nowrap", title="Less than half of its time was measured")
    return parts.hours(work.seconds) if not currency else columns.amount(work.cost, places, currency, lost=True)


def id_of(ident: str, name: str) -> Component | None:
    """The id of a job beside its name: several jobs have one name."""
    return None if name in ident else html.Span(formats.clip(ident, 24), className="soft small mono", title=ident)


def change(work: Work) -> Component | None:
    """What to change about a job: how to avoid its largest avoidable bucket."""
    if work.worst is None or work.lost is None or work.lost < WORTH:
        return None
    word = BUCKET[work.worst].word.partition(" (")[0]
    return html.Div(
        [html.Span(word, className="strong"), f": {ADVICE[work.worst]}"],
        className="two-lines small soft",
        title=f"{BUCKET[work.worst].word}: {ADVICE[work.worst]}",
    )


def marked(work: Work) -> Component | None:
    """How many findings a job has."""
    found = len(work.job.get("findings") or [])
    return parts.tag(f"{found} finding{'s' if found > 1 else ''}", "warn") if found else None
