"""Where the rows of versioned lists are stored."""

from __future__ import annotations

from dataclasses import dataclass

KEY = ("kind", "version", "position")
"""Columns that every table of rows has: the list, its version, and the place of the row in it."""


@dataclass(frozen=True)
class Rows:
    """A table and its columns besides KEY. Names that end in `_us` are times; `line` is the number of a line."""

    table: str
    columns: tuple[str, ...]


JSON_ROWS = Rows("card_row", ("content",))
"""Of lists without a table of their own: each row is JSON."""
OWN_ROWS = {
    "rates": Rows(
        "rate",
        (
            "gpu_model",
            "pricing",
            "usd_per_gpu_hour",
            "valid_from_us",
            "valid_to_us",
            "cluster",
            "pool",
            "mig_profile",
            "currency",
            "line",
            "more",
        ),
    ),
    "teams": Rows("ownership_rule", ("match_kind", "match", "team", "line")),
}
"""Of lists with a table of their own, one column per field."""
