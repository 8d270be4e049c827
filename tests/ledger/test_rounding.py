"""Rows of sums are rounded as gpuwatch/core/money.py rounds a list: many at once, by the places of their remainders."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction

import pyarrow as pa
import pytest

from gpuwatch.core.money import largest_remainder
from gpuwatch.ledger.totals import Scale, page, working_tables
from gpuwatch.store.database import Store

WORDS = (
    *("user", "queue", "namespace", "account", "gpu_model", "mig_profile", "slice", "cluster", "pool", "period"),
    *("words", "devices", "bucket", "cause"),
)
CENT = 100
LIMIT = 7

Row = dict[str, object]


def drawn(rng: random.Random, rows: int, size: int, *, below: int) -> list[Row]:
    """Rows of keyed in no order: names with ties between remainders, two currencies, hidden and external rows."""
    names = [f"job-{number:05d}" for number in range(rows)]
    rng.shuffle(names)
    return [
        {
            "job": name if rng.random() < 0.99 else None if number else name,
            "held": rng.random() < 0.9,
            "shown": rng.random() < 0.8,
            "external": rng.random() < 0.1,
            "lacks": False,
            "currency": rng.choice(("USD", "EUR")),
            "units": rng.randrange(below) * rng.choice((1, size)),
            "amount": rng.choice((1, 1, 1, -1)) * rng.choice((rng.randrange(below), 130, 150)) * rng.choice((1, size)),
        }
        for number, name in enumerate(names)
    ]


def written(store: Store, rows: list[Row]) -> None:
    """The rows as keyed. Rows without a job differ in the team."""
    for number, row in enumerate(rows):
        row["team"] = None if row["job"] is not None else f"team-{number:05d}"
    schema = pa.schema(
        [("key", pa.int64()), ("job", pa.string()), ("team", pa.string()), ("currency", pa.string())]
        + [(name, pa.bool_()) for name in ("held", "shown", "external", "lacks")]
        + [(name, pa.string()) for name in ("units", "amount")]
    )
    content = [row | {"key": n, "units": str(row["units"]), "amount": str(row["amount"])} for n, row in enumerate(rows)]
    others = ", ".join(f"null::varchar as {name}" for name in WORDS)
    with store.view("given", pa.Table.from_pylist(content, schema=schema)):
        store.sql(
            f"create or replace temp table charge_group as select * replace (units::hugeint as units, amount::hugeint as amount), {others}, "
            "null::bigint as step, null::integer as bucket_place, 'allocated' as kind, null::bigint as first_us from given"
        )
    store.sql("create or replace temp view keyed as from charge_group")


def expected(rows: list[Row], scale: Scale) -> list[tuple[int, int]]:
    """Microseconds and cents of each row."""
    found: dict[str, dict[int, int]] = {"units": {}, "amount": {}}
    for name, size, apart in (("units", scale.shares, ("shown",)), ("amount", CENT, ("shown", "currency", "external"))):
        parts: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for number, row in enumerate(rows):
            parts[tuple(row[word] for word in apart)].append(number)
        for numbers in parts.values():
            # No team comes after every team, no job after every job.
            keys = [f"{rows[n]['team'] or '~'} {rows[n]['job'] or '~'} {n}" for n in numbers]
            values = largest_remainder([Fraction(int(str(rows[n][name])), size) for n in numbers], 0, keys)
            found[name] |= {n: int(value) for n, value in zip(numbers, values, strict=True)}
    return [(found["units"][n], found["amount"][n]) for n in range(len(rows))]


@pytest.mark.parametrize(
    ("seed", "rows", "shares", "size", "below"),
    [
        (1, 3, 1, 1, 10**4),
        (2, 400, 1, 1, 10**9),
        (3, 3000, 420, 1, 300),
        (4, 3000, 7, 10**22, 10**9),
        (5, 3000, 7, 1, 10),
    ],
    ids=["few", "whole GPUs", "many ties", "above 64 bits", "nearly nothing but ties"],
)
def test_rows_are_rounded_as_one_list_is(
    monkeypatch: pytest.MonkeyPatch, seed: int, rows: int, shares: int, size: int, below: int
) -> None:
    given = drawn(random.Random(seed), rows, size, below=below)
    scale = Scale(shares, 0)
    monkeypatch.setattr(Scale, "cent", CENT)
    with Store.open(None) as store, working_tables(store):
        written(store, given)
        known = expected(given, scale)
        pages, offset = [], 0
        while offset is not None and len(pages) < 5 * LIMIT:
            some, offset = page(store, scale, LIMIT, offset, largest_first=True)
            pages += some
        every, following = page(store, scale, None, 0, largest_first=True)
        by_name, _ = page(store, scale, LIMIT, 0, largest_first=False)
        rounded = store.sql("select key, micros::varchar, cents::varchar from rounded order by key")

    assert known == [(int(micros), int(cents)) for _, micros, cents in rounded]
    shown = [(row, *known[number]) for number, row in enumerate(given) if row["shown"]]
    shown.sort(key=lambda one: (not one[0]["held"], -one[2], one[0]["team"] or "~", one[0]["job"] or "~"))
    answer = [(row["job"], row["team"], int(row["micros"]), int(row["cents"])) for row in every]
    assert following is None
    assert [(row["job"], row["team"], micros, cents) for row, micros, cents in shown] == answer
    assert [row["job"] for row in every[: len(pages)]] == [row["job"] for row in pages]
    assert sorted(str(row["team"] or "~") + str(row["job"]) for row, *_ in shown)[:LIMIT] == [
        str(row["team"] or "~") + str(row["job"]) for row in by_name
    ]
