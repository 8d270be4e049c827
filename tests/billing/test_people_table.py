"""The table that people read of charges and ledger: GPU-hours, cents, shares, a total; the rest stays exact."""

from __future__ import annotations

from typing import Any

from gpuwatch.billing.listings import chargeback_answer, ledger_answer
from gpuwatch.billing.people_table import for_people
from gpuwatch.output.render import render
from gpuwatch.output.terminal import as_table

WINDOW = {"start": "2026-11-16T00:00:00Z", "end": "2026-11-23T00:00:00Z"}


def item(team: str, seconds: str, cost: str | None, **more: Any) -> dict[str, Any]:
    currency = None if cost is None else "USD"
    row = {"team": team, "gpu_seconds": seconds, "cost": cost, "cost_exact": cost, "currency": currency}
    return {**row, "kind": "allocated", "charge": "c1.x", "inferred": False, **more}


def table(*items: dict[str, Any], **total: Any) -> list[str]:
    answer = {"items": list(items), "window": WINDOW, "total": {"gpu_seconds": "0", "cost": None, **total}}
    listing = for_people(chargeback_answer(answer, ["team"]), ["team"])

    assert b"cost_exact" in render(listing, "csv")[0]
    assert len(items) == len(listing.items)
    return [" ".join(line.split()) for line in as_table(listing, 120).splitlines() if line.strip(" ─")]


def test_charges_are_sorted_by_cost_with_shares_and_a_total() -> None:
    platform = item("__platform__", "7200.000000", "20.50", kind="platform")
    lines = table(item("vision", "3600.123456", "4.00"), item("nlp", "36000000", "1475.50", inferred=True), platform)

    assert [
        "team GPU-hours cost USD share",
        "nlp (inferred) 10,000.0 1,475.50 98.4%",
        "Platform 2.0 20.50 1.4%",
        "vision 1.0 4.00 0.3%",
        "Total 10,003.0 1,500.00 100.0%",
        "Inferred from accounts and namespaces, without an ownership rule: nlp",
        "Platform: GPU time that no job held.",
        "Window: Mon 2026-11-16 00:00 to Mon 2026-11-23 00:00 UTC (7 days)",
    ] == lines


def test_a_missing_price_is_stated_once_with_the_fix() -> None:
    """Rows that differ in what lacks a price only are one; shares are then of the GPU-hours."""
    error = "no rate for model 'H100', cluster 'c1', pool '-', profile '-' at 2026-11-16T0{}:00:00Z: add a line"
    rows = [item("vision", "3600", None, error=error.format(hour)) for hour in (1, 2)]
    lines = table(*rows, item("nlp", "3600", None, error=error.format(3)), unpriced_gpu_seconds="10800")

    assert [
        "team GPU-hours share",
        "vision 2.0 66.7%",
        "nlp 1.0 33.3%",
        "Total 3.0 100.0%",
        "3.0 GPU-hours have no price. Set prices with gpuwatch rates set FILE; gpuwatch doctor prints the lines of the file.",
        "Missing: no rate for model 'H100', cluster 'c1', pool '-', profile '-'",
    ] == lines[:-1]


def by_words(by: list[str], *items: dict[str, Any]) -> list[str]:
    answer = {"items": list(items), "window": WINDOW, "total": {"gpu_seconds": "0", "cost": None}}
    lines = as_table(for_people(chargeback_answer(answer, by), by), 120).splitlines()
    return [" ".join(line.split()) for line in lines if line.strip(" ─")][1:-1]


def test_time_without_a_label_is_not_that_of_the_platform() -> None:
    held, free = item("a", "7200", "4.00"), item("a", "3600", "2.00", kind="platform")
    lines = by_words(
        ["namespace", "label:team"],
        {**held, "namespace": "ml", "label:team": None},
        {**held, "namespace": None, "label:team": "nlp", "cost": "3.00"},
        {**free, "namespace": None, "label:team": None},
    )

    assert ["ml (no label) 2.0 4.00 44.4%", "(no namespace) nlp 2.0 3.00 33.3%", "Platform 1.0 2.00 22.2%"] == lines[:3]


def test_beside_the_team_the_platform_is_named_once() -> None:
    lines = by_words(
        ["team", "label:team"], item("__platform__", "3600", "2.00", kind="platform") | {"label:team": None}
    )

    assert ["Platform 1.0 2.00 100.0%", "Platform: GPU time that no job held."] == lines


def test_jobs_without_a_team_are_explained_where_there_are_some() -> None:
    lines = table(item("a", "3600", "2.00"), item("__unallocated__", "3600", "1.00"))

    assert [
        "No team assigned: jobs that no account, namespace or rule gives a team (gpuwatch doctor has the fix)."
    ] == [line for line in lines if ": " in line and not line.startswith("Window")]


def test_two_currencies_have_rows_of_their_own_and_no_total() -> None:
    lines = table(item("a", "3600", "2.00"), item("a", "3600", "1.00", currency="EUR"))

    assert ["team currency GPU-hours cost", "a EUR 1.0 1.00", "a USD 1.0 2.00"] == lines[:3]
    assert not any(line.startswith("Total") for line in lines)


def test_no_charges_are_an_empty_table_with_the_window() -> None:
    assert ["Window: Mon 2026-11-16 00:00 to Mon 2026-11-23 00:00 UTC (7 days)"] == table()


def test_buckets_of_the_ledger() -> None:
    measure = {"gpu_seconds": None, "cost": None, "ratio": None}
    rows = [{"bucket": name, "gpu_seconds": seconds, "cost": "1.00", "currency": "USD"} for name, seconds in
            (("hoarded", "3600"), ("compute", "7200"))]  # fmt: skip
    answer = {
        "items": rows, "capacity_gpu_seconds": "10800", "window": WINDOW | {"end": "2026-11-16T06:30:00Z"}, "currency": "USD",
        "working": measure, "avoidable": measure, "free": measure, "roofline_efficiency": None, "measured_ratio": None,
        "unknown": {"not_measured": measure, "out_of_service": measure},
    }  # fmt: skip
    text = as_table(for_people(ledger_answer(answer, ["bucket"]), ["bucket"]), 120)
    lines = [" ".join(line.split()) for line in text.splitlines()]

    assert {"Held idle 1.0 1.00 50.0%", "Compute 2.0 1.00 50.0%", "Total 3.0 2.00 100.0%"} <= {*lines}
    assert "Window: Mon 2026-11-16 00:00 to Mon 2026-11-16 06:30 UTC (6.5 hours)" == lines[-1]
