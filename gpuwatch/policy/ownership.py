"""Ownership rules: which team a run belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.core.names import hidden_character
from gpuwatch.rates.csv_table import read_rows

UNALLOCATED = "__unallocated__"
"""The team of held time whose owner is unknown."""
PLATFORM = "__platform__"
"""Who pays for time that nobody held, and owns the fleet's budget."""

TEAM_LABEL = "gpuwatch.io/team"
"""A run's own word for its team; it wins over every rule."""

RESERVED_PREFIX = "__"
"""Names that begin so are the ledger's own (`__platform__`): neither a rule nor a label may claim one."""

COLUMNS = ("match_kind", "match", "team")
PLAIN_KINDS = ("queue", "namespace", "account", "user")
"""Kinds after labels, in the order in which they decide."""

LABEL_KIND = "label:"

SAME = "*"
"""As the team of a rule: the value that matched names the team."""

WILD_MAX = 200
"""Earlier rules with stars that begin alike and are compared with a later one."""

WORDS = ("labels", "queue", "namespace", "account", "user_name")
"""Columns of a run that its team is found by."""


@dataclass(frozen=True)
class TeamRule:
    """Runs whose `match_kind` (namespace, account, user, queue or label:<key>) equals `match` belong to `team`.

    Case counts; `*` in `match` stands for any text, every other character for itself. With the team SAME, the value is the team.
    """

    match_kind: str
    match: str
    team: str
    line: int = field(default=0, compare=False)
    """Line of the file it came from, 0 where it did not come from one."""

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise UsageError(f"team rule {self.match_kind}={self.match}: {problem}") from ValueError(problem)

    def matches(self, value: str | None) -> bool:
        """Whether a value of its kind is meant; an absent or empty one never is."""
        return bool(value) and _glob(self.match, value or "")

    def team_of(self, value: str | None) -> str | None:
        """The team of a value of its kind; None where the rule does not decide: no value that it matches may claim a reserved name."""
        if not self.matches(value):
            return None
        if self.team != SAME:
            return self.team
        named = (value or "").strip()
        return named if named not in ("", SAME) and not named.startswith(RESERVED_PREFIX) else None


def parse_teams(text: str | bytes, file: str, rejects: Rejects) -> tuple[TeamRule, ...]:
    """The rules of a teams.csv, in file order; a bad line goes to `rejects` and the rest is kept.

    A line that repeats an earlier one, or gives to another team what an earlier line matches, wholly, can never decide,
    so it is refused, naming both. Raises UnreadableInput where the file is not CSV with the required columns.
    """
    kept = Decided()
    for line, row in read_rows(text, file, COLUMNS, (), rejects):
        shown = ",".join(row.values())
        try:
            rule = TeamRule(row["match_kind"], row["match"], row["team"], line)
        except UsageError as error:
            rejects.add(str(error.__cause__ or error), file, line, shown)
            continue
        if (hidden := hidden_character(rule.team)) is not None:
            rejects.add("team has a hidden character: remove it", file, line, f"line {line}: {hidden}")
            continue
        if (first := kept.add(rule)) is None:
            continue
        if first == rule:
            rejects.add("an earlier line says the same", file, line, f"line {line} repeats line {first.line}: {shown}")
        elif first.match == rule.match:
            reason = "the same match is given to another team by an earlier line, which decides"
            rejects.add(reason, file, line, f"line {line} contradicts line {first.line}: {shown}")
        else:
            reason = "an earlier line gives all that this one matches to another team, and decides"
            rejects.add(reason, file, line, f"line {line} never decides after line {first.line}: {shown}")
    return tuple(kept.rules.values())


class Decided:
    """Rules in their order, and which of them can never decide because an earlier one says so, or another team, always."""

    def __init__(self) -> None:
        self.rules: dict[tuple[str, str], TeamRule] = {}
        self._wild: dict[tuple[str, str], list[TeamRule]] = {}  # by kind and the text before the first star
        self._lengths: dict[str, set[int]] = {}  # of those texts, by kind

    def add(self, rule: TeamRule) -> TeamRule | None:
        """Takes a rule; or leaves it out and returns the earlier one that decides in its place."""
        same = self.rules.get((rule.match_kind, rule.match))
        if same is not None:
            return same
        for length in sorted(self._lengths.get(rule.match_kind, ())):
            # A star of this rule is a character like others here: only a star of the earlier one stands for it.
            for earlier in self._wild.get((rule.match_kind, rule.match[:length]), ())[:WILD_MAX]:
                if earlier.team != rule.team and _glob(earlier.match, rule.match):
                    return earlier
        self.rules[rule.match_kind, rule.match] = rule
        if "*" in rule.match:
            fixed = rule.match.partition("*")[0]
            self._wild.setdefault((rule.match_kind, fixed), []).append(rule)
            self._lengths.setdefault(rule.match_kind, set()).add(len(fixed))
        return None


def resolve(
    rules: Sequence[TeamRule],
    labels: Mapping[str, str],
    queue: str | None,
    namespace: str | None,
    account: str | None,
    user: str | None,
) -> tuple[str, str]:
    """(team, why) of a run: its own label, then label, queue, namespace, account and user rules, else UNALLOCATED.

    Rules of the same kind are tried in the order given; all label rules are one kind.
    """
    return deciding(rules, labels, queue, namespace, account, user)[:2]


def deciding(
    rules: Sequence[TeamRule],
    labels: Mapping[str, str],
    queue: str | None,
    namespace: str | None,
    account: str | None,
    user: str | None,
) -> tuple[str, str, int | None]:
    """The same with the place of the rule that decides, from 0; None where none does."""
    named = labels.get(TEAM_LABEL, "").strip()
    if named and not named.startswith(RESERVED_PREFIX):
        return named, f"label {TEAM_LABEL}", None
    for place, rule in enumerate(rules):
        if rule.match_kind.startswith(LABEL_KIND):
            key = rule.match_kind.removeprefix(LABEL_KIND)
            if team := rule.team_of(labels.get(key)):
                return team, f"label {key}={labels[key]}", place
    for kind, value in zip(PLAIN_KINDS, (queue, namespace, account, user), strict=True):
        for place, rule in enumerate(rules):
            if rule.match_kind == kind and (team := rule.team_of(value)):
                return team, f"{kind} {value}", place
    return UNALLOCATED, "no label and no rule matches", None


def parse_labels(text: str | None) -> dict[str, str]:
    """The labels of a JSON object; {} for NULL and for what is not one. Values that are not text are left out."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}


def _glob(pattern: str, value: str) -> bool:
    """Whether `value` is `pattern` with each `*` standing for any text. Linear: no backtracking."""
    first, *rest = pattern.split("*")
    if not rest:
        return value == pattern
    last = rest.pop()
    if not value.startswith(first) or len(value) < len(first) + len(last) or not value.endswith(last):
        return False
    at, end = len(first), len(value) - len(last)
    for part in rest:
        at = value.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _problems(rule: TeamRule) -> Iterable[str]:
    """What a TeamRule may not be, in words without its values, so that refusals count together."""
    key = rule.match_kind.removeprefix(LABEL_KIND)
    if rule.match_kind == LABEL_KIND + TEAM_LABEL:
        yield f"the label {TEAM_LABEL} is the team itself: no rule is asked about it"
    if rule.match_kind not in PLAIN_KINDS and (key == rule.match_kind or not key):
        yield f"match_kind is not one of {', '.join(sorted(PLAIN_KINDS))}, label:<key>"
    if not rule.match:
        yield "match is empty: give a name, or * for every one"
    if not rule.team:
        yield "team is empty"
    if rule.team.startswith(RESERVED_PREFIX):
        yield f"team begins with {RESERVED_PREFIX}: those names are the ledger's own"
