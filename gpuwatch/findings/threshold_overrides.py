"""The card of detectors: which preset, thresholds and rules hold in general, in a pool and for a team."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US, rfc3339
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.findings.presets import DEFAULT, LADDER, PRESETS, RECLAIM
from gpuwatch.policy.line_numbers import LONG_KEY, line_of, lines
from gpuwatch.policy.values import SHOWN_MAX, PolicyError, Problem, Values, shown
from gpuwatch.policy.values import Known as AnyName
from gpuwatch.rules.rule import Rule, is_time
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists

KIND = "detectors"
"""The card (gpuwatch/state/versioned_lists.py) that keeps them."""
MAX_BYTES = 1_000_000
LAYERS_MAX = 1000
"""Pools and teams that a document names."""
DURATION_US_MAX = 366 * DAY_US
NUMBER_MAX = 1e15
NAMED_MAX = 20
"""Pools that an answer to an unknown one names."""
HISTORY = 100
"""Versions that an answer lists."""
ALL, POOL, TEAM = "all", "pool", "team"
_FIELDS = ("preset", "off", "thresholds")
_UNITS = {"s": SECOND_US, "m": MINUTE_US, "h": HOUR_US, "d": DAY_US}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?) ?([smhd])")


@dataclass(frozen=True)
class Layer:
    """Overrides that apply everywhere, in one pool, or for one team. A preset of None: that of the layer below."""

    scope: str = ALL
    name: str = ""
    cluster: str | None = None
    """Of a pool; None: pools of this name in all clusters."""
    preset: str | None = None
    off: tuple[str, ...] = ()
    thresholds: tuple[tuple[str, str, float], ...] = ()
    """(rule or RECLAIM, threshold, value), microseconds where the name has `_us`."""

    def as_dict(self) -> dict[str, Any]:
        """The layer as a document has it, and the card keeps it."""
        by_rule: dict[str, dict[str, float]] = {}
        for rule, name, value in self.thresholds:
            by_rule.setdefault(rule, {})[name] = value
        place: dict[str, str | None] = {} if self.scope == ALL else {self.scope: self.name}
        if self.scope == POOL:
            place["cluster"] = self.cluster
        return {**place, "preset": self.preset, "off": list(self.off), "thresholds": by_rule}


def names_of(rules: Mapping[str, Rule]) -> dict[str, tuple[str, ...]]:
    """Thresholds that may be overridden, by rule, including the steps of a reclaim."""
    return {rule.id: tuple(t.name for t in rule.thresholds) for rule in rules.values()} | {
        RECLAIM: tuple(t.name for t in LADDER)
    }


def read(
    text: str | bytes,
    name: str,
    rules: Mapping[str, Rule],
    teams: Collection[str] | None,
    pools: Collection[tuple[str, str]] | None = None,
) -> tuple[Layer, ...]:
    """The layers of a document: TOML, or JSON where the first character is a brace.

    `teams` are those that there are, `pools` likewise with their clusters before them (None: unknown). Raises UnreadableInput where it is neither, PolicyError where
    anything in it is wrong: where, what, and what to write instead, with lines of TOML.
    """
    if len(text) > MAX_BYTES:
        raise UnreadableInput(f"{name}: more than {MAX_BYTES} bytes; this document is small")
    try:
        plain = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        braced = plain.lstrip().startswith("{")
        if not braced and LONG_KEY.search(plain):
            raise ValueError("a key has more than 32 parts")
        document = json.loads(plain) if braced else tomllib.loads(plain)
        # Halves of characters are JSON, and no text: nothing could keep or send them.
        json.dumps(document, default=str, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"{name}: neither TOML nor JSON ({error}); see docs/act/thresholds.md") from error
    problems: list[Problem] = []
    reader = _Reader("", problems, AnyName(teams=None if teams is None else frozenset(teams)))
    found = _document(document, reader, rules)
    _known_pools(found, pools, reader)
    if problems:
        at = {} if braced else lines(plain)
        raise PolicyError([replace(one, line=_line(at, one.path)) for one in problems], name)
    return found


def thresholds_of(rule: Rule, given: Mapping[str, Any]) -> dict[str, float]:
    """Thresholds of one rule as given by a user ("20m", 0.5), by name. Raises UsageError naming all that is wrong."""
    problems: list[Problem] = []
    read = _Reader("", problems, AnyName())
    found = _thresholds({rule.id: given}, "thresholds", read, names_of({rule.id: rule}))
    if problems:
        raise UsageError("; ".join(str(one) for one in problems))
    return {name: value for _, name, value in found}


def layers(state: State) -> tuple[Layer, ...]:
    """The layers in force; () if none are set. Names that were valid once and are unknown now are left to the caller."""
    return tuple(_stored(row) for row in VersionedLists(state).rows(KIND))


def put(
    state: State,
    found: Sequence[Layer],
    source: str,
    actor: str,
    at_us: int,
    expected: Collection[str] | None = None,
) -> dict[str, Any]:
    """Stores layers as the overrides in force; returns whether they changed, their version and number of rows."""
    rows = [{"scope": layer.scope, **layer.as_dict()} for layer in found]
    changed = VersionedLists(state).replace(KIND, rows, actor, source, at_us, expected)
    return {"changed": changed, "version": VersionedLists(state).version(KIND), "rows": len(rows)}


def answer(state: State, teams: Collection[str] | None = None) -> dict[str, Any]:
    """The card in force as a document has it, and its versions. With `teams`, the layers of these teams only, no history."""
    version = VersionedLists(state).version(KIND)  # first: who replaces this version must have seen at least its rows
    found = layers(state)
    general = next((layer for layer in found if layer.scope == ALL), Layer())
    return {
        **general.as_dict(),
        "preset": general.preset or DEFAULT,
        "pools": [layer.as_dict() for layer in found if layer.scope == POOL],
        "teams": [layer.as_dict() for layer in found if layer.scope == TEAM and (teams is None or layer.name in teams)],
        "version": version,
        "history": []
        if teams is not None
        else [
            {"version": v.version, "at": rfc3339(v.at_us), "by": v.actor, "source": v.source, "digest": v.digest}
            for v in VersionedLists(state).history(KIND, HISTORY)
        ],
    }


class _Reader(Values):
    """Reads the values of layers; errors are added to `problems`."""

    def wrong(self, where: str, what: str, fix: str) -> None:
        self.problems.append(Problem(where[:SHOWN_MAX].lstrip(".") or "document", what, fix))

    def known_name(self, where: str, value: Any, known: Collection[str]) -> str | None:
        if isinstance(value, str) and value in known:
            return value
        near = get_close_matches(value, known, 1) if isinstance(value, str) else []
        fix = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
        self.wrong(where, f"{shown(value)} is not known", fix)
        return None

    def threshold(self, where: str, name: str, value: Any) -> float:
        if is_time(name):
            match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
            us = round(float(match[1]) * _UNITS[match[2]]) if match else value
            whole = isinstance(us, int) and not isinstance(us, bool)
            if whole and (us == 0 or SECOND_US <= us <= DURATION_US_MAX):
                return us
            no = "would be microseconds" if whole and 0 < us < SECOND_US else "is no time of at most 366 days"
            self.wrong(where, f"{shown(value)} {no}", 'write one such as "20m", "90s" or "2h"')
            return 0
        most = 1.0 if "ratio" in name else NUMBER_MAX
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and math.isfinite(value)
            and 0 <= value <= most
        ):
            return value
        self.wrong(where, f"{shown(value)} is no number from 0 to {most:g}", "correct it")
        return 0


def _document(document: Any, read: _Reader, rules: Mapping[str, Rule]) -> tuple[Layer, ...]:
    if not isinstance(document, Mapping):
        read.wrong("", "is no table", "write preset, off, thresholds, [[pools]] and [[teams]]")
        return ()
    read.only("", document, (*_FIELDS, "pools", "teams", "version", "history"))
    found = [_layer(document, "", Layer(), read, rules)]
    for many, scope in (("pools", POOL), ("teams", TEAM)):
        rows = document.get(many, [])
        if not isinstance(rows, list) or len(rows) > LAYERS_MAX or not all(isinstance(row, Mapping) for row in rows):
            read.wrong(many, "is no list of tables", f"write up to {LAYERS_MAX} tables [[{many}]]")
            continue
        for number, row in enumerate(rows):
            where = f"{many}.{number}"
            read.only(where, row, (scope, *(("cluster",) if scope == POOL else ()), *_FIELDS))
            name = (
                read.team(f"{where}.team", row.get("team"))
                if scope == TEAM
                else read.name(f"{where}.pool", row.get(POOL))
            )
            cluster = read.word(f"{where}.cluster", row.get("cluster")) if scope == POOL else None
            found.append(_layer(row, where, Layer(scope, name, cluster), read, rules))
    seen: set[tuple[str, str, str | None]] = set()
    for layer in found:
        place = layer.scope, layer.name, layer.cluster
        if place in seen:
            read.wrong(f"{layer.scope}s", f"{layer.scope} {shown(layer.name)} stands twice", "write it once")
        seen.add(place)
    return tuple(found)


def _known_pools(found: Sequence[Layer], pools: Collection[tuple[str, str]] | None, read: _Reader) -> None:
    if pools is None:
        return
    for number, layer in enumerate(layer for layer in found if layer.scope == POOL):
        clusters = {cluster for cluster, pool in pools if pool == layer.name}
        if layer.name and not (clusters if layer.cluster is None else layer.cluster in clusters):
            where = "" if layer.cluster is None else f" of cluster {shown(layer.cluster)}"
            fix = _similar_pool(layer.name, pools) if not clusters else None
            known = sorted({f"{cluster}/{pool}" for cluster, pool in pools})
            fix = fix or f"known: {', '.join(known[:NAMED_MAX])}"
            read.wrong(f"pools.{number}.pool", f"no device is in the pool {shown(layer.name)}{where}", fix)


def _similar_pool(name: str, pools: Collection[tuple[str, str]]) -> str | None:
    near = get_close_matches(name, {pool for _, pool in pools}, 1)
    return f"did you mean {near[0]}?" if near else None


def _layer(row: Mapping[str, Any], where: str, place: Layer, read: _Reader, rules: Mapping[str, Rule]) -> Layer:
    at = f"{where}." if where else ""
    preset, off, given = row.get("preset"), row.get("off", []), row.get("thresholds", {})
    if preset is not None:
        preset = read.known_name(f"{at}preset", preset, PRESETS)
    if not isinstance(off, list):
        read.wrong(f"{at}off", "is no list", "write the ids of the rules to switch off")
        off = []
    ids = [read.known_name(f"{at}off", each, [*rules]) for each in off]
    thresholds = _thresholds(given, f"{at}thresholds", read, names_of(rules))
    _ascending({name: value for rule, name, value in thresholds if rule == RECLAIM}, f"{at}thresholds", read)
    kept = tuple(dict.fromkeys(each for each in ids if each is not None))
    return replace(place, preset=preset, off=kept, thresholds=thresholds)


def _thresholds(
    given: Any, at: str, read: _Reader, names: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, str, float], ...]:
    if not isinstance(given, Mapping):
        read.wrong(at, "is no table", "write [thresholds.idle-hoarding] and its numbers below")
        return ()
    found = []
    for rule, values in given.items():
        if read.known_name(f"{at}.{rule}", rule, names) is None:
            continue
        if not isinstance(values, Mapping):
            read.wrong(f"{at}.{rule}", "is no table", f"write [thresholds.{rule}] and its numbers below")
            continue
        for name, value in values.items():
            where = f"{at}.{rule}.{name}"
            if read.known_name(where, name, names[rule]) is not None:
                found.append((rule, name, read.threshold(where, name, value)))
    return tuple(sorted(found))


def _ascending(steps: Mapping[str, float], at: str, read: _Reader) -> None:
    """Steps of a reclaim that one layer sets itself follow each other."""
    given = [(t.name, steps[t.name]) for t in LADDER if t.name.endswith("_us") and t.name in steps]
    for (earlier, first), (later, second) in pairwise(given):
        if second <= first:
            read.wrong(f"{at}.{RECLAIM}.{later}", f"is not after {earlier}", "each step comes after the one before")


def _line(at: Mapping[str, int], path: str) -> int | None:
    """The line of a problem: [thresholds.RULE] is listed as that of the first `thresholds`."""
    return line_of(at, path.replace("thresholds.", "thresholds.0.", 1) if path.startswith("thresholds.") else path)


def _stored(row: Mapping[str, Any]) -> Layer:
    scope = row["scope"]
    name = {POOL: row.get(POOL), TEAM: row.get(TEAM)}.get(scope) or ""
    thresholds = tuple(
        (rule, threshold, value) for rule, values in row["thresholds"].items() for threshold, value in values.items()
    )
    return Layer(scope, name, row.get("cluster"), row["preset"], tuple(row["off"]), thresholds)
