"""Actions of owners on findings: acknowledge, snooze, exempt, reopen, assign, judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuwatch.core.clock import DAY_US, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.state.core import State, record

STATE_ACTIONS = ("ack", "snooze", "exempt", "reopen")
"""Actions that change the state of a finding."""
ACTIONS = (*STATE_ACTIONS, "assign", "judge")
"""`assign` names who looks after a finding; `judge` records only whether it was true."""
BULK_MAX = 500
"""Findings that one request acts on."""
ASSIGNEE_MAX = 200
"""Characters of a name."""
UNTIL_US_MAX = 366 * DAY_US
"""How far ahead an action may end; use exempt for longer."""
MAX_REASON = 500
"""Characters of a reason."""
VERDICTS = ("true_positive", "false_positive")
"""Ratings that an owner may give when acknowledging or judging a finding."""
MAX_HISTORY = 1000
"""Actions on one finding that are returned, the newest first."""

_COLUMNS = "finding_key, action, until_us, reason, actor, at_us, verdict, assignee"


@dataclass(frozen=True)
class Action:
    """One action on a finding; `until_us` None: until another action replaces it. `verdict` is one of VERDICTS.

    `assignee` goes with `assign`; None takes the assignment back.
    """

    key: str
    action: str
    until_us: int | None
    reason: str
    actor: str
    at_us: int
    verdict: str | None = None
    assignee: str | None = None


@dataclass(frozen=True)
class Mark:
    """What owners noted on a finding apart from its state."""

    assignee: str | None = None
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
        self.act_all([action])
        return action

    def act_all(self, actions: Sequence[Action]) -> None:
        """Records actions on different findings, each of them audited: all of them or none. Raises UsageError."""
        import sqlalchemy as sa

        from gpuwatch.findings.tables import ACTION

        if not 0 < len(actions) <= BULK_MAX:
            raise UsageError(f"keys: name 1 to {BULK_MAX} findings")
        for action in actions:
            _check(action)
        keys = [action.key for action in actions]
        newest = sa.select(sa.func.max(ACTION.c.id)).where(ACTION.c.finding_key.in_(keys))
        known = [column for column in ACTION.c if column.name != "id"]
        last = sa.select(*known).where(ACTION.c.id.in_(newest.group_by(ACTION.c.finding_key)))
        with self._state.transaction(write=True) as connection:
            before = {row["finding_key"]: json.dumps(_words(_read(row))) for row in connection.execute(last).mappings()}
            connection.execute(sa.insert(ACTION), [_row(action) for action in actions])
            for one in actions:
                what = f"finding {one.key} {one.action}"
                record(connection, one.at_us, one.actor, what, before.get(one.key), json.dumps(_words(one)))

    def current(self, now_us: int) -> dict[str, Action]:
        """The action in force by finding key: the last one, unless it reopened or its end has passed."""
        found = self._state.read(
            f"select {_COLUMNS} from finding_action where id in (select max(id) from finding_action"
            " where action in ('ack', 'snooze', 'exempt', 'reopen') group by finding_key)"
            " and action <> 'reopen' and (until_us is null or until_us > :now_us)",
            now_us=now_us,
        )
        return {row["finding_key"]: _read(row) for row in found}

    def history(self, key: str) -> tuple[Action, ...]:
        """The actions on one finding, newest first; at most MAX_HISTORY."""
        query = f"select {_COLUMNS} from finding_action where finding_key = :key order by id desc limit :most"
        return tuple(_read(row) for row in self._state.read(query, key=key, most=MAX_HISTORY))

    def verdicts(self) -> dict[str, str]:
        """The newest verdict of an owner on each finding, by key."""
        found = self._state.read(
            "select finding_key, verdict from finding_action where id in"
            " (select max(id) from finding_action where verdict is not null group by finding_key)"
        )
        return {row["finding_key"]: row["verdict"] for row in found}

    def marks(self) -> dict[str, Mark]:
        """Assignees and verdicts, by key."""
        found = self._state.read(
            "select finding_key, assignee from finding_action where id in"
            " (select max(id) from finding_action where action = 'assign' group by finding_key) and assignee is not null"
        )
        assigned = {row["finding_key"]: row["assignee"] for row in found}
        judged = self.verdicts()
        return {key: Mark(assigned.get(key), judged.get(key)) for key in assigned.keys() | judged.keys()}

    def dismissed(self) -> set[str]:
        """The findings that owners called false positives, and did not reopen since."""
        found = self._state.read(
            "select finding_key from finding_action where id in (select max(id) from finding_action"
            " where verdict is not null or action = 'reopen' group by finding_key) and verdict = 'false_positive'"
        )
        return {row["finding_key"] for row in found}

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
    explained = action.action in ("assign", "judge") or action.reason.strip()
    if not explained or len(action.reason) > MAX_REASON:
        raise UsageError(f"reason: say why in 1 to {MAX_REASON} characters")
    if action.action == "snooze" and action.until_us is None:
        raise UsageError("until: a snooze ends; give a time")
    if action.action in ("reopen", "assign", "judge") and action.until_us is not None:
        raise UsageError(f"until: {action.action} has no end; leave it out")
    if action.verdict is not None and (action.action not in ("ack", "judge") or action.verdict not in VERDICTS):
        raise UsageError(f"verdict: goes with ack or judge and is one of {', '.join(VERDICTS)}")
    if action.action == "judge" and action.verdict is None:
        raise UsageError(f"verdict: judge needs one of {', '.join(VERDICTS)}")
    _check_assignee(action)
    if action.until_us is not None and not action.at_us < action.until_us <= action.at_us + UNTIL_US_MAX:
        days = UNTIL_US_MAX // DAY_US
        raise UsageError(f"until {rfc3339(action.until_us)}: must lie in the next {days} days")


def _check_assignee(action: Action) -> None:
    if action.assignee is None:
        return
    if action.action != "assign":
        raise UsageError("assignee: goes with assign")
    if not action.assignee.strip() or len(action.assignee) > ASSIGNEE_MAX or not action.assignee.isprintable():
        raise UsageError(f"assignee: a name of 1 to {ASSIGNEE_MAX} printable characters, or null for nobody")


def _read(row: Any) -> Action:
    return Action(**{"key" if name == "finding_key" else name: value for name, value in row.items()})


def _row(action: Action) -> dict[str, Any]:
    return {"finding_key" if name == "key" else name: value for name, value in vars(action).items()}


def _words(action: Action) -> dict[str, str | None]:
    until = None if action.until_us is None else rfc3339(action.until_us)
    verdict = {} if action.verdict is None else {"verdict": action.verdict}
    assignee = {"assignee": action.assignee} if action.action == "assign" else {}
    return {"action": action.action, "until": until, "reason": action.reason, **verdict, **assignee}
