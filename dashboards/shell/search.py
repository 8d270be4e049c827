"""The search over names and pages, opened with Ctrl-K or /, and the list of keys. assets/keys.js opens and closes both."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import dcc, html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell.page import pages
from gpuwatch.dashboards.shell.query import Query, finding_link, job_link

PAGES_MAX = 6
WORDS_MAX = 100
ALSO = {
    "/teams": "export csv excel xlsx parquet focus download chargeback cost spend bill money",
    "/reports": "export pdf html excel zip download e-mail",
    "/rates": "price prices cost rate card dollars",
    "/findings": "export csv alerts problems waste",
    "/what-if": "simulator idle limit quota reclaim policy",
    "/capacity": "free stranded queue wait place defragmentation",
    "/fleet": "temperature power xid ecc driver heat map health",
    "/topology": "map leaf switch nvlink rack",
    "/channels": "slack e-mail webhook pagerduty notification alerts",
    "/owners": "ownership teams accounts namespaces assign",
    "/reconcile": "cloud bill invoice upload",
    "/commitments": "reserved reservation savings plan",
    "/budgets": "forecast burn-down overspend",
    "/periods": "close month invoice signed correction",
    "/audit": "history changes who",
    "/decisions": "own rent buy spot slices merge break-even",
    "/quality": "missing metrics sources",
}
"""Other words for what a page has, by its path."""
WORDS = {
    "page": "Page",
    "team": "Team",
    "user": "User",
    "job": "Job",
    "node": "Node",
    "gpu": "GPU",
    "finding": "Finding",
}
KEYS = (
    ("Ctrl K or /", "search"),
    ("j and k", "next and previous row"),
    ("Enter", "open the row"),
    ("?", "show these keys"),
    ("Esc", "close"),
)


def panels() -> list[Component]:
    """Both panels, closed."""
    find = html.Div(
        [
            html.Label("Search everything", htmlFor="seek", className="unseen"),
            dmc.TextInput(
                id="seek",
                debounce=True,  # keys.js passes the words on: the field is never set while somebody types
                placeholder="Team, user, job, node, GPU, finding or page",
                inputProps={"type": "search", "autoComplete": "off", "maxLength": WORDS_MAX},
            ),
            dcc.Store(id="sought-words"),
            html.Div(id="sought", className="sought", role="status"),
        ],
        className="panel",
        role="dialog",
        **parts.aria("Search"),
    )
    rows = [html.Tr([html.Td(html.Kbd(key)), html.Td(what)]) for key, what in KEYS]
    keys = html.Div(
        [html.H2("Keys"), html.Table(html.Tbody(rows))],
        className="panel",
        role="dialog",
        tabIndex=-1,
        **parts.aria("Keys"),
    )
    return [html.Div(find, id="search", className="over"), html.Div(keys, id="keys", className="over")]


async def results(api: Api, text: str, query: Query) -> list[Component]:
    """Links to what has the words in its name: pages first, then what the API finds."""
    words = text.strip()[:WORDS_MAX]
    if not words:
        return []
    found = [entry("page", page.title, "", query.link(page.path)) for page in titled(words)]
    try:
        matches = (await api.get("search", q=words)).get("items") or []
    except ApiFailure as error:
        return [*found, html.P(error.message, className="soft")]
    found += [
        entry(item["kind"], name_of(item), about(item), target(item, query))
        for item in matches
        if item["kind"] in WORDS
    ]
    return found or [html.P(f"Nothing is called {formats.clip(words, 40)}.", className="soft")]


def titled(words: str) -> list[Any]:
    """Pages of the navigation with the words in their title, then those that have them under another word."""
    wanted, known = words.lower(), [page for page in pages() if page.icon]
    named = [page for page in known if wanted in page.title.lower()]
    also = [page for page in known if any(word.startswith(wanted) for word in ALSO.get(page.path, "").split())]
    return [*named, *(page for page in also if page not in named)][:PAGES_MAX]


def name_of(item: Row) -> str:
    """What stands first: of a finding what it is about, because many have one title; the id of everything else."""
    if item["kind"] != "finding":
        return str(item["id"])
    title, _, subject = str(item.get("name") or item["id"]).partition(": ")
    return f"{formats.device(subject)}: {title}" if subject else title


def about(item: Row) -> str:
    """What tells two of the same name apart."""
    if item["kind"] == "finding":
        return str(item.get("cluster") or "")
    known = [str(item[name]) for name in ("name", "cluster") if item.get(name)]
    return ", ".join(["waits", *known] if item.get("waits") else known)


def target(item: Row, query: Query) -> str:
    """The page of a result. Nodes lead to their GPUs on the map, users to their jobs."""
    kind, name, cluster = item["kind"], str(item["id"]), item.get("cluster")
    within = {"in": None if cluster is None else str(cluster)}
    if kind == "team":
        return query.link(f"/team/{name}")
    if kind == "user":
        return query.link("/jobs", user=name)
    if kind == "job":
        return job_link(query, cluster, name)
    if kind == "node":
        return query.link("/topology", node=name, **within)
    return finding_link(query, name) if kind == "finding" else query.link(f"/fleet/{name}", **within)


def entry(kind: str, name: str, more: str, href: str) -> Component:
    """One result."""
    return dcc.Link(
        [
            html.Span(WORDS[kind], className="kind soft small"),
            html.Span(formats.clip(name, 80), className="strong"),
            html.Span(formats.clip(more, 80), className="soft small") if more else None,
        ],
        href=href,
        className="result",
    )
