"""Decisions: own or rent, spot capacity, slices instead of whole GPUs, and merged pools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import formats, ledger_math, owning, parts, proposals
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

MAX_POOLS = 50
MAX_CHIPS = 100


@dataclass(frozen=True)
class Question:
    """A question: API route, tab label, title, and assumptions as (parameter, label, example)."""

    route: str
    word: str
    title: str
    assumes: tuple[tuple[str, str, str], ...]
    fleet: bool = False
    """About the whole fleet, so not available to team tokens."""


QUESTIONS = {
    "own": Question(
        "own-vs-cloud",
        "Own or rent",
        "Is owning the GPUs cheaper?",
        (("cloud_price", "Cloud price of a GPU-hour", "3.50"),),
        fleet=True,
    ),
    "spot": Question(
        "spot",
        "Spot",
        "Which jobs suit spot capacity?",
        (
            ("spot_discount", "Spot discount (0 to 1)", "0.6"),
            ("interruptions_an_hour", "Interruptions per hour", "0.05"),
        ),
    ),
    "slices": Question(
        "right-sizing", "Slices", "Which jobs would fit in a slice?", (("headroom", "Headroom (0.1 = 10 %)", "0.10"),)
    ),
    "pools": Question(
        "consolidation",
        "Merge pools",
        "What would merged pools need?",
        (("headroom", "Headroom (0.1 = 10 %)", "0.10"),),
        fleet=True,
    ),
}
DEFAULT = "own"


@dataclass(frozen=True)
class Data:
    """The result or the error, and the fleet for the choice of pools."""

    answer: Row | None
    failure: ApiFailure | None
    fleet: Row | None


def question_of(query: Query) -> str:
    """The question in the URL."""
    wanted = query.get("of", DEFAULT)
    return wanted if wanted in QUESTIONS else DEFAULT


async def load(api: Api, query: Query) -> Data:
    """The result for the question in the URL. An error is shown below the choice of questions."""
    name = question_of(query)
    question = QUESTIONS[name]
    given = {parameter: query.get(parameter) for parameter, _, _ in question.assumes}
    if name != "pools":
        scope = {} if question.fleet else {"team": query.get("team")}
        answer, failure = await _tried(api.decision(question.route, query.window, **given, **scope))
        return Data(answer, failure, None)
    fleet = await ledger_math.optional(api.fleet())
    cluster, pools = chosen(fleet, query)
    if not cluster or not pools:
        return Data(None, None, fleet)
    answer, failure = await _tried(
        api.decision(question.route, query.window, cluster=cluster, pool=",".join(pools), **given)
    )
    return Data(answer, failure, fleet)


async def _tried(call: Awaitable[Row]) -> tuple[Row | None, ApiFailure | None]:
    try:
        return await asyncio.ensure_future(call), None
    except ApiFailure as error:
        if error.status == 401:
            raise
        return None, error


def pools_of(fleet: Row | None) -> dict[str, list[str]]:
    """Pools of each cluster, in order."""
    found: dict[str, set[str]] = {}
    for item in (fleet or {}).get("items") or []:
        if item.get("cluster") and item.get("pool"):
            found.setdefault(str(item["cluster"]), set()).add(str(item["pool"]))
    return {cluster: sorted(pools) for cluster, pools in sorted(found.items())}


def chosen(fleet: Row | None, query: Query) -> tuple[str, list[str]]:
    """The cluster and pools to merge: those in the URL, or else all pools of the cluster with the most."""
    known = pools_of(fleet)
    cluster = query.get("cluster") or max(known, key=lambda name: (len(known[name]), name), default="")
    wanted = [pool for pool in query.get("pools").split(",") if pool]
    return cluster, (wanted or known.get(cluster, []))[:MAX_POOLS]


@page(
    "/decisions", "Decisions", load, icon="decisions", order=10, filters=("window", "cluster", "team"), under="/teams"
)
def layout(data: Data, query: Query, scheme: str) -> Component:
    """The questions, the assumptions and the result."""
    name = question_of(query)
    question = QUESTIONS[name]
    cleared = dict.fromkeys((*(one for known in QUESTIONS.values() for one, _, _ in known.assumes), "pools"))
    choices = [
        (known.word, query.link(**{**cleared, "of": None if key == DEFAULT else key}), key == name)
        for key, known in QUESTIONS.items()
    ]
    return html.Div(
        [
            parts.heading(
                question.title, "An estimate from measured use and the assumptions below; it does not affect charges"
            ),
            parts.picks(choices, "Question"),
            assumptions(question, data.answer, query),
            pool_choice(data.fleet, query) if name == "pools" else None,
            body(name, data, query),
            proposals.assumed(data.answer) if data.answer is not None else None,
        ]
    )


def body(name: str, data: Data, query: Query) -> Component:
    """The result, or a notice in its place."""
    if data.failure is not None:
        return refused(data.failure, query)
    if data.answer is None:
        return states.empty(
            "Choose pools to merge",
            "This cluster has no known pools: no source reports the partition or node pool of its nodes.",
        )
    shown = {
        "own": owning.owning,
        "spot": proposals.spot,
        "slices": proposals.slices,
        "pools": proposals.pools,
    }[name]
    return shown(data.answer, query)


def refused(error: ApiFailure, query: Query) -> Component:
    """An error from the API: with a reset link if an assumption is invalid."""
    if error.status == 400:
        way = parts.link("Reset assumptions", query.link("/decisions", of=query.get("of")), "button")
        return states.notice("failing", "Invalid assumption", error.message, way)
    return states.failed(error, query, whole=False)


def assumptions(question: Question, answer: Row | None, query: Query) -> Component:
    """The assumptions as input fields; their values live in the URL."""
    used = (answer or {}).get("assumptions") or {}
    fields = [
        dmc.TextInput(
            id={"filter": parameter},
            label=label,
            value=query.get(parameter),
            placeholder=str(used.get(parameter) or f"e.g. {example}"),
            debounce=True,
            size="xs",
            className="assumed",
            inputProps={"inputMode": "decimal"},
        )
        for parameter, label, example in question.assumes
    ]
    reset = None
    if any(query.get(parameter) for parameter, _, _ in question.assumes):
        away = {parameter: None for parameter, _, _ in question.assumes}
        reset = parts.link("Reset", query.link(**away), "button small")
    return html.Div([*fields, reset], className="assumptions", role="group", **parts.aria("Assumptions"))


def pool_choice(fleet: Row | None, query: Query) -> Component | None:
    """The pools of the cluster as links that add or remove each."""
    known = pools_of(fleet)
    cluster, picked = chosen(fleet, query)
    clusters = [
        parts.link(
            formats.clip(name, 40),
            query.link(cluster=name, pools=None),
            "chip current" if name == cluster else "chip",
        )
        for name in list(known)[:MAX_CHIPS]
    ]
    chips = [
        parts.link(
            formats.clip(pool, 40),
            query.link(cluster=cluster, pools=",".join(toggled(picked, pool)) or None),
            "chip current" if pool in picked else "chip",
        )
        for pool in known.get(cluster, [])[:MAX_CHIPS]
    ]
    return html.Div(
        [
            html.Div([html.Span("Cluster", className="soft small"), *clusters], className="chips")
            if len(known) > 1
            else None,
            html.Div([html.Span("Merge", className="soft small"), *chips], className="chips") if chips else None,
        ]
    )


def toggled(picked: Sequence[str], pool: str) -> list[str]:
    """The pools with one added or removed."""
    return sorted(set(picked) ^ {pool})
