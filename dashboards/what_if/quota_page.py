"""What if a team had a quota of GPUs: its runs that wait, what stays unused, and who would start sooner."""

from __future__ import annotations

from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import Scheme
from gpuwatch.dashboards.what_if import quota_parts, trials

MAX_TEAMS = 12
METHOD = (
    (
        "The team's own runs are replayed with their stored starts, lengths and GPUs (a MIG slice counts its share). A run starts when "
        "the team's other runs leave enough of the quota, in the order in which the runs started; one that does not fit does not hold up "
        "the others. No run starts earlier than it did, and each keeps its length."
    ),
    "Runs that began before the window go on as they are. A run that asks for more than the quota never starts.",
    (
        "GPUs that a delayed run does not hold yet go to waiting requests of other teams, in order of submission, one request for each GPU, "
        "and only where it fits."
    ),
    (
        "What a larger quota than the most held would give is not known: it depends on the GPUs of others. Requests of the team that "
        "waited for a quota or limit as it was are counted apart."
    ),
)


@dataclass(frozen=True)
class Data:
    """The answer for one team, and the teams to choose from."""

    team: str | None
    teams: list[str]
    answer: Row


async def load(api: Api, query: Query) -> Data:
    """The chosen team, else the one that costs most."""
    window = f"{trials.days_of(query)}d"
    scope = {"cluster": query.get("cluster")} if query.get("cluster") else {}
    charges = await api.chargeback(window, "team", **scope)
    found = [str(item["team"]) for item in charges.get("items") or [] if not str(item.get("team")).startswith("__")]
    teams = list(dict.fromkeys(found))[:MAX_TEAMS]
    team = query.get("team") or (teams[0] if teams else None)
    if team is None or team.startswith("__"):
        return Data(None, teams, {})
    answer = await api.get("what-if/quotas", window=window, team=team, **scope)
    return Data(team, teams, answer)


def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """The answer for one quota, both curves, and who waits."""
    items: list[Row] = data.answer.get("items") or []
    title = "What if a team had a quota?"
    top = [
        parts.heading(title, formats.span(*trials.ends(data.answer)) if items else None),
        trials.tabs(query),
    ]
    teams = [(formats.clip(name, 24), query.link(team=name, gpus=None), name == data.team) for name in data.teams]
    rows = [("Replay", trials.days(query))]
    if teams:
        rows.append(("Team", parts.picks(teams, "Team")))
    if not items:
        return html.Div([*top, trials.choices(*rows), nothing()])
    at = quota_parts.chosen(items, query)
    quotas = [(f"{quota_parts.gpus(item)} GPUs", query.link(gpus=quota_parts.gpus(item)), item is at) for item in items]
    return html.Div(
        [
            *top,
            trials.choices(*rows, ("Quota", parts.picks(quotas, "Quota"))),
            html.P(quota_parts.sentence(data.answer, at), className="lead"),
            quota_parts.numbers(data.answer, at),
            quota_parts.charts(items, at, scheme),
            parts.card("All quotas", quota_parts.table(items, at, query)),
            quota_parts.hit(at),
            trials.method(METHOD, quota_parts.waited(data.answer)),
        ],
        className="stack",
    )


def nothing() -> Component:
    """No runs of the team."""
    return states.empty("No runs to replay", "No team, or not this one, held GPUs in this time. Choose another team.")
