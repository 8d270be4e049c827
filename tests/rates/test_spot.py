"""Spot prices: read as AWS prints them, consecutive rates of one GPU, nothing half-applied."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.core.clock import parse_rfc3339, rfc3339
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.core.money import fraction_to_decimal
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality.rate_checks import checks
from gpuwatch.rates import in_force
from gpuwatch.rates.card import Rate
from gpuwatch.rates.csv_table import RowsRefused
from gpuwatch.rates.spot import Instance, SpotPrice, instances_of, merged, parse_spot, spot_rates
from gpuwatch.state import State
from tests.worlds.world import Gpu, World, minutes, samples, us

P5 = {"p5.48xlarge": Instance("H100", 8)}
DAYS = [parse_rfc3339(f"2026-11-{day:02}") for day in (1, 2, 3)]


def price(usd: str, day: int = 1, **more: str) -> dict[str, str]:
    """A row as AWS prints it."""
    return {
        "AvailabilityZone": "us-east-1a",
        "InstanceType": "p5.48xlarge",
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": usd,
        "Timestamp": f"2026-11-{day:02}T00:00:00+00:00",
    } | more


def as_json(*rows: dict[str, str]) -> bytes:
    return json.dumps({"SpotPriceHistory": rows}).encode()


def as_csv(*rows: dict[str, str]) -> bytes:
    return "\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)]).encode()


def rates(content: bytes, **more: Any) -> list[tuple[int, int | None, str]]:
    found = spot_rates(merged((), parse_spot(content, "spot.json", P5, **more)))
    return [(rate.valid_from_us, rate.valid_to_us, str(rate.usd_per_gpu_hour)) for rate in found]


@pytest.mark.parametrize("form", [as_json, as_csv])
def test_each_price_holds_until_the_next(form: Any) -> None:
    """8 GPUs an instance; AWS lists the newest first."""
    rows = [price("20", 3), price("16.32", 2), price("24.000001", 1)]

    assert [
        (DAYS[0], DAYS[1], "3.000000125"),
        (DAYS[1], DAYS[2], "2.04"),
        (DAYS[2], None, "2.5"),
    ] == rates(form(*rows))


def test_equal_prices_that_follow_each_other_are_one_rate() -> None:
    assert [(DAYS[0], None, "2")] == rates(as_json(price("16", 2), price("16", 1), price("16.000", 3)))


def test_a_file_that_says_which_gpus_needs_no_mapping() -> None:
    row = price("16") | {"gpu_model": "A100", "gpus": "4"}
    found = spot_rates(parse_spot(as_csv(row), "spot.csv", {}))

    assert [("A100", Decimal(4), "p5.48xlarge")] == [(r.gpu_model, r.usd_per_gpu_hour, r.sku) for r in found]


def test_one_zone_is_chosen() -> None:
    rows = as_json(price("16"), price("24", AvailabilityZone="us-east-1b"))

    assert [(DAYS[0], None, "3")] == rates(rows, zone="us-east-1b")


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        pytest.param("line 1: spotprice is negative", [price("-1")], id="a negative price"),
        pytest.param("line 1: spotprice is not a plain decimal", [price("1e3")], id="an exponent"),
        pytest.param("line 2: timestamp is not an RFC 3339", [price("1"), price("1", Timestamp="soon")], id="no time"),
        pytest.param(
            "line 1: the GPUs of g5.xlarge are unknown", [price("1", InstanceType="g5.xlarge")], id="an unknown type"
        ),
    ],
)
def test_a_bad_price_refuses_the_file(words: str, rows: list[dict[str, str]]) -> None:
    with pytest.raises(RowsRefused, match=words):
        parse_spot(as_json(*rows), "spot.json", P5)


@pytest.mark.parametrize("content", [b"{", b'{"Other": []}', b"a,b\n1,2\n", b"\xff"])
def test_another_file_is_unreadable(content: bytes) -> None:
    with pytest.raises(UnreadableInput):
        parse_spot(content, "spot.json", P5)


@pytest.mark.parametrize("text", ["p5.48xlarge", "p5.48xlarge=H100", "p5.48xlarge=H100:0", "=H100:8", "a=b:c"])
def test_a_mapping_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="TYPE=MODEL:GPUS"):
        instances_of([text])


def test_two_series_for_the_same_gpus_are_refused() -> None:
    rows = as_json(price("16"), price("24", AvailabilityZone="us-east-1b"))

    with pytest.raises(UsageError, match="us-east-1a.*us-east-1b.*would both price H100"):
        rates(rows)


def test_two_prices_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="has two prices at 2026-11-01T00:00:00Z: 16 USD .* and 17 USD"):
        rates(as_json(price("16"), price("17")))


@pytest.fixture
def state() -> Any:
    with State.open("sqlite://") as found:
        yield found


def test_repeating_an_import_changes_nothing_and_more_of_a_series_continues_it(state: State) -> None:
    first = parse_spot(as_json(price("16", 1), price("24", 2)), "spot.json", P5)
    more = parse_spot(as_json(price("24", 2), price("8", 3)), "spot.json", P5)

    assert [True, False, True, False] == [
        in_force.add_spot(state, prices, "ann", "spot.json", n) for n, prices in enumerate((first, first, more, more))
    ]
    assert [(DAYS[0], DAYS[1], 2), (DAYS[1], DAYS[2], 3), (DAYS[2], None, 1)] == [
        (rate.valid_from_us, rate.valid_to_us, rate.usd_per_gpu_hour) for rate in in_force.in_force(state)
    ]


def test_what_others_add_at_the_same_time_stays(tmp_path: Path) -> None:
    """Each adds to what it has read: without a check, the last one would drop the prices of the others."""
    days = range(1, 5)
    each = [parse_spot(as_json(price("16", day)), "spot.json", P5) for day in days]
    with State.open(tmp_path) as shared:
        with ThreadPoolExecutor(len(each)) as threads:
            added = list(threads.map(lambda prices: in_force.add_spot(shared, prices, "ann", "spot.json", 1), each))
        stored = [rfc3339(one.at_us) for one in in_force.spot_prices(shared)]

    assert [True] * len(each) == added
    assert [f"2026-11-{day:02}T00:00:00Z" for day in days] == stored


def test_a_refused_import_leaves_what_there_was(state: State) -> None:
    in_force.add_spot(state, parse_spot(as_json(price("16", 1)), "spot.json", P5), "ann", "spot.json", 1)
    with pytest.raises(UsageError):
        in_force.add_spot(state, parse_spot(as_json(price("17", 1)), "spot.json", P5), "ann", "spot.json", 2)
    in_force.set_rates(state, [Rate("A100", "spot", Decimal(1), 0)], "ann", "rates.csv", 3)
    with pytest.raises(UsageError, match="valid at once"):
        other = {"p5.48xlarge": Instance("A100", 8)}
        zone = price("9", 2, AvailabilityZone="b")
        in_force.add_spot(state, parse_spot(as_json(zone), "spot.json", other), "ann", "spot.json", 4)

    assert (1, 1) == (len(in_force.spot_prices(state)), state.card_version("spot"))


@pytest.mark.parametrize(
    ("status", "day"),
    [
        pytest.param(None, None, id="without spot prices nothing is looked at"),
        pytest.param("ok", -7, id="a week before the end of the books"),
        pytest.param("warn", -8, id="older"),
    ],
)
def test_a_spot_price_that_nobody_renews_is_named(state: State, status: str | None, day: int | None) -> None:
    world = World().add(samples(Gpu(), minutes(0, 3600))).book()
    if day is not None:
        at_us = us(day * 24 * 3600 + 3600)
        one = SpotPrice("p5.48xlarge", "us-east-1a", "Linux", at_us, Decimal(16), "USD", "H100", 8)
        in_force.add_spot(state, [one], "ann", "spot.json", 1)
    found = {check.id: check for check in checks(world.store, state, Advice())}

    assert status == (found["spot"].status if "spot" in found else None)
    assert ("p5.48xlarge us-east-1a Linux of 2026-10-25T01:00:00Z" in found["spot"].what) if status == "warn" else True


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 10**6)), min_size=1, max_size=12, unique_by=lambda row: row[0]
    ),
    st.integers(1, 16),
    st.randoms(use_true_random=False),
)
def test_spans_adjoin_and_each_instant_has_its_last_price(rows: list[tuple[int, int]], gpus: int, random: Any) -> None:
    prices = [SpotPrice("t", "z", "p", at, Decimal(cents).scaleb(-2), "USD", "H100", gpus) for at, cents in rows]
    random.shuffle(prices)
    found = spot_rates(merged(prices, prices))

    assert [one.valid_to_us for one in found[:-1]] == [after.valid_from_us for after in found[1:]]
    assert None is found[-1].valid_to_us
    assert all(one.usd_per_gpu_hour != after.usd_per_gpu_hour for one, after in pairwise(found)) or gpus > 1
    for at in range(min(rows)[0], 52):
        last = max(row for row in rows if row[0] <= at)[1]
        here = next(one for one in found if one.valid_at(at))
        assert fraction_to_decimal(Fraction(last, 100 * gpus)) == here.usd_per_gpu_hour
