"""A GPU that moved from one cluster to another is owned by one of them at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.model import device_key
from gpuwatch.settings import Settings
from gpuwatch.state import State
from tests.worlds.world import BUSY, CLUSTER, HOUR, Gpu, Sample, Seconds, World, claim, minutes, samples, seconds

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
        samples(GPU, minutes(0, HOUR), BUSY, job="1"),
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


# A GPU that comes back.


def here(start: Seconds, end: Seconds) -> list[Sample]:
    return samples(GPU, minutes(start, end), BUSY)


def came_back() -> World:
    """Three hours here with one hour in the other cluster in their middle."""
    return World().add(
        here(0, HOUR), here(2.5 * HOUR, 4 * HOUR), samples(STAYS, minutes(0, 4 * HOUR)), there(GPU, 1.5 * HOUR, 2 * HOUR)
    )  # fmt: skip


def spans_of(world: World, gpu: str = "GPU-a") -> dict[str, list[tuple[Seconds, Seconds]]]:
    """When each cluster owned a GPU: its segments, joined where they meet."""
    found: dict[str, list[tuple[Seconds, Seconds]]] = {}
    rows = world.store.sql(
        """select distinct d.cluster, s.start_us, s.end_us from segment s join device d using (device_id)
        where d.gpu = $gpu order by all""",
        gpu=gpu,
    )
    for cluster, start_us, end_us in rows:
        own = found.setdefault(cluster, [])
        start, end = seconds(start_us), seconds(end_us)
        if own and own[-1][1] == start:
            own[-1] = (own[-1][0], end)
        else:
            own.append((start, end))
    return found


def test_a_gpu_that_comes_back_has_one_owner_at_every_instant() -> None:
    world = came_back()
    found = hours(world)

    assert {"free": 2.5 * HOUR} == found[CLUSTER, "GPU-a"]
    assert {"free": HOUR / 2} == found[OTHER, "GPU-a"]
    assert {"free": 4 * HOUR} == found[CLUSTER, "GPU-b"]
    assert {CLUSTER: [(0, HOUR), (2.5 * HOUR, 4 * HOUR)], OTHER: [(1.5 * HOUR, 2 * HOUR)]} == spans_of(world)


def test_a_gpu_that_goes_and_comes_back_twice_is_where_its_samples_are() -> None:
    world = World().add(
        here(0, HOUR), here(2 * HOUR, 3 * HOUR), here(5 * HOUR, 6 * HOUR), samples(STAYS, minutes(0, 9 * HOUR)),
        there(GPU, HOUR, 2 * HOUR), there(GPU, 3.25 * HOUR, 4 * HOUR), there(GPU, 7 * HOUR, 8 * HOUR),
        there(Gpu("GPU-o", "m1"), 0, 9 * HOUR),
    )  # fmt: skip
    hours(world)

    assert {
        CLUSTER: [(0, HOUR), (2 * HOUR, 3 * HOUR), (5 * HOUR, 6 * HOUR)],
        OTHER: [(HOUR, 2 * HOUR), (3.25 * HOUR, 4 * HOUR), (7 * HOUR, 9 * HOUR)],
    } == spans_of(world)


def test_it_does_not_matter_in_which_order_the_clusters_are_read() -> None:
    """The first cluster is read in full before the other is known, and again when the GPU is back."""
    world = World().add(here(0, HOUR), samples(STAYS, minutes(0, 4 * HOUR)))
    hours(world)
    world.add(there(GPU, 1.5 * HOUR, 2 * HOUR))
    hours(world)
    world.add(here(2.5 * HOUR, 4 * HOUR))
    hours(world)

    assert spans_of(came_back_booked()) == spans_of(world)


def came_back_booked() -> World:
    world = came_back()
    hours(world)
    return world


def test_a_cluster_without_new_records_is_analyzed_again_when_its_gpu_is_elsewhere_once_more() -> None:
    """The labels in the other cluster are those of the first time."""
    world = came_back().add(there(Gpu("GPU-o", "m1"), 0, 4 * HOUR))
    hours(world)
    world.add(there(GPU, 4.5 * HOUR, 5 * HOUR))
    hours(world)

    assert {
        CLUSTER: [(0, HOUR), (2.5 * HOUR, 4 * HOUR)],
        OTHER: [(1.5 * HOUR, 2 * HOUR), (4.5 * HOUR, 5 * HOUR)],
    } == spans_of(world)


def test_a_job_that_had_the_gpu_before_and_after_did_not_have_it_meanwhile() -> None:
    world = World().add(
        samples(GPU, minutes(0, HOUR), BUSY, job="1"),
        samples(GPU, minutes(2.5 * HOUR, 4 * HOUR), BUSY, job="1"),
        samples(STAYS, minutes(0, 4 * HOUR)),
        claim("1", 0, 4 * HOUR),
        there(GPU, 1.5 * HOUR, 2 * HOUR),
    )
    found = hours(world)

    assert {"held": 2.5 * HOUR} == found[CLUSTER, "GPU-a"]
    assert {"free": HOUR / 2} == found[OTHER, "GPU-a"]
    assert {"free": 4 * HOUR} == found[CLUSTER, "GPU-b"]


def test_a_job_that_is_placed_by_count_takes_the_gpu_that_is_there() -> None:
    world = came_back().add(claim("1", 1.5 * HOUR, 2 * HOUR))
    found = hours(world)

    assert {"free": 2.5 * HOUR} == found[CLUSTER, "GPU-a"]
    assert {"held": HOUR / 2, "free": 3.5 * HOUR} == found[CLUSTER, "GPU-b"]


def test_a_job_that_begins_before_the_first_sample_owns_nothing_while_the_gpu_is_elsewhere() -> None:
    """The job's record begins long before the GPU arrives in its cluster."""
    world = World().add(
        there(GPU, 0, HOUR),
        samples(GPU, minutes(1.5 * HOUR, 3 * HOUR), BUSY, job="1"),
        samples(STAYS, minutes(0, 3 * HOUR)),
        claim("1", 0, 3 * HOUR),
    )
    hours(world)

    found = spans_of(world)
    assert [(0, HOUR)] == found[OTHER]
    assert [(1.5 * HOUR, 3 * HOUR)] == found[CLUSTER]


def test_a_gpu_that_both_read_all_the_time_has_two_names_also_where_one_pauses() -> None:
    """The first is silent from 1:00 to 3:00, the other reads on."""
    world = World().add(
        here(0, HOUR), here(3 * HOUR, 4 * HOUR), samples(STAYS, minutes(0, 4 * HOUR)), there(GPU, 0, 4 * HOUR)
    )  # fmt: skip
    hours(world)

    assert {CLUSTER: [(0, 4 * HOUR)], OTHER: [(0, 4 * HOUR)]} == spans_of(world)


def test_stays_that_follow_within_one_interval_meet_in_the_middle() -> None:
    """The last sample here is at 0:59:30, the first there 40 s later."""
    late = HOUR + 10
    world = World().add(
        here(0, HOUR),
        samples(OfOther("GPU-a", "n1"), [late + 60 * n for n in range(60)], BUSY, cluster=OTHER),
        samples(STAYS, minutes(0, 2 * HOUR)),
    )
    hours(world)

    found = spans_of(world)
    assert [(0, HOUR - 10)] == found[CLUSTER]
    assert HOUR - 10 == found[OTHER][0][0]


def test_a_partitioned_gpu_that_comes_back_is_not_here_meanwhile() -> None:
    one = Gpu("GPU-a", "n1", 0, 1, "3g.40gb")
    rest = Gpu("GPU-a", "n1", 0, 2, "4g.40gb")
    world = World().add(
        *(samples(part, minutes(*span), BUSY) for part in (one, rest) for span in ((0, HOUR), (3 * HOUR, 4 * HOUR))),
        samples(STAYS, minutes(0, 4 * HOUR)),
        there(GPU, 1.5 * HOUR, 2 * HOUR),
    )
    hours(world)

    assert {CLUSTER: [(0, HOUR), (3 * HOUR, 4 * HOUR)], OTHER: [(1.5 * HOUR, 2 * HOUR)]} == spans_of(world)


def test_a_gpu_that_is_back_within_the_hour_has_one_owner_at_every_instant() -> None:
    world = World().add(
        here(0, 1200), here(2400, HOUR), samples(STAYS, minutes(0, HOUR)), there(GPU, 1200, 2400),
        there(Gpu("GPU-o", "m1"), 0, HOUR),
    )  # fmt: skip
    found = hours(world)

    assert {CLUSTER: [(0, 1200), (2400, HOUR)], OTHER: [(1200, 2400)]} == spans_of(world)
    assert ({"free": 2400}, {"free": 1200}) == (found[CLUSTER, "GPU-a"], found[OTHER, "GPU-a"])


def test_a_gpu_that_the_other_reads_for_minutes_while_it_is_read_here_did_not_move() -> None:
    world = World().add(here(0, HOUR), samples(STAYS, minutes(0, HOUR)), there(GPU, 1200, 2400))
    hours(world)

    assert [(0, HOUR)] == spans_of(world)[CLUSTER]
