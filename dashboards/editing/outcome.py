"""What an action of a form did, and which fields an error of the API is about."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure
from gpuwatch.dashboards.editing.fields import FORM
from gpuwatch.dashboards.shell.query import Query

Values = Mapping[str, str]
"""The values of a form's fields, stripped, by name."""

CLOSED: Mapping[str, str | None] = {"edit": None, "row": None, "kind": None}
"""The change of address that closes a form."""
_NOTHING = "nothing was changed: "
_PART = re.compile(
    r"(?:[a-z]+: |channel [\w.-]*: )?(?:(?:items|policies|pools|teams)\.\d+)?[.:]?\s*(\w+)(.*)", re.DOTALL
)
_PATH = re.compile(r"(?:line \d+: )?(?:[\w-]+\.)+(\w+)\b(:? .*)", re.DOTALL)
"""The place of a mistake in a document, such as thresholds.idle-hoarding.idle_us_min."""


@dataclass(frozen=True)
class Outcome:
    """What an action did."""

    message: str = ""
    """The message to show."""
    wrong: Mapping[str, str] = field(default_factory=dict)
    """What is wrong, by field, or for FORM."""
    below: Component | None = None
    """Shown below the form: a preview, or a secret that is shown once."""
    go: Mapping[str, str | None] | None = None
    """Changes of the page's address; None: the form stays open."""


Action = Callable[[Api, Query, str, Values], Awaitable[Outcome]]
"""What a page does when a button of its form is pressed: (API, address, action, values)."""

_actions: dict[str, Action] = {}


def acts_on(path: str) -> Callable[[Action], Action]:
    """Registers what the forms of a page do."""

    def register(action: Action) -> Action:
        if path in _actions:
            raise ValueError(f"page {path!r} has two actions: {_actions[path]} and {action}")
        _actions[path] = action
        return action

    return register


def action_of(path: str) -> Action | None:
    """What the forms of a page do; None if it has none."""
    return _actions.get(path)


def mistakes(error: ApiFailure, names: Collection[str]) -> dict[str, str]:
    """The API's words by the fields that they are about; FORM for the rest."""
    message = error.message.removeprefix(_NOTHING)
    if error.status != 400:
        return {FORM: f"{error.message}. {error.hint}".replace("..", ".")}
    found: dict[str, str] = {}
    last = error.field.rpartition(".")[2] if error.field.rpartition(".")[2] in names else FORM
    for part in message.split("; "):
        match = _PATH.fullmatch(part)
        if match is None or match[1] not in names:
            match = _PART.fullmatch(part)
        if match is not None and match[1] in names:
            last, part = match[1], f"{match[1]}{match[2]}"
        found[last] = f"{found[last]}\n{part}" if last in found else part
    return found
