"""The head of a site detector's SQL file: comment lines that define the rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, get_args

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.rules.rule import MEASURES, Evidence, Mode, Rule, Threshold, is_time

ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
ID_MAX, TEXT_MAX, THRESHOLDS_MAX = 60, 500, 50
RESERVED = ("cluster", "since_us", "until_us", "from_us", "known_until_us", "now_us")
"""Parameters that every rule has."""
SEVERITIES = ("info", "low", "medium", "high", "critical")
NO_BUCKET = "none"
NEEDED = ("id", "title", "why", "bucket", "mode", "summary", "remedy")
FIELDS = (*NEEDED, "severity", "look_back", "gap")
WORDS = (*FIELDS, "threshold NAME", "measure NAME", "word")
_LINE = re.compile(r"--(?P<gap>\s*)(?P<text>.*?)\s*")
_NAMED = re.compile(r"(?P<key>[a-z_]+)(?:\s+(?P<name>\S+?))?\s*:\s*(?P<value>.*)")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
_NUMBER = re.compile(r"(-?\d{1,15}(?:\.\d{1,9})?)\s*([smhd]?)")
_SPEC = re.compile(r"(,?(\.\d)?f|\.?\d?%|,|d)?")
_UNITS = {"s": SECOND_US, "m": MINUTE_US, "h": HOUR_US, "d": DAY_US}
WHOLE_FROM = 100_000
"""Numbers from here on are written without decimals and in full."""
CONTINUED = 3
"""Spaces after the dashes that make a line continue the one before."""


class SiteRuleError(Exception):
    """What is wrong with a file, in which line (counted from 1), and how to fix it."""

    def __init__(self, line: int, reason: str, fix: str) -> None:
        super().__init__(f"line {line}: {reason}; {fix}")
        self.line, self.reason, self.fix = line, reason, fix


@dataclass
class _Head:
    fields: dict[str, tuple[str, int]] = field(default_factory=dict)
    thresholds: list[Threshold] = field(default_factory=list)
    measures: dict[str, str] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)


def parse(text: str) -> tuple[Rule, int]:
    """The rule of a file's text, with the text after the head as its `sql`, and the first line of that SQL.

    Raises SiteRuleError for what is missing, unknown, repeated or out of range.
    """
    head, begins = _read(text)
    for name in NEEDED:
        if name not in head.fields:
            raise SiteRuleError(1, f"the head has no {name}", f"add a line: -- {name}: ...")
    known = {*head.measures, *head.words, *(t.name for t in head.thresholds)}
    severity = _one_of(head, "severity", SEVERITIES)
    bucket = _one_of(head, "bucket", (*BUCKET_WORDS, NO_BUCKET))
    mode: Any = _one_of(head, "mode", get_args(Mode))
    rule = Rule(
        id=_id(head),
        title=_short(head, "title"),
        why=_short(head, "why"),
        bucket=None if bucket == NO_BUCKET else bucket,
        thresholds=tuple(head.thresholds),
        summary=_template(head, "summary", known),
        remedy=_template(head, "remedy", known),
        severity=None if severity is None else _always(severity),
        mode=mode,
        look_back_us=_duration(head, "look_back", HOUR_US),
        gap_us=_duration(head, "gap", 2 * HOUR_US),
        measures=head.measures,
        sql="\n".join(text.splitlines()[begins - 1 :]),
    )
    return rule, begins


def _read(text: str) -> tuple[_Head, int]:
    head, last = _Head(), ""
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line.strip())
        if match is None:
            if not line.strip():
                continue
            return head, number
        if not match["text"]:
            continue
        if len(match["gap"]) >= CONTINUED and last in head.fields:
            head.fields[last] = f"{head.fields[last][0]} {match['text']}", head.fields[last][1]
            continue
        last = _line(head, match["text"], number)
    raise SiteRuleError(max(1, len(text.splitlines())), "there is no select after the head", "add one")


def _line(head: _Head, text: str, number: int) -> str:
    """Takes one line of the head; returns its key."""
    if text.startswith("threshold "):
        head.thresholds.append(_threshold(text.removeprefix("threshold "), number, head))
        return "threshold"
    match = _NAMED.fullmatch(text)
    if match is None:
        raise _unknown_line(text, number)
    key, name, value = match["key"], match["name"], match["value"]
    if key == "measure" and name:
        _measure(head, name, value, text, number)
    elif key == "word" and name is None:
        head.words += _words(value, text, number)
    elif name is not None or key not in FIELDS:
        raise _unknown_line(text, number)
    elif key in head.fields:
        raise SiteRuleError(number, f"{key} is given twice, first in line {head.fields[key][1]}", "give it once")
    elif not value:
        raise SiteRuleError(number, f"{key} is empty", f"write -- {key}: ...")
    else:
        head.fields[key] = value, number
    return key


def _unknown_line(text: str, number: int) -> SiteRuleError:
    return SiteRuleError(number, f"{text[:80]!r} is not known in the head", f"known: {', '.join(WORDS)}")


def _measure(head: _Head, name: str, value: str, text: str, number: int) -> None:
    if not _NAME.fullmatch(name) or value not in MEASURES or name in head.measures:
        raise SiteRuleError(number, f"{text[:80]!r} is not a measure", f"write -- measure NAME: {'|'.join(MEASURES)}")
    head.measures[name] = value


def _words(value: str, text: str, number: int) -> list[str]:
    names = [name.strip() for name in value.split(",")]
    if not all(_NAME.fullmatch(name) for name in names):
        raise SiteRuleError(number, f"{text[:80]!r} names no words", "write -- word: NAME, NAME")
    return names


def _threshold(text: str, number: int, head: _Head) -> Threshold:
    """`watts_max = 200 | where the number comes from`."""
    name, _, rest = (part.strip() for part in text.partition("="))
    value, _, source = (part.strip() for part in rest.partition("|"))
    match = _NUMBER.fullmatch(value)
    if not _NAME.fullmatch(name) or name in RESERVED or match is None or not source:
        raise SiteRuleError(
            number, f"threshold {text[:80]!r} is not complete", "write -- threshold NAME = NUMBER | its source"
        )
    if name in (t.name for t in head.thresholds) or len(head.thresholds) == THRESHOLDS_MAX:
        raise SiteRuleError(
            number,
            f"threshold {name} is given twice, or there are more than {THRESHOLDS_MAX}",
            "give each threshold once",
        )
    return Threshold(name, _amount(name, match, number), source[:TEXT_MAX])


def _amount(name: str, value: re.Match[str], number: int) -> float:
    """The number of a threshold; whole microseconds if it is a time."""
    if value[2] and not is_time(name):
        raise SiteRuleError(number, f"{value[0]} is a time, but {name} is not", "end the name of a time in _us")
    amount = float(value[1]) * _UNITS.get(value[2], 1)
    if not is_time(name):
        return amount
    if not 0 <= amount <= 366 * DAY_US:
        raise SiteRuleError(number, f"{value[0]} is out of range", "times are 0 to 366 days")
    return int(amount)


def _id(head: _Head) -> str:
    text, number = head.fields["id"]
    if not ID.fullmatch(text) or len(text) > ID_MAX:
        raise SiteRuleError(
            number, f"id {text[:80]!r} is not valid", "write lower case words joined by -, such as site-low-power"
        )
    return text


def _short(head: _Head, key: str) -> str:
    text, number = head.fields[key]
    if len(text) > TEXT_MAX or not text.isprintable():
        raise SiteRuleError(number, f"{key} is too long or cannot be printed", f"write up to {TEXT_MAX} characters")
    return text


def _one_of(head: _Head, key: str, known: tuple[str, ...]) -> str | None:
    text, number = head.fields.get(key, (None, 1))
    if text is not None and text not in known:
        raise SiteRuleError(number, f"{key} {text[:80]!r} is not known", f"known: {', '.join(known)}")
    return text


def _duration(head: _Head, key: str, default: int) -> int:
    text, number = head.fields.get(key, ("", 1))
    if not text:
        return default
    match = _NUMBER.fullmatch(text)
    us = int(float(match[1]) * _UNITS[match[2]]) if match and match[2] else -1
    if not 0 <= us <= 31 * DAY_US:
        raise SiteRuleError(number, f"{key} {text[:80]!r} is not a time of at most 31 days", "write a time such as 2h")
    return us


def _always(severity: str) -> Callable[[Evidence, float], str]:
    return lambda evidence, hours: severity


def _template(head: _Head, key: str, known: set[str]) -> Callable[[Evidence], str]:
    """Text with `{name}` for values of a finding's evidence; names cannot reach attributes or items."""
    text, number = _short(head, key), head.fields[key][1]
    try:
        parts = [(before, name, spec or "", mark) for before, name, spec, mark in Formatter().parse(text)]
    except ValueError as error:
        raise SiteRuleError(number, f"{key}: {error}", "write {name}, and {{ for a brace") from error
    for _, name, spec, mark in parts:
        if name is None:
            continue
        if name not in known:
            names = ", ".join(sorted(known)) or "none: add -- measure, -- word or -- threshold lines"
            raise SiteRuleError(number, f"{key}: {{{name[:60]}}} is not known", f"known: {names}")
        if mark or not _SPEC.fullmatch(spec):
            raise SiteRuleError(
                number, f"{key}: {{{name}:{spec[:20]}}} is not a known format", "write {name}, {name:.1f} or {name:.0%}"
            )

    def render(evidence: Evidence) -> str:
        values = {**_defaults(head), **_flat(evidence)}
        return "".join(
            before + ("" if name is None else _format_value(name, values.get(name), spec))
            for before, name, spec, _ in parts
        )

    return render


def _defaults(head: _Head) -> dict[str, Any]:
    return {t.name: t.value for t in head.thresholds}


def _flat(evidence: Evidence) -> dict[str, Any]:
    """The evidence merged with the thresholds in force."""
    thresholds = evidence.get("thresholds")
    return {**(thresholds if isinstance(thresholds, Mapping) else {}), **evidence}


def _format_value(name: str, value: Any, spec: str) -> str:
    """A value as text; `?` if it is unknown. Microseconds become a time in the notation of heads: 90s, 15m, 2h."""
    if value is None:
        return "?"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    if spec == "" and is_time(name):
        unit = next((unit for unit in "dhms" if not value % _UNITS[unit]), None) if value else "s"
        return f"{value:,.0f} us" if unit is None else f"{value / _UNITS[unit]:,.0f}{unit}"
    if spec == "":
        return f"{value:,.0f}" if abs(value) >= WHOLE_FROM else f"{value:,g}"
    return format(float(value), ",.0f" if spec == "d" else spec)
