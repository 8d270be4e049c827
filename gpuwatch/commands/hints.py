"""Hints on stderr for an empty result: a window without GPU time, or a team or cluster that is not in the ledger."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwatch.commands import remote
from gpuwatch.commands.shared import opened, print_stderr
from gpuwatch.core.clock import DAY_US, Window, from_us, parse_rfc3339, rfc3339
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.ledger.dimensions import LABEL
from gpuwatch.ledger.totals import ledger_window
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.store.database import Store
    from gpuwatch.store.lockfile import Note

BACK_US = 7 * DAY_US
"""Longest window to suggest."""


def empty_stored(store: Store, gpu_seconds: str) -> str | None:
    """The hint for a result with this many GPU-seconds; None if there are any."""
    return None if Decimal(gpu_seconds) else empty_words(ledger_window(store))


def empty_outside(store: Store, span: Window) -> str | None:
    """The hint for a window that the ledger does not cover at all; None otherwise."""
    known = ledger_window(store)
    touched = known is not None and known.start_us < span.end_us and span.start_us < known.end_us
    return None if touched else empty_words(known)


def empty_served(note: Note, gpu_seconds: str) -> str | None:
    """Same as `empty_stored`, through a server."""
    if Decimal(gpu_seconds):
        return None
    as_of = json.loads(remote.get(note, "/api/v1/fleet", {}))["as_of"]
    if as_of is None:
        return empty_words(None)
    end_us = parse_rfc3339(as_of)
    return empty_words(Window(end_us - BACK_US, end_us))


def empty_words(known: Window | None) -> str:
    """The hint, given the end of the ledger; None: the ledger is empty."""
    if known is None:
        return "No GPU time in this window; the ledger is empty: run gpuwatch doctor to see what is missing"
    start = rfc3339(max(known.start_us, known.end_us - BACK_US))
    end = rfc3339(known.end_us)
    return f"No GPU time in this window; data ends at {end}: try --window {start},{end}"


def absent_labels(store: Store, by: Iterable[str], items: Collection[Mapping[str, object]]) -> list[str]:
    """A warning for each `label:KEY` that no row has a value of, with the labels that jobs have, nearest first."""
    lacking = [name for name in by if name.startswith(LABEL) and not any(item.get(name) for item in items)]
    if not lacking or not items:
        return []
    from gpuwatch.policy.known_names import listed
    from gpuwatch.quality.rate_checks import names_of

    known = {kind.removeprefix(LABEL) for kind in names_of(store) if kind.startswith(LABEL)}
    return [
        f"--by {name}: no job of this window has this label; {listed(name.removeprefix(LABEL), known)}"
        for name in lacking
    ]


def partial(store: Store, span: Window) -> list[str]:
    """A line that says where the ledger begins or ends within a window; none if the window is covered or has no data."""
    known = ledger_window(store)
    if known is None or known.end_us <= span.start_us or span.end_us <= known.start_us:
        return []
    ends = [f"begins at {minute(known.start_us)}"] if known.start_us > span.start_us else []
    ends += [f"ends at {minute(known.end_us)}"] if known.end_us < span.end_us else []
    return [f"The ledger {' and '.join(ends)} UTC: the rest of the window is not in it"] if ends else []


def minute(at_us: int) -> str:
    """`2026-11-27 01:00`."""
    return f"{from_us(at_us):%Y-%m-%d %H:%M}"


def print_hint(line: str | None) -> None:
    """Prints the hint on stderr, so that stdout stays machine-readable."""
    if line is not None:
        print_stderr(line)


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
