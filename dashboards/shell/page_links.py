"""Texts of the service that name a command, with a link to the page that does the same."""

from __future__ import annotations

import re

from dash.development.base_component import Component

from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.shell.query import Query

PAGES = {
    "rates owned": ("Owned hardware", "/owned", {}),
    "rates fx": ("Exchange rates", "/fx", {}),
    "rates spot": ("Spot prices", "/spot", {}),
    "rates": ("Rates", "/rates", {}),
    "doctor": ("Data quality", "/quality", {}),
    "decide own-vs-cloud": ("Decisions", "/decisions", {}),
    "decide spot": ("Decisions", "/decisions", {"of": "spot"}),
    "decide right-sizing": ("Decisions", "/decisions", {"of": "slices"}),
    "import bill-focus": ("Reconcile", "/reconcile", {}),
    "imports": ("Imports", "/imports", {}),
    "import --forget": ("Imports", "/imports", {}),
    "period": ("Periods", "/periods", {}),
    "token": ("Tokens", "/tokens", {}),
    "reclaim": ("Reclaims", "/reclaim", {}),
}
"""By the words of a command: the title and address of its page. The longest words that fit count."""
_WORDS = "|".join(re.escape(words) for words in sorted(PAGES, key=len, reverse=True))
_COMMAND = re.compile(
    rf"`?gpuwatch ({_WORDS})\b(?: (?:set|list|create)\b)?(?: [A-Z]{{2,}}\b)*(?: --[a-z]+ [A-Z]+\b)?`?"
)


def linked(text: str) -> list[Component | str]:
    """The text; each command that has a page is a link to it."""
    found: list[Component | str] = []
    at = 0
    for hit in _COMMAND.finditer(text):
        word, path, values = PAGES[hit[1]]
        found += [text[at : hit.start()], parts.link(word, Query(path).link(**values))]
        at = hit.end()
    return [one for one in [*found, text[at:]] if one != ""]
