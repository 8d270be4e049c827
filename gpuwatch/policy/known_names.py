"""Checks names of teams and clusters against the known ones, and suggests the nearest."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher

from gpuwatch.policy.ownership import RESERVED_PREFIX, SAME
from gpuwatch.policy.repository import load_team_rules
from gpuwatch.state import State
from gpuwatch.store.database import Store

FLEET = "*"
NAMED_MAX = 8
"""Known names that a message lists, nearest first."""
DOUBTS_MAX = 20
"""Unknown names that get a warning each."""
COMPARED_MAX = 2000
"""Known names compared with an unknown one; with more, the first in alphabetical order."""


def team_names(store: Store, state: State) -> frozenset[str]:
    """Teams of ownership rules and of runs, without the reserved ones."""
    runs = store.sql("select distinct team from run_team where team not like '\\_\\_%' escape '\\'")
    return rule_names(state) | {row[0] for row in runs}


def cluster_names(store: Store) -> frozenset[str]:
    """Clusters with a ledger."""
    return frozenset(row[0] for row in store.sql("select distinct cluster from capacity"))


def rule_names(state: State) -> frozenset[str]:
    """Teams that ownership rules name."""
    return frozenset(rule.team for rule in load_team_rules(state)) - {SAME}


def unknown_teams(teams: Iterable[str], known: Collection[str]) -> list[str]:
    """The teams that no rule or run names, in order and without duplicates. The fleet and reserved names count as known."""
    return [
        team
        for team in dict.fromkeys(teams)
        if team not in known and team != FLEET and not team.startswith(RESERVED_PREFIX)
    ]


def team_doubts(teams: Iterable[str], known: Collection[str]) -> list[str]:
    """A warning for each team that no run or rule names yet; it may still turn out to be right."""
    doubted = unknown_teams(teams, known)
    if doubted and not known:
        return ["no run or rule names a team yet: the teams could not be checked"]
    found = [f"no run or rule names team {team!r}; {listed(team, known)}" for team in doubted[:DOUBTS_MAX]]
    more = len(doubted) - len(found)
    return [*found, f"no run or rule names {more} more of these teams"] if more else found


def listed(name: str, known: Collection[str]) -> str:
    """`known: vision, research and 3 more`, nearest to `name` first."""
    if not known:
        return "none is known yet"
    near = SequenceMatcher(b=name.casefold(), autojunk=False)
    scored = []
    for one in sorted(known)[:COMPARED_MAX]:
        near.set_seq1(one.casefold())
        scored.append((-near.ratio(), one))
    first = [one for _, one in sorted(scored)[:NAMED_MAX]]
    more = len(known) - len(first)
    return f"known: {', '.join(first)}{f' and {more} more' if more else ''}"
