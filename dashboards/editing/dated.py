"""Lists whose rows hold from one date to another: rows are added, changed from a date on, ended, or removed before they begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import dates, fields, list_actions, lists, preview
from gpuwatch.dashboards.editing.dates import EPOCH, FROM, UNTIL
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import Outcome, Values
from gpuwatch.dashboards.shell.query import Query

HINT = "A date, or a time in RFC 3339. UTC."
PAST = Field(list_actions.PAST, "Change the past?", "choice", options=list_actions.PAST_OPTIONS)
HELD = (Field(list_actions.VERSION, "", "held"), Field("now", "", "held"))
SCOPE = ("gpu_model", "pricing", "cluster", "pool", "mig_profile", "commitment_id")
"""Fields of a price that say what it is of: of two with the same, only one holds at a time."""
STATES = {"In force": "ok", "Future": "warn", "Ended": "plain"}
"""States of a row, in the order of a table, and the kind of their tag."""


@dataclass(frozen=True)
class Dated:
    """How one such list is edited."""

    path: str
    noun: str
    message: str
    """What to say after a change."""
    new: Sequence[Field]
    """Fields of a new row, without its dates."""
    later: Sequence[Field]
    """Fields of a row that may change from a date on."""
    made: Callable[[Values], Row]
    """A new row from the values of `new` and the dates."""
    replaced: Callable[[Row, Values], Row]
    """The row that follows one, from the values of `later`."""
    label: Callable[[Row], str]
    read: str = ""
    """Path of the list, if other than `path`."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    charges: bool = True
    """Whether it changes charges: then it has a preview, and asks before it changes the past."""
    change_word: str = "Change"
    dropped: Sequence[str] = ()
    """Fields that the API adds to a row and does not take back."""


def state(row: Row, now: str) -> str:
    """Whether a row holds at the API's time."""
    if row.get(UNTIL) and lists.is_past(str(row[UNTIL]), now):
        return "Ended"
    return "In force" if not row.get(FROM) or lists.is_past(str(row[FROM]), now) else "Future"


def ordered(items: Sequence[Row], now: str) -> list[tuple[int, Row]]:
    """The rows with their places in the list: those in force first, ended ones last."""
    order = list(STATES)
    return sorted(enumerate(items), key=lambda one: (order.index(state(one[1], now)), one[0]))


def tag(row: Row, now: str) -> Component:
    """The state of a row."""
    word = state(row, now)
    return parts.tag(word, STATES[word])


def below(row: Row, now: str, *words: str) -> Component:
    """What the narrow screen of a phone has no columns for, below the name of a row: `words` and the state."""
    return html.Div(" · ".join([*words, state(row, now)]), className="soft small narrow-only")


def controls(kind: Dated, number: int, row: Row, now: str, query: Query) -> Component | None:
    """What may be done with a row: one that has ended stays as it is."""
    word = state(row, now)
    names = {"change": kind.change_word, "end": "End"} if word == "In force" else {"remove": "Remove"}
    if word == "Ended":
        return None
    return fields.controls(query, number, kind.label(row), names)


def form(kind: Dated, items: Sequence[Row], version: str, now: str, query: Query) -> Component | None:
    """The form in the address; None without one."""
    action, held = query.get("edit"), {list_actions.VERSION: version, "now": now, list_actions.PAST: "no"}
    start, end = Field(FROM, "Valid from", hint=HINT), Field(UNTIL, "Valid until", hint="Empty: no end.")
    past = [PAST, preview.PERIOD, preview.HOLDS] if kind.charges else []
    held |= preview.DEFAULTS
    if action == "add":
        shown = [*kind.new, start, end, *past, *HELD]
        values = held | {FROM: lists.tomorrow(now)} | dict(kind.defaults)
        return fields.form(f"Add a {kind.noun}", shown, values, buttons(kind, query))
    if action not in ("change", "end", "remove"):
        return None
    row = lists.at(list(items), query.get("row"))
    title = kind.label(row)
    if action == "change":
        values = held | {one.name: lists.text(row.get(one.name)) for one in kind.later} | {FROM: lists.tomorrow(now)}
        note = f"The present {kind.noun} ends there, and the new one begins. What was before stays."
        return fields.form(
            f"{kind.change_word}: {title}", [*kind.later, start, *past, *HELD], values, buttons(kind, query), note
        )
    if action == "end":
        values = held | {UNTIL: lists.tomorrow(now)}
        ends = [Field(UNTIL, "Valid until", hint=HINT), *past, *HELD]
        return fields.form(f"End: {title}", ends, values, buttons(kind, query))
    return fields.form(f"Remove: {title}", HELD, held, buttons(kind, query, "Remove it"), "It has not begun yet.")


def buttons(kind: Dated, query: Query, removes: str = "") -> list[Component]:
    """Preview, save and cancel."""
    see = [fields.button(list_actions.PREVIEW, "Show the effect")] if kind.charges and not removes else []
    save = fields.button(list_actions.SAVE, removes or "Save", "danger" if removes else "primary")
    return [*see, save, fields.cancel(query)]


async def act(kind: Dated, api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Previews or saves the form of the address."""
    if kind.charges and action == list_actions.PREVIEW:
        return Outcome(below=await previewed(kind, api, query, values))
    asked = {"add": (FROM, UNTIL), "change": (FROM,), "end": (UNTIL,)}.get(query.get("edit"), ())
    if kind.charges and action == list_actions.SAVE:
        refused = list_actions.past_change(values, values.get("now"), *asked)
        if refused is not None:
            return refused
    return await list_actions.run(
        api,
        action,
        values,
        lambda items: sent(kind, changed(kind, items, query, values)),
        path=kind.path,
        read=kind.read,
        message=kind.message,
        previewed=False,
    )


async def previewed(kind: Dated, api: Api, query: Query, values: Values) -> Component:
    """What each team would have paid with the change of a form, from its date on or as if it held all of the time."""
    items = (await lists.whole(api, kind.read or kind.path)).items
    throughout = preview.holds_throughout(values)
    proposed = (as_if_always if throughout else changed)(kind, items, query, values)
    body = {"items": sent(kind, proposed)}
    window = preview.period(values)
    found = await api.change("POST", f"{kind.path}/what-if", body, window=window, patient=True)
    verb = "had ended before" if query.get("edit") == "end" else "held all of"
    note = f"As if this {kind.noun} {verb} this time." if throughout else ""
    only_later = throughout and values.get(list_actions.PAST) != "yes"
    if only_later:
        begins = formats.clip(values.get(UNTIL if query.get("edit") == "end" else FROM), 40)
        note += f" Saving it changes nothing before {begins}: the bills of the past stay as they are."
    shown = found | {"closed": []} if only_later else found
    return preview.drawn(shown, note, reason(kind, items, query, values, found))


def reason(kind: Dated, items: list[Row], query: Query, values: Values, found: Row) -> str:
    """Why a preview shows no change."""
    if preview.holds_throughout(values):
        same = query.get("edit") == "change" and all(
            formats.number(values.get(one.name)) == formats.number(lists.at(items, query.get("row")).get(one.name))
            for one in kind.later
        )
        return (
            f"The {kind.noun} has the same values as now." if same else f"No charge of this time uses this {kind.noun}."
        )
    start = lists.instant(values.get(UNTIL if query.get("edit") == "end" else FROM, ""))
    end = (found.get("window") or {}).get("end")
    if start and end and not lists.is_past(start, end):
        began = "ends" if query.get("edit") == "end" else "begins"
        return f"The {kind.noun} {began} on {dates.date(start)}, after this time. Choose “All of that time” above to see its effect."
    return f"No charge from {dates.date(start)} on uses this {kind.noun}." if start else preview.NO_REASON


def as_if_always(kind: Dated, items: list[Row], query: Query, values: Values) -> list[Row]:
    """The list as if the change of a form held at all times: other rows of the same scope give way."""
    action = query.get("edit")
    row = kind.made(values) if action == "add" else lists.at(items, query.get("row"))
    others = [one for one in items if scope(one) != scope(row)]
    if action == "end":
        return others
    new = kind.replaced(row, values) if action == "change" else row
    return [*others, new | {FROM: EPOCH, UNTIL: None}]


def scope(row: Row) -> tuple[str, ...]:
    """What a price is of."""
    return tuple(str(row.get(name) or "").casefold() for name in SCOPE)


def changed(kind: Dated, items: list[Row], query: Query, values: Values) -> list[Row]:
    """The list with the change of a form."""
    action = query.get("edit")
    start, until = (lists.instant(values.get(name, "")) for name in (FROM, UNTIL))
    if action == "add":
        return [*items, kind.made(values) | {FROM: start} | ({UNTIL: until} if until else {})]
    row, number = lists.at(items, query.get("row")), int(query.get("row"))
    if action in ("change", "end"):
        check_later(kind, row, FROM if action == "change" else UNTIL, start if action == "change" else until)
    if action == "change":
        present = [row | {UNTIL: start}, kind.replaced(row, values) | {FROM: start}]
    elif action == "end":
        present = [row | {UNTIL: until}]
    elif action == "remove":
        present = []
    else:
        raise ApiFailure(404, "not_found", "This form is not known.", "Go back to the list.")
    return [*items[:number], *present, *items[number + 1 :]]


def check_later(kind: Dated, row: Row, name: str, at: str) -> None:
    """Refuses a date at or before the beginning of the row that it ends."""
    began = row.get(FROM)
    if began and formats.moment(at) is not None and (at == began or lists.is_past(at, began)):
        words = f"The present {kind.noun} began on {dates.date(began)}: choose a later date"
        raise ApiFailure(400, "bad_request", words, field=name)


def sent(kind: Dated, items: list[Row]) -> list[Row]:
    """Rows as the API takes them."""
    return [{name: value for name, value in row.items() if name not in kind.dropped} for row in items]
