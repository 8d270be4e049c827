"""Pairs of a bill and the ledger by model and region, where no name joins them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuwatch.billing.reconcile.names import Node
from gpuwatch.rates.models import device_tokens, model_tokens

Place = tuple[str, str | None]
"""(model as the bill names it, region or None)."""


class Pairs:
    """The places of a bill's GPU lines, and those of the ledger's nodes.

    Regions count only where every node of the ledger has one and every GPU line names one.
    """

    def __init__(
        self,
        lines: Iterable[Mapping[str, Any]],
        ledger: Iterable[Mapping[str, Any]],
        regions: Iterable[Mapping[str, Any]],
    ) -> None:
        gpu_lines = [line for line in lines if line["class"] == "gpu"]
        self._regions: dict[Node, str | None] = {(row["cluster"], row["node"]): row["region"] for row in regions}
        nodes = {(row["cluster"], row["node"] or "") for row in ledger}
        self.by_region = all(self._regions.get(node) for node in nodes) and all(line["region"] for line in gpu_lines)
        self._places = sorted({self._place(line) for line in gpu_lines}, key=str)

    def of_line(self, line: Mapping[str, Any]) -> str:
        """The unit of a GPU line."""
        return _named(self._place(line))

    def of_ledger(self, row: Mapping[str, Any]) -> str:
        """The unit of a row of the ledger: the closest model on the bill in its region, else its own model."""
        region = self._regions.get((row["cluster"], row["node"] or "")) if self.by_region else None
        place = row["model"] or "", region and region.lower()
        words = device_tokens(place[0])
        alike = [one for one in self._places if one[1] == place[1] and model_tokens(one[0]) <= words and one[0]]
        return _named(max(alike, key=lambda one: len(model_tokens(one[0])), default=place))

    def _place(self, line: Mapping[str, Any]) -> Place:
        region = line["region"] if self.by_region else None
        return line["gpu_model"] or "", region and region.lower()


def _named(place: Place) -> str:
    return f"model:{place[0].lower()}|{place[1] or ''}"
