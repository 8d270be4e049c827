"""HTML by construction: what is not markup is escaped, whoever wrote it."""

from __future__ import annotations

import html
from collections.abc import Iterable

from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report.facts import UNOWNED

NAME_SHOWN = 80
"""Characters of a name that a page shows; the table file has all of it."""
_SPACES = "\u00a0\u202f"
_VOID = {"meta", "br", "col", "link"}


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | Html | None | Iterable["Child"]


def escape(text: str) -> Html:
    """Literal text: markup characters are escaped, control and direction characters made visible."""
    shown = "".join(c if c.isprintable() or c in _SPACES else c.encode("unicode_escape").decode("ascii") for c in text)
    return Html(html.escape(shown, quote=True))


def name(text: str | None, missing: str = "unknown") -> str:
    """A user-chosen name, cut to fit a line; `missing` where there is none."""
    if text is None or not text.strip():
        return missing
    return text if len(text) <= NAME_SHOWN else f"{text[: NAME_SHOWN - 1]}…"


def owner_name(team: str | None) -> str:
    """A team's name, or words for unallocated and unassigned time."""
    return {PLATFORM: "Unallocated (platform)", UNOWNED: "No team assigned"}.get(team or "", name(team))


def join(*children: Child) -> Html:
    """Children one after another; None is nothing."""
    return Html("".join(_parts(children)))


def tag(kind: str, *children: Child, **attributes: str | int | None) -> Html:
    """`<kind ...>children</kind>`. `cls` is class, a `_` in a name is a dash; an attribute of None is left out."""
    listed = "".join(
        f' {"class" if key == "cls" else key.replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if kind in _VOID:
        return Html(f"<{kind}{listed}>")
    return Html(f"<{kind}{listed}>{join(*children)}</{kind}>")


def _parts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            yield str(child)
        elif isinstance(child, str):
            yield str(escape(child))
        else:
            yield from _parts(child)
