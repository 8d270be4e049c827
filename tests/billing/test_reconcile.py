"""Bills beside the books: every difference is told in parts that add up to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.billing import chargeback
from gpuwatch.billing.reconcile.compare import reconcile
from gpuwatch.billing.reconcile.differences import PARTS, Side, compare
from gpuwatch.billing.reconcile.listing import money, reconcile_answer, reconcile_listing
from gpuwatch.billing.reconcile.names import Units, names_of
from gpuwatch.billing.reconcile.records import Reconciliation
from gpuwatch.core.bill import BILL, BILL_FILE
from gpuwatch.core.clock import DAY_US, HOUR_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import Records
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from tests.worlds.templates import computed_once
from tests.worlds.world import H100, HOUR, T0_US, Gpu, World, minutes, node, samples, us

DAY = 24 * HOUR
NOW_US = T0_US + 30 * DAY_US
FIRST = Window(T0_US, T0_US + DAY_US)


def line(hours: str | None = "24", amount: str = "48", **words: Any) -> dict[str, Any]:
    """A line of a bill: one GPU of node n1 for the first day, at 2 an hour."""
    row: dict[str, Any] = {
        "file_id": 1,
        "part": 0,
        "line_key": 0,
        "provider": "aws",
        "account": "payer",
        "sub_account": "ml",
        "billing_start_us": T0_US - DAY_US,
        "start_us": T0_US,
        "end_us": T0_US + DAY_US,
        "resource": "arn:aws:ec2:us-east-1:1:instance/n1",
        "category": "Usage",
        "pricing": "Standard",
        "billed_cost": Decimal(amount),
        "currency": "USD",
        "quantity": None if hours is None else Decimal(hours),
        "unit": "Hours",
        "gpu_count": 1,
        "gpu_model": "H100",
    }
    return row | words


def billed(world: World, *rows: Mapping[str, Any]) -> World:
    """The world with a bill of these lines."""
    numbered = [{**row, "line": number} for number, row in enumerate(rows, 1)]
    file = {"file_id": 1, "kind": "bill-focus", "name": "b", "assembly": "b", "scope": "days", "records": len(rows)}
    with world.store.transaction():
        world.store.append(Records("bill", pa.Table.from_pylist(numbered, schema=BILL)))
        world.store.append(Records("bill_file", pa.Table.from_pylist([file], schema=BILL_FILE)))
    return world


@computed_once
def one_gpu(end: int = DAY) -> World:
    """One GPU on node n1 from midnight."""
    return World().add(samples(Gpu(), minutes(0, end))).book()


def fleet(end: int = DAY, *nodes: Mapping[str, Any]) -> World:
    """One GPU on node n1 from midnight, and what a scheduler says of nodes."""
    world = one_gpu(end)
    return world.add(*map(dict, nodes)).book() if nodes else world


def state_of(world: World, price: str | None = "2", currency: str = "USD") -> State:
    state = State.open("sqlite://")
    if price is not None:
        replace_rates(state, [Rate(H100, "on_demand", Decimal(price), 0, currency=currency)], "test", "test", 0)
    chargeback.price_all(world.store, state)
    return state


def asked(world: World, state: State, window: Window = FIRST, **words: Any) -> Reconciliation:
    return reconcile(world.store, state, window, **({"now_us": NOW_US} | words))


def parts(found: Reconciliation, currency: str = "USD") -> dict[str, Decimal]:
    """The reasons that are not nothing."""
    return {name: amount for name, amount in found.totals[currency].parts.items() if amount}


def test_without_names_bill_and_ledger_are_paired_by_model_region_and_day_and_say_so() -> None:
    labels = ({"node": "n1", "region": "eu-west-1"}, {"node": "n2", "region": "us-east-1"})
    rows = [
        node(one["node"], at=0, labels=json.dumps({"topology.kubernetes.io/region": one["region"]})) for one in labels
    ]
    world = World().add(*rows, *(samples(Gpu(f"GPU-{n}", f"n{n}"), minutes(0, DAY, 1800)) for n in (1, 2))).book()
    lines = [line(resource="i-1", amount="60", region="eu-west-1"), line(resource="i-2", region="US-east-1")]
    found = asked(billed(world, *lines), state_of(world), by="node")

    assert {"n1": {"price": 12}, "n2": {}} == {
        str(row.group["node"]): {name: int(amount) for name, amount in row.sums.parts.items() if round(amount)}
        for row in found.rows
    }
    assert any("were paired by model, region and day" in note for note in found.notes)


def test_no_bill_and_no_gpu_is_an_empty_answer() -> None:
    found = asked(World(), State.open("sqlite://"))

    assert ((), {}) == (found.rows, found.totals)
    assert "import one" in found.notes[0]


def test_a_bill_that_says_the_same_has_no_difference() -> None:
    world = billed(fleet(), line())
    found = asked(world, state_of(world))

    assert [("2026-11-02", "aws", "c1", "USD")] == [tuple(row.group.values()) for row in found.rows]
    assert (Decimal(48), Decimal(48), {}) == (found.rows[0].sums.bill, found.rows[0].sums.gpuwatch, parts(found))
    assert (True, ()) == (found.rows[0].final, found.suggestions)


CASES = [
    pytest.param([line(), line(resource="i-other")], {"untracked": 48}, id="another machine than ours"),
    pytest.param([line(resource=None)], {}, id="no instance ids, the same price"),
    pytest.param([line(resource=None, amount="60")], {"price": 12}, id="no instance ids, another price"),
    pytest.param(
        [line(resource="i-1", gpu_model="L4")], {"untracked": 48, "unbilled": -48}, id="no names, another model"
    ),
    pytest.param([], {"unbilled": -48}, id="no bill for what we saw"),
    pytest.param([line(amount="72")], {"price": 24}, id="a dearer hour"),
    pytest.param([line("25", "50")], {"boundaries": 2}, id="a started hour that the bill counts whole"),
    pytest.param([line("20", "40")], {"boundaries": -4, "unbilled": -4}, id="hours that are not on the bill"),
    pytest.param([line(), line(category="Tax", amount="4.80")], {"taxes": Decimal("4.8")}, id="a tax"),
    pytest.param([line(), line(category="Credit", amount="-5")], {"discounts": -5}, id="a credit"),
    pytest.param(
        [line(), line(category="Adjustment", amount="-1.25")], {"discounts": Decimal("-1.25")}, id="a discount"
    ),
    pytest.param([line(), line(gpu_count=None, amount="3")], {"not_gpu": 3}, id="storage of the same machine"),
    pytest.param(
        [line(), line(commitment_status="Unused", amount="9")], {"commitments": 9}, id="an unused reservation"
    ),
    pytest.param([line(), line(category="Purchase", amount="100")], {"commitments": 100}, id="a purchase"),
    pytest.param([line(None, "50")], {"unexplained": 2}, id="a bill without hours"),
    pytest.param([line(), line("0", "24", gpu_count=0)], {"price": 24}, id="processors of the machine, billed apart"),
]


@pytest.mark.parametrize(("rows", "expected"), CASES)
def test_a_difference_has_its_reason(rows: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    world = billed(fleet(), *rows) if rows else fleet()
    found = asked(world, state_of(world))

    assert expected == parts(found)
    assert sum(expected.values()) == found.totals["USD"].difference


def test_a_gpu_without_a_rate_is_reported_as_such() -> None:
    world = billed(fleet(), line())
    found = asked(world, state_of(world, None))

    assert {"no_rate": 48} == parts(found)
    assert Decimal(24) == found.unpriced_gpu_hours


def test_currencies_are_never_added() -> None:
    world = billed(fleet(), line(currency="EUR"))
    found = asked(world, state_of(world))

    assert [{"not_convertible": 48}, {"not_convertible": -48}] == [parts(found, "EUR"), parts(found)]


def test_a_bill_is_converted_where_a_currency_is_reported_in() -> None:
    from gpuwatch.state.versioned_lists import VersionedLists

    world = billed(fleet(), line(currency="EUR", amount="40"))
    state = state_of(world)
    head = {"currency": "USD", "max_age_days": 40}
    rate = {"from": "EUR", "to": "USD", "rate": "1.2", "valid_from_us": T0_US - DAY_US}
    VersionedLists(state).replace("fx", [head, rate], "test", "test", 0)
    found = asked(world, state)

    assert ({"USD"}, {}) == (set(found.totals), parts(found))
    assert Decimal(48) == found.totals["USD"].bill


def test_effective_and_billed_cost_are_two_questions() -> None:
    world = billed(
        fleet(),
        line(amount="0", effective_cost=Decimal(30)),
        line(category="Purchase", amount="700", effective_cost=Decimal(0)),
    )
    state = state_of(world)

    assert [Decimal(30), Decimal(700)] == [
        asked(world, state, cost=c).totals["USD"].bill for c in ("effective", "billed")
    ]


def test_the_last_36_hours_are_not_final() -> None:
    world = billed(fleet(), line())
    state = state_of(world)
    ends = FIRST.end_us + 36 * HOUR_US

    assert [False, True] == [asked(world, state, now_us=now).rows[0].final for now in (ends - 1, ends)]


def test_a_line_over_several_days_is_cut_at_midnight() -> None:
    world = billed(fleet(3 * DAY), line("60", "100", category="Tax", end_us=T0_US + 5 * DAY_US // 2))
    state = state_of(world)
    days = [asked(world, state, Window(T0_US + n * DAY_US, T0_US + (n + 1) * DAY_US)) for n in range(3)]

    assert [40, 40, 20] == [found.totals["USD"].parts["taxes"] for found in days]
    whole = asked(world, state, Window(T0_US + 1, T0_US + 2 * DAY_US + 1))
    assert (100, Window(T0_US, T0_US + 3 * DAY_US)) == (whole.totals["USD"].parts["taxes"], whole.window)


def test_a_line_of_a_file_that_was_not_read_to_its_end_does_not_count() -> None:
    world = fleet()
    with world.store.transaction():
        world.store.append(Records("bill", pa.Table.from_pylist([{**line(), "line": 1}], schema=BILL)))

    assert Decimal(0) == asked(world, state_of(world)).totals["USD"].bill


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        pytest.param(
            {"resource": "i-0abc"}, {"labels": '{"gpuwatch.io/instance-id": "i-0abc"}'}, id="a label of the node"
        ),
        pytest.param({"resource": "x", "resource_name": "N1"}, {}, id="the name of the machine"),
        pytest.param({"resource": "x", "tags": '{"gpuwatch.io/node": "n1"}'}, {}, id="a tag of the machine"),
        pytest.param({"resource": "x", "tags": '{"user:Name": "n1"}'}, {}, id="AWS's Name tag"),
        pytest.param(
            {"resource": "i-0abc"},
            {"labels": '{"gpuwatch.io/provider-id": "aws:///us-east-1a/i-0abc"}'},
            id="a provider id",
        ),
    ],
)
def test_nodes_are_known_by_their_names(resource: dict[str, Any], words: dict[str, Any]) -> None:
    world = billed(fleet(DAY, node("n1", {"": 1}, at=HOUR, **words)), line(**resource))

    assert {} == parts(asked(world, state_of(world)))


TWINS = [{"cluster": "c1", "node": "n1", "word": "n1"}, {"cluster": "c2", "node": "n1", "word": "n1"}]
LABELLED = [*TWINS, {"cluster": "c1", "node": "n1", "word": "aws:///us-east-1a/i-1"}]


@pytest.mark.parametrize(
    ("together", "nodes"),
    [
        pytest.param({("c1", "n1"), ("c2", "n1")}, TWINS, id="a name alone may mean both"),
        pytest.param({("c1", "n1")}, LABELLED, id="an id decides before a name"),
    ],
)
def test_nodes_of_two_clusters_with_one_name(together: set[tuple[str, str]], nodes: list[dict[str, str]]) -> None:
    units, resource = Units(nodes), {"provider": "aws", "resource": "i-1", "resource_name": "n1", "tagged": None}

    assert units.join(resource)
    assert together == {
        node for node in (("c1", "n1"), ("c2", "n1")) if units.of_node(node) == units.of_resource(resource)
    }
    assert ({"n1"} if len(together) > 1 else set()) == units.ambiguous


def test_a_scale_set_is_all_its_nodes() -> None:
    names = [
        names_of(name)
        for name in ("aks-gpu-1-vmss000000", "aks-gpu-1-vmss00000a", "/x/virtualMachineScaleSets/aks-gpu-1-vmss")
    ]

    assert {"aks-gpu-1-vmss"} == set.intersection(*names)


def test_rows_are_days_nodes_or_accounts() -> None:
    world = billed(fleet(), line(), line(resource="i-lost", sub_account="web"), line(gpu_count=None, amount="1"))
    state = state_of(world)
    nodes, accounts = (asked(world, state, by=by) for by in ("node", "account"))

    assert [("c1", "n1", "48"), (None, None, "48"), (None, None, "1")] == [
        (r.group["cluster"], r.group["node"], f"{r.sums.bill.normalize():f}") for r in nodes.rows
    ]
    assert [("ml", 49, 48), ("web", 48, 0)] == [
        (r.group["sub_account"], r.sums.bill, r.sums.gpuwatch) for r in accounts.rows
    ]
    assert [48 + 48 + 1 - 48] * 2 == [found.totals["USD"].difference for found in (nodes, accounts)]


def test_one_provider_has_its_own_rows() -> None:
    world = billed(fleet(), line(), line(provider="gcp", resource="vm"))
    state = state_of(world)

    assert [48, 48, 0] == [
        asked(world, state, provider=p).totals[c].bill if c else 0
        for p, c in (("aws", "USD"), ("gcp", "USD"), ("oci", ""))
    ]


def test_a_price_to_correct_is_a_line_to_paste() -> None:
    world = billed(fleet(), line(amount="72"))
    found = asked(world, state_of(world))

    assert [f"{H100},on_demand,3.000000,2026-11-02T00:00:00Z,,USD"] == [s.line for s in found.suggestions]
    assert (Decimal(3), Decimal(2)) == (found.suggestions[0].billed, found.suggestions[0].card)


def test_the_books_are_what_is_charged() -> None:
    world = billed(fleet(2 * DAY), line())
    state = state_of(world, "1.234567")
    window = Window(T0_US, T0_US + 2 * DAY_US)

    charged = chargeback.chargeback(world.store, state, window).cost
    assert charged == round(asked(world, state, window).totals["USD"].gpuwatch, 2)


@pytest.mark.parametrize("words", [{"by": "hour"}, {"cost": "list"}], ids=["an unknown group", "an unknown cost"])
def test_what_is_not_known_is_named(words: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="use "):
        asked(World(), State.open("sqlite://"), **words)


def test_a_provider_that_nobody_has_is_refused_with_those_there_are() -> None:
    """One of the known clouds without a bill is an answer, and so is a name that a bill brought, in any case."""
    world = billed(fleet(), line(provider="coreweave"))
    state = state_of(world)

    assert [0, 1] == [len(asked(world, state, provider=name).rows) for name in ("aws", "CoreWeave")]
    with pytest.raises(UsageError, match="awss: unknown; known: aws, azure, gcp, oci; bills are of coreweave"):
        asked(world, state, provider="awss")


amounts = st.fractions(-(10**6), 10**6, max_denominator=10**6)
hours = st.one_of(st.none(), st.fractions(0, 500, max_denominator=3600))
currencies = st.sampled_from(("USD", "EUR"))


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(currencies, st.builds(Side, amounts, hours)),
    st.dictionaries(
        st.one_of(st.none(), currencies), st.builds(Side, amounts, st.fractions(0, 500, max_denominator=3600))
    ),
)
def test_parts_add_up_to_the_difference_whatever_both_sides_say(
    bills: dict[str, Side], books: dict[str | None, Side]
) -> None:
    for found in compare(bills, books).values():
        assert Fraction(found.bill) - Fraction(found.gpuwatch) == sum(map(Fraction, found.parts.values()))


@pytest.fixture(scope="module")
def long() -> tuple[World, State]:
    """Two days and five hours of one GPU at an odd price."""
    world = fleet(2 * DAY + 5 * HOUR)
    return world, state_of(world, "1.0000007")


drawn_lines = st.lists(
    st.tuples(
        st.integers(0, 70),
        st.integers(1, 60),
        st.decimals(-9, 99, places=9),
        st.sampled_from(("n1", "i-x")),
        st.sampled_from(("Usage", "Tax", "Credit", "Purchase")),
        st.sampled_from((1, None, 0)),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=drawn_lines)
def test_days_add_up_to_the_window_and_no_money_is_lost(
    long: tuple[World, State], drawn: list[tuple[Any, ...]]
) -> None:
    rows = [
        line(
            str(length),
            str(amount),
            start_us=us(start * HOUR),
            end_us=us((start + length) * HOUR),
            resource=name,
            category=kind,
            gpu_count=count,
        )
        for start, length, amount, name, kind, count in drawn
    ]
    world, state = long
    for table in ("bill", "bill_file"):
        world.store.sql(f"delete from {table}")
    billed(world, *rows)
    whole = asked(world, state, Window(T0_US, T0_US + 6 * DAY_US)).totals["USD"]
    cuts = (0, 1, 2, 6)
    days = [asked(world, state, Window(T0_US + a * DAY_US, T0_US + b * DAY_US)) for a, b in pairwise(cuts)]
    sums = [day.totals["USD"] for day in days if "USD" in day.totals]

    assert sum((r["billed_cost"] for r in rows), Decimal(0)) == whole.bill
    assert whole.difference == sum(whole.parts.values())
    assert [whole.bill, whole.difference] == [sum(s.bill for s in sums), sum(s.difference for s in sums)]


def test_the_answer_is_exact_text() -> None:
    world = billed(fleet(), line(amount="48.000000000000000001"))
    answer = reconcile_answer(asked(world, state_of(world)))

    assert ("48.000000000000000001", "0.000000000000000001") == (
        answer["items"][0]["bill"],
        answer["items"][0]["price"],
    )
    assert ["0.00", "-1.50", "2.00"] == [money(Decimal(t)) for t in ("-0.000", "-1.5", "2")]
    assert "Total USD" in reconcile_listing(answer).foot[0]


def test_a_table_has_cents_that_still_add_up() -> None:
    world = billed(
        fleet(), line(amount="48.004"), line(category="Tax", amount="0.004"), line(gpu_count=None, amount="0.004")
    )
    (row,) = [
        i for i in reconcile_listing(reconcile_answer(asked(world, state_of(world), by="account")), cents=True).items
    ]

    assert ("48.01", "48.00", "0.01") == (row["bill"], row["gpuwatch"], row["difference"])
    assert ["0.01"] == [row[name] for name in PARTS if row[name] != "0.00"]


def test_a_demo_bill_goes_from_file_to_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gpuwatch.cli import run

    file = tmp_path / "focus.csv"
    file.write_text(
        "BilledCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ProviderName\n"
        "12.50,USD,2026-11-02 00:00:00,2026-11-03 00:00:00,Tax,AWS\n"
    )
    data = str(tmp_path / "data")

    assert 0 == run(["import", "bill-focus", str(file), "--data", data])
    capsys.readouterr()
    assert 0 == run(["reconcile", "--window", "2026-W45", "--data", data, "--format", "csv"])
    text = capsys.readouterr().out.splitlines()
    assert "day,provider,cluster,currency,bill,gpuwatch,difference,untracked,unbilled,price" in text[0]
    assert text[1].startswith("2026-11-02,aws,,USD,12.50,0.00,12.50,")
    assert 2 == run(["reconcile", "--window", "2026-W45", "--data", data, "--by", "hour"])


def test_amounts_beyond_reason_do_not_end_the_comparison() -> None:
    most = Decimal(10) ** 15 - 1
    world = billed(fleet(), line(str(most), "1", gpu_count=9999), *(line(amount=str(most)) for _ in range(200)))
    found = reconcile(world.store, state_of(world), FIRST, now_us=NOW_US).totals["USD"]

    assert 200 * most + 1 == found.bill
    assert found.difference == sum(found.parts.values())
