"""Who gets a team's report by e-mail: a card of teams and addresses."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuwatch.alerts.delivery.email_server import MAX_RECIPIENTS, is_address
from gpuwatch.core.errors import UsageError
from gpuwatch.core.names import hidden_character
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists

KIND = "recipients"
FLEET = "*"
"""The team of a row about the fleet's report."""
MAX_ROWS = 10_000
NAMED_MAX = 20
"""Bad rows that a refusal names."""


@dataclass(frozen=True)
class Recipients:
    """Addresses by team."""

    by_team: Mapping[str, tuple[str, ...]]

    @classmethod
    def read(cls, state: State) -> Recipients:
        """Those in force."""
        return cls({row["team"]: tuple(row["to"]) for row in VersionedLists(state).rows(KIND)})

    def of(self, team: str) -> tuple[str, ...]:
        """The addresses of a team, or of FLEET; () where it has none."""
        return self.by_team.get(team, ())

    def rows(self) -> list[dict[str, Any]]:
        """As the card has them."""
        return [{"team": team, "to": list(to)} for team, to in self.by_team.items()]


def parse(content: bytes, file: str) -> list[dict[str, Any]]:
    """The rows of a CSV file `team,to`: several addresses of a team stand in several rows, or apart by blanks or `;`.

    Raises UsageError naming file and line: no such header, no text, a row without a team. `replace` looks at the rest.
    """
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig")))
        if sorted(reader.fieldnames or ()) != ["team", "to"]:
            raise UsageError(f"{file}:1: the header is {','.join(reader.fieldnames or ())[:80]!r}; write team,to")
        found: dict[str, list[str]] = {}
        for row in reader:
            team, to = (row["team"] or "").strip(), (row["to"] or "").replace(";", " ").split()
            if not team or not to or None in row:
                raise UsageError(f"{file}:{reader.line_num}: give a team and an address, e.g. vision,ann@example.com")
            found.setdefault(team, []).extend(to)
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{file}: is no CSV in UTF-8 ({error})") from error
    return [{"team": team, "to": to} for team, to in found.items()]


def replace(
    state: State,
    rows: Sequence[Mapping[str, Any]],
    actor: str,
    source: str,
    at_us: int,
    expected: Collection[str] | None = None,
) -> bool:
    """Makes `rows` ({team, to}) the card in force. True if that changed it.

    All or nothing. Raises UsageError with every bad row: an address that is none, a team twice, too many.
    """
    if len(rows) > MAX_ROWS:
        raise UsageError(f"recipients: {len(rows)} rows; {MAX_ROWS} are the most")
    bad: list[str] = []
    kept: dict[str, tuple[str, ...]] = {}
    for place, row in enumerate(rows):
        team, to = row["team"], tuple(dict.fromkeys(row["to"]))
        wrong = [address for address in to if not is_address(address)]
        if not team.strip():
            bad.append(f"items.{place}: team is empty; {FLEET} is the fleet")
        elif (hidden := hidden_character(team)) is not None:
            bad.append(f"items.{place}: team has the hidden character {hidden}; remove it")
        elif team in kept:
            bad.append(f"items.{place}: team {team!r} stands there twice; join its addresses")
        elif wrong:
            bad.append(f"items.{place}: {wrong[0][:80]!r} is not an address such as ann@example.com")
        elif not 0 < len(to) <= MAX_RECIPIENTS:
            bad.append(f"items.{place}: {len(to)} addresses; 1 to {MAX_RECIPIENTS} are right")
        kept.setdefault(team, to)
    if bad:
        more = f"; and {len(bad) - NAMED_MAX} more" if len(bad) > NAMED_MAX else ""
        raise UsageError(f"recipients: nothing was changed: {'; '.join(bad[:NAMED_MAX])}{more}")
    return VersionedLists(state).replace(KIND, Recipients(kept).rows(), actor, source, at_us, expected)
