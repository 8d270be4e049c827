"""Parses columns of bills: exact decimals, times, units and tags. Functions run once per distinct text, not per row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation, localcontext
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gpuwatch.core.bill import MONEY
from gpuwatch.core.clock import DAY_US, SECOND_US, to_us

PLACES = 18
MAX_NUMBER = 64
"""The most characters of a number."""
MAX_TIMES = 100_000
MAX_TAGS = 64 << 10
"""The most bytes of the tags of a line; longer ones are dropped."""
_UNIT = Decimal(1).scaleb(-PLACES)
LARGEST = Decimal(10) ** 15
"""Larger amounts are rejected because their sums would not fit."""
_SUMMAND = pa.decimal128(37, PLACES)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_AMERICAN = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(.*)", re.DOTALL)
_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}|\d{1,2}/\d{1,2}/\d{4}")
_HOURS = re.compile(r"(?:1 )?(?:(?:instance|vm|gpus?)[ -])?(?:per[ -])?(?:hours?|hrs?)", re.IGNORECASE)
_GPU_HOURS = re.compile(r"(?:1 )?gpus?[ -](?:per[ -])?(?:hours?|hrs?)", re.IGNORECASE)

Strings = pa.Array
"""A column of text, NULL where a value is missing."""


def by_value(column: pa.Array, function: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    """Applies `function` to each distinct text; NULL stays NULL."""
    coded = column.dictionary_encode()
    values = [function(text) for text in coded.dictionary.to_pylist()]
    if pa.types.is_string(kind):
        return strings(values).take(coded.indices)
    return pa.array(values, kind).take(coded.indices)


def strings(values: Sequence[str | None]) -> pa.Array:
    """A text column. Lone surrogates, which JSON can escape but UTF-8 cannot encode, become question marks."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if v is None else v.encode("utf-8", "replace").decode() for v in values], pa.string())


def joined(columns: list[pa.Array]) -> pa.Array:
    """The texts of several columns, joined with a blank."""
    return pc.binary_join_element_wise(*columns, " ", null_handling="replace", null_replacement="")


def matches(column: pa.Array, pattern: str) -> pa.Array:
    """Whether the text contains the pattern, ignoring case; false for NULL."""
    return pc.fill_null(pc.match_substring_regex(column, pattern, ignore_case=True), False)


def one_of(column: pa.Array, values: tuple[str, ...]) -> pa.Array:
    """Whether the text is one of the values, ignoring case; false for NULL."""
    return pc.is_in(pc.utf8_lower(column), value_set=pa.array([value.lower() for value in values]))


def same(text: str, rows: int) -> pa.Array:
    """The same text in every row."""
    return pa.repeat(pa.scalar(text, pa.string()), rows)


def words(column: pa.Array, known: Mapping[str, str], other: str | None = None) -> pa.Array:
    """Texts translated by a table, ignoring case; `other` for those that it lacks."""
    return by_value(column, lambda text: known.get(text.lower(), other), pa.string())


def decimals(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """(amounts, which rows have text that is not a number). NULL stays NULL.

    Exact to 18 places; further digits, which come from the provider's floats, are rounded half to even.
    """
    try:
        amounts = column.cast(MONEY)
    except pa.ArrowInvalid:
        amounts = by_value(column, _amount, MONEY)
    fits = pc.and_(pc.less(amounts, pa.scalar(LARGEST)), pc.greater(amounts, pa.scalar(-LARGEST)))
    amounts = pc.if_else(fits, amounts, pa.scalar(None, MONEY))
    return amounts, pc.and_(pc.is_null(amounts), pc.is_valid(column))


def added(one: pa.Array, other: pa.Array) -> pa.Array:
    """The sum of two amounts, NULL if either is NULL."""
    return pc.add(one.cast(_SUMMAND), other.cast(_SUMMAND))


def subtracted(one: pa.Array, other: pa.Array) -> pa.Array:
    """The difference of two amounts, NULL if either is NULL."""
    return pc.subtract(one.cast(_SUMMAND), other.cast(_SUMMAND))


def _amount(text: str) -> Decimal | None:
    if len(text) > MAX_NUMBER or not _NUMBER.fullmatch(text):
        return None
    with localcontext(prec=2 * MAX_NUMBER):
        try:
            amount = Decimal(text).quantize(_UNIT)
        except InvalidOperation:
            return None
    return amount if abs(amount) < LARGEST else None


def times(column: pa.Array) -> pa.Array:
    """Times in microseconds; a time without a zone is UTC, a date is its midnight. NULL for anything else."""
    return by_value(column, moment, pa.int64())


def ends(column: pa.Array, *, inclusive_dates: bool) -> pa.Array:
    """Half-open ends in microseconds: 23:59:59 and, if dates are inclusive, a date mean the following midnight."""
    return by_value(column, lambda text: end_moment(text, inclusive_dates), pa.int64())


@lru_cache(MAX_TIMES)
def moment(text: str) -> int | None:
    """A time in one of the clouds' formats: ISO 8601, `2024-09-18 22:00:00 UTC` or `9/30/2023` (month first)."""
    text = text.strip().removesuffix(" UTC")
    if american := _AMERICAN.fullmatch(text):
        month, day, year, rest = american.groups()
        text = f"{year}-{month:0>2}-{day:0>2}{rest}"
    try:
        at = datetime.fromisoformat(text)
        return to_us(at if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def end_moment(text: str, inclusive_dates: bool) -> int | None:
    """A half-open end in microseconds."""
    at_us = moment(text)
    if at_us is None:
        return None
    if inclusive_dates and _DATE.fullmatch(text.strip()):
        return at_us + DAY_US
    # An inclusive end such as 23:59:59 or 22:59:59.999.
    if -at_us % (3600 * SECOND_US) <= SECOND_US:
        return at_us + -at_us % (3600 * SECOND_US)
    return at_us


def units(column: pa.Array) -> pa.Array:
    """The units, with those that are hours of an instance or a GPU as `Hours`."""
    return by_value(column, lambda text: "Hours" if _HOURS.fullmatch(text.strip()) else text, pa.string())


def by_gpu(column: pa.Array) -> pa.Array:
    """1 for a unit that is hours of a GPU, NULL for all others."""
    return by_value(column, lambda text: 1 if _GPU_HOURS.fullmatch(text.strip()) else None, pa.int32())


def tags_of(column: pa.Array) -> pa.Array:
    """Tags as a JSON object, from JSON, from Azure's pairs without braces, or from lists of key and value."""
    return by_value(column, _tags, pa.string())


@lru_cache(4096)
def _tags(text: str) -> str | None:
    if len(text) > MAX_TAGS:
        return None
    for form in (text, f"{{{text}}}"):
        try:
            found = json.loads(form)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, list):
            found = {str(e["key"]): e.get("value") for e in found if isinstance(e, dict) and "key" in e}
        if isinstance(found, dict):
            return json.dumps(found, sort_keys=True, ensure_ascii=False) if found else None
    return json.dumps({"": text}, ensure_ascii=False)


def tags_of_columns(columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """Tags with a column each as a JSON object, without those that have no value."""
    if not columns:
        return pa.nulls(rows, pa.string())
    pairs = [by_value(column, _pair(key), pa.string()) for key, column in sorted(columns.items())]
    # Arrow's null_handling="skip" would drop rows without any tag.
    inner = pc.binary_join_element_wise(*pairs, "", null_handling="replace", null_replacement="")
    some = pc.greater(pc.utf8_length(inner), 0)
    object_ = pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(inner, 2), "}", "")
    return pc.if_else(some, object_, pa.scalar(None, pa.string()))


def _pair(key: str) -> Callable[[str], str]:
    name = json.dumps(key, ensure_ascii=False)
    return lambda value: f", {name}: {json.dumps(value, ensure_ascii=False)}"


def json_key(column: pa.Array, *names: str) -> pa.Array:
    """The first of these keys of a JSON object, as text; NULL if the text is not an object or lacks them."""

    def find(text: str) -> str | None:
        try:
            found = json.loads(text, parse_float=str, parse_int=str)
        except (ValueError, RecursionError):
            return None
        pairs = (
            [(p.get("key"), p.get("value")) for p in found if isinstance(p, dict)] if isinstance(found, list) else []
        )
        if isinstance(found, dict):
            pairs = list(found.items())
        lower = {str(key).lower(): value for key, value in pairs}
        return next((str(lower[n.lower()]) for n in names if lower.get(n.lower()) not in (None, "")), None)

    return by_value(column, find, pa.string())
