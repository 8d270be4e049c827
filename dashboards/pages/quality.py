"""Data quality: state of the sources, failed checks, and fixes to paste."""

from __future__ import annotations

from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

KINDS = {
    "ok": "ok",
    "late": "warn",
    "failing": "bad",
    "never": "bad",
    "warn": "warn",
    "fail": "bad",
    "not judged": "warn",
}
WORDS = {
    "ok": "OK",
    "late": "Late",
    "failing": "Failing",
    "never": "Never seen",
    "warn": "Check",
    "fail": "Fix",
    "not judged": "Not judged",
}
WORST = ("failing", "never", "late", "ok")
MAX_REJECTS = 5
SILENT_S = 900
"""Nothing new for longer than this is pointed out."""
OPEN_SOURCES = 8
"""Healthy sources that are not folded."""
CHECK_NAMES = {"books": "Ledger", "verdicts": "Rule coverage"}
"""Labels of checks whose id is not their label."""


async def load(api: Api, query: Query) -> Row:
    """Data sources and checks."""
    return await api.quality()


@page("/quality", "Data quality", load, icon="quality", order=6, filters=(), whole_fleet=True)
def layout(data: Row, query: Query, scheme: str) -> Component:
    """Totals, sources with problems first, and checks with their fixes."""
    items: list[Row] = sorted(data.get("items") or [], key=rank)
    checks: list[Row] = data.get("checks") or []
    failing = [row for row in items if row.get("state") != "ok"]
    wrong = [row for row in checks if row.get("status") != "ok"]
    return html.Div(
        [
            parts.heading("Can you trust these numbers?", f"{summary(failing, wrong, bool(items))}{received(items)}"),
            numbers(data, items, checks),
            html.Div(
                [
                    html.Div([*(check(rows) for rows in alike(wrong)), passed(checks)], className="column"),
                    html.Div(sources(items), className="column"),
                ],
                className="halves",
            ),
        ]
    )


def rank(row: Row) -> tuple[int, str]:
    """Worst state first, then by name."""
    state = str(row.get("state"))
    return (WORST.index(state) if state in WORST else 0, str(row.get("source")))


def summary(failing: list[Row], wrong: list[Row], some: bool) -> str:
    """The state of sources and checks in one sentence."""
    if not some and not wrong:
        return "No live sources are configured; the ledger is based on imported files."
    if not failing and not wrong:
        return "All sources are healthy and no check found a problem."
    problems = []
    if failing:
        problems.append(f"{len(failing)} source{'s are' if len(failing) > 1 else ' is'} late or failing")
    if wrong:
        problems.append(f"{len(wrong)} check{'s need' if len(wrong) > 1 else ' needs'} attention")
    return f"{', '.join(problems)}."


def received(items: list[Row]) -> str:
    """How long ago anything was received: a source may be healthy and all be silent."""
    lags = [lag for row in items if (lag := formats.number(row.get("lag_s"))) is not None]
    if not lags:
        return ""
    words = f" The last data came {formats.duration(min(lags))} ago."
    return f"{words} That is long: is the service that sends it running?" if min(lags) > SILENT_S else words


def numbers(data: Row, items: list[Row], checks: list[Row]) -> Component:
    """Shares without measurements and without team, healthy sources, readings accepted and rejected."""
    good = sum(1 for row in items if row.get("state") == "ok")
    rejected = sum(int(row.get("rejected") or 0) for row in items)
    samples = sum(int(row.get("samples") or 0) for row in items)
    return parts.headlines(
        [
            parts.Headline(
                "Not measured",
                parts.percent(data.get("unobserved_ratio")),
                note="of allocated time",
            ),
            parts.Headline(
                "No team assigned",
                parts.percent(data.get("unattributed_ratio")),
                note="of allocated time",
            ),
            parts.Headline(
                "Healthy sources",
                parts.num(f"{good} of {len(items)}" if items else formats.MISSING, "No live source"),
            ),
            parts.Headline(
                "Readings accepted",
                parts.num(formats.short(formats.number(samples) or Decimal(0)), samples),
            ),
            parts.Headline(
                "Readings rejected",
                parts.num(formats.short(formats.number(rejected) or Decimal(0)), rejected),
            ),
        ]
    )


def sources(items: list[Row]) -> Component:
    """One card per source with problems, and one table of the healthy ones."""
    if not items:
        return parts.card(
            "No live sources",
            states.advice(
                "Add a source to gpuwatch.toml and restart, or import files.",
                '[[dcgm]]\nurl = "http://NODE:9400/metrics"\ncluster = "c1"',
            ),
        )
    healthy = [
        row for row in items if row.get("state") == "ok" and not row.get("rejected") and not row.get("missing_fields")
    ]
    rest = [row for row in items if row not in healthy]
    cards: list[Component] = [source(row) for row in rest]
    if healthy:
        columns = [
            parts.Column("Source", "wide"),
            parts.Column("Cluster", "narrow-hide"),
            parts.Column("Last seen", "r"),
            parts.Column("Readings", "r"),
        ]
        rows = [
            [
                html.Span(short_name(row.get("source")), title=str(row.get("source"))),
                formats.clip(row.get("cluster"), 24),
                ago(row),
                parts.num(formats.short(formats.number(row.get("samples")) or Decimal(0)), row.get("samples")),
            ]
            for row in healthy
        ]
        cards.append(
            parts.card(
                f"{len(healthy)} healthy source{'s' if len(healthy) > 1 else ''}",
                parts.table(columns, rows[:OPEN_SOURCES], label="Sources"),
                html.Details(
                    [
                        html.Summary(f"{len(rows) - OPEN_SOURCES} more"),
                        parts.table(columns, rows[OPEN_SOURCES:], label="More sources"),
                    ]
                )
                if len(rows) > OPEN_SOURCES
                else None,
            )
        )
    return html.Div(cards, className="stack")


def short_name(source: object) -> str:
    """The name of a source without the protocol of its address."""
    return formats.clip(str(source).replace("http://", "", 1).replace("https://", "", 1), 60)


def ago(row: Row) -> Component:
    """Time since a source was last seen."""
    lag = row.get("lag_s")
    text = formats.MISSING if lag is None else f"{formats.duration(lag)} ago"
    return parts.num(text, formats.when(row["last_seen"]) if row.get("last_seen") else "Never seen")


def state_tag(state: object) -> Component:
    """The tag of a state."""
    text = str(state)
    return parts.tag(WORDS.get(text, text), KINDS.get(text, "plain"))


def source(row: Row) -> Component:
    """A source with problems: its error, rejected readings and missing fields."""
    rejects: list[Row] = (row.get("rejects") or [])[:MAX_REJECTS]
    missing = [str(name) for name in row.get("missing_fields") or []]
    refused = [
        html.Li(
            [
                f"{formats.clip(one.get('reason'), 160)}: {one.get('count')}",
                html.Div(formats.clip(example(one.get("example")), 200), className="mono soft"),
            ]
        )
        for one in rejects
    ]
    name = html.Span(formats.clip(row.get("source"), 70), title=str(row.get("source")))
    return parts.card(
        name,
        html.Div(
            [
                parts.tag("Fields missing", "warn")
                if row.get("state") == "ok" and missing
                else state_tag(row.get("state")),
                html.Span(formats.clip(row.get("cluster"), 30)),
                html.Span(["last seen ", ago(row)], className="soft"),
            ],
            className="facts",
        ),
        html.P(formats.clip(row.get("error"), 400), className="error") if row.get("error") else None,
        html.Ul(refused, className="rejects") if refused else None,
        html.P(f"Missing fields: {formats.clip(', '.join(missing), 300)}") if missing else None,
        states.fix(str(row["fix"]), "Fix: ") if row.get("fix") else None,
    )


def example(value: object) -> str:
    """An example of a rejected reading, of any JSON shape."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry}" for name, entry in value.items())
    return " ".join(str(entry) for entry in value) if isinstance(value, list) else str(value or "")


def passed(checks: list[Row]) -> Component | None:
    """The checks that passed."""
    good = [row for row in checks if row.get("status") == "ok"]
    if not good:
        return None
    rows = [[html.B(name_of(row)), formats.sentence(formats.clip(row.get("what"), 200))] for row in good]
    title = f"{len(good)} check{'s' if len(good) > 1 else ''} passed"
    return parts.card(title, parts.table([parts.Column("Check"), parts.Column("Result")], rows, label="Checks passed"))


def name_of(row: Row) -> str:
    """A check's name."""
    return CHECK_NAMES.get(str(row.get("id"))) or str(row.get("id")).replace("_", " ").capitalize()


def alike(checks: list[Row]) -> list[list[Row]]:
    """Checks of one state, one reason and one fix together, as those of a server without data are."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in checks:
        found.setdefault(tuple(str(row.get(name)) for name in ("status", "what", "fix")), []).append(row)
    return list(found.values())


def check(rows: list[Row]) -> Component:
    """Failed checks of one reason, with their fix."""
    row = rows[0]
    fix = str(row.get("fix") or "")
    body = states.fix(fix) if fix else None
    return html.Section(
        [
            html.Div(
                [state_tag(row.get("status")), html.B(", ".join(map(name_of, rows)))],
                className="facts",
            ),
            html.P(formats.sentence(formats.clip(row.get("what"), 600))),
            body,
        ],
        className="card",
    )
