"""Tables of RESULTS.md."""

from __future__ import annotations

from collections.abc import Sequence


def target(what: str, aim: float, found: float | None, unit: str, higher: bool = False) -> tuple[str, ...]:
    """A line of the targets: what, the target, what was measured (None: it failed or was not), whether it was met."""
    sign = "≥" if higher else "≤"
    if found is None:
        return what, f"{sign} {aim:,g} {unit}", "nothing", "**not measured**"
    met = found >= aim if higher else found <= aim
    return what, f"{sign} {aim:,g} {unit}", f"{short(found)} {unit}", "yes" if met else "**no**"


def short(value: float) -> str:
    """A number as short as it may be."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of a Markdown table."""
    return [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]
