"""Other layouts of partitioned GPUs: the demand that they serve, who fits, who has to move."""

from __future__ import annotations

from gpuwatch.api.schema.capacity.mig_layouts import TriedLayouts
from gpuwatch.capacity.mig_try import try_layouts
from gpuwatch.hardware.shares import maximal_layouts
from tests.capacity.test_plan import SMALL, waiting
from tests.ledger.test_stranding import DAY, asked
from tests.worlds.world import BUSY, HOUR, Gpu, World, minutes, pod, samples, us


def seven_slices(end: int, *, held: bool) -> World:
    """A GPU of seven small slices, of which a pod holds one; from `DAY` on something waits for half a GPU."""
    made = World()
    for gi, profile in enumerate(SMALL):
        words = {"namespace": "ml", "pod": "p", "pod_uid": "u"} if held and gi == 3 else {}
        made.add(samples(Gpu("GPU-m", "m1", 0, gi, profile), minutes(DAY, end), BUSY, **words))
    if held:
        made.add(pod("p", "u", DAY, end, "m1", namespace="ml", profile="1g.10gb"))
    row = asked("half", 1, at=DAY, profile="3g.40gb", gpu_type="h100", reason="Resources")
    waiting(made, [row | {"evidence_us": us(DAY + HOUR)}])
    return made


def test_without_partitioned_gpus_nothing_is_tried() -> None:
    made = World().add(samples(Gpu("GPU-w", "w1"), minutes(0, HOUR)))
    with made.book().store as store:
        assert [] == try_layouts(store, us(HOUR))["items"]


def test_every_legal_layout_is_tried_and_a_holder_has_to_move() -> None:
    end = DAY + 2 * HOUR
    with seven_slices(end, held=True).book().store as store:
        answer = try_layouts(store, us(end))
    TriedLayouts.model_validate(answer)
    [one] = answer["items"]
    layouts = {tuple(row["layout"]): row for row in one["layouts"]}
    halves, same = layouts["3g.40gb", "3g.40gb"], layouts[SMALL]

    assert set(layouts) == maximal_layouts("H100-80GB")
    assert (1, 1, {"1g.10gb": 7}) == (one["gpus"], one["held"], one["instances"])
    assert (0, 1, 0, []) == (same["changed_gpus"], same["fit"], same["move"], same["misfits"])
    assert (1, 1, 1, []) == (halves["changed_gpus"], halves["fit"], halves["move"], halves["misfits"])
    assert one["served_ratio"] == same["served_ratio"]
    assert one["plan"]["served_ratio"] == max(row["served_ratio"] for row in one["layouts"])
    [change] = one["plan"]["changes"]
    assert [("lab/p", "1g.10gb")] == [(holder["job"], holder["profile"]) for holder in change["holders"]]


def test_a_pool_that_is_none_has_no_layouts() -> None:
    end = DAY + 2 * HOUR
    with seven_slices(end, held=False).book().store as store:
        assert [] == try_layouts(store, us(end), pool="other")["items"]
        assert [0] == [one["held"] for one in try_layouts(store, us(end))["items"]]
