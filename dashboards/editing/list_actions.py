"""The actions of a form over a list: preview and save."""

from __future__ import annotations

from collections.abc import Callable

from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats
from gpuwatch.dashboards.editing import lists, preview
from gpuwatch.dashboards.editing.outcome import CLOSED, Outcome, Values

SAVE, PREVIEW = "save", "preview"
VERSION = "version"
"""The held field with the version that the form was made from."""
PAST = "past"
PAST_OPTIONS = (("no", "No, only from now on"), ("yes", "Yes, past charges too"))
Change = Callable[[list[Row]], list[Row]]


async def run(
    api: Api,
    action: str,
    values: Values,
    change: Change,
    *,
    path: str,
    message: str,
    read: str = "",
    previewed: bool = True,
) -> Outcome:
    """Shows the effect of a change, or makes it."""
    if action == PREVIEW and previewed:
        found = await lists.whole(api, read or path)
        return Outcome(below=await preview.ask(api, path, {"items": change(found.items)}, values))
    if action != SAVE:
        raise PreventUpdate  # no button of ours
    done = await lists.replace(api, path, values.get(VERSION, ""), change, read=read)
    warnings = "; ".join(str(one) for one in done.get("warnings") or [])
    if not done.get("changed", True):
        message = "Nothing changed: the list is as before."
    return Outcome(message=formats.clip(f"{message} {warnings}".strip(), 400), go=CLOSED)


def past_change(values: Values, now: object, *names: str) -> Outcome | None:
    """Asks for consent where an instant of the form lies in the past, because charges that were made change with it."""
    if values.get(PAST) == "yes":
        return None
    wrong = {
        name: "This is in the past, so charges that were already made would change. Choose Yes below to allow that."
        for name in names
        if values.get(name) and lists.is_past(values[name], now)
    }
    return Outcome(wrong=wrong) if wrong else None
