"""A GPU that moved from one cluster to another is owned by one of them at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.model import device_key
from gpuwatch.settings import Settings
from gpuwatch.state import State
from tests.worlds.world import BUSY, CLUSTER, HOUR, Gpu, Sample, Seconds, World, claim, minutes, samples

OTHER = "c2"


@dataclass(frozen=True)
class OfOther(Gpu):
    """A device of the other cluster."""

    @property
    def device_id(self) -> int:
        return device_key(OTHER, self.uuid, self.gi)


def there(gpu: Gpu, start: Seconds, end: Seconds) -> list[Sample]:
    return samples(OfOther(gpu.uuid, gpu.node, gpu.index), minutes(start, end), BUSY, cluster=OTHER)


def hours(world: World) -> dict[tuple[str, str], dict[str, int]]:
    """Seconds of each bucket by cluster and GPU, after an analysis."""
    state = State.open("sqlite://")
    assert [] == analyze(world.store, state, Settings(default_interval_s=60), now_us=0).failed_rules
    state.close()
    found: dict[tuple[str, str], dict[str, int]] = {}
    for cluster, gpu, held, free, out in world.store.sql(
        """select d.cluster, d.gpu, sum(gap_us + stalled_us + below_roof_us + memory_roof_us + compute_us + unobserved_us)
            filter (where l.run_id is not null), sum(schedulable_us), sum(out_of_service_us)
        from ledger_hour l join device d using (device_id) group by all"""
    ):
        named = {"held": held or 0, "free": free, "out": out}
        found[cluster, gpu] = {name: int(amount) // 1_000_000 for name, amount in named.items() if amount}
    return found


GPU = Gpu("GPU-a", "n1")
STAYS = Gpu("GPU-b", "n1", 1)


def moved() -> World:
    """For one hour in the first cluster, then from 1:30 on in the other; a job of the first claims it for three hours."""
    return World().add(
        samples(GPU, minutes(0, HOUR), BUSY, hpc_job="1"),
        samples(STAYS, minutes(0, 3 * HOUR)),
        claim("1", 0, 3 * HOUR),
    )


def test_a_gpu_that_moved_to_another_cluster_ends_in_the_first_with_its_last_sample() -> None:
    found = hours(moved().add(there(GPU, 1.5 * HOUR, 3 * HOUR)))

    assert {"held": HOUR} == found[CLUSTER, "GPU-a"]
    assert {"free": 1.5 * HOUR} == found[OTHER, "GPU-a"]
    assert {"free": 3 * HOUR} == found[CLUSTER, "GPU-b"]


def test_it_ends_in_the_first_also_where_the_other_reads_it_later() -> None:
    world = moved()
    assert {"held": 3 * HOUR} == hours(world)[CLUSTER, "GPU-a"]

    found = hours(world.add(there(GPU, 1.5 * HOUR, 3 * HOUR)))
    assert {"held": HOUR} == found[CLUSTER, "GPU-a"]
    assert {"free": 1.5 * HOUR} == found[OTHER, "GPU-a"]


def test_a_silent_gpu_that_no_other_cluster_has_is_owned_on() -> None:
    world = World().add(samples(GPU, minutes(0, HOUR)), samples(STAYS, minutes(0, 3 * HOUR)))
    world.add(there(replace(GPU, uuid="GPU-c"), HOUR, 2 * HOUR))

    assert {"free": HOUR, "out": 2 * HOUR} == hours(world)[CLUSTER, "GPU-a"]


def test_one_fleet_under_two_names_did_not_move() -> None:
    """Both clusters read it in the second hour."""
    world = World().add(samples(GPU, minutes(0, 2 * HOUR)), samples(STAYS, minutes(0, 3 * HOUR)))

    assert {"free": 2 * HOUR, "out": HOUR} == hours(world.add(there(GPU, HOUR, 3 * HOUR)))[CLUSTER, "GPU-a"]
