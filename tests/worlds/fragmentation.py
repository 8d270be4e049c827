"""Nodes of which parts are held, what was asked for before, and what waits: for rules about free capacity."""

from __future__ import annotations

from typing import Any

from tests.worlds.detectors import WORK, World
from tests.worlds.scheduling import tell, tell_all

HOURS = 60


def node(
    world: World,
    name: str,
    gpus: int,
    held: int,
    *,
    until: float = 180,
    job: str | None = None,
    pool: str | None = None,
    **samples: Any,
) -> None:
    """A node of GPUs that are sampled up to minute `until`; the first of them are held by one job all the time.

    `samples`: the GPUs' `model` and `step_s`.
    """
    world.node(name, 0, {"": gpus}, pool)
    for n in range(gpus):
        world.gpu(f"{name}-{n}", (until, WORK), node=name, **samples)
    if held:
        world.job(job or f"job-{name}", [f"{name}-{n}" for n in range(held)], 0, until, node=name)


def asked(world: World, gpus: int, times: int, who: str = "asked", **more: Any) -> None:
    """Requests of the day before, which found a place since."""
    tell_all(
        world,
        "pending",
        [
            {
                "scheduler": "slurm",
                "job_id": f"{who}-{gpus}-{n}",
                "submit_us": -600,
                "evidence_us": -500,
                "device_count": gpus,
                "node_count": 1,
                "reason": "NoLongerWaits",
            }
            | more
            for n in range(times)
        ],
    )


def waits(world: World, gpus: int, since: float, until: float, reason: str = "Resources", **more: Any) -> None:
    """A request that waits, of which its queue speaks every hour and at the end."""
    at = since
    while at < until:
        at = min(at + HOURS, until)
        row = {"scheduler": "slurm", "job_id": "big", "submit_us": since, "evidence_us": at, "device_count": gpus}
        tell(world, "pending", **(row | {"node_count": 1, "reason": reason} | more))
