"""What if: idle limits and quotas tried on the last month."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import Scheme
from gpuwatch.dashboards.what_if import mig_page, quota_page, trials
from gpuwatch.dashboards.what_if.limit_charts import hit, hit_title, returned, returned_title, seconds, words
from gpuwatch.dashboards.what_if.limit_tables import jobs_card, limits_table, teams_card

LIMITS = (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240)
"""The limits that the API tries, in minutes."""
DEFAULT_LIMIT = 15
METHOD = (
    (
        "The past is replayed with stored data: the ledger's idle runs (no work, no memory traffic, idle power) and the requests that "
        "the schedulers reported as waiting. Nothing is changed."
    ),
    (
        "A GPU that its job has not used for the limit counts as released until the job uses it again or ends. Only this time is "
        "returned; work that a stopped job would have to repeat is not counted."
    ),
    "A job is hit wrongly if it used the same GPU again before it gave it back.",
    (
        "A released GPU goes to one waiting request at most, in order of submission, and only where it fits: cluster, model, MIG "
        "profile, Slurm partition, and enough released GPUs on enough nodes at that moment. Requests that waited for quota, a limit, a "
        "taint or another job are left out. GPUs that were free anyway are not added, so more requests may have fitted."
    ),
    "Left alone: jobs exempt by their label, and servers labelled latency-critical.",
)


async def load(api: Api, query: Query) -> Row:
    """All limits over the chosen days, and the jobs that the chosen one hits."""
    limit = query.get("limit")
    at = limit if limit.isdecimal() and int(limit) in LIMITS else str(DEFAULT_LIMIT)
    return await api.get("what-if/idle-limits", window=f"{trials.days_of(query)}d", jobs_at=at, **query.scope)


@page("/what-if", "What if", load, icon="whatif", order=26, filters=("cluster", "team"), load_once=True)
def layout_page(data: Row, query: Query, scheme: Scheme) -> Component:
    """The answer for one limit, both curves, and the tables of all limits and teams."""
    items: list[Row] = data.get("items") or []
    at = limit_of(items, query)
    head = parts.heading("What if idle GPUs were taken back?", formats.span(*trials.ends(data)))
    top = [head, trials.tabs(query)]
    if at is None or not (formats.number((data.get("idle") or {}).get("returned_gpu_hours")) or 0):
        return html.Div(
            [*top, trials.choices(("Replay", trials.days(query))), nothing(query, data.get("not_measured"))]
        )
    currency = str(data.get("currency") or "")
    limits = [(words(item), query.link(limit=str(item["limit_minutes"])), item is at) for item in items]
    return html.Div(
        [
            *top,
            trials.choices(("Replay", trials.days(query)), ("Idle limit", parts.picks(limits, "Idle limit"))),
            html.P(sentence(data, at, currency), className="lead"),
            numbers(data, at, currency),
            html.Div(
                [
                    parts.card(
                        returned_title(items),
                        parts.graph(returned(items, at, scheme), trials.HEIGHT, returned_title(items)),
                    ),
                    parts.card(hit_title(at), parts.graph(hit(items, at, scheme), trials.HEIGHT, hit_title(at))),
                ],
                className="halves even",
            ),
            parts.card("All limits", limits_table(items, at, currency, query)),
            teams_card(data, at, currency, query),
            jobs_card(data, at, currency, query),
            trials.method(METHOD, left_out(data)),
        ],
        className="stack",
    )


def limit_of(items: list[Row], query: Query) -> Row | None:
    """The limit in the URL, else 15 minutes."""
    known = {str(item.get("limit_minutes")): item for item in items}
    return known.get(query.get("limit")) or known.get(str(DEFAULT_LIMIT))


def sentence(data: Row, at: Row, currency: str) -> str:
    """What the limit would have changed."""
    returned_hours = formats.gpu_time(seconds(at.get("returned_gpu_hours")))
    price = f" ({formats.rounded(at['returned_cost'], currency)})" if at.get("returned_cost") is not None else ""
    jobs, wrong = int(at.get("jobs") or 0), int(at.get("wrong_jobs") or 0)
    text = f"A limit of {words(at)} would have returned {returned_hours}{price}. "
    if not jobs:
        return text + "No job would have lost a GPU."
    again = "none of them used it again" if not wrong else f"{wrong:,} used it again later"
    text += f"{trials.count(jobs, 'job')} would have lost a GPU; {again}. "
    sooner = at.get("sooner")
    if sooner is None:
        return text
    of = formats.number(data.get("requests")) or 0
    return (
        text
        + f"{int(sooner.get('requests') or 0):,} of {trials.count(int(of), 'waiting request')} would have started sooner."
    )


def numbers(data: Row, at: Row, currency: str) -> Component:
    """Returned time and money, requests, and jobs hit."""
    sooner = at.get("sooner") or {}
    idle = formats.number((data.get("idle") or {}).get("returned_gpu_hours"))
    share = formats.number(at.get("returned_gpu_hours"))
    wrong, jobs = formats.number(at.get("wrong_jobs")) or 0, formats.number(at.get("jobs")) or 0
    shown = [
        parts.Headline(
            "Returned",
            parts.gpu_time(seconds(at.get("returned_gpu_hours"))),
            note=f"{formats.percent(share / idle)} of idle time" if idle and share is not None else None,
        ),
        parts.Headline("Worth", parts.money(at.get("returned_cost"), currency), note="at the price of these GPUs"),
        parts.Headline(
            "Jobs hit", parts.num(f"{jobs:,}"), note=f"{trials.count(int(at.get('devices') or 0), 'GPU')} taken"
        ),
        parts.Headline(
            "Hit wrongly",
            parts.num(f"{wrong:,}"),
            note=f"{formats.percent(wrong / jobs)} of them used the GPU again" if jobs else None,
        ),
    ]
    if at.get("sooner") is not None:
        saved = formats.duration(seconds(sooner.get("waiting_hours")))
        shown.append(
            parts.Headline(
                "Start sooner",
                parts.num(f"{int(sooner.get('requests') or 0):,}"),
                note=f"requests, {saved} less waiting in all",
            )
        )
    return parts.headlines(shown)


def left_out(data: Row) -> list[str]:
    """Idle time that no limit was tried on."""
    found = []
    alone, unsure = (formats.number(data.get(f"{name}_gpu_hours")) or 0 for name in ("left_alone", "unsure"))
    if alone:
        found.append(f"{formats.gpu_time(alone * formats.HOUR_S)} of idle time were left alone.")
    if unsure:
        found.append(
            f"{formats.gpu_time(unsure * formats.HOUR_S)} of idle time are not judged: which job held these GPUs of a shared node is not known."
        )
    for name in data.get("not_replayed") or []:
        found.append(f"Cluster {formats.clip(name, 40)} has too many idle runs for the replay of its queue.")
    return found


def nothing(query: Query, not_measured: object = None) -> Component:
    """No idle time, or nothing that tells whether there is any."""
    if not_measured:
        return states.empty(
            "Not measured", str(not_measured), parts.link("Data quality", query.link("/quality"), "button")
        )
    return states.empty(
        "No held GPU idled for five minutes or longer",
        "No limit would have returned anything in this time.",
        parts.link("Show all teams and clusters", query.link("/what-if", team=None, cluster=None), "button")
        if query.scope
        else None,
    )


page("/what-if/quotas", "Quotas", quota_page.load, filters=("cluster", "team"), under="/what-if", load_once=True)(
    quota_page.layout
)
page("/what-if/mig", "MIG layouts", mig_page.load, filters=("cluster", "pool"), under="/what-if")(mig_page.layout)
