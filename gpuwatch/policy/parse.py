"""Policy documents: TOML or JSON becomes policies, or every mistake is named at once."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.policy import policy as p
from gpuwatch.policy.line_numbers import LONG_KEY, line_of, lines
from gpuwatch.policy.reader import PolicyReader
from gpuwatch.policy.values import ANYTHING, MAX_ITEMS, SHOWN_MAX, Known, PolicyError, Problem, shown

MAX_BYTES = 4 << 20
"""Of one document."""


def read(text: str | bytes, name: str, known: Known = ANYTHING) -> tuple[p.Policy, ...]:
    """The policies of a document: TOML, or JSON where the first character is a brace.

    Raises UnreadableInput where it is neither, PolicyError where anything in it is wrong, with lines of TOML.
    """
    if len(text) > MAX_BYTES:
        raise UnreadableInput(f"{name}: more than {MAX_BYTES} bytes; a policy document is small")
    try:
        plain = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        if plain.lstrip().startswith("{"):
            document = json.loads(plain, parse_float=Decimal, object_pairs_hook=_once)
            # Halves of characters are JSON, and no text: nothing could keep or send them.
            json.dumps(document, default=str, ensure_ascii=False).encode()
        else:
            if LONG_KEY.search(plain):
                raise ValueError("a key has more than 32 parts")
            document = tomllib.loads(plain, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"{name}: neither TOML nor JSON ({error}); see docs/charge-back/policies.md") from error
    try:
        return parse(document, known)
    except PolicyError as error:
        found = {} if plain.lstrip().startswith("{") else lines(plain)
        raise PolicyError([replace(one, line=line_of(found, one.path)) for one in error.problems], name) from error


def parse(document: Mapping[str, Any], known: Known = ANYTHING) -> tuple[p.Policy, ...]:
    """The policies of a document that was read: {"policies": [...]}. Raises PolicyError naming every mistake."""
    problems: list[Problem] = []
    rows = document.get("policies")
    for name in document:
        if name != "policies":
            problems.append(Problem(name[:SHOWN_MAX], "is not known", "a document has one list: policies"))
    if not isinstance(rows, list) or len(rows) > MAX_ITEMS:
        problems.append(Problem("policies", "is no list", f"write up to {MAX_ITEMS} tables [[policies]]"))
        raise PolicyError(problems)
    found = [PolicyReader(f"policies.{n}", problems, known).policy(row) for n, row in enumerate(rows)]
    kept = [item for item in found if item is not None]
    _order(kept, problems)
    if problems:
        raise PolicyError(problems)
    return tuple(sorted(kept, key=lambda item: item.valid_from_us))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises ValueError where a name stands twice: one of the two would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names: set[str] = set()
        twice = next(name for name, _ in pairs if name in names or names.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{shown(twice)} stands twice in one object")
    return found


def _order(items: Sequence[p.Policy], problems: list[Problem]) -> None:
    """Names and days are each given once."""
    names: dict[str, int] = {}
    for n, item in enumerate(items):
        if names.setdefault(item.name, n) != n:
            problems.append(Problem(f"policies.{n}.name", f"{item.name!r} is used twice", "give each its own name"))
    for one, other in pairwise(sorted(items, key=lambda item: item.valid_from_us)):
        if one.valid_from_us == other.valid_from_us or (
            one.valid_to_us is not None and other.valid_from_us < one.valid_to_us
        ):
            what = f"{one.name!r} and {other.name!r} hold at once on {rfc3339(other.valid_from_us)[:10]}"
            problems.append(Problem("policies", what, "end the first on or before the day on which the second begins"))
