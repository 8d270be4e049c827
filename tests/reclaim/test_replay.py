"""The replay of a queue against released GPUs gives what looking at everything at every event gives."""

from __future__ import annotations

from random import Random

import pytest

from gpuwatch.reclaim.replay import Idle, Waiting, served

Fits = list[tuple[int, int]]
PLACES, KINDS, MINUTE = 3, 4, 60


def plainly(idle: list[Idle], requests: list[Waiting], fits: Fits, limit_us: int) -> list[tuple[int, int]]:
    """Numbers of the requests that start sooner and when: at every event all waiting requests and all idle GPUs are looked at."""
    taken: set[int] = set()
    found: dict[int, int] = {}

    def fit(request: Waiting, at_us: int, before: set[int]) -> bool:
        for place in sorted(place for kind, place in fits if kind == request.kind):
            free: dict[str | None, list[Idle]] = {}
            for one in idle:
                if one.number in before - taken and one.place == place and one.end_us > at_us:
                    free.setdefault(one.node, []).append(one)
            enough = sorted(
                (len(gpus), node or "", node)
                for node, gpus in free.items()
                if len(gpus) >= request.devices and (node is not None or request.nodes == request.devices == 1)
            )
            if len(enough) >= request.nodes:
                for _, _, node in enough[: request.nodes]:
                    first = sorted(free[node], key=lambda one: (one.end_us, one.number))[: request.devices]
                    taken.update(one.number for one in first)
                found[request.number] = at_us
                return True
        return False

    events = [(one.start_us + limit_us, 0, one.number) for one in idle if one.end_us - one.start_us > limit_us] + [
        (one.start_us, 1, one.number) for one in requests
    ]
    released: set[int] = set()
    submitted: set[int] = set()
    for at_us, what, number in sorted(events):
        (submitted if what else released).add(number)
        again = True
        while again:
            waiting = [
                one
                for one in sorted(requests, key=lambda one: (one.start_us, one.number))
                if one.number in submitted and one.number not in found and one.end_us > at_us
            ]
            again = any(fit(one, at_us, released) for one in waiting)
    return list(found.items())


def drawn(seed: int) -> tuple[list[Idle], list[Waiting], Fits]:
    """A few GPUs that idle at the same times, some of them on unknown nodes, and requests, some of which end as they begin."""
    random = Random(seed)
    idle = []
    for number in range(random.randint(0, 14)):
        start = random.randint(0, 20) * MINUTE
        node = random.choice([None, "a", "b", "c"])
        idle.append(Idle(number, node, random.randrange(PLACES), start, start + random.randint(1, 20) * MINUTE))
    requests = []
    for number in range(random.randint(0, 14)):
        start = random.randint(0, 30) * MINUTE
        shape = random.choice([(1, 1), (1, 1), (1, 2), (2, 1), (2, 2)])
        end = start + random.randint(0, 15) * MINUTE
        requests.append(Waiting(number, "team", random.randrange(KINDS), *shape, start, end))
    fits = [(kind, place) for kind in range(KINDS) for place in range(PLACES) if random.random() < 0.5]
    return idle, requests, fits


@pytest.mark.parametrize("limit_us", [0, 5 * MINUTE])
def test_requests_are_served_as_if_everything_were_looked_at(limit_us: int) -> None:
    """Cases of a few seconds of processor time; nearly all serve somebody, and many leave somebody waiting."""
    some, all_served = 0, 0
    for seed in range(400):
        idle, requests, fits = drawn(seed)
        found = served(idle, requests, fits, limit_us)

        assert plainly(idle, requests, fits, limit_us) == [(one.request.number, one.at_us) for one in found], seed
        some += bool(found)
        all_served += len(found) == len(requests)
    assert some > 100
    assert all_served < 200
