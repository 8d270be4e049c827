"""FOCUS rows: each origin's rows add up to it, teams pay what chargeback says, and nothing is told that has no price."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpuwatch.billing import chargeback
from gpuwatch.billing.focus import export as focus_export
from gpuwatch.billing.focus.columns import FOCUS, NUMBERS, VERSIONS, columns
from gpuwatch.billing.focus.files import Csv
from gpuwatch.billing.periods import close as periods_close
from gpuwatch.core.clock import HOUR_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from tests.billing.test_chargeback import cut, drawn
from tests.worlds.drawn_fleets import FEW_FLEETS
from tests.worlds.focus import CLOSED, MONTH, everything, exported, focus_rows, rate, state_of
from tests.worlds.templates import computed_once
from tests.worlds.world import H100, HOUR, Gpu, World, claim, minutes, samples, us

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[3] / "shared"))
PICO = Decimal("0.000000000001")
ORIGIN = (
    "ResourceId",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "SkuPriceId",
    "BillingCurrency",
    "CommitmentDiscountStatus",
)
SAME = tuple(
    name
    for name in FOCUS["1.2"]
    if name not in NUMBERS and name not in {"SubAccountId", "SubAccountName", "SubAccountType", "Tags"}
)
"""Dimensions in which the rows of one origin agree: all but whom they are allocated to."""
TODAY = Window(us(0), us(24 * HOUR))


def usage(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["ChargeCategory"] == "Usage" and row["ChargeClass"] is None]


def origins(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    found: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in usage(rows):
        found[tuple(row[name] for name in ORIGIN)].append(row)
    return found


def ratio(row: dict[str, Any]) -> Decimal:
    (element,) = json.loads(row["x_AllocatedMethodDetails"], parse_float=Decimal)["Elements"]
    return Decimal(element["AllocatedRatio"])


@computed_once
def half_an_hour() -> tuple[World, State]:
    """One GPU of 2.49 an hour, held for half of its hour by team red."""
    world = World().add(
        samples(Gpu(), minutes(0, HOUR)), claim("1", 0, HOUR / 2, gpus="GPU-a", account="a", queue="gpu")
    )
    return world, state_of(world.book(), rate("2.49", "on_demand"))


# What must not be there.


@pytest.mark.parametrize("version", VERSIONS)
def test_without_books_there_is_a_header_and_no_row(version: str) -> None:
    file = io.BytesIO()
    done = focus_export.write(World().store, State.open("sqlite://"), TODAY, file, version=version)

    assert (0, [], ",".join(columns(version)) + "\n") == (done.rows, done.warnings, file.getvalue().decode())


def test_time_without_a_price_is_in_no_row_but_reported() -> None:
    """Not as zero: how much it is, and the rate that would price it."""
    world = World().add(samples(Gpu(), minutes(0, HOUR)))
    state = state_of(world.book(), rate("2", model="A100"))
    done = exported(world, state, TODAY)

    assert (0, Decimal("3600.000000")) == (done.rows, done.unpriced_gpu_seconds)
    assert "3600.000000 GPU-seconds have no price and are in no row; add the rates below" == done.warnings[0]
    assert H100 in done.warnings[1]


def test_a_team_sees_its_own_rows_in_the_numbers_of_all() -> None:
    world, state = everything()
    whole = focus_rows(world, state, MONTH)
    red = focus_rows(world, state, MONTH, teams=["red"])

    def own(row: dict[str, Any]) -> bool:
        return bool(row["x_Team"] == "red")

    def plain(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row for row in rows if own(row)]

    assert plain(whole) == red
    assert not any(word in str(red) for word in ("blue", "bob", "ri-8", "Purchase"))


@pytest.mark.parametrize(
    ("version", "form", "expected"),
    [
        pytest.param("1.3", "csv", "use 1.2 or 1.4", id="a version that is not written"),
        pytest.param("1.2", "xml", "use csv, parquet", id="a form that is not written"),
    ],
)
def test_what_is_not_written_is_refused(version: str, form: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        focus_export.write(World().store, State.open("sqlite://"), TODAY, io.BytesIO(), version=version, form=form)


# What must be there.


def test_one_gpu_for_an_hour() -> None:
    """Every figure by hand: half of the hour is team red's, half nobody's."""
    world, state = half_an_hour()
    held, free = focus_rows(world, state, TODAY)
    figures = ("PricingQuantity", "EffectiveCost", "BilledCost", "ContractedCost", "ListCost", "ListUnitPrice")
    expected = [Decimal(text) for text in ("0.5", "1.245", "1.245", "1.245", "1.245", "2.49")]

    assert [expected, expected] == [[row[name] for name in figures] for row in (held, free)]
    assert [Decimal(1800), Decimal("0.5")] == [held["ConsumedQuantity"], ratio(held)]
    assert ["red", "Team", "1", "gpu"] == [held[n] for n in ("SubAccountId", "SubAccountType", "x_Job", "x_Queue")]
    assert [None, None, "schedulable", Decimal("0.5")] == [
        free[name] for name in ("SubAccountId", "x_AllocatedResourceId", "x_Bucket", "x_HoursSchedulable")
    ]
    assert ["2026-11-02T00:00:00Z", "2026-11-03T00:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"] == [
        held[name] for name in ("ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodStart", "BillingPeriodEnd")
    ]
    assert Decimal("0.8") == held["x_SmActiveRatio"]
    assert held["x_EffectiveRatio"] is not None
    assert {"gpuwatch/team": "red", "gpuwatch/account": "a", "gpuwatch/queue": "gpu", "gpuwatch/job": "1"}.items() <= (
        json.loads(held["Tags"]).items()
    )


def test_slices_of_a_gpu_share_it() -> None:
    """3g.40gb holds half of an H100, 1g.10gb a seventh; the rest stands on the GPU. The three ratios are one."""
    rows = [row for row in usage(focus_rows(*everything(), CLOSED)) if row["ResourceId"] == "GPU-m"]
    by_profile: dict[str | None, Decimal] = defaultdict(Decimal)
    for row in rows:
        by_profile[row["x_MigProfile"]] += row["PricingQuantity"]

    assert Decimal(1) == sum(map(ratio, rows))
    assert Decimal(2) == sum(by_profile.values())
    assert Decimal(1) == by_profile["3g.40gb"]
    assert abs(Decimal(2) / 7 - by_profile["1g.10gb"]) < Decimal("0.0000000001")
    assert {"gpuwatch:dominant-share:v1"} == {row["x_AllocatedMethodId"] for row in rows}
    assert {"3/GI-1"} == {
        row["x_AllocatedResourceId"].replace("@", "/").split("/")[0] + "/GI-1" for row in rows if row["x_Job"]
    }


def test_a_commitment_is_used_where_somebody_held_it_and_bought_once() -> None:
    rows = focus_rows(*everything(), CLOSED)
    committed = [row for row in rows if row["CommitmentDiscountId"] == "ri-7"]
    by_status = {row["CommitmentDiscountStatus"]: row for row in committed}
    assert {"Used", "Unused", None} == set(by_status)
    used, unused, bought = by_status["Used"], by_status["Unused"], by_status[None]

    assert ["Usage", "Usage", "Purchase"] == [row["ChargeCategory"] for row in (used, unused, bought)]
    assert [Decimal(59) / 60 * 3600, None] == [round(used["ConsumedQuantity"], 6), unused["ConsumedQuantity"]]
    assert [0, 0, Decimal("2.2")] == [row["BilledCost"] for row in (used, unused, bought)]
    assert [Decimal("2.2"), 0] == [used["EffectiveCost"] + unused["EffectiveCost"], bought["EffectiveCost"]]
    assert [Decimal("2.95"), Decimal("1.10")] == [used["ListUnitPrice"], used["ContractedUnitPrice"]]
    assert ["Committed", "Dynamic", "Other"] == [
        next(row["PricingCategory"] for row in rows if row["x_Pricing"] == pricing)
        for pricing in ("reserved", "spot", "owned")
    ]


def test_a_policy_moves_money_in_rows_of_its_own() -> None:
    """What the teams pay for idle time the platform gets: the rows add up to nothing."""
    world, state = everything()
    moved = [row for row in focus_rows(world, state, TODAY) if row["ChargeCategory"] == "Adjustment"]
    by_team: dict[str, Decimal] = defaultdict(Decimal)
    for row in moved:
        by_team[row["x_Team"]] += row["EffectiveCost"]

    assert {"fair"} == {row["x_Policy"] for row in moved}
    assert {"red", "blue", "__platform__"} == set(by_team)
    assert abs(sum(by_team.values())) <= PICO * len(moved)
    assert by_team["__platform__"] < 0 < by_team["red"]
    assert {None} == {
        row[name] for row in moved for name in ("PricingQuantity", "ConsumedQuantity", "SkuId", "SkuPriceId")
    }


def test_a_closed_week_stays_and_its_correction_is_billed_later() -> None:
    """The price rose after the week was closed: the week says what was frozen, the month's later part the difference."""
    world, state = everything()
    week = focus_rows(world, state, CLOSED)
    later = focus_rows(world, state, Window(us(7 * 24 * HOUR), MONTH.end_us))
    frozen = {(c.group["team"]): c.cost_exact for c in chargeback.chargeback(world.store, state, CLOSED).items}
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in week:
        sums[row["x_Team"]] += row["EffectiveCost"]

    assert set(frozen) == set(sums)
    assert all(abs(sums[team] - (frozen[team] or 0)) <= PICO * len(week) for team in sums)
    assert {"Correction"} == {row["ChargeClass"] for row in later}
    assert all(row["ChargeDescription"].startswith("Correction of period 2026-W45") for row in later)
    assert all(row["ConsumedQuantity"] is not None and row["EffectiveCost"] > 0 for row in later)


@pytest.mark.parametrize(
    ("first", "last", "classes"),
    [
        pytest.param(-1, 9, {None}, id="a window that holds the week and its correction tells neither apart"),
        pytest.param(
            -1, 7, {None, "Correction"}, id="a window that holds the week alone gives back what is billed later"
        ),
        pytest.param(0, 7, {None}, id="the closed week itself is as it was frozen"),
        pytest.param(7, 9, {"Correction"}, id="what was found later is billed where it was found"),
    ],
)
def test_teams_pay_what_chargeback_says_where_a_week_is_closed(first: int, last: int, classes: set[str | None]) -> None:
    """Windows that hold the closed week, or the instant its correction is billed at, or both: team by team."""
    world, state = everything()
    window = Window(us(first * 24 * HOUR), us(last * 24 * HOUR))
    rows = focus_rows(world, state, window)
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        sums[row["x_Team"]] += row["EffectiveCost"]
    expected: dict[str, Decimal] = defaultdict(Decimal)
    for charge in chargeback.chargeback(world.store, state, window).items:
        expected[charge.group["team"] or ""] += charge.cost_exact or 0

    assert classes == {row["ChargeClass"] for row in rows}
    assert set(expected) == set(sums)
    assert all(abs(sums[team] - expected[team]) <= PICO * len(rows) for team in sums)


def test_a_closed_week_of_two_months_has_charges_of_one(tmp_path: Path) -> None:
    """2026-W49 begins on the last day of November: what is taken off again is a charge of November."""
    start = 28 * 24 * HOUR
    world = World().add(samples(Gpu(), minutes(start, start + HOUR))).book()
    with State.open(tmp_path) as state:
        replace_rates(state, [rate("2")], "test", "test", 0)
        periods_close.close(world.store, state, "2026-W49", "ada", us(start + 8 * 24 * HOUR), force=True)
        replace_rates(state, [rate("3")], "test", "test", 1)
        chargeback.price_all(world.store, state)
        rows = focus_rows(world, state, Window(us(start), us(start + 7 * 24 * HOUR)))

    assert Decimal(2) == sum(row["EffectiveCost"] for row in rows)
    assert {"Usage", "Purchase", "Adjustment"} == {row["ChargeCategory"] for row in rows}
    assert all(
        row["BillingPeriodStart"] <= row["ChargePeriodStart"] < row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]
        for row in rows
    )


def test_hostile_names_are_kept_and_run_nothing_in_a_spreadsheet() -> None:
    """Names with commas, quotes, line ends and formulas; another currency; an unknown model."""
    team, user = "=cmd|'/C \"x\"'!A0,\r\n+1", 'o\'neil\n\t,;""'
    world = World().add(
        samples(Gpu(model=""), minutes(0, HOUR)), claim("1", 0, HOUR / 2, gpus="GPU-a", account="a", user_name=user)
    )
    state = State.open("sqlite://")
    replace_rates(state, [rate("2", model="*", currency="EUR")], "test", "test", 0)
    replace_team_rules(state, [TeamRule("account", "a", team)], "test", "test", 0)
    chargeback.price_all(world.book().store, state)
    held = next(row for row in focus_rows(world, state, TODAY) if row["x_User"])

    assert [f"'{team}", f"'{team}", user, "EUR", Decimal(1)] == [
        held[name] for name in ("SubAccountId", "SubAccountName", "x_User", "BillingCurrency", "EffectiveCost")
    ]
    assert team == json.loads(held["Tags"])["gpuwatch/team"]


@pytest.mark.parametrize("version", VERSIONS)
def test_both_versions_say_the_same(version: str) -> None:
    world, state = everything()
    rows = focus_rows(world, state, MONTH, version)

    assert list(columns(version)) == list(rows[0])
    assert {"Usage", "Purchase", "Adjustment"} == {row["ChargeCategory"] for row in rows}
    assert sum(row["EffectiveCost"] for row in rows) == sum(
        row["EffectiveCost"] for row in focus_rows(world, state, MONTH)
    )


def test_the_newer_version_splits_by_its_own_columns() -> None:
    world, state = half_an_hour()
    held, free = focus_rows(world, state, TODAY, "1.4")

    assert [57, 65] == [len(FOCUS[version]) for version in VERSIONS]
    assert ["GPU Platform", None, None] == [held[n] for n in ("ServiceProviderName", "HostProviderName", "Tags")]
    assert "red" == json.loads(held["AllocatedTags"])["gpuwatch/team"]
    assert [None, None] == [free["AllocatedTags"], free["AllocatedResourceId"]]
    assert {"ProviderName", "PublisherName", "x_AllocatedTags"}.isdisjoint(held)


def test_columns_are_those_of_the_specification() -> None:
    """Names and their order by the specification's own list, where it is at hand; what may not be NULL never is."""
    path = SHARED / "wire" / "finops" / "focus_1.2_columns.csv"
    if not path.exists():
        pytest.skip(f"{path} is not there: set GPUWATCH_SHARED")
    with path.open(encoding="utf-8") as file:
        listed = list(csv.DictReader(file))
    rows = focus_rows(*everything(), MONTH)

    assert [row["column_id"] for row in listed] == list(FOCUS["1.2"])
    assert [] == [
        n["column_id"] for n in listed if n["allows_nulls"] == "False" and any(r[n["column_id"]] is None for r in rows)
    ]
    assert {row["column_id"] for row in listed if row["column_type"] == "Metric"} == NUMBERS & set(FOCUS["1.2"])


def test_parquet_has_decimals_and_times() -> None:
    world, state = everything()
    file = io.BytesIO()
    focus_export.write(world.store, state, MONTH, file, form="parquet")
    rows = pq.read_table(io.BytesIO(file.getvalue()))

    assert {pa.decimal128(38, 12)} == {rows.schema.field(name).type for name in columns("1.2") if name in NUMBERS}
    assert pa.timestamp("us", "UTC") == rows.schema.field("ChargePeriodStart").type
    assert [row["EffectiveCost"] for row in focus_rows(world, state, MONTH)] == rows["EffectiveCost"].to_pylist()


def test_numbers_are_plain_and_text_survives() -> None:
    """No exponent, no plus; commas and quotes of a label come back."""
    world, state = everything()
    file = io.BytesIO()
    focus_export.write(world.store, state, MONTH, file)
    rows = focus_rows(world, state, MONTH)

    assert b"E-" not in file.getvalue()
    assert 'x, "y"' in {json.loads(row["Tags"]).get("project") for row in rows if row["Tags"]}


def test_a_day_leaves_no_rows_behind() -> None:
    """Tables of a transaction are kept until its end, dropped or not: only those of a row a device are made by the day."""
    world, state = everything()
    found: set[str] = set()
    for _ in focus_export.batches(world.store, state, MONTH, focus_export.Exported()):
        found |= {name for (name,) in world.store.sql("select table_name from duckdb_tables() where temporary")}

    assert {"focus_place", "focus_price", "focus_cut"} == {name for name in found if name.startswith("focus_")}
    assert [] == world.store.sql("select table_name from duckdb_tables() where temporary")


# What always holds.


@pytest.mark.parametrize("number", FEW_FLEETS)
def test_rows_of_an_origin_add_up_to_it(number: int) -> None:
    world, state, rng = drawn(number)
    window = cut(world, rng)
    rows = focus_rows(world, state, window)
    exact = reference(world, window)

    assert {key: Counter(v) for key, v in exact.items()} == {
        key: Counter({name: sum(row[name] for row in some) for name in FIGURES} | {"ratio": sum(map(ratio, some))})
        for key, some in plain_origins(rows).items()
    }
    for some in origins(rows).values():
        assert [1] * len(SAME) == [len({row[name] for row in some}) for name in SAME]
    for row in usage(rows):
        assert row["ListUnitPrice"] * row["PricingQuantity"] == row["ListCost"]
        assert row["ContractedUnitPrice"] * row["PricingQuantity"] == row["ContractedCost"]
        assert row["PricingQuantity"] == sum(row[name] for name in row if name.startswith("x_Hours"))


@pytest.mark.slow
@pytest.mark.parametrize("number", FEW_FLEETS)
def test_teams_pay_what_chargeback_says(number: int) -> None:
    """To the last place of each row; and what is bought is what it costs."""
    world, state, rng = drawn(number)
    window = cut(world, rng)
    rows = focus_rows(world, state, window)
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    billed: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        if row["ChargeCategory"] == "Usage":
            sums[row["x_Team"], row["BillingCurrency"]] += row["EffectiveCost"]
        billed[row["BillingCurrency"]] += row["BilledCost"] - row["EffectiveCost"]
    charges = chargeback.chargeback(world.store, state, window).items
    expected = {(c.group["team"] or "", c.currency or ""): c.cost_exact for c in charges if c.cost_exact}

    assert set(expected) == {key for key, amount in sums.items() if amount}
    assert all(abs(sums[key] - (expected[key] or 0)) <= PICO * (len(rows) + 1) for key in expected)
    assert not any(billed.values())
    assert exported(world, state, window).unpriced_gpu_seconds == pytest.approx(
        chargeback.chargeback(world.store, state, window).unpriced_gpu_seconds, abs=Decimal("0.00001")
    )


FIGURES = (
    "PricingQuantity",
    "ConsumedQuantity",
    "EffectiveCost",
    "ContractedCost",
    "ListCost",
    "PricingCurrencyEffectiveCost",
)


def plain_origins(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in usage(rows):
        found[row["ResourceId"], row["SkuPriceId"]].append(row)
    return found


def reference(world: World, window: Window) -> dict[tuple[str, str], dict[str, Any]]:
    """(GPU, price) -> sums over its origins, each rounded by itself: segment by segment, in fractions."""
    units: dict[tuple[Any, ...], Fraction] = defaultdict(Fraction)
    midnights = [day for day in (us(0), us(24 * HOUR)) if window.start_us < day < window.end_us]
    edges = [window.start_us, *midnights, window.end_us]
    for start_us, end_us in pairwise(edges):
        add_units(world, start_us, end_us, units)
    found: dict[tuple[str, str], dict[str, Any]] = defaultdict(Counter)
    for (gpu, price, currency, *_), hours in units.items():
        places = len(price.partition(".")[2].rstrip("0"))
        quantity = half_up(hours, 12 - places)
        effective = half_up(hours * Fraction(price), 12)
        product = quantity * Decimal(price)
        sums = found[gpu, f"gpu-nvidia-h100-80gb-hbm3/owned/{price}-{currency}"]
        for name, value in (
            ("PricingQuantity", quantity),
            ("ConsumedQuantity", half_up(hours * 3600, 6)),
            ("EffectiveCost", effective),
            ("PricingCurrencyEffectiveCost", effective),
            ("ContractedCost", product),
            ("ListCost", product),
            ("ratio", Decimal(1)),
        ):
            sums[name] += value
    return found


def add_units(world: World, start_us: int, end_us: int, units: dict[tuple[Any, ...], Fraction]) -> None:
    """GPU-hours of a part of one day by GPU and price."""
    for gpu, price, currency, start, end, num, den, length in world.store.sql(
        """select d.gpu, p.usd_per_gpu_hour, p.currency, greatest(p.start_us, $start), least(p.end_us, $end),
            s.share_num, s.share_den, least(s.end_us, p.end_us, $end) - greatest(s.start_us, p.start_us, $start)
        from segment s
        join device d using (device_id)
        join device_price p on p.device_id = s.device_id and p.profile is not distinct from s.profile
        where least(s.end_us, p.end_us, $end) > greatest(s.start_us, p.start_us, $start)
            and p.usd_per_gpu_hour is not null""",
        start=start_us,
        end=end_us,
    ):
        units[gpu, price, currency, start, end] += Fraction(length * num, den * HOUR_US)


def half_up(value: Fraction, places: int) -> Decimal:
    return Decimal(int(value * 10**places + Fraction(1, 2))).scaleb(-places)


@pytest.mark.parametrize("start", ["=HYPERLINK(1)", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", "＝1"])
def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe(start: str) -> None:
    rows = pa.table({"ResourceName": [start, "plain", None], "BilledCost": pa.array([Decimal(-1), None, 2])})
    file = io.BytesIO()
    Csv(file, "1.2").write(rows)
    lines = list(csv.reader(io.StringIO(file.getvalue().decode().split("\n", 1)[1], newline="")))

    assert [[f"'{start}", "-1"], ["plain", ""], ["", "2"]] == lines
