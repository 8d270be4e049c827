"""The page of workloads: charges beside what was avoidable; what was not measured has no share."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from gpuwatch.dashboards.components.parts import Node
from gpuwatch.dashboards.pages.work import workloads
from tests.dashboards.fake_names import HOSTILE
from tests.dashboards.laid_out import answering, check_layout, links, shown, text

HOUR = 3600


def charge(name: str | None, cost: str | None = "20.00", kind: str = "allocated", **more: Any) -> dict[str, Any]:
    """A charge for ten GPU-hours."""
    keys = {"name": name, "team": "vision", "user": "dan"}
    return {**keys, "gpu_seconds": str(10 * HOUR), "cost": cost, "currency": "USD", "kind": kind, **more}


def group(name: str, share: float | None = 0.25, **more: Any) -> dict[str, Any]:
    """Ten GPU-hours in the ledger, a quarter of them avoidable."""
    lost = {"gpu_seconds": str(2.5 * HOUR), "cost": "5.00", "ratio": share}
    work = {"gpu_seconds": str(7.5 * HOUR), "cost": "15.00", "ratio": 0.75}
    none = {"gpu_seconds": "0.000000", "cost": "0.00", "ratio": 0.0}
    measures = {"working": work, "avoidable": lost, "free": none, "unknown": {"not_measured": none}}
    return {"name": name, "team": "vision", "user": "dan", **measures, "roofline_efficiency": 0.6, **more}


def drawn(charges: list[dict[str, Any]], groups: list[dict[str, Any]], path: str = "/workloads", **more: Any) -> Node:
    """The page over these answers."""
    answers = {"chargeback": {"items": charges, "next": None, **more}, "ledger": {"items": [], "groups": groups}}
    return shown(path, source=answering(answers))


def test_the_platform_and_corrections_are_no_workloads() -> None:
    shown_text = text(drawn([charge(None, kind="platform", team="__platform__"), charge("x", kind="correction")], []))

    assert "No workloads in this window" in shown_text


def test_a_workload_without_its_part_of_the_ledger_has_no_avoidable_amount() -> None:
    one = workloads.workload(("train", "vision", "dan"), [charge("train")], None)

    assert (Decimal("20.00"), None, None, None) == (one.cost, one.avoidable, one.share, one.roofline)


def test_what_was_hardly_measured_has_no_share_and_no_avoidable_amount() -> None:
    one = workloads.workload(("train", "vision", "dan"), [charge("train")], group("train", None))

    assert (None, None, False) == (one.avoidable, one.share, one.measured)
    assert "not measured" in text(drawn([charge("train")], [group("train", None)]))


def test_a_workload_has_its_charge_and_what_was_avoidable_of_it() -> None:
    layout = drawn([charge("train"), charge("train", "1.50", cluster="b")], [group("train")])
    shown_text = text(layout)

    assert "train vision · dan vision dan 20.0 21.50 5.00 25.0 60 %" in shown_text
    assert "/ui/jobs?q=train&user=dan&team=vision" in links(layout)


def test_without_a_price_the_cost_is_unknown() -> None:
    assert None is workloads.workload(("x", "vision", "dan"), [charge("x", None)], None).cost


def test_users_of_one_name_stay_apart_and_the_search_finds_them() -> None:
    rows = [charge("train"), charge("train", user="eve"), charge("other", user="bob")]

    assert "3 in the last 7 days" in text(drawn(rows, []))
    assert "2 in the last 7 days" in text(drawn(rows, [], "/workloads?q=TRAIN"))
    assert "1 in the last 7 days" in text(drawn(rows, [], "/workloads?q=eve"))
    assert "No workloads match" in text(drawn(rows, [], "/workloads?q=zzz"))


def test_the_order_is_by_cost_and_by_what_the_address_says() -> None:
    rows = [charge("cheap", "1.00"), charge("unpriced", None), charge("costly", "90.00")]
    groups = [group("cheap", 0.9), group("costly", 0.1)]
    by_cost, by_share = text(drawn(rows, groups)), text(drawn(rows, groups, "/workloads?sort=share"))

    assert by_cost.index("costly vision") < by_cost.index("cheap vision") < by_cost.index("unpriced vision")
    assert by_share.index("cheap vision") < by_share.index("costly vision") < by_share.index("unpriced vision")


def test_more_than_a_thousand_workloads_are_named_as_such() -> None:
    shown_text = text(drawn([charge("train")], [group("train")], next="c2"))

    assert "1+ in the last 7 days" in shown_text
    assert "of the 1,000 most expensive" in shown_text


def test_hostile_names_stay_text() -> None:
    check_layout(drawn([charge(HOSTILE, user=HOSTILE, team=HOSTILE)], [group(HOSTILE, user=HOSTILE, team=HOSTILE)]))
    check_layout(shown("/workloads"))
    check_layout(shown("/workloads", "empty"))
