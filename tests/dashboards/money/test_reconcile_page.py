"""The page that compares cloud bills: causes add up, no bill is not a difference, only administrators upload."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.dashboards.components.parts import Node
from gpuwatch.dashboards.editing import bill_files
from gpuwatch.dashboards.pages.setup import reconcile
from gpuwatch.imports.uploads import bill_importer
from tests.dashboards.fake_names import HOSTILE, NOW, at
from tests.dashboards.laid_out import answering, check_layout, links, shown, text

NOTHING = dict.fromkeys(reconcile.CAUSES, "0.00")
WINDOW = {"start": "2026-11-01T00:00:00Z", "end": "2026-11-03T00:00:00Z"}


def sums(bill: str = "120.00", own: str = "100.00", **parts: str) -> dict[str, Any]:
    """Both sides; the difference is of the price unless `parts` says otherwise."""
    found = parts or {"price": "20.00"}
    return {"currency": "USD", "bill": bill, "gpuwatch": own, "difference": "20.00", **NOTHING, **found}


def day(**more: Any) -> dict[str, Any]:
    """A row of a day."""
    return {**sums(), "day": "2026-11-01", "provider": "aws", "cluster": None, "final": True, **more}


def imported(kind: str = "bill-focus", **more: Any) -> dict[str, Any]:
    """An imported file."""
    return {
        "id": 1,
        "kind": kind,
        "path": "focus.csv",
        "records": 48,
        "imported_at": at(NOW),
        "state": "complete",
        **more,
    }


def drawn(
    path: str = "/reconcile", scope: str = "admin", files: list[dict[str, Any]] | None = None, **found: Any
) -> Node:
    """The page over a comparison."""
    empty = {"items": [], "totals": [], "suggestions": [], "notes": [], "window": WINDOW, "next": None}
    answers = {
        "reconcile": empty | found,
        "imports": {"items": files if files is not None else [imported()], "next": None},
        "me": {"scope": scope},
    }
    return shown(path, source=answering(answers))


def test_without_a_bill_nothing_is_compared() -> None:
    """GPUs that no bill contains are no difference as long as there is no bill at all."""
    own = sums("0.00", "100.00", unbilled="-100.00")

    assert "No cloud bill yet" in text(drawn(files=[], totals=[own]))
    assert "No bill covers this window" in text(drawn(totals=[own]))
    assert "Difference" not in text(drawn(files=[], totals=[own]))


def test_other_imports_are_no_bills() -> None:
    words = text(drawn(files=[imported("sacct", path="jobs.txt")]))

    assert "jobs.txt" not in words
    assert "No cloud bill yet" in words


def test_the_headlines_name_the_largest_cause() -> None:
    words = text(drawn(totals=[sums(price="5.00", taxes="30.00", unbilled="-15.00")]))

    assert "Billed $120.00" in words
    assert "In gpuwatch $100.00" in words
    assert "Difference +$20.00 17 % of the bill" in words
    assert "Largest cause Taxes +$30.00" in words


def test_causes_come_largest_first_and_without_those_that_are_zero() -> None:
    words = text(drawn(totals=[sums(price="5.00", taxes="30.00", unbilled="-15.00")]))

    assert words.index("+30.00") < words.index("-15.00") < words.index("+5.00")
    assert "Rounding of time" not in words
    assert "Bill and gpuwatch agree" in text(drawn(totals=[{**sums("1.00", "1.00"), **NOTHING, "difference": "0.00"}]))


@pytest.mark.parametrize(
    ("path", "row", "expected"),
    [
        ("/reconcile", day(), "1 Nov 2026 aws Price: $20.00 120.00 100.00 +20.00"),
        ("/reconcile", day(final=False), "1 Nov 2026 aws · not final yet"),
        ("/reconcile?by=node", day(node="gpu-1", cluster="k8s"), "gpu-1 aws · k8s"),
        ("/reconcile?by=node", day(node=None), "On the bill only aws"),
        ("/reconcile?by=account", day(account="4711"), "4711 aws"),
        ("/reconcile?by=nonsense&cost=nonsense", day(), "1 Nov 2026 aws"),
    ],
)
def test_a_row_is_a_day_a_node_or_an_account(path: str, row: dict[str, Any], expected: str) -> None:
    assert expected in text(drawn(path, items=[row], totals=[sums()]))


def test_prices_to_correct_and_notes_are_shown() -> None:
    price = {
        "provider": "aws", "gpu_model": "H100", "pricing": "on_demand", "gpu_hours": "12.50", "bill_per_gpu_hour": "3.00",
        "card_per_gpu_hour": None, "currency": "USD", "rates_csv": "H100,on_demand,3.00,2026-11-01,,USD",
    }  # fmt: skip
    layout = drawn(totals=[sums()], suggestions=[price], notes=["paired by model"])

    assert "H100 aws · on demand 12.5 $3.00 – H100,on_demand,3.00,2026-11-01,,USD" in text(layout)
    assert "paired by model" in text(layout)
    assert "/ui/rates" in links(layout)


def test_the_export_is_of_what_is_shown() -> None:
    layout = drawn("/reconcile?by=node&cost=billed&window=lastmonth", totals=[sums()])

    assert "/api/v1/reconcile?window=lastmonth&by=node&cost=billed&format=csv" in links(layout)


def test_only_an_administrator_uploads() -> None:
    assert "Upload a bill of AWS" in text(drawn())
    assert "Upload" not in text(drawn(scope="read"))


@pytest.mark.parametrize("kind", list(bill_files.KINDS))
def test_every_button_is_of_a_kind_that_the_api_takes(kind: str) -> None:
    bill_importer(kind)


def test_hostile_names_stay_text() -> None:
    rows = [day(node=HOSTILE, provider=HOSTILE)]
    check_layout(
        drawn("/reconcile?by=node", items=rows, totals=[sums()], files=[imported(path=HOSTILE)], notes=[HOSTILE])
    )
