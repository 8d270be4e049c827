"""What a command says beside an answer: a team or cluster that it was asked about is in no books."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwatch.commands import remote
from gpuwatch.commands.shared import opened, say
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.store.lockfile import Note


def doubt_teams(teams: Iterable[str], known: Collection[str]) -> None:
    """Says which of these teams are in no books: an answer about them is empty for that reason."""
    from gpuwatch.policy.known_names import DOUBTS_MAX, listed, unknown_teams

    for team in unknown_teams(teams, known)[:DOUBTS_MAX]:
        say(f"no team {team!r} in the books; {listed(team, known)}")


def doubt_cluster(cluster: str | None, known: Collection[str]) -> None:
    """Says that a cluster is in no books."""
    from gpuwatch.policy.known_names import listed

    if cluster is not None and cluster not in known:
        say(f"no cluster {cluster!r} in the books; {listed(cluster, known)}")


def served_teams(note: Note) -> list[str]:
    """The teams that a server knows."""
    found: list[str] = json.loads(remote.get(note, "/api/v1/teams", {"known": "true", "limit": 1}))["known"]
    return found


def served_clusters(note: Note) -> list[str]:
    """The clusters that a server has books of."""
    found = json.loads(remote.get(note, "/api/v1/capacity/shapes", {"limit": 1}))
    return [one["cluster"] for one in found["clusters"]]


def teams_at(data: Path) -> Collection[str] | None:
    """The teams of a data directory, of its server where one runs; None where that cannot be told."""
    from gpuwatch.policy.known_names import team_names
    from gpuwatch.store.database import FILE_NAME

    with suppress(GpuwatchError):
        if (note := lockfile.find(data)) is not None:
            return served_teams(note)
        if (data / FILE_NAME).exists():
            with opened(data) as (store, state, _):
                return team_names(store, state)
    return None
