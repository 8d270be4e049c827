"""Imports the rates and team rules of a bundle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects
from gpuwatch.policy import ownership
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates import card as rates_card
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State

SHOWN_REASONS = 3
"""Reasons in the message about a card without a valid row."""

R = TypeVar("R", Rate, TeamRule)


def import_cards(
    rate_file: Path | None,
    team_file: Path | None,
    state: State,
    now_us: int,
    notes: list[str],
    unreadable: list[str],
) -> list[Rejects]:
    """Replaces rates and team rules by those in rates.csv and teams.csv, unless a file has no valid row. Returns what was
    rejected; problems are added to `notes` and `unreadable`.
    """
    cards = []
    if rate_file is not None:
        cards.append(_import_card(rate_file, rates_card.parse_rates, replace_rates, state, now_us, notes, unreadable))
    if team_file is not None:
        parse = ownership.parse_teams
        cards.append(_import_card(team_file, parse, replace_team_rules, state, now_us, notes, unreadable))
    return [rejects for rejects in cards if rejects.total]


def _import_card(
    file: Path,
    parse: Callable[[bytes, str, Rejects], Sequence[R]],
    replace: Callable[[State, Sequence[R], str, str, int], object],
    state: State,
    now_us: int,
    notes: list[str],
    unreadable: list[str],
) -> Rejects:
    rejects = Rejects()
    try:
        rows = parse(file.read_bytes(), str(file), rejects)
        if rows:
            replace(state, rows, "import", file.name, now_us)
        else:
            problems = unreadable if rejects.total else notes
            reasons = "".join(f"; {reason}" for reason in list(rejects.counts)[:SHOWN_REASONS])
            problems.append(f"{file}: no valid row; the previous rows remain in force{reasons}")
    except (UnreadableInput, OSError) as error:
        unreadable.append(str(error))
    return rejects
