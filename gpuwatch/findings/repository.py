"""Actions of owners on findings: acknowledge, snooze, exempt, reopen."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpuwatch.core.clock import DAY_US, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.state.core import State, record

ACTIONS = ("ack", "snooze", "exempt", "reopen")
UNTIL_US_MAX = 366 * DAY_US
"""How far ahead an action may end; use exempt for longer."""
MAX_REASON = 500
"""Characters of a reason."""
VERDICTS = ("true_positive", "false_positive")
"""Ratings that an owner may give when acknowledging a finding."""
MAX_HISTORY = 1000
"""Actions on one finding that are returned, the newest first."""

_tables = sa.MetaData()
_action = sa.Table(
    "finding_action",
    _tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("finding_key", sa.String(200)),
    sa.Column("action", sa.String(16)),
    sa.Column("until_us", sa.BigInteger),
    sa.Column("reason", sa.Text),
    sa.Column("actor", sa.Text),
    sa.Column("at_us", sa.BigInteger),
    sa.Column("verdict", sa.String),
)


@dataclass(frozen=True)
class Action:
    """One action on a finding; `until_us` None: until another action replaces it. `verdict` is one of VERDICTS."""

    key: str
    action: str
    until_us: int | None
    reason: str
    actor: str
    at_us: int
    verdict: str | None = None


@dataclass(frozen=True)
class Feedback:
    """How many findings of a rule owners rated as true and false positives."""

    true_positives: int = 0
    false_positives: int = 0

    @property
    def precision(self) -> float | None:
        """The share of true positives; None without any feedback."""
        rated = self.true_positives + self.false_positives
        return self.true_positives / rated if rated else None


class Actions:
    """The actions of a state. Every method is one transaction and raises StoreError if the state cannot be reached."""

    def __init__(self, state: State) -> None:
        self._state = state

    def act(self, action: Action) -> Action:
        """Records an action, audited. Raises UsageError: unknown action, no reason, or an `until` out of bounds."""
        _check(action)
        with self._state.transaction(write=True) as connection:
            before = connection.execute(
                sa.select(_action).where(_action.c.finding_key == action.key).order_by(_action.c.id.desc()).limit(1)
            ).first()
            connection.execute(
                sa.insert(_action).values(
                    finding_key=action.key,
                    action=action.action,
                    until_us=action.until_us,
                    reason=action.reason,
                    actor=action.actor,
                    at_us=action.at_us,
                    verdict=action.verdict,
                )
            )
            what = f"finding {action.key} {action.action}"
            was = None if before is None else json.dumps(_words(_read(before)))
            record(connection, action.at_us, action.actor, what, was, json.dumps(_words(action)))
        return action

    def current(self, now_us: int) -> dict[str, Action]:
        """The action in force by finding key: the last one, unless it reopened or its end has passed."""
        newest = sa.select(sa.func.max(_action.c.id)).group_by(_action.c.finding_key)
        in_force = sa.or_(_action.c.until_us.is_(None), _action.c.until_us > now_us)
        query = sa.select(_action).where(_action.c.id.in_(newest), _action.c.action != "reopen", in_force)
        with self._state.transaction(write=False) as connection:
            found = [_read(row) for row in connection.execute(query)]
        return {action.key: action for action in found}

    def history(self, key: str) -> tuple[Action, ...]:
        """The actions on one finding, newest first; at most MAX_HISTORY."""
        query = sa.select(_action).where(_action.c.finding_key == key).order_by(_action.c.id.desc())
        with self._state.transaction(write=False) as connection:
            return tuple(_read(row) for row in connection.execute(query.limit(MAX_HISTORY)))

    def verdicts(self) -> dict[str, str]:
        """The newest verdict of an owner on each finding, by key."""
        newest = (
            sa.select(sa.func.max(_action.c.id)).where(_action.c.verdict.is_not(None)).group_by(_action.c.finding_key)
        )
        query = sa.select(_action.c.finding_key, _action.c.verdict).where(_action.c.id.in_(newest))
        with self._state.transaction(write=False) as connection:
            return {key: verdict for key, verdict in connection.execute(query)}

    def feedback(self) -> dict[str, Feedback]:
        """The ratings of owners by rule; a finding's key begins with its rule."""
        found: dict[str, Feedback] = {}
        for key, verdict in self.verdicts().items():
            rule = key.rpartition("-")[0]
            so_far = found.get(rule, Feedback())
            true = int(verdict == "true_positive")
            found[rule] = Feedback(so_far.true_positives + true, so_far.false_positives + 1 - true)
        return found


def _check(action: Action) -> None:
    if action.action not in ACTIONS:
        raise UsageError(f"finding action {action.action!r}: use {', '.join(ACTIONS)}")
    if not action.reason.strip() or len(action.reason) > MAX_REASON:
        raise UsageError(f"reason: say why in 1 to {MAX_REASON} characters")
    if action.action == "snooze" and action.until_us is None:
        raise UsageError("until: a snooze ends; give a time")
    if action.action == "reopen" and action.until_us is not None:
        raise UsageError("until: a reopened finding has no end; leave it out")
    if action.verdict is not None and (action.action != "ack" or action.verdict not in VERDICTS):
        raise UsageError(f"verdict: goes with ack and is one of {', '.join(VERDICTS)}")
    if action.until_us is not None and not action.at_us < action.until_us <= action.at_us + UNTIL_US_MAX:
        days = UNTIL_US_MAX // DAY_US
        raise UsageError(f"until {rfc3339(action.until_us)}: must lie in the next {days} days")


def _read(row: Any) -> Action:
    return Action(row.finding_key, row.action, row.until_us, row.reason, row.actor, row.at_us, row.verdict)


def _words(action: Action) -> dict[str, str | None]:
    until = None if action.until_us is None else rfc3339(action.until_us)
    verdict = {} if action.verdict is None else {"verdict": action.verdict}
    return {"action": action.action, "until": until, "reason": action.reason, **verdict}
