"""Allocations of tiny worlds: names, idle, sharing, and sums that are those of the books whatever is asked.

The fleet: cluster c1 with two GPUs at 2.00 an hour. For two hours pod chat holds GPU-a and works, job 77 of partition h100
holds GPU-b and sleeps; in the third hour nobody holds anything.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.billing.opencost.allocation import Allocations, Row, allocations
from gpuwatch.billing.opencost.idle_share import divide
from gpuwatch.billing.opencost.query import parse_query
from gpuwatch.billing.opencost.response import allocation_answer, listing, summary_answer, topline_answer
from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from tests.worlds.drawn_fleets import FEW_FLEETS, drawn_fleet
from tests.worlds.world import BUSY, H100, HOUR, IDLE, Gpu, World, claim, minutes, pod, samples, us

A, B = Gpu("GPU-a", "n1"), Gpu("GPU-b", "n2")
LABELS = '{"app.kubernetes.io/name": "chat", "pod-template-hash": "abc"}'
NOW_US = us(24 * HOUR)
WINDOW = f"{rfc3339(us(0))},{rfc3339(us(3 * HOUR))}"


def priced(world: World, *rates: Rate) -> World:
    state = State.open("sqlite://")
    replace_rates(state, list(rates), "test", "test", 0)
    rules = [TeamRule("namespace", "lab", "search"), TeamRule("account", "physics", "physics")]
    replace_team_rules(state, rules, "test", "test", 0)
    chargeback.price_all(world.store, state)
    return world


def rate(price: str, start: int = 0, end: int | None = None, currency: str = "USD") -> Rate:
    until = None if end is None else us(end)
    return Rate(H100, "owned", Decimal(price), us(start), until, None, None, None, currency)


@pytest.fixture(scope="module")
def world() -> World:
    chat = pod("chat-abc-x7z2k", "uid-1", 0, 2 * HOUR, "n1", labels=LABELS, gpus="GPU-a")
    job = claim("77", 0, 2 * HOUR, "n2", gpus="GPU-b", user_name="ann", account="physics", queue="h100", name="train")
    rows = [chat | {"job_id": "lab/chat"}, job]
    labels = {"namespace": "lab", "pod": "chat-abc-x7z2k", "container": "main"}
    held = [*samples(A, minutes(0, 2 * HOUR), BUSY, **labels), *samples(B, minutes(0, 2 * HOUR), IDLE)]
    free = [*samples(A, minutes(2 * HOUR, 3 * HOUR), BUSY), *samples(B, minutes(2 * HOUR, 3 * HOUR), IDLE)]
    return priced(World().add(held + free, *rows).book(), rate("2.00"))


def asked(world: World, teams: Sequence[str] | None = None, **given_: str) -> Allocations:
    query = parse_query({"window": WINDOW} | given_, NOW_US)
    return allocations(world.store, query, teams, NOW_US)


def objects_by_name(world: World, **given_: str) -> dict[str, Any]:
    """The objects of the only set, by name."""
    data = allocation_answer(asked(world, **given_))["data"]
    assert 1 == len(data)
    found: dict[str, Any] = data[0]
    return found


def costs(world: World, **given_: str) -> dict[str, float]:
    return {name: row["totalCost"] for name, row in objects_by_name(world, **given_).items()}


def test_without_idle_there_is_none(world: World) -> None:
    assert {"lab": 4.0, "h100": 4.0} == costs(world, aggregate="namespace")


def test_idle_is_what_nobody_held(world: World) -> None:
    assert {"lab": 4.0, "h100": 4.0, "__idle__": 4.0} == costs(world, aggregate="namespace", includeIdle="true")


def test_an_empty_window_has_an_empty_set(world: World) -> None:
    assert {} == costs(world, window="2020-01-01T00:00:00Z,2020-01-02T00:00:00Z", includeIdle="true")


def test_default_names_are_of_the_container(world: World) -> None:
    assert {"c1/n1/lab/chat-abc-x7z2k/main": 4.0, "c1/n2/h100/77/__unallocated__": 4.0} == costs(world)


NAMES = [
    ("controller", {"deployment:chat", "slurmjob:77"}, "a controller has its kind before it"),
    ("controllerKind", {"deployment", "slurmjob"}, "kinds"),
    ("deployment", {"chat", "__unallocated__"}, "deployments by their bare name"),
    ("job", {"__unallocated__", "77"}, "a Slurm job is a job"),
    ("label:app.kubernetes.io/name", {"chat", "__unallocated__"}, "a label, sanitised"),
    ("label:team", {"__unallocated__", "physics"}, "a Slurm account is the label team"),
    ("owner", {"__unallocated__", "ann"}, "a Slurm user is the owner"),
    ("team", {"search", "physics"}, "the team that pays"),
    ("namespace,node", {"lab/n1", "h100/n2"}, "several names are joined"),
    ("all", {""}, "all is one row"),
    ("cluster", {"c1"}, "a cluster"),
]


@pytest.mark.parametrize(("aggregate", "names"), [n[:2] for n in NAMES], ids=[n[2] for n in NAMES])
def test_rows_are_named_as_opencost_names_them(world: World, aggregate: str, names: set[str]) -> None:
    assert names == set(costs(world, aggregate=aggregate))


def test_every_field_of_a_working_pod(world: World) -> None:
    """In the order of OpenCost's object; compute .465/.93 = a half, 0.9 of the engine, nothing idle but the gaps."""
    row = objects_by_name(world, aggregate="pod", filter='namespace:"lab"')["chat-abc-x7z2k"]

    assert ["name", "properties", "window", "start", "end", "minutes", "cpuCores"] == list(row)[:7]
    assert ["lbAllocations", "gpuAllocation", "x_gpuwatch"] == list(row)[-3:]
    assert (120.0, 1.0, 2.0, 4.0) == (row["minutes"], row["gpuCount"], row["gpuHours"], row["gpuCost"])
    assert (1.0, 0.9, 0.9) == (row["gpuRequestAverage"], row["gpuUsageAverage"], row["gpuEfficiency"])
    assert 0.4 == row["gpuCostIdle"]
    assert (0.0, 0.0, None) == (row["cpuCost"], row["totalEfficiency"], row["pvs"])
    assert {
        "cluster": "c1",
        "node": "n1",
        "container": "main",
        "controller": "chat",
        "controllerKind": "deployment",
        "namespace": "lab",
        "pod": "chat-abc-x7z2k",
        "providerID": "n1",
        "labels": {"app_kubernetes_io_name": "chat", "pod_template_hash": "abc"},
    } == row["properties"]
    assert {
        "gpuDevice": "nvidia0",
        "gpuModel": H100,
        "gpuUUID": "GPU-a",
        "isGPUShared": False,
        "gpuUsageAverage": 0.9,
        "gpuRequestAverage": 1.0,
    } == row["gpuAllocation"]
    ours = row["x_gpuwatch"]
    assert (["GPU-a"], 0.8, 0.5, 0.1) == tuple(ours[k] for k in ("gpuUUIDs", "smActive", "effectiveUtil", "falseUtil"))
    assert ("USD", "search", None, 1.0) == tuple(ours[k] for k in ("currency", "team", "migProfile", "observed"))
    assert 0.8 == ours["wasteUSD"]  # a tenth of gaps and a tenth of stalls
    assert 2.0 == pytest.approx(sum(ours["bucketHours"].values()))


def test_a_sleeping_job_is_all_idle(world: World) -> None:
    row = objects_by_name(world, aggregate="controller")["slurmjob:77"]

    assert (4.0, 4.0, 0.0) == (row["gpuCost"], row["gpuCostIdle"], row["gpuEfficiency"])
    assert 4.0 == row["x_gpuwatch"]["wasteUSD"]


IDLES = [
    ({"shareIdle": "true"}, {"lab": 4.0, "h100": 4.0}, "without includeIdle there is nothing to share"),
    ({"includeIdle": "true", "shareIdle": "true"}, {"lab": 6.0, "h100": 6.0}, "shared in proportion to cost"),
    ({"idle": "true", "shareIdle": "weighted"}, {"lab": 6.0, "h100": 6.0}, "weighted is another word for it"),
    ({"idle": "true", "shareIdle": "even"}, {"lab": 6.0, "h100": 6.0}, "or evenly"),
    ({"idle": "false", "includeIdle": "true"}, {"lab": 4.0, "h100": 4.0}, "idle decides before includeIdle"),
    (
        {"idle": "true", "filter": 'namespace:"lab"'},
        {"lab": 4.0, "__idle__": 2.0},
        "a filter leaves the idle that its rows would get",
    ),
    ({"idle": "true", "shareIdle": "true", "filter": 'namespace:"lab"'}, {"lab": 6.0}, "shared before it is filtered"),
    ({"idle": "true", "splitIdle": "true"}, {"lab": 4.0, "h100": 4.0, "c1/__idle__": 4.0}, "idle of each cluster"),
    (
        {"idle": "true", "splitIdle": "true", "idleByNode": "true"},
        {"lab": 4.0, "h100": 4.0, "c1/n1/__idle__": 2.0, "c1/n2/__idle__": 2.0},
        "idle of each node",
    ),
    (
        {"idle": "true", "shareIdle": "true", "idleByNode": "true", "shareNamespaces": "h100"},
        {"lab": 12.0},
        "a shared namespace takes its idle with it",
    ),
    ({"shareNamespaces": "h100"}, {"lab": 8.0}, "a shared namespace is paid by the others"),
    ({"shareLabels": "team:physics"}, {"lab": 8.0}, "or a shared label"),
    (
        {"shareCost": "730", "shareSplit": "even", "filter": 'namespace:"lab"'},
        {"lab": 5.5},
        "evenly, what is dropped counts as one",
    ),
    ({"shareNamespaces": "h100,lab"}, {"__shared__": 8.0}, "where nobody is left it stays shared"),
    ({"shareCost": "730"}, {"lab": 5.5, "h100": 5.5}, "a monthly cost by the hour"),
    ({"shareCost": "730", "filter": 'namespace:"lab"'}, {"lab": 5.5}, "what others would pay goes with them"),
]


@pytest.mark.parametrize(("given_", "expected"), [i[:2] for i in IDLES], ids=[i[2] for i in IDLES])
def test_idle_and_shared_costs(world: World, given_: dict[str, str], expected: dict[str, float]) -> None:
    assert expected == costs(world, aggregate="namespace", **given_)


def test_a_pool_that_nobody_used_stays_idle() -> None:
    rows = [*samples(A, minutes(0, HOUR), BUSY), *samples(B, minutes(0, HOUR), IDLE)]
    fleet = priced(World().add(rows, claim("1", 0, HOUR, "n1", gpus="GPU-a", queue="q")).book(), rate("1"))

    found = costs(fleet, aggregate="namespace", idle="true", shareIdle="true", idleByNode="true")
    assert {"q": 1.0, "__idle__": 1.0} == found


def test_shared_idle_inflates_opencosts_hours_and_not_ours(world: World) -> None:
    row = objects_by_name(world, aggregate="namespace", idle="true", shareIdle="true")["lab"]

    assert (3.0, 1.5, 2.4) == (row["gpuHours"], row["gpuCount"], row["gpuCostIdle"])
    assert (2.0, 1.0, 2.0) == tuple(row["x_gpuwatch"][k] for k in ("gpuHours", "gpuCount", "sharedIdleCost"))


def test_steps_and_what_they_add_up_to(world: World) -> None:
    hours = allocation_answer(asked(world, aggregate="namespace", step="1h", idle="true"))["data"]

    assert [{"lab": 2.0, "h100": 2.0}] * 2 + [{"__idle__": 4.0}] == [
        {name: row["totalCost"] for name, row in one.items()} for one in hours
    ]
    assert {"lab": 4.0, "h100": 4.0, "__idle__": 4.0} == costs(
        world, aggregate="namespace", step="1h", idle="true", accumulate="true"
    )


def test_idle_is_shared_in_each_step(world: World) -> None:
    """In the third hour nobody used the pool: its idle stays."""
    found = costs(world, aggregate="namespace", step="1h", idle="true", shareIdle="true", accumulate="true")

    assert {"lab": 4.0, "h100": 4.0, "__idle__": 4.0} == found


def test_a_window_that_cuts_hours_is_reported_by_minutes(world: World) -> None:
    span = f"{rfc3339(us(1800))},{rfc3339(us(HOUR + 1800))}"
    row = objects_by_name(world, aggregate="namespace", window=span)["lab"]

    assert (2.0, 0.2, 0.9, 60.0) == tuple(row[k] for k in ("gpuCost", "gpuCostIdle", "gpuEfficiency", "minutes"))


def test_a_team_sees_its_own_rows_and_nothing_that_the_others_weigh(world: World) -> None:
    """What is shared is shared among its own rows: idle of the fleet and an amount for all do not show what others held."""
    rows = allocation_answer(asked(world, ["search"], aggregate="namespace", idle="true", shareIdle="true"))["data"][0]

    assert {"lab": 4.0} == {name: row["totalCost"] for name, row in rows.items()}
    assert {} == allocation_answer(asked(world, ["nobody"], idle="true"))["data"][0]


def test_parts_of_a_pool(world: World) -> None:
    row = objects_by_name(world, aggregate="namespace", idle="true", includeProportionalAssetResourceCosts="true")[
        "lab"
    ]

    part = row["proportionalAssetResourceCosts"]["c1"]
    assert ("c1", 0.33333, 0.33333) == (part["cluster"], part["gpuPercentage"], part["nodeResourceCostPercentage"])
    with pytest.raises(UsageError, match="includeIdle must be set true"):
        asked(world, includeProportionalAssetResourceCosts="true")


def test_metadata_that_all_of_a_row_share(world: World) -> None:
    one = objects_by_name(world, aggregate="namespace", includeAggregatedMetadata="true")["lab"]["properties"]["labels"]
    both = objects_by_name(world, aggregate="cluster", includeAggregatedMetadata="true")["c1"]["properties"]

    assert {"app_kubernetes_io_name": "chat", "pod_template_hash": "abc"} == one
    assert {"cluster": "c1"} == both


def test_rates_of_cost(world: World) -> None:
    metrics = ("hourly", "daily", "monthly", "cumulative")

    assert [1.33333, 32.0, 973.33333, 4.0] == [
        costs(world, aggregate="namespace", costMetric=metric)["lab"] for metric in metrics
    ]


def test_pages_of_the_most_expensive_rows(world: World) -> None:
    assert ["h100"] == list(costs(world, aggregate="namespace", limit="1"))
    assert ["lab"] == list(costs(world, aggregate="namespace", limit="1", offset="1"))


def test_summary_and_topline(world: World) -> None:
    summary = summary_answer(asked(world, aggregate="namespace", idle="true"))["data"]
    line = topline_answer(asked(world, aggregate="namespace", idle="true"))["data"]

    assert ["step", "sets", "window"] == list(summary)
    assert 4.0 == summary["sets"][0]["allocations"]["h100"]["totalCost"]
    assert "x_gpuwatch" not in summary["sets"][0]["allocations"]["h100"]
    assert (3, 12.0, 8.4) == (
        line["numResults"],
        line["combined"]["allocations"]["total"]["totalCost"],
        line["combined"]["allocations"]["total"]["gpuCostIdle"],
    )


def test_the_columns_of_a_csv(world: World) -> None:
    rows = listing(asked(world, aggregate="controller", idle="true")).items

    assert [4.0, 4.0, 4.0] == [row["TotalCost"] for row in rows]
    assert {"slurmjob", "deployment", None} == {row["ControllerKind"] for row in rows}


def test_what_was_hardly_observed_has_no_ratios() -> None:
    """Three minutes of an hour: the cost is known, what was done is not."""
    rows = [samples(A, [30, 90, 3570], BUSY), claim("1", 0, HOUR, "n1", gpus="GPU-a")]
    row = objects_by_name(priced(World().add(*rows).book(), rate("2")), aggregate="cluster")["c1"]

    assert (2.0, None, None) == (row["gpuCost"], row["gpuUsageAverage"], row["gpuEfficiency"])
    assert (None, None) == (row["x_gpuwatch"]["smActive"], row["x_gpuwatch"]["effectiveUtil"])
    assert 0 < row["x_gpuwatch"]["observed"] < 0.1


def test_what_has_no_rate_has_no_cost() -> None:
    fleet = priced(World().add(samples(A, minutes(0, HOUR), BUSY), claim("1", 0, HOUR, "n1", gpus="GPU-a")).book())
    answer = allocation_answer(asked(fleet, aggregate="cluster"))
    row = answer["data"][0]["c1"]

    assert (None, None, 1.0, 1.0) == (
        row["totalCost"],
        row["gpuCost"],
        row["gpuHours"],
        row["x_gpuwatch"]["unpricedGpuHours"],
    )
    assert "have no rate" in answer["warning"]


def test_parts_are_whole_and_lose_nothing() -> None:
    assert [3, 4, 3] == list(divide(10, [1, 1, 1]))
    assert [0, 10] == list(divide(10, [0, 5]))
    assert [] == list(divide(10, []))


def test_one_currency_is_reported() -> None:
    rows = [samples(A, minutes(0, 3 * HOUR), BUSY), claim("1", 0, 3 * HOUR, "n1", gpus="GPU-a")]
    fleet = priced(World().add(*rows).book(), rate("2", 0, 2 * HOUR), rate("1", 2 * HOUR, None, "EUR"))
    euro = allocation_answer(asked(fleet, aggregate="cluster", currency="EUR"))

    assert {"c1": 4.0} == costs(fleet, aggregate="cluster")
    assert (1.0, "EUR") == (euro["data"][0]["c1"]["totalCost"], euro["data"][0]["c1"]["x_gpuwatch"]["currency"])
    assert "priced in USD" in euro["warning"]
    assert None is euro["data"][0]["c1"]["x_gpuwatch"]["wasteUSD"]


def total(found: Allocations) -> tuple[int, int]:
    """(amount, units) of all rows, idle and shared costs and all."""
    rows: list[Row] = [row for _, rows in found.sets for row in rows]
    return sum(row.total for row in rows), sum(row.units + row.shared_idle_units for row in rows)


def reference(world: World, start_us: int, end_us: int) -> tuple[Fraction, Fraction]:
    """(dollars, GPU-microseconds) of every segment, at the price of its time."""
    rows = world.store.sql(
        """select s.share_num, s.share_den, p.usd_per_gpu_hour,
            least(s.end_us, p.end_us, $end_us) - greatest(s.start_us, p.start_us, $start_us)
        from segment s
        join device_price p on p.device_id = s.device_id and p.profile is not distinct from s.profile
            and p.start_us < least(s.end_us, $end_us) and p.end_us > greatest(s.start_us, $start_us)
        where s.start_us < $end_us and s.end_us > $start_us""",
        start_us=start_us,
        end_us=end_us,
    )
    length = sum((Fraction(num, den) * us_ for num, den, _, us_ in rows), Fraction(0))
    money = sum((Fraction(num, den) * us_ * Fraction(price or 0) for num, den, price, us_ in rows), Fraction(0))
    return money / (HOUR * 1_000_000), length


QUESTIONS = (
    {"aggregate": "namespace"},
    {"aggregate": "controller,node"},
    {},
    {"aggregate": "all", "step": "1h"},
    {"aggregate": "team", "step": "37m", "accumulate": "true"},
    {"aggregate": "cluster", "shareIdle": "true"},
    {"aggregate": "node", "shareIdle": "even", "idleByNode": "true"},
    {"aggregate": "job", "shareNamespaces": "q0", "shareIdle": "true"},
    {"aggregate": "label:team", "shareLabels": "team:acct-a", "shareSplit": "even"},
)


@pytest.mark.parametrize("number", FEW_FLEETS)
def test_sums_are_those_of_the_books(number: int) -> None:
    """Rates times capacity, exactly, however it is told apart, stepped and shared; in any window."""
    rng = random.Random(number)
    fleet = drawn_fleet(number)
    words = [{"account": rng.choice(("acct-a", None)), "queue": rng.choice(("q0", "q1"))} for _ in fleet.claims]
    claims = [row | word for row, word in zip(fleet.claims, words, strict=True)]
    made = World().add(*fleet.samples, *claims).book()
    change = rng.randrange(1, 3 * HOUR)
    priced(made, rate("2.49", -HOUR, change), rate("1.234567", change))
    low, high = made.span_us()
    start_us, end_us = sorted(rng.randint(low // 1_000_000, high // 1_000_000) for _ in range(2))
    start_us, end_us = start_us * 1_000_000, (end_us + 1) * 1_000_000
    money, length = reference(made, start_us, end_us)
    window = f"{rfc3339(start_us)},{rfc3339(end_us)}"

    for question in rng.sample(QUESTIONS, 7):
        query = parse_query({"window": window, "includeIdle": "true"} | question, NOW_US)
        found = allocations(made.store, query, None, NOW_US)
        amount, units = total(found)

        assert money == Fraction(amount, found.scale.hour)
        if "shareNamespaces" not in question and "shareLabels" not in question:
            assert length == Fraction(units, found.scale.shares)
        for _, rows in found.sets:
            assert all(row.idle_amount <= row.amount for row in rows)


def test_too_many_rows_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwatch.billing.opencost.allocation.ROWS_MAX", 1)
    with pytest.raises(UsageError, match="more than 1 rows"):
        asked(world)
    assert replace(asked(world, aggregate="cluster"), warning=None)
