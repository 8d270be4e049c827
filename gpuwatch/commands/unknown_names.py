"""Hints for a requested team or cluster that is not in the ledger."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwatch.commands import remote
from gpuwatch.commands.shared import opened, print_stderr
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.store.lockfile import Note


def doubt_teams(teams: Iterable[str], known: Collection[str]) -> None:
    """Prints which of these teams are not in the ledger, which explains an empty result."""
    from gpuwatch.policy.known_names import DOUBTS_MAX, listed, unknown_teams

    for team in unknown_teams(teams, known)[:DOUBTS_MAX]:
        print_stderr(f"there is no team {team!r} in the ledger; {listed(team, known)}")


def doubt_cluster(cluster: str | None, known: Collection[str]) -> None:
    """Prints that a cluster is not in the ledger."""
    from gpuwatch.policy.known_names import listed

    if cluster is not None and cluster not in known:
        print_stderr(f"there is no cluster {cluster!r} in the ledger; {listed(cluster, known)}")


def served_teams(note: Note) -> list[str]:
    """The teams of a server."""
    found: list[str] = json.loads(remote.get(note, "/api/v1/teams", {"known": "true", "limit": 1}))["known"]
    return found


def served_clusters(note: Note) -> list[str]:
    """The clusters in a server's ledger."""
    found = json.loads(remote.get(note, "/api/v1/capacity/shapes", {"limit": 1}))
    return [one["cluster"] for one in found["clusters"]]


def teams_at(data: Path) -> Collection[str] | None:
    """The teams of a data directory, from its server if one is running; None if unknown."""
    from gpuwatch.policy.known_names import team_names
    from gpuwatch.store.database import FILE_NAME

    with suppress(GpuwatchError):
        if (note := lockfile.find(data)) is not None:
            return served_teams(note)
        if (data / FILE_NAME).exists():
            with opened(data) as (store, state, _):
                return team_names(store, state)
    return None
