"""Pools that would be cheaper rented, and pools that are used enough to own them."""

from __future__ import annotations

from gpuwatch.simulate.models import B200
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "own-vs-cloud"
DAYS = 4
HOUR = 3600


@scene(DETECTOR, "one-fifth-used", rank=1, gpus=4, hours=24 * DAYS + 2)
def one_fifth_used(s: Stage) -> None:
    """An owned pool that is used for five hours of each day, and one that is used all day."""
    rare = s.node(B200, gpus=2, every=4, pool=f"{s.tag}-rare", leaf=s.tag)
    full = s.node(B200, gpus=2, every=4, pool=f"{s.tag}-full", leaf=s.tag)
    for day in range(DAYS):
        start = s.ago(24 * (day + 1) - 4)
        s.job(rare.devices, start, start + 5 * HOUR, "train")
        s.job(full.devices, s.ago(24 * (day + 1)), s.ago(24 * day + 0.5), "train")
    s.plant("one-fifth-used", "owned at 4.10, rented at 6.25 an hour, used a fifth of the time", ("pool", rare.pool))
    s.decoy("in-use-all-day", "owned and used nearly all the time", ("pool", full.pool))
