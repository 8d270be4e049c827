"""Texts of fixes: commands on a data directory, or requests to the server that holds it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LOCAL = "http://127.0.0.1:8765"
"""The default address of a server."""
RATES_HEADER = "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to"
NO_RATES = [
    "No rates, so nothing has a price. Write a file such as this one, and set it: gpuwatch rates set FILE",
    RATES_HEADER,
    "H100,on_demand,3.50,2026-01-01T00:00:00Z,",
    "A100,reserved,2.10,2026-01-01T00:00:00Z,2027-01-01T00:00:00Z",
]
RATES_HELP = "\n".join(
    [
        "Replace the rate card with a file. Nothing changes if a row is invalid.",
        "",
        "\b",
        "A file:",
        *NO_RATES[1:],
        "",
        "* is every model.",
    ]
)
"""The help of `gpuwatch rates set`."""
TEAMS_HEADER = "match_kind,match,team"


_PUT = re.compile(r"curl --fail-with-body -X PUT \S+/api/v1/(rates|teams) .*@\1\.csv")
"""A request that Advice prints; the command of the same name sends it too."""


@dataclass(frozen=True)
class Advice:
    """The context of a fix. With `url`, a server holds the data, so fixes are requests to it instead of commands."""

    program: str = "gpuwatch"
    """The program name as typed."""
    data: str | None = None
    """The --data argument; None for the default."""
    url: str | None = None
    """Address of the server; None if there is none."""
    token: bool = False
    """Whether the server requires a token."""

    @property
    def live(self) -> bool:
        """Whether a server holds the data directory."""
        return self.url is not None

    def command(self, words: str) -> str:
        """A command line on this data directory."""
        return f"{self.program} {words}" + ("" if self.data is None else f" --data {shlex.quote(self.data)}")

    def analysis(self) -> str:
        """How to get unprocessed hours into the ledger."""
        return (
            "Wait for the server's next analysis; if one fails, its log has the reason."
            if self.live
            else self.command("analyze")
        )

    def rates(self, lines: Iterable[str]) -> str:
        """How to add lines to the rate card."""
        return self._table("rates", RATES_HEADER, ", replace USD_PER_HOUR with the price", lines)

    def teams(self, lines: Iterable[str], fill: str = ", replace TEAM with the team") -> str:
        """How to add lines to the ownership rules."""
        return self._table("teams", TEAMS_HEADER, fill, lines)

    def team_lines(self, lines: Sequence[str]) -> str:
        """How to add whole lines to the ownership rules."""
        if self.url is not None:
            return self.teams(lines, "")
        return self.command(f"teams add {' '.join(shlex.quote(line) for line in lines)}")

    def as_commands(self, fix: str) -> str:
        """A server's fix for its own machine: requests are the commands that send them."""
        found = ((line, _PUT.fullmatch(line)) for line in fix.splitlines())
        return "\n".join(self.command(f"{put[1]} set {put[1]}.csv") if put else line for line, put in found)

    def _table(self, name: str, header: str, fill: str, lines: Iterable[str]) -> str:
        file = f"{name}.csv"
        if self.url is not None:
            bearer = ' -H "Authorization: Bearer $TOKEN"' if self.token else ""
            where = f"{self.url.rstrip('/')}/api/v1/{name}"
            first = (
                f"Add to {file} (first line {header}){fill}, and send the whole file, which replaces the current one:"
            )
            last = f"curl --fail-with-body -X PUT {where}{bearer} -H 'Content-Type: text/csv' --data-binary @{file}"
        else:
            first = f"Write into {file} (first line {header}), below the lines that you have set before{fill}:"
            last = self.command(f"{name} set {file}")
        return "\n".join([first, *lines, last])
