"""Checkpoints: whether storage keeps up with saving a model, how often to save, and what the fleet's stalls cost."""

from __future__ import annotations

from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.pages.decisions import Question, assumptions, refused
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query, job_link

ASKED = Question(
    "checkpoint",
    "Checkpoints",
    "Does storage keep up with checkpoints?",
    (
        ("params", "Parameters of the model", "70e9"),
        ("gpus", "GPUs of the job", "512"),
        ("write_gbps", "Write bandwidth (GB/s)", "50"),
        ("precision", "Precision (bf16, fp16, fp8, fp32)", "bf16"),
        ("optimizer", "Optimizer", "adamw"),
        ("stall_share", "Most time in checkpoints (0 to 1)", "0.05"),
        ("interval_minutes", "Interval (minutes)", "30"),
        ("background_seconds", "Wait per checkpoint, background write (s)", "5"),
        ("gpu_price", "Price of a GPU-hour", "2.50"),
    ),
    fleet=True,
)
EXAMPLE = {"params": "70e9", "gpus": "512"}
"""Shown until a model is entered: what the fleet costs today needs no model."""
HEADLINES = ("checkpoint_bytes", "needed_write_gbps", "interval_daly_seconds", "lost_ratio", "fleet_stalls_a_month")
BASIS = {"given": "Given", "formula": "Formula", "measured": "Measured", "guess": "Guess", "unknown": "Unknown"}
MAX_STALLS = 20


@dataclass(frozen=True)
class Data:
    """The result or the error."""

    answer: Row | None
    failure: ApiFailure | None


async def load(api: Api, query: Query) -> Data:
    """The result for the values in the URL. An error is shown below the fields."""
    given = {name: query.get(name) or EXAMPLE.get(name, "") for name, _, _ in ASKED.assumes}
    try:
        return Data(await api.decision("checkpoint", query.window, cluster=query.get("cluster"), **given), None)
    except ApiFailure as error:
        if error.status == 401:
            raise
        return Data(None, error)


@page("/checkpoint", "Checkpoints", load, icon="checkpoint", order=11, filters=("window", "cluster"), under="/teams")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """The fields, the headline numbers, every number with its source, and the jobs that stall."""
    note = "An estimate from the values below and from what this fleet measured; it does not affect charges"
    if data.answer is None:
        body = refused(data.failure, query) if data.failure is not None else None
        return html.Div([parts.heading(ASKED.title, note), assumptions(ASKED, None, query), body])
    facts: dict[str, Row] = {item["name"]: item for item in data.answer.get("items") or []}
    example = (
        None
        if query.get("params")
        else html.P("An example: a model of 70 billion parameters on 512 GPUs. Enter your own above.", className="soft")
    )
    return html.Div(
        [
            parts.heading(ASKED.title, note),
            assumptions(ASKED, data.answer, query),
            example,
            parts.headlines([headline(facts[name]) for name in HEADLINES if name in facts]),
            html.Div([numbers(facts), stalls(data.answer, query), sizes(data.answer)], className="stack"),
        ]
    )


def headline(fact: Row) -> parts.Headline:
    """One number with its basis."""
    short = value(fact).partition(" (")[0]
    return parts.Headline(fact["title"], parts.num(short), note=BASIS.get(fact["basis"], ""))


def value(fact: Row) -> str:
    """The text of a number; unknown is marked as missing."""
    return formats.MISSING if fact.get("value") is None and fact["basis"] == "unknown" else str(fact["text"])


def numbers(facts: dict[str, Row]) -> Component:
    """Every number, and where it comes from."""
    columns = [
        parts.Column("", "wide"),
        parts.Column("Value", "r"),
        parts.Column("From", "narrow-hide"),
        parts.Column("How", "narrow-hide"),
    ]
    rows = [
        [named(fact), parts.num(value(fact)), basis(fact), formats.clip(fact["source"], 300)] for fact in facts.values()
    ]
    return parts.card("Every number and its source", parts.table(columns, rows, label="Numbers"))


def named(fact: Row) -> Component:
    """The name of a number; on a phone its source is below."""
    below = f"{BASIS.get(fact['basis'], '')}: {formats.clip(fact['source'], 300)}"
    return html.Div([fact["title"], html.Div(below, className="soft small narrow-only")])


def basis(fact: Row) -> Component:
    """A tag for where a number comes from; guesses and unknowns stand out."""
    kind = {"guess": "warn", "unknown": "warn", "measured": "ok"}.get(fact["basis"], "plain")
    return parts.tag(BASIS.get(fact["basis"], str(fact["basis"])), kind)


def stalls(answer: Row, query: Query) -> Component:
    """The jobs of this fleet that wait for checkpoints."""
    items: list[Row] = answer.get("stalls") or []
    if not items:
        return parts.card(
            "No checkpoint stall was found in this window",
            html.P("Jobs that pause regularly are reported by the detector checkpoint-stall.", className="soft"),
        )
    columns = [
        parts.Column("Job", "wide"),
        parts.Column("Every", "r"),
        parts.Column("Of its time", "r"),
        parts.Column("GPUs", "r narrow-hide"),
        parts.Column("GPU-h lost", "r narrow-hide"),
        parts.Column("Cost", "r"),
    ]
    rows = [
        [
            parts.link(formats.clip(item["job"], 44), job_link(query, item["cluster"], item["job"]), "title"),
            parts.num(formats.duration(None if item["period_minutes"] is None else item["period_minutes"] * 60)),
            parts.percent(item["stall_ratio"]),
            parts.num(formats.MISSING if item["gpus"] is None else f"{item['gpus']:g}"),
            parts.hours(item["gpu_seconds"]),
            parts.lost(item["cost"], item["currency"]),
        ]
        for item in items[:MAX_STALLS]
    ]
    title = f"{len(items)} job{' of this fleet waits' if len(items) == 1 else 's of this fleet wait'} for checkpoints"
    return parts.card(title, parts.table(columns, rows, label="Stalls"))


def sizes(answer: Row) -> Component:
    """The size of a checkpoint by precision and optimizer."""
    items: list[Row] = answer.get("sizes") or []
    optimizers = list(dict.fromkeys(item["optimizer"] for item in items))
    by_pair = {(item["precision"], item["optimizer"]): item for item in items}
    columns = [parts.Column("Precision"), *(parts.Column(name, "r") for name in optimizers)]
    rows = [
        [
            precision,
            *(parts.num(f"{by_pair[precision, name]['bytes'] / 1e9:,.0f} GB") for name in optimizers),
        ]
        for precision in dict.fromkeys(item["precision"] for item in items)
    ]
    table = parts.table(columns, rows, label="Sizes")
    return parts.card("Checkpoint size by precision and optimizer", table)
