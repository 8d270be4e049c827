"""Charges, opened: their lines add up to them to the last digit, and say what they were reckoned by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.billing.charge_id import Asked, decode
from gpuwatch.billing.explain.charge import NoSuchCharge, explain
from gpuwatch.billing.explain.counterfactual import policies_of, under
from gpuwatch.billing.explain.text import dealt_text
from gpuwatch.billing.listings import chargeback_listing
from gpuwatch.billing.periods import close
from gpuwatch.billing.records import Chargeback
from gpuwatch.core.clock import DAY_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.policy.policy import Policies, as_dict
from gpuwatch.rates.card import Rate
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists
from tests.billing import test_periods
from tests.billing.test_cost_days import DAY, drawn, rules, stated, windows
from tests.billing.test_policy_charges import made, random_policies, two_teams
from tests.worlds.world import CLUSTER, HOUR, IDLE, Gpu, World, claim, minutes, one_hour, samples, us

CHARGES_CHECKED = 3
"""Rows of a bill that are opened: the first, the last, and some between."""
BYS = (
    ("team",),
    ("team", "cause"),
    ("job", "team"),
    ("slice", "team"),
    (),
    ("user", "mig_profile"),
    ("gpu_model", "cluster", "pool"),
)


def set_policies(state: State, found: Policies) -> None:
    VersionedLists(state).replace("policies", [as_dict(one) for one in found.items], "test", "test", 0)


def whole(world: World, state: State, asked: Asked, teams: Collection[str] | None = None, limit: int = 50) -> Any:
    """A charge with all its lines, a few at a time."""
    explained = explain(world.store, state, asked, teams, limit=limit)
    items = list(explained["items"])
    while explained["next_offset"] is not None:
        assert len(items) == explained["next_offset"]
        explained = explain(world.store, state, asked, teams, limit=limit, offset=explained["next_offset"])
        items += explained["items"]
    assert len(items) == explained["lines"]
    return explained | {"items": items}


def adds_up(world: World, state: State, bill: Chargeback, teams: Collection[str] | None = None, limit: int = 50) -> int:
    """Checks charges of a bill by their lines; returns how many lines these have."""
    # Rows that no word of an id tells apart (without a price; the platform's part of a shared cost, where nobody asks by
    # team) have one id, which stands for all of them.
    rows: dict[str, list[Any]] = defaultdict(list)
    for row, one in zip(chargeback_listing(bill).items, bill.items, strict=True):
        rows[row["charge"]].append(one)
    ids, lines = list(rows), 0
    for place in sorted({n * (len(ids) - 1) // (CHARGES_CHECKED - 1) for n in range(CHARGES_CHECKED)} if ids else ()):
        explained, found = whole(world, state, decode(ids[place]), teams, limit), rows[ids[place]]
        lines += explained["lines"]
        seconds = sum((Decimal(one["gpu_seconds"]) for one in explained["items"]), Decimal(0))

        assert (ids[place], found[0].kind, found[0].currency) == (
            explained["charge"],
            explained["kind"],
            explained["currency"],
        )
        assert sum(one.gpu_seconds for one in found) == Decimal(explained["gpu_seconds"])
        assert Decimal(explained["gpu_seconds_exact"]) == seconds, explained
        if found[0].currency is None:
            assert [None] * explained["lines"] == [one["cost_exact"] for one in explained["items"]]
            # Of several profiles without a rate, a row and its lines may name different ones.
            assert without_profile(explained["error"]) in {without_profile(one.error) for one in found}
            continue
        money = sum((Decimal(one["cost_exact"]) for one in explained["items"]), Decimal(0))
        assert sum(one.cost for one in found) == Decimal(explained["cost"])
        assert Decimal(explained["cost_exact"]) == money, explained
        if len(found) == 1:
            assert (found[0].gpu_seconds_exact, found[0].cost_exact) == (seconds, money)
    return lines


def without_profile(error: str) -> str:
    return error.partition(", profile ")[0]


# What must not be told.


def test_what_no_row_answers_to_is_no_charge() -> None:
    world, state, window = two_teams()
    right = Asked(window, (("team", "a"),), "allocated", "USD")

    assert explain(world.store, state, right)["lines"]
    for wrong in (
        replace(right, group=(("team", "c"),)),
        replace(right, kind="shared"),
        replace(right, kind="correction"),
        replace(right, currency="EUR"),
        replace(right, currency=None),
        replace(right, cause="idle"),
        replace(right, cluster="elsewhere"),
        replace(right, pool="elsewhere"),
        replace(right, window=Window(us(-DAY), us(0))),
        replace(right, window=Window(us(30 * DAY), us(31 * DAY))),
        replace(right, group=(("job", "1"), ("team", "b"))),
    ):
        with pytest.raises(NoSuchCharge):
            explain(world.store, state, wrong)


def test_a_charge_of_another_team_looks_like_none_at_all() -> None:
    world, state, window = two_teams()
    asked = Asked(window, (("team", "b"),), "allocated", "USD")

    with pytest.raises(NoSuchCharge) as hidden:
        explain(world.store, state, asked, ["a"])
    with pytest.raises(NoSuchCharge) as missing:
        explain(world.store, state, replace(asked, group=(("team", "nobody"),)))
    assert str(missing.value) == str(hidden.value)
    with pytest.raises(NoSuchCharge):
        explain(world.store, state, Asked(window, (), "allocated", "USD"), [])
    with pytest.raises(NoSuchCharge):
        explain(world.store, state, Asked(window, (("team", "__platform__"),), "platform", "USD"), ["a"])


def test_the_row_of_a_team_has_its_own_lines_only() -> None:
    world, state, window = two_teams()
    bill = chargeback.chargeback(world.store, state, window, (), teams=["a"])
    explained = whole(world, state, decode(chargeback_listing(bill).items[0]["charge"]), ["a"])

    assert ["a"] == [one["owner"] for one in explained["items"]]
    assert 1 == adds_up(world, state, bill, ["a"])


def test_there_is_no_line_behind_the_last() -> None:
    world, state, window = two_teams()
    asked = Asked(window, (("team", "a"),), "allocated", "USD")

    explained = explain(world.store, state, asked, offset=5)
    assert ([], None, 1) == (explained["items"], explained["next_offset"], explained["lines"])
    assert "6.00" == explained["cost"]


def test_nobody_knows_what_an_unpriced_charge_would_be() -> None:
    world = one_hour()
    state = stated(world, [Rate("A100", "owned", Decimal(1), us(-DAY))], [])
    window = Window(us(0), us(DAY))
    row = chargeback_listing(chargeback.chargeback(world.store, state, window)).items[0]
    asked = decode(row["charge"])
    explained = explain(world.store, state, asked)

    assert (None, None, None) == (explained["cost"], explained["cost_exact"], explained["currency"])
    assert "H100" in explained["error"] and row["error"] == explained["error"]
    assert (None, None) == (explained["items"][0]["rate"], explained["items"][0]["formula"])
    assert under(world.store, state, asked, made(basis="used")) is None


# What a line says.


def test_a_line_says_by_which_rule_it_was_computed() -> None:
    world, state, window = two_teams()
    explained = explain(world.store, state, Asked(window, (("team", "a"),), "allocated", "USD"))
    (line,) = explained["items"]

    assert (
        "Team a held 1 GPU of NVIDIA H100 80GB HBM3 for 6 GPU-hours at 1 USD a GPU-hour: 6.00 USD"
        == explained["summary"]
    )
    assert ("segment", "GPU-0", "GPU-0", 0, None, "n1") == (
        *(line[name] for name in ("what", "device", "gpu", "gpu_index", "gi", "node")),
    )
    assert ("2026-11-02T00:00:00Z", "2026-11-02T06:00:00Z") == (line["start"], line["end"])
    assert ("a", "1", "ann", "slurm") == (*(line[name] for name in ("owner", "job", "user", "scheduler")),)
    assert ("1", None, None, False) == (*(line[name] for name in ("share", "share_method", "split", "conflict")),)
    assert ("21600.000000000000", "6.000000000000") == (line["gpu_seconds"], line["cost_exact"])
    assert "21600 s x 1 x 1 / 3600" == line["formula"]
    assert ("1", "USD", "owned", "rates", 1) == (
        *(line["rate"][name] for name in ("price", "currency", "pricing", "card", "card_version")),
    )
    assert {"name": "default", "version": None, "basis": {"allocated": "1"}, "discount": None} == line["policy"]
    assert 0 < line["coverage"] <= 1


def test_what_nobody_held_says_why() -> None:
    world, state, window = two_teams()
    explained = whole(world, state, Asked(window, (("team", "__platform__"),), "platform", "USD"))

    assert {"schedulable"} == {one["bucket"] for one in explained["items"]}
    assert {"__platform__"} == {one["owner"] for one in explained["items"]}
    assert [None] * 4 == [one["coverage"] for one in explained["items"]]
    assert ["GPU-0", "GPU-1", "GPU-2", "GPU-x"] == [one["device"] for one in explained["items"]]


def test_a_device_that_nothing_measures_has_no_coverage() -> None:
    world = World().add(
        {**claim("7", 0, HOUR, "n9", 1, account="acct-a"), "gpus": "GPU-z"},
        samples(Gpu(), minutes(0, HOUR)),
        samples(Gpu("GPU-y", index=1), minutes(0, 60 * 30), IDLE),
        claim("8", 0, HOUR, "n1", 1, gpus="GPU-y", account="acct-a"),
    )
    state = stated(world.book(), [Rate("*", "owned", Decimal(1), us(-DAY))], rules("a"))
    window = Window(us(0), us(HOUR))
    explained = whole(world, state, Asked(window, (("team", "a"),), "allocated", "USD"))
    found = {one["job"]: one["coverage"] for one in explained["items"]}

    assert 0.5 == pytest.approx(found["8"], abs=0.02)
    assert found.get("7") is None


def test_a_slice_says_its_share_and_how_it_was_found() -> None:
    rows = [samples(Gpu("GPU-m", "n1", 0, gi, "1g.10gb"), minutes(0, HOUR)) for gi in (7, 8)]
    held = claim("1", 0, HOUR, "n1", gpus="GPU-m/GI-7", profile="1g.10gb", account="acct-a")
    world = World().add(*rows, held).book()
    state = stated(world, [Rate("*", "owned", Decimal(7), us(-DAY))], rules("a"))
    (line,) = whole(world, state, Asked(Window(us(0), us(HOUR)), (("team", "a"),), "allocated", "USD"))["items"]

    assert ("GPU-m/GI-7", "GPU-m", 7, "1/7", "dominant", "1g.10gb") == (
        *(line[name] for name in ("device", "gpu", "gi", "share", "share_method", "mig_profile")),
    )
    assert ("1.000000000000", "3600 s x 1/7 x 7 / 3600") == (line["cost_exact"], line["formula"])


# What a policy deals.


def test_what_a_policy_allocates_is_shown_with_its_weight() -> None:
    world, state, window = two_teams()
    set_policies(state, made(payers={"idle": "proportional"}))
    asked = Asked(window, (("team", "a"), ("cause", "idle")), "shared", "USD", "idle")
    explained = whole(world, state, asked)
    (line,) = explained["items"]

    # Of three H100 for a day 18 h are held, 6 of them by a: the other 54 GPU-hours are dealt one third to it.
    assert ("18.00", "dealt", "2026-11-02", "idle") == (explained["cost"], line["what"], line["day"], line["cause"])
    assert ("p", 1, "proportional") == (*(line["policy"][name] for name in ("name", "version", "payer")),)
    assert ("54.000000000000", "21600000000", "64800000000") == (
        *(line["dealt"][name] for name in ("amount", "weight", "weights")),
    )
    where = "model NVIDIA H100 80GB HBM3, cluster c1"
    assert f"2026-11-02: a share of free GPUs ({where}), 33.33% of 54.00" == line["text"]
    (own,) = whole(world, state, asked, ["a"])["items"]
    assert (None, f"2026-11-02: a share of free GPUs ({where})") == (own["dealt"], own["text"])


@pytest.mark.parametrize(
    ("pool", "cluster", "which"),
    [
        pytest.param(None, None, "", id="money of no GPU"),
        pytest.param("H100", "c1", " (model H100, cluster c1)", id="a pool that nobody named"),
        pytest.param("night", "c1", " (model H100, pool night, cluster c1)", id="all of it"),
    ],
)
def test_lines_of_one_day_tell_which_gpus_they_are_about(pool: str | None, cluster: str | None, which: str) -> None:
    model = None if pool is None else "H100"
    dealt = {"amount": "54.68", "weight": "1", "weights": "1"}
    record = {"what": "dealt", "day": "2026-11-02", "cause": "idle", "dealt": dealt}

    assert f"2026-11-02: a share of free GPUs{which}, 100.00% of 54.68" == dealt_text(
        record | {"gpu_model": model, "pool": pool, "cluster": cluster}
    )


def test_a_discount_stands_in_the_formula() -> None:
    world, state, window = two_teams()
    set_policies(state, made(discounts=[{"qos": "low", "factor": "0.25"}], payers={"unused": "platform"}))
    explained = whole(world, state, Asked(window, (("team", "a"),), "allocated", "USD"))

    assert ("1.50", "21600 s x 1 x 1 / 3600 x 0.25", "0.25") == (
        explained["cost"],
        explained["items"][0]["formula"],
        explained["items"][0]["policy"]["discount"],
    )


def test_what_it_would_be_under_another_policy() -> None:
    world, state, window = two_teams()
    team, platform = (
        Asked(window, (("team", who),), kind, "USD") for who, kind in (("b", "allocated"), ("__platform__", "platform"))
    )
    used = under(world.store, state, team, policies_of(state, "pay-for-use"))
    shared = under(world.store, state, team, policies_of(state, "share-idle"))
    given = under(world.store, state, platform, policies_of(state, "share-idle"))

    # b holds an idle GPU for 12 h: what it does not use it does not pay; of 54 free GPU-hours two thirds are its part.
    assert used is not None and shared is not None and given is not None
    assert ("12.00", "0.00", "-12.00", ["pay-for-use"]) == (
        used["now"],
        used["cost"],
        used["difference"],
        used["policies"],
    )
    assert ("12.00", "48.00", "36.00") == (shared["now"], shared["cost"], shared["difference"])
    assert [("allocated", "0.00"), ("shared", "36.00")] == [(p["kind"], p["difference"]) for p in shared["parts"]]
    assert ("78.00", "24.00") == (given["now"], given["cost"])
    everyone = under(world.store, state, Asked(window, (), "allocated", "USD"), policies_of(state, "share-idle"))
    assert everyone is not None and ("18.00", "72.00") == (everyone["now"], everyone["cost"])


def test_a_policy_that_is_set_is_asked_about_by_its_name() -> None:
    world, state, window = two_teams()
    set_policies(state, made(name="later", valid_from="2027-01-01", basis="used"))

    explained = under(
        world.store, state, Asked(window, (("team", "b"),), "allocated", "USD"), policies_of(state, "later")
    )
    assert explained is not None and ("12.00", "0.00") == (explained["now"], explained["cost"])
    with pytest.raises(UsageError, match=r"nothing.*showback.*later"):
        policies_of(state, "nothing")


# What holds of every charge.


@pytest.mark.parametrize("by", BYS[1:5], ids=["causes", "jobs", "slices", "all in one row"])
def test_lines_of_a_charge_add_up_to_it(by: tuple[str, ...]) -> None:
    world, state, window = two_teams()
    set_policies(state, made(payers={"idle": "even", "lost_work": "platform"}, minimum_billing_seconds=50_000))

    assert adds_up(world, state, chargeback.chargeback(world.store, state, window, by))


@pytest.mark.parametrize(
    ("number", "by", "teams", "limit"),
    [(0, ("team",), None, 50), (1, ("job", "team"), ["b", "__platform__"], 3), (0, ("user", "mig_profile"), ["a"], 20)],
)
def test_lines_add_up_without_a_policy(number: int, by: tuple[str, ...], teams: list[str] | None, limit: int) -> None:
    world, state, rng = drawn(number)
    window = rng.choice(windows(rng))

    adds_up(world, state, chargeback.chargeback(world.store, state, window, by, teams=teams), teams, limit)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "by", "teams", "limit"),
    [(0, ("team", "cause"), None, 50), (1, ("slice", "team"), ["a"], 10), (1, (), ["b", "__platform__"], 30)],
)
def test_lines_add_up_under_any_policy(number: int, by: tuple[str, ...], teams: list[str] | None, limit: int) -> None:
    world, state, rng = drawn(number)
    set_policies(state, random_policies(rng))
    window = rng.choice(windows(rng))

    adds_up(world, state, chargeback.chargeback(world.store, state, window, by, teams=teams), teams, limit)


def test_lines_add_up_where_days_are_not_rolled() -> None:
    world, state, _ = drawn(0)
    window = Window(us(0), us(0) + 3 * DAY_US)
    rolled = adds_up(world, state, chargeback.chargeback(world.store, state, window), limit=10)
    world.store.sql("delete from rolled_day")

    assert rolled == adds_up(world, state, chargeback.chargeback(world.store, state, window)) > 0


def test_hours_that_wait_to_be_computed_are_a_line() -> None:
    world, state, _ = two_teams()
    set_policies(state, made(payers={"idle": "even"}))
    world.add(claim("3", 6 * HOUR, 8 * HOUR, account="acct-a", gpus="GPU-0", user_name="ann")).attribute()
    chargeback.price(world.store, state, CLUSTER, force=True)
    bill = chargeback.chargeback(world.store, state, Window(us(0), us(DAY)))
    (row,) = (one for one in chargeback_listing(bill).items if (one["team"], one["kind"]) == ("a", "allocated"))
    explained = whole(world, state, decode(row["charge"]))

    assert ["segment", "segment", "unbooked"] == [one["what"] for one in explained["items"]]
    assert ("6.00", "-2.000000000000") == (explained["cost"], explained["items"][-1]["cost_exact"])
    assert adds_up(world, state, bill)


def test_closed_periods_and_their_corrections_are_opened_too(tmp_path: Path) -> None:
    with test_periods.books(tmp_path) as (world, state):
        test_periods.close(world, state)
        bill = chargeback.chargeback(world.store, state, test_periods.WINDOW)
        assert adds_up(world, state, bill)
        asked = decode(chargeback_listing(bill).items[0]["charge"])
        frozen = whole(world, state, asked)
        assert (test_periods.WEEK, "segment") == (frozen["closed"]["period"], frozen["items"][0]["what"])

        test_periods.repriced(world, state, test_periods.rate("3.49"))
        close.find_corrections(world.store, state, test_periods.NOW)
        later = whole(world, state, asked)
        assert (frozen["cost_exact"], "frozen") == (later["cost_exact"], later["items"][-1]["what"])
        for by in (("team",), ("job", "user"), ()):
            assert adds_up(world, state, chargeback.chargeback(world.store, state, test_periods.WINDOW, by))
        week = Window(us(7 * DAY), us(14 * DAY))
        rows = [one for one in chargeback.chargeback(world.store, state, week).items if one.kind == "correction"]
        assert rows and adds_up(world, state, chargeback.chargeback(world.store, state, week))
