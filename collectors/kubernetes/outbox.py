"""Rows and refusals that wait to be written. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.collectors.shared.json_fields import Object
from gpuwatch.collectors.shared.records import Columns, Row
from gpuwatch.core.model import Rejects

MAX_REFUSED = 10_000
"""Refused objects that are remembered, so that each is counted once."""

Tables = dict[str, list[Columns]]


class Outbox:
    """Filled while objects are read, emptied by the writer."""

    def __init__(self) -> None:
        self.count = 0
        """Number of rows that wait."""
        self._tables: Tables = {}
        self.rejects = Rejects()
        self._refused: set[tuple[str, str]] = set()

    def add(self, table: str, *rows: Columns) -> None:
        """Adds rows of one table."""
        if rows:
            self._tables.setdefault(table, []).extend(rows)
            self.count += len(rows)

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Adds rows of any tables."""
        for table, row in rows:
            self.add(table, row)

    def refuse(self, reason: str, item: Object) -> None:
        """Counts an object that cannot be used, once, although it comes again with every change of it."""
        metadata = item.get("metadata")
        known = metadata if isinstance(metadata, dict) else {}
        name = f"{known.get('namespace')}/{known.get('name')}"
        if (reason, name) not in self._refused:
            if len(self._refused) < MAX_REFUSED:
                self._refused.add((reason, name))
            self.rejects.add(reason, "kubernetes", 0, name)

    def refuse_input(self, reason: str, path: str, example: str = "") -> None:
        """Counts an answer of the server, or a whole collection, that cannot be read."""
        self.rejects.add(reason, path, 0, example)

    def take(self) -> Tables:
        """Hands over the rows that wait."""
        tables, self._tables, self.count = self._tables, {}, 0
        return tables

    def take_rejects(self) -> Rejects:
        """Hands over the refusals that wait."""
        rejects, self.rejects = self.rejects, Rejects()
        return rejects
