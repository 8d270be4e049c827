"""The words of fixes: commands on a data directory, or requests to the server that holds it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

LOCAL = "http://127.0.0.1:8765"
"""Where a server listens unless told otherwise."""
RATES_HEADER = "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to"
TEAMS_HEADER = "match_kind,match,team"


@dataclass(frozen=True)
class Advice:
    """Whom a fix is for. With `url` a server holds the data, and what commands cannot open is asked of it."""

    program: str = "gpuwatch"
    """The command line as it is typed."""
    data: str | None = None
    """As given to --data; None: the usual place."""
    url: str | None = None
    """Address of the server; None where files are opened."""
    token: bool = False
    """Whether the server asks for a token."""

    @property
    def live(self) -> bool:
        """Whether a server holds the data directory."""
        return self.url is not None

    def command(self, words: str) -> str:
        """A command line on this data directory."""
        return f"{self.program} {words}" + ("" if self.data is None else f" --data {shlex.quote(self.data)}")

    def book(self) -> str:
        """How hours that are owed come into the books."""
        return (
            "Wait for the server's next analysis; its log says why one fails." if self.live else self.command("analyze")
        )

    def rates(self, lines: Iterable[str]) -> str:
        """How lines come into the rate card."""
        return self._table("rates", RATES_HEADER, "put the price for USD_PER_HOUR", lines)

    def teams(self, lines: Iterable[str]) -> str:
        """How lines come into the ownership rules."""
        return self._table("teams", TEAMS_HEADER, "put the team for TEAM", lines)

    def _table(self, name: str, header: str, fill: str, lines: Iterable[str]) -> str:
        file = f"{name}.csv"
        if self.url is not None:
            bearer = ' -H "Authorization: Bearer $TOKEN"' if self.token else ""
            where = f"{self.url.rstrip('/')}/api/v1/{name}"
            first = f"Add to {file} (first line {header}), {fill}, and send the whole file, which replaces what is in force:"
            last = f"curl --fail-with-body -X PUT {where}{bearer} -H 'Content-Type: text/csv' --data-binary @{file}"
        else:
            first = f"Add to BUNDLE/{file} (first line {header}), {fill}, and import that folder, which replaces what is in force:"
            last = self.command("import bundle BUNDLE")
        return "\n".join([first, *lines, last])
