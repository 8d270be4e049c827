"""The page of commitments: what was unused and what it cost, and a form that changes the reserved rates only."""

from __future__ import annotations

from typing import Any

from gpuwatch.dashboards.components.parts import Node
from gpuwatch.dashboards.pages.setup import commitments
from tests.dashboards.fake_names import HOSTILE, NOW, at
from tests.dashboards.laid_out import answering, asked, check_layout, links, shown, text

HOUR = 3600
START = "2026-01-01T00:00:00Z"


def used(ident: str, **more: Any) -> dict[str, Any]:
    """A hundred GPU-hours committed to: sixty held, thirty idle, ten absent."""
    row = {
        "commitment_id": ident, "gpu_model": "H100", "quantity": 4, "committed_gpu_seconds": str(100 * HOUR),
        "used_gpu_seconds": str(60 * HOUR), "idle_gpu_seconds": str(30 * HOUR), "absent_gpu_seconds": str(10 * HOUR),
        "unused_gpu_seconds": str(40 * HOUR), "utilisation": 0.6, "committed_cost": "200.00", "used_cost": "120.00",
        "unused_cost": "80.00", "currency": "USD",
    }  # fmt: skip
    return row | more


def rate(**more: Any) -> dict[str, Any]:
    """A reserved rate without an end."""
    row = {"gpu_model": "H100", "pricing": "reserved", "usd_per_gpu_hour": "2.10", "currency": "USD", "quantity": 4}
    return {**row, "commitment_id": "ri-1", "valid_from": START, "valid_to": None, **more}


def drawn(
    items: list[dict[str, Any]], card: list[dict[str, Any]], path: str = "/commitments", scope: str = "admin"
) -> Node:
    """The page over these answers: jobs held 120 GPU-hours."""
    window = {"start": START, "end": at(NOW)}
    held = {"bucket": "compute", "gpu_seconds": str(120 * HOUR), "cost": None}
    answers = {
        "commitments": {"items": items, "window": window, "counted": window if items else None, "next": None},
        "rates": {"items": card, "version": 3, "next": None},
        "ledger": {"items": [held, {"bucket": "stranded", "gpu_seconds": str(9 * HOUR)}]},
        "me": {"scope": scope, "teams": None},
        "fleet": {"at": at(NOW)},
        "audit": {"items": []},
    }
    return shown(path, source=answering(answers))


def test_without_commitments_nothing_is_counted_and_nothing_is_zero() -> None:
    words = text(drawn([], []))

    assert "No commitments yet" in words
    assert "0 %" not in words
    assert "No use to show in this window" in text(drawn([], [rate(commitment_id=None)]))


def test_the_headlines_are_what_was_committed_used_and_lost() -> None:
    words = text(drawn([used("ri-1"), used("ri-2")], [rate()]))

    assert "Committed $400.00 200 GPU-h" in words
    assert "Used 60 % of the committed GPU time" in words
    assert "Unused $160.00" in words
    assert "Covered 100 % of the GPU time that jobs held" in words


def test_amounts_in_two_currencies_are_not_added_up() -> None:
    words = text(drawn([used("ri-1"), used("ri-2", currency="EUR")], []))

    assert "Committed – In several currencies: see the table" in words
    assert "€80.00" in words


def test_the_most_expensive_unused_part_comes_first() -> None:
    words = text(drawn([used("small", unused_cost="1.00"), used("large")], []))

    assert words.index("large") < words.index("small")
    assert "60.0 30.0 10.0 $200.00 $80.00" in words


def test_other_rates_of_the_card_are_not_listed_and_rows_keep_their_place() -> None:
    """A form names the row of the whole card."""
    layout = drawn([], [rate(pricing="on_demand", gpu_model="A100"), rate()])

    assert "A100" not in text(layout)
    assert [True] == [href.endswith("edit=change&row=1") for href in links(layout) if "edit=change" in href]


def test_only_an_administrator_has_forms() -> None:
    assert [] == [href for href in links(drawn([], [rate()], scope="read")) if "edit=" in href]


def test_a_new_commitment_is_a_reserved_rate() -> None:
    values = {
        "gpu_model": "H100",
        "usd_per_gpu_hour": "2.00",
        "currency": "USD",
        "quantity": "8",
        "commitment_id": "ri-9",
    }

    assert {**values, "quantity": 8, "pricing": "reserved"} == commitments.made(values)


def test_another_number_of_gpus_keeps_the_rest_and_none_covers_the_scope() -> None:
    assert (8, "1.90") == tuple(
        commitments.replaced(rate(), {"quantity": "8", "usd_per_gpu_hour": "1.90"})[name]
        for name in ("quantity", "usd_per_gpu_hour")
    )
    assert "quantity" not in commitments.replaced(rate(), {"quantity": "", "usd_per_gpu_hour": "1.90"})
    assert "many" == commitments.replaced(rate(), {"quantity": "many", "usd_per_gpu_hour": "1"})["quantity"]


def test_the_form_of_a_row_has_its_values() -> None:
    form = commitments.dated.form(commitments.KIND, [rate()], "3", at(NOW), asked("/commitments?edit=change&row=0"))

    assert "Change: ri-1, H100" in text(form)


def test_hostile_names_stay_text() -> None:
    check_layout(drawn([used(HOSTILE, gpu_model=HOSTILE)], [rate(commitment_id=HOSTILE, gpu_model=HOSTILE)]))
