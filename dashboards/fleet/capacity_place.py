"""Capacity page: the simulator. Where a request would be placed now, or why not and what would let it start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from dash import dcc, html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.components.capacity_moves import count, job, not_known
from gpuwatch.dashboards.components.capacity_now import place_word
from gpuwatch.dashboards.fleet import faulty_gpus
from gpuwatch.dashboards.fleet.drawing import Mark, places_of
from gpuwatch.dashboards.fleet.faulty_gpus import Faults
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query, address, finding_link

SHAPES = ("1", "2", "4", "8", "2x8", "4x8")
WITHIN = {"any": "anywhere", "leaf": "below one leaf switch", "nvlink": "in one NVLink domain"}
MAX_POOLS = 6
ALL_POOLS = 200
MAX_PLACES = 8
MAX_MOVES = 8
KEPT = ("window", "cluster")

Places = Mapping[tuple[str, str], Sequence[int]]


def asked(query: Query) -> dict[str, str]:
    """The request of the URL as parameters of the API."""
    within = query.get("within")
    wanted = {
        "shape": query.get("shape", "8"),
        "within": within if within in WITHIN else "any",
        "cluster": query.get("cluster"),
        "pool": query.get("of_pool"),
        "gpu_model": query.get("model"),
    }
    return {name: value for name, value in wanted.items() if value}


def shape_words(shape: str) -> str:
    """`8 GPUs on one node`, `4 nodes with 8 GPUs each`."""
    members, cross, gpus = shape.partition("x")
    if not cross:
        return f"{shape} GPU{'s' if shape != '1' else ''} on one node"
    return f"{members} nodes with {gpus} GPU{'s' if gpus != '1' else ''} each"


def simulator(data: Row | None, query: Query, fleet: Row | None = None, faults: Faults | None = None) -> Component:
    """The form, the answer in a sentence, and where or why not, by pool; `fleet` and `faults` for what is wrong with free GPUs."""
    known = faults or {}
    request = asked(query)
    words = shape_words(formats.clip(request["shape"], 12))
    if request["within"] != "any":
        words = f"{words} {WITHIN[request['within']]}"
    if data is None:
        return parts.card(
            "Try a request",
            form(query, request),
            states.advice("It could not be placed: give GPUs (8) or nodes x GPUs on each (4x8)."),
        )
    items: list[Row] = data.get("items") or []
    fits = [item for item in items if item.get("fits")]
    title = f"{words} would fit now" if fits else f"{words} do not fit now"
    if fits and all(faults_of(item, known) for item in fits):
        title = f"{words} would fit now; check the node first"
    if data.get("fits") is None:
        title = f"Whether {words} fit is not known"
    if not items:
        title = f"No pool for {words}"
    body = [pool(item, query, fleet, known) for item in items[:MAX_POOLS]]
    if rest := items[MAX_POOLS:ALL_POOLS]:
        more = f"{len(items) - MAX_POOLS} more pool{'s' if len(items) - MAX_POOLS > 1 else ''}"
        body.append(html.Details([html.Summary(more), *(pool(item, query, fleet, known) for item in rest)]))
    lacking = [
        states.fix(str(one.get("fix") or ""), f"{one.get('cluster')}: {one.get('what')} is missing. ")
        for one in data.get("missing") or []
    ]
    if lacking:
        body.append(html.Details([html.Summary("What is not known"), *lacking]))
    return parts.card(title[:1].upper() + title[1:], form(query, request), *body, note="Nothing is reserved or moved")


def form(query: Query, request: Mapping[str, str]) -> Component:
    """Shapes to try, and a field for others."""
    own = {name: query.get(name) for name in KEPT if query.get(name)}
    picks = parts.picks(
        [(shape, query.link(shape=shape), shape == request["shape"]) for shape in SHAPES], "Requests to try"
    )
    near = parts.picks(
        [(word.capitalize(), query.link(within=name), name == request["within"]) for name, word in WITHIN.items()],
        "Where",
    )
    field = html.Form(
        [
            *(dcc.Input(type="hidden", name=name, value=value) for name, value in own.items()),
            dcc.Input(type="hidden", name="within", value=request["within"]),
            html.Label("Nodes x GPUs", htmlFor="shape", className="soft small"),
            dcc.Input(
                id="shape",
                name="shape",
                value=request["shape"],
                maxLength=12,
                pattern=r"\d{1,4}(x\d{1,4})?",
                size="6",
                className="shape",
            ),
            html.Button("Try", type="submit", className="button small"),
        ],
        action=address("/capacity"),
        method="get",
        className="tryshape",
    )
    return html.Div([html.Div([picks, field], className="asks"), near if "x" in request["shape"] else None])


def faults_of(item: Row, faults: Faults) -> list[Row]:
    """The findings about the GPUs that a request would get."""
    gpus = [gpu for place in item.get("places") or [] for gpu in place.get("gpus") or []]
    return faulty_gpus.of(faults, item.get("cluster"), gpus)


def pool(item: Row, query: Query, fleet: Row | None, faults: Faults) -> Component:
    """The answer of one pool."""
    broken = faulty_gpus.free_with_fault(fleet, item, faults)
    free = f"{item.get('free_gpus')} free" + (f", {broken} of them with a fault" if broken else "")
    head = [html.B(place_word(item)), state(item), html.Span(free, className="soft small")]
    if item.get("left_out_nodes"):
        some = int(item["left_out_nodes"])
        head.append(html.Span(f"{count(some, 'node')} with a taint left out", className="soft small"))
    lines: list[Component] = []
    if item.get("fits"):
        lines.append(html.P(["On ", *nodes(item["places"], item, query)]))
        lines += [one for one in [faulty_gpus.warning(faults_of(item, faults), query)] if one]
    elif item.get("why"):
        lines.append(html.P(item["why"]))
    if item.get("plan"):
        lines.append(moves(item["plan"], item, query))
    if item.get("reclaim"):
        lines.append(reclaims(item["reclaim"], query))
    return html.Div([html.Div(head, className="facts"), *lines], className="plan")


def state(item: Row) -> Component:
    """Whether it fits, in a word."""
    if item.get("fits"):
        some = len(item.get("faults") or [])
        return parts.tag(f"fits, {count(some, 'GPU')} with a fault", "warn") if some else parts.tag("fits now", "ok")
    if item.get("fits") is None:
        return parts.tag("not known")
    if item.get("plan"):
        return parts.tag(f"move {count(item['plan']['moved_gpus'], 'GPU')}", "warn")
    return parts.tag("idle GPUs to reclaim", "warn") if item.get("reclaim") else parts.tag("does not fit", "bad")


def nodes(places: Sequence[Row], item: Row, query: Query) -> list[Component | str]:
    """The nodes of a placement, linked to the topology."""
    words: list[Component | str] = []
    for place in places[:MAX_PLACES]:
        words += [", "] if words else []
        words.append(node(place["node"], item, query))
        words += [f" ({formats.clip(place['leaf'], 24)})"] if place.get("leaf") else []
    return [*words, f" and {len(places) - MAX_PLACES} more"] if len(places) > MAX_PLACES else words


def node(name: object, item: Row, query: Query) -> Component:
    """A node, linked to its place in the topology."""
    return parts.link(
        formats.clip(name, 40),
        query.link("/topology", node=str(name), colour="free", **{"in": str(item.get("cluster"))}),
        "title",
    )


def moves(plan: Row, item: Row, query: Query) -> Component:
    """The moves of a plan with their targets, in their order."""
    every: list[Row] = plan.get("moves") or []
    lines = [html.Li(move(one, item, query)) for one in every[:MAX_MOVES]]
    if len(every) > MAX_MOVES:
        lines.append(html.Li(f"and {len(every) - MAX_MOVES} more", className="soft"))
    after = [
        "Then it fits on ",
        *separated([node(name, item, query) for name in (plan.get("places") or [])[:MAX_PLACES]]),
    ]
    notes: list[Component] = [html.P(after, className="small")] if plan.get("places") else []
    if plan.get("at_once"):
        notes.append(
            html.P("Some of these jobs take each other's places: stop them at the same time.", className="soft small")
        )
    if plan.get("not_known"):
        notes.append(not_known(plan["not_known"]))
    return html.Div([html.Ol(lines, className="plainlist"), *notes])


def move(one: Row, item: Row, query: Query) -> list[Component | str]:
    """One job to move: what it holds, from where, and where to."""
    words: list[Component | str] = [
        job(one.get("job"), item.get("cluster"), query),
        f": {count(one.get('gpus'), 'GPU')} from ",
        formats.clip(one.get("node"), 40),
    ]
    words += [" to ", node(one["to"], item, query)] if one.get("to") else []
    return [*words, " ", parts.tag("preemptible", "ok")] if one.get("preemptible") else words


def reclaims(rows: Sequence[Row], query: Query) -> Component:
    """The idle GPUs whose release would be enough."""
    lines = [
        html.Li(
            [
                f"{count(len(row['gpus']), 'idle GPU')} of ",
                parts.team_link(query, row.get("team")),
                f" on {formats.clip(row['node'], 40)}: ",
                parts.link("finding", finding_link(query, str(row["finding"])), "title"),
            ]
        )
        for row in rows[:MAX_MOVES]
    ]
    if len(rows) > MAX_MOVES:
        lines.append(html.Li(f"and {len(rows) - MAX_MOVES} more", className="soft"))
    return html.Div([html.P("Or reclaim:", className="small"), html.Ul(lines, className="plainlist")])


def separated(words: Sequence[Component]) -> list[Component | str]:
    """Words with commas between them."""
    found: list[Component | str] = []
    for word in words:
        found += [", ", word] if found else [word]
    return found


def marks(fleet: Row | None, data: Row | None) -> list[Mark]:
    """The outlines of the first answer: where it would go, which jobs would move, which idle GPUs could be reclaimed."""
    items: list[Row] = (data or {}).get("items") or []
    if not fleet or not items:
        return []
    item = items[0]
    if item.get("fits"):
        return [
            Mark(
                "The request would go here",
                places_of(fleet, [gpu for place in item["places"] for gpu in place["gpus"]]),
                True,
            )
        ]
    if item.get("plan"):
        moved = _held_by(fleet, item)
        return [
            Mark("Jobs that would move", moved),
            Mark("Already free on the nodes that the request gets", _freed(fleet, item), True),
        ]
    idle = places_of(fleet, [gpu for row in item.get("reclaim") or [] for gpu in row["gpus"]])
    return [Mark("Idle GPUs to reclaim", idle)] if idle else []


def _held_by(fleet: Row, item: Row) -> Places:
    """The GPUs of the jobs that would move, on the nodes that they leave."""
    jobs = fleet.get("jobs") or []
    leaving = {(one["node"], one["job"]) for one in item["plan"]["moves"]}
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for one in fleet.get("nodes") or []:
        for n, held in enumerate(one["job"]):
            if held is not None and one["cluster"] == item["cluster"] and (one["node"], jobs[held]["job"]) in leaving:
                found[one["cluster"], one["node"]].append(n)
    return found


def _freed(fleet: Row, item: Row) -> Places:
    """The free GPUs of the nodes that the request gets after the moves."""
    found: dict[tuple[str, str], list[int]] = {}
    for one in fleet.get("nodes") or []:
        if one["cluster"] == item["cluster"] and one["node"] in item["plan"]["places"]:
            found[one["cluster"], one["node"]] = [
                n for n, word in enumerate(one["state"]) if word in ("free", "stranded")
            ]
    return found
