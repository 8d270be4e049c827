"""The route of MIG GPUs: pages, and the window of the first of them."""

from __future__ import annotations

from tests.worlds.api import Api

WINDOW = "2026-11-02,2026-11-03"


def test_the_slices_of_a_gpu_are_added_up(filled: Api) -> None:
    """Its costs are those of the rows of `slices`."""
    answer = filled.get(f"/api/v1/mig/gpus?window={WINDOW}").json()
    rows = filled.get(f"/api/v1/slices?window={WINDOW}").json()["items"]
    (gpu,) = answer["items"]

    assert {row["slice"] for row in rows} == {row["slice"] for row in gpu["slices"]}
    assert answer["total"]["slices"] == len(gpu["slices"])
    assert (answer["window"]["start"], answer["next"]) == ("2026-11-02T00:00:00Z", None)
    held = sum(float(row["cost"]) for row in rows if row["team"] != "__platform__")
    assert held == sum(float(row["cost"] or 0) for row in gpu["slices"])


def test_an_unknown_order_is_refused(filled: Api) -> None:
    answer = filled.get(f"/api/v1/mig/gpus?window={WINDOW}&sort=age")

    assert (400, "sort") == (answer.status_code, answer.json()["error"]["field"])
