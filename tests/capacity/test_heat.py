"""GPUs over time: it is marked where which GPU of its node a job held is estimated."""

from __future__ import annotations

from gpuwatch.capacity import heat
from gpuwatch.core.clock import Window
from tests.worlds.world import HOUR, Gpu, World, claim, minutes, samples, us


def test_only_gpus_whose_job_names_none_are_estimated() -> None:
    """Job 9 names its GPU; job 7 only asks for one of its node, and the third is free."""
    made = World()
    for index in range(3):
        made.add(samples(Gpu(f"GPU-{index}", index=index), minutes(0, 2 * HOUR)))
    made.add(claim("7", 0, HOUR), claim("9", 0, HOUR, device_indexes="1", kind="scontrol"))
    window = Window(us(0), us(2 * HOUR))
    with made.book().store as store:
        facts = heat.gpus(store, window, limit=10)
        found = heat.heat(store, window, facts, ["gr_engine_ratio"])
    held = [cells[heat.HELD] for cells in found["values"]]

    assert ["GPU-0", "GPU-1", "GPU-2"] == [fact["gpu"] for fact in facts]
    assert [[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]] == held
    assert [True, False, False] == found["estimated"]
