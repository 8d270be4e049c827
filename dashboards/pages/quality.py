"""Data quality: which sources speak, what is missing, and the fix to paste."""

from __future__ import annotations

from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

KINDS = {"ok": "ok", "late": "warn", "failing": "bad", "never": "bad", "warn": "warn", "fail": "bad"}
WORDS = {
    "ok": "OK",
    "late": "Late",
    "failing": "Failing",
    "never": "Never seen",
    "warn": "Look at it",
    "fail": "Fix it",
}
WORST = ("failing", "never", "late", "ok")
MAX_REJECTS = 5


async def load(api: Api, query: Query) -> Row:
    """Sources and checks."""
    return await api.quality()


@page("/quality", "Data quality", load, icon="quality", order=6, filters=())
def layout(data: Row, query: Query, scheme: str) -> Component:
    """What is known of the data, sources that fail first, then checks with their fixes."""
    items: list[Row] = sorted(data.get("items") or [], key=rank)
    checks: list[Row] = data.get("checks") or []
    failing = [row for row in items if row.get("state") != "ok"]
    wrong = [row for row in checks if row.get("status") != "ok"]
    return html.Div(
        [
            parts.heading("Can these numbers be trusted?", verdict(failing, wrong, bool(items))),
            numbers(data, items, checks),
            html.Div(
                [
                    html.Div(sources(items), className="column"),
                    html.Div(
                        [*(check(row) for row in wrong), well(checks)],
                        className="column",
                    ),
                ],
                className="halves",
            ),
        ]
    )


def rank(row: Row) -> tuple[int, str]:
    """Worst state first, then by name."""
    state = str(row.get("state"))
    return (WORST.index(state) if state in WORST else 0, str(row.get("source")))


def verdict(failing: list[Row], wrong: list[Row], some: bool) -> str:
    """One sentence."""
    if not some and not wrong:
        return "No live source is configured; the books rest on what was imported."
    if not failing and not wrong:
        return "All sources speak and nothing is missing."
    said = []
    if failing:
        said.append(f"{len(failing)} source{'s are' if len(failing) > 1 else ' is'} late or failing")
    if wrong:
        said.append(f"{len(wrong)} check{'s ask' if len(wrong) > 1 else ' asks'} for a fix")
    return f"{', '.join(said)}."


def numbers(data: Row, items: list[Row], checks: list[Row]) -> Component:
    """Unmeasured and unowned shares, sources, rejects."""
    good = sum(1 for row in items if row.get("state") == "ok")
    rejected = sum(int(row.get("rejected") or 0) for row in items)
    samples = sum(int(row.get("samples") or 0) for row in items)
    return parts.headlines(
        [
            parts.Headline(
                "Held, not measured", parts.percent(data.get("unobserved_ratio")), note="never counted as idle"
            ),
            parts.Headline(
                "Held, team unknown", parts.percent(data.get("unattributed_ratio")), note="charged to nobody"
            ),
            parts.Headline(
                "Sources that speak",
                parts.num(f"{good} of {len(items)}" if items else components_text.MISSING, "No live source"),
            ),
            parts.Headline(
                "Readings taken",
                parts.num(components_text.short(components_text.number(samples) or Decimal(0)), samples),
            ),
            parts.Headline(
                "Readings refused",
                parts.num(components_text.short(components_text.number(rejected) or Decimal(0)), rejected),
            ),
        ]
    )


def sources(items: list[Row]) -> Component:
    """One card a source that has something to say, one table for those that are well."""
    if not items:
        return parts.card(
            "No live source",
            states.advice(
                "Name what to read in gpuwatch.toml and restart, or import files.",
                '[[dcgm]]\nurl = "http://NODE:9400/metrics"\ncluster = "c1"',
            ),
        )
    well = [
        row for row in items if row.get("state") == "ok" and not row.get("rejected") and not row.get("missing_fields")
    ]
    rest = [row for row in items if row not in well]
    cards: list[Component] = [source(row) for row in rest]
    if well:
        columns = [
            parts.Column("Source", "wide"),
            parts.Column("Cluster", "narrow-hide"),
            parts.Column("Last seen", "r"),
            parts.Column("Readings", "r"),
        ]
        rows = [
            [
                html.Span(components_text.clip(row.get("source"), 60), title=str(row.get("source"))),
                components_text.clip(row.get("cluster"), 24),
                ago(row),
                parts.num(
                    components_text.short(components_text.number(row.get("samples")) or Decimal(0)), row.get("samples")
                ),
            ]
            for row in well
        ]
        cards.append(
            parts.card(
                f"{len(well)} source{'s' if len(well) > 1 else ''} well", parts.table(columns, rows, label="Sources")
            )
        )
    return html.Div(cards, className="stack")


def ago(row: Row) -> Component:
    """How long ago a source was heard."""
    lag = row.get("lag_s")
    said = components_text.MISSING if lag is None else f"{components_text.duration(lag)} ago"
    return parts.num(said, row.get("last_seen") or "Never seen")


def state_tag(state: object) -> Component:
    """A state by its word."""
    text = str(state)
    return parts.tag(WORDS.get(text, text), KINDS.get(text, "plain"))


def source(row: Row) -> Component:
    """A source that fails, refuses or lacks something."""
    rejects: list[Row] = (row.get("rejects") or [])[:MAX_REJECTS]
    missing = [str(name) for name in row.get("missing_fields") or []]
    refused = [
        html.Li(
            [
                f"{components_text.clip(one.get('reason'), 160)}: {one.get('count')}",
                html.Div(components_text.clip(example(one.get("example")), 200), className="mono soft"),
            ]
        )
        for one in rejects
    ]
    name = html.Span(components_text.clip(row.get("source"), 70), title=str(row.get("source")))
    return parts.card(
        name,
        html.Div(
            [
                state_tag(row.get("state")),
                html.Span(components_text.clip(row.get("cluster"), 30)),
                html.Span(["last seen ", ago(row)], className="soft"),
            ],
            className="facts",
        ),
        html.P(components_text.clip(row.get("error"), 400), className="error") if row.get("error") else None,
        html.Ul(refused, className="rejects") if refused else None,
        html.P(f"Fields it lacks: {components_text.clip(', '.join(missing), 300)}") if missing else None,
        states.fix(str(row["fix"]), "Fix: ") if row.get("fix") else None,
    )


def example(value: object) -> str:
    """The first refused piece, whatever its shape."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry}" for name, entry in value.items())
    return " ".join(str(entry) for entry in value) if isinstance(value, list) else str(value or "")


def well(checks: list[Row]) -> Component | None:
    """The checks that ask for nothing."""
    good = [row for row in checks if row.get("status") == "ok"]
    if not good:
        return None
    rows = [[html.B(name_of(row)), components_text.clip(row.get("what"), 200)] for row in good]
    title = f"{len(good)} check{'s' if len(good) > 1 else ''} passed"
    return parts.card(title, parts.table([parts.Column("Check"), parts.Column("")], rows, label="Checks passed"))


def name_of(row: Row) -> str:
    """A check's name."""
    return str(row.get("id")).replace("_", " ").capitalize()


def check(row: Row) -> Component:
    """A check of the doctor: what it saw and the fix."""
    fix = str(row.get("fix") or "")
    body = states.fix(fix) if fix else None
    return html.Section(
        [
            html.Div(
                [state_tag(row.get("status")), html.B(name_of(row))],
                className="facts",
            ),
            html.P(components_text.clip(row.get("what"), 600)),
            body,
        ],
        className="card",
    )
