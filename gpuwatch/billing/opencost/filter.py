"""OpenCost's filter language: `namespace:"a","b"+label[app]!~:"x"`, and the parameters that were there before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpuwatch.billing.opencost.subject import ALIASES, Subject, sanitised
from gpuwatch.core.errors import UsageError

LENGTH_MAX = 8000
"""Characters of a filter."""
DEPTH_MAX = 32
"""Parentheses within parentheses."""
VALUES_MAX = 1000
"""Values of the parameters of one question."""

FIELDS = {
    "cluster": "cluster", "node": "node", "namespace": "namespace", "controllerKind": "controller_kind",
    "controllerName": "controller", "controller": "controller", "pod": "pod", "container": "container",
    "provider": "provider_id", "providerID": "provider_id", "services": "service", "service": "service",
}  # fmt: skip
"""Names of the filter language, by the word of a Subject that they compare."""
MAPS = ("label", "annotation")
UNALLOCATED = "__unallocated__"

Test = Callable[[str, str], bool]
OPERATORS: dict[str, tuple[bool, Test]] = {
    ":": (False, str.__eq__), "!:": (True, str.__eq__), "~:": (False, str.__contains__),
    "!~:": (True, str.__contains__), "<~:": (False, str.startswith), "!<~:": (True, str.startswith),
    "~>:": (False, str.endswith), "!~>:": (True, str.endswith),
}  # fmt: skip
"""Sign of an operator: whether it is negated, and what a value must do."""


@dataclass(frozen=True)
class Comparison:
    """One field against several values: any of them may match, or none where `negated`."""

    field: str
    key: str | None
    sign: str
    values: tuple[str, ...]

    def matches(self, subject: Subject) -> bool:
        negated, test = OPERATORS[self.sign]
        if self.field in MAPS and self.key is None:
            names = subject.map_of(self.field)
            # Without a key it asks for the names of labels.
            hit = any(sanitised(value) in names for value in self.values)
        elif self.field == "service":
            hit = UNALLOCATED in self.values
        else:
            found = subject.text(self.field, self.key)
            hit = any(test(found, "" if value == UNALLOCATED else value) for value in self.values)
        return hit is not negated


@dataclass(frozen=True)
class Group:
    """Several conditions: all of them, or any."""

    every: bool
    members: tuple[Node, ...]

    def matches(self, subject: Subject) -> bool:
        return (all if self.every else any)(member.matches(subject) for member in self.members)


Node = Comparison | Group
EVERYTHING = Group(True, ())


def fields(node: Node) -> set[str]:
    """Words of a Subject that a filter looks at, `label` for any label."""
    if isinstance(node, Group):
        return {name for member in node.members for name in fields(member)}
    return {node.field}


_TOKEN = re.compile(
    r'(?P<blank>[ \t\r\n]+)|(?P<op>!?(?:<~|~>|~)?:)|(?P<sign>[,+|()])|"(?P<text>[^"]*)"|\[(?P<key>[^\]]*)\]'
    r"|(?P<name>[0-9A-Za-z_-]+)"
)


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    at: int


def parse(text: str) -> Node:
    """A filter as a condition on subjects; empty text lets everything through.

    `,` between values is "or", `+` and a blank between conditions are "and", `|` is "or"; within one pair of parentheses
    "and" and "or" do not mix. Raises UsageError with the position, counted from 1.
    """
    if len(text) > LENGTH_MAX:
        raise UsageError(f"filter: longer than {LENGTH_MAX} characters")
    tokens = _tokens(text)
    if len(tokens) == 1:
        return EVERYTHING
    reader = _Reader(tokens)
    found = reader.conditions(0)
    reader.expect("end", "the end or another condition")
    return found


def _tokens(text: str) -> list[Token]:
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            problems = {'"': "a string without its closing quote", "[": "a [ without its ]"}
            raise UsageError(f"filter: position {at + 1}: {problems.get(text[at], f'unexpected {text[at]!r}')}")
        kind = match.lastgroup or "blank"
        if kind != "blank":
            tokens.append(Token(match[kind] if kind == "sign" else kind, match[kind], at + 1))
        at = match.end()
    return [*tokens, Token("end", "", len(text) + 1)]


class _Reader:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens, self._next = tokens, 0

    @property
    def _here(self) -> Token:
        return self._tokens[self._next]

    def _take(self, kind: str) -> Token | None:
        token = self._here
        if token.kind != kind:
            return None
        self._next += 1
        return token

    def expect(self, kind: str, what: str) -> Token:
        token = self._take(kind)
        if token is None:
            found = "the end" if self._here.kind == "end" else repr(self._here.text[:50])
            raise UsageError(f"filter: position {self._here.at}: expected {what}, found {found}")
        return token

    def conditions(self, depth: int) -> Node:
        """Conditions up to a closing parenthesis or the end."""
        if depth > DEPTH_MAX:
            raise UsageError(f"filter: position {self._here.at}: more than {DEPTH_MAX} parentheses deep")
        members = [self._condition(depth)]
        sign = None
        while self._here.kind not in ("end", ")"):
            token = self._take("|") or self._take("+")
            found = token.kind if token else "+"  # a blank between two conditions
            if sign not in (None, found):
                raise UsageError(
                    f"filter: position {self._here.at}: + and | do not mix; put parentheses around one of them"
                )
            sign = found
            members.append(self._condition(depth))
        return members[0] if sign is None else Group(sign == "+", tuple(members))

    def _condition(self, depth: int) -> Node:
        if self._take("("):
            inner = self.conditions(depth + 1)
            self.expect(")", "')'")
            return inner
        return self._comparison()

    def _comparison(self) -> Comparison:
        name = self.expect("name", "a field such as namespace or label[app]")
        key = self._take("key") if name.text in MAPS else None
        if name.text in MAPS:
            field = name.text
        elif name.text in FIELDS:
            field = FIELDS[name.text]
        elif name.text in ALIASES:
            field = name.text
        else:
            known = ", ".join((*FIELDS, *ALIASES, *(f"{name}[x]" for name in MAPS)))
            raise UsageError(f"filter: position {name.at}: {name.text[:50]}: not a field; known: {known}")
        sign = self.expect("op", "an operator such as : or !~:").text
        values = [self.expect("text", "a quoted value").text]
        while self._take(","):
            values.append(self.expect("text", "a quoted value").text)
        return Comparison(field, None if key is None else sanitised(key.text), sign, tuple(values))


LEGACY = {
    "filterClusters": "cluster", "filterNodes": "node", "filterNamespaces": "namespace",
    "filterControllerKinds": "controller_kind", "filterPods": "pod", "filterContainers": "container",
    "filterServices": "service", "filterDepartments": "department", "filterEnvironments": "environment",
    "filterOwners": "owner", "filterProducts": "product", "filterTeams": "team",
}  # fmt: skip
"""Parameters of comma-separated values; one that ends with * is a prefix."""
LEGACY_PAIRS = {"filterLabels": "label", "filterAnnotations": "annotation"}
"""Parameters of comma-separated `name:value`."""
LEGACY_CONTROLLERS = "filterControllers"
"""Takes `name` and `kind:name`."""


def legacy(parameters: Mapping[str, str], share: bool = False) -> Node:
    """The condition of `filterNamespaces=a,b*` and its like: all parameters, any value of each.

    With `share` the parameters are shareNamespaces and shareLabels instead. Raises UsageError.
    """
    words = {"shareNamespaces": "namespace"} if share else LEGACY
    pairs = {"shareLabels": "label"} if share else LEGACY_PAIRS
    members: list[Node] = []
    for name, field in words.items():
        if values := _listed(parameters, name):
            members.append(Group(False, tuple(_one(field, None, value) for value in values)))
    for name, field in pairs.items():
        if values := _listed(parameters, name):
            members.append(Group(False, tuple(_paired(name, field, value) for value in values)))
    if not share and (values := _listed(parameters, LEGACY_CONTROLLERS)):
        members.append(Group(False, tuple(_controller(value) for value in values)))
    if share:
        # Shared is what either names; nothing where neither is given.
        return Group(False, tuple(members))
    return Group(True, tuple(members))


def _listed(parameters: Mapping[str, str], name: str) -> list[str]:
    values = [value.strip() for value in parameters.get(name, "").split(",") if value.strip()]
    if len(values) > VALUES_MAX:
        raise UsageError(f"{name}: more than {VALUES_MAX} values")
    return values


def _one(field: str, key: str | None, value: str) -> Comparison:
    prefix = value.endswith("*")
    return Comparison(field, key, "<~:" if prefix else ":", (value.removesuffix("*"),))


def _paired(name: str, field: str, text: str) -> Comparison:
    key, colon, value = text.partition(":")
    if not colon:
        raise UsageError(f"{name}: {text[:50]!r}: use name:value")
    return _one(field, sanitised(key), value)


def _controller(text: str) -> Node:
    kind, colon, name = text.partition(":")
    if not colon:
        return _one("controller", None, text)
    return Group(True, (_one("controller_kind", None, kind), _one("controller", None, name)))
