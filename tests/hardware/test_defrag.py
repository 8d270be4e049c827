"""The cheapest moves that make room: what fits needs none, what is told makes room, and nothing cheaper does."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpuwatch.hardware import defrag
from gpuwatch.hardware.defrag import Plan, fits, plan
from gpuwatch.hardware.destinations import destinations
from gpuwatch.hardware.rooms import Host, Limits, Piece


def host(name: str, free: int, *held: int, preemptible: bool = False) -> Host:
    pieces = tuple(Piece(name, f"{name}-{n}", gpus, preemptible) for n, gpus in enumerate(held))
    return Host(name, free, pieces)


def moved(found: Plan | None) -> list[str] | None:
    return None if found is None else [piece.run for piece in found.moves]


def test_what_fits_moves_nothing() -> None:
    assert Plan((), True) == plan([host("a", 4), host("b", 1, 3)], 4)


def test_too_few_free_gpus_make_no_room_whatever_moves() -> None:
    assert plan([host("a", 1, 3), host("b", 2, 2)], 4) is None


def test_a_piece_that_has_no_place_to_go_stays() -> None:
    assert plan([host("a", 2, 2), host("b", 1, 3), host("c", 1, 3)], 4) is None


def test_the_smallest_piece_moves() -> None:
    assert ["a-0"] == moved(plan([host("a", 3, 1), host("b", 2, 2)], 4))


def test_of_equals_what_can_be_preempted_moves() -> None:
    hosts = [host("a", 3, 1), host("b", 3, 1, preemptible=True)]

    assert ["b-0"] == moved(plan(hosts, 4))


def test_a_chain_of_moves_is_found() -> None:
    hosts = [host("a", 2, 2), host("b", 1, 1, 2), host("c", 1, 3)]

    assert (["b-0", "a-0"], 3) == (moved(found := plan(hosts, 4)), found.gpus if found else None)


def test_room_for_two_members() -> None:
    found = plan([host("a", 3, 1), host("b", 3, 1), host("c", 2, 2)], 4, members=2)

    assert ["a-0", "b-0"] == moved(found)


def test_a_large_fleet_is_searched_within_bounds() -> None:
    hosts = [host(f"n{n:03}", 2, 2, 2, 1, 1) for n in range(200)]
    found = plan(hosts, 8)

    assert found is not None
    assert (False, 6) == (found.exact, found.gpus)


@pytest.mark.parametrize("size", [1, 8])
def test_as_many_members_as_may_be_asked_for_are_counted(size: int) -> None:
    assert fits([8] * 1024, [size] * 1024)
    assert not fits([7] * 1024, [8] * 800)


def test_many_members_beside_what_moves_are_packed() -> None:
    hosts = [*(host(f"n{n:04}", 8) for n in range(500)), host("a", 7, 1), host("b", 1, 7)]
    found = plan(hosts, 8, members=501)

    assert found is not None
    assert ["a-0"] == moved(found)


def test_what_was_not_searched_to_its_end_is_not_reported_as_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defrag, "PACKINGS_MAX", 0)
    found = plan([host("a", 3, 1), host("b", 2, 2)], 4)

    assert found is not None
    assert (["a-0"], False) == (moved(found), found.exact)


def test_what_stays_is_not_moved() -> None:
    hosts = [Host("a", 3, (Piece("a", "a-0", 1, stays=True),)), host("b", 2, 2)]

    assert ["b-0"] == moved(plan([*hosts, host("c", 2, 2)], 4))
    assert plan([hosts[0], host("b", 3, 1), host("c", 0)], 4) == Plan((Piece("b", "b-0", 1),), True)


@pytest.mark.parametrize("gpus, members", [(0, 1), (1, 0)])
def test_a_shape_of_nothing_is_refused(gpus: int, members: int) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        plan([], gpus, members)


_HOSTS = st.lists(st.lists(st.integers(1, 3), max_size=3), min_size=2, max_size=3)


def _drawn(sizes: list[list[int]]) -> list[Host]:
    return [
        Host(
            f"n{n}",
            max(0, 4 - sum(held)),
            tuple(Piece(f"n{n}", f"{n}-{m}", k, (n + m) % 2 == 0) for m, k in enumerate(held)),
        )
        for n, held in enumerate(sizes)
    ]


def _room(hosts: list[Host], moves: tuple[Piece, ...], gpus: int, members: int) -> bool:
    """By trying every node for every piece."""
    names = [one.name for one in hosts]
    left = {one.name: one.free + sum(p.gpus for p in moves if p.node == one.name) for one in hosts}
    wanted = [gpus] * members + [piece.gpus for piece in moves]
    for places in product(names, repeat=len(wanted)):
        used = dict.fromkeys(names, 0)
        for name, size in zip(places, wanted, strict=True):
            used[name] += size
        if all(used[name] <= left[name] for name in names):
            return True
    return False


@hypothesis_settings(max_examples=40, deadline=None)
@given(_HOSTS, st.integers(1, 4), st.integers(1, 2))
def test_the_plan_makes_room_and_nothing_cheaper_does(sizes: list[list[int]], gpus: int, members: int) -> None:
    hosts = _drawn(sizes)
    pieces = [piece for one in hosts for piece in one.pieces]
    choices = [some for k in range(min(len(pieces), 4) + 1) for some in combinations(pieces, k)]
    prices = [Plan(moves, True).price for moves in choices if _room(hosts, moves, gpus, members)]
    found = plan(hosts, gpus, members)

    if found is None:
        assert [] == prices
    else:
        assert found.exact
        assert _room(hosts, found.moves, gpus, members), "what is told makes room"
        assert len(found.moves) > 4 or min(prices) == found.price


@hypothesis_settings(max_examples=30, deadline=None)
@given(_HOSTS, st.integers(1, 4), st.integers(1, 2))
def test_what_is_found_within_bounds_makes_room_too(sizes: list[list[int]], gpus: int, members: int) -> None:
    hosts = _drawn(sizes)
    best = plan(hosts, gpus, members)
    limit, defrag.EXACT_PIECES_MAX = defrag.EXACT_PIECES_MAX, 0
    try:
        found = plan(hosts, gpus, members)
    finally:
        defrag.EXACT_PIECES_MAX = limit

    if found is not None:
        assert best is not None
        assert best.price <= found.price
        assert _room(hosts, found.moves, gpus, members)


def test_pieces_fit_only_on_one_node_each() -> None:
    assert not fits([2, 2], [3])
    assert fits([3, 2, 2], [2, 3, 2])


# CPUs, memory and nodes that may not be used ---------------------------------------------------------------------------

A_GIB = 2**30


def roomy(name: str, free: int, cpus: int | None, *held: tuple[int, int], barred: tuple[str, ...] = ()) -> Host:
    """A node with free CPUs and jobs of (GPUs, CPUs)."""
    pieces = tuple(
        Piece(name, f"{name}-{n}", gpus, limits=Limits((1000 * need, None), frozenset(barred)))
        for n, (gpus, need) in enumerate(held)
    )
    return Host(name, free, pieces, (None if cpus is None else 1000 * cpus, None))


def test_a_job_does_not_move_where_too_few_cpus_are_free() -> None:
    hosts = [roomy("a", 3, 60, (1, 8)), roomy("b", 3, 4, (1, 8))]

    assert ["b-0"] == moved(plan(hosts, 4))
    assert plan([hosts[1], roomy("c", 3, 7, (1, 8))], 4) is None
    assert ["a-0"] == moved(plan([roomy("a", 3, 60, (1, 4)), hosts[1]], 4)), "exactly enough are enough"


def test_what_is_not_known_keeps_nobody_away() -> None:
    assert ["a-0"] == moved(plan([roomy("a", 3, 60, (1, 8)), roomy("b", 3, None, (1, 8))], 4))


def test_a_job_does_not_move_to_a_node_that_it_may_not_use() -> None:
    hosts = [roomy("a", 3, 60, (1, 8), barred=("b",)), roomy("b", 3, 60, (1, 8))]

    assert ["b-0"] == moved(plan(hosts, 4))
    assert plan([hosts[0], roomy("b", 3, 60)], 4) is None


def test_a_member_gets_a_node_with_the_cpus_that_it_needs() -> None:
    """Of two nodes with as many free GPUs one has the CPUs; and a job that leaves takes its own with it."""
    hosts = [roomy("a", 3, 16, (1, 8)), roomy("b", 3, 60, (1, 8))]

    assert ["b-0"] == moved(plan(hosts, 4, limits=Limits((32_000, None))))
    assert ["a-0"] == moved(plan(hosts, 4, limits=Limits((24_000, None))))
    assert plan(hosts, 4, limits=Limits((69_000, None))) is None
    assert plan(hosts, 3, limits=Limits((64_000, None), frozenset("a"))) == Plan(hosts[1].pieces, True), (
        "free GPUs beside too few CPUs are no place until a job leaves"
    )


def test_memory_counts_like_cpus() -> None:
    small = Piece("a", "a-0", 1, limits=Limits((None, 64 * A_GIB)))
    hosts = [Host("a", 3, (small,), (None, 900 * A_GIB)), Host("b", 1, (), (None, 63 * A_GIB))]

    assert plan(hosts, 4) is None
    assert ["a-0"] == moved(plan([hosts[0], Host("b", 1, (), (None, 64 * A_GIB))], 4))


def test_a_target_has_its_cpus_free_when_its_turn_comes() -> None:
    """b-0 has to leave b before a-0 finds the CPUs there."""
    hosts = [roomy("a", 2, 0, (2, 8)), roomy("b", 2, 4, (1, 8)), roomy("c", 1, 8)]
    found = plan(hosts, 4)
    assert found is not None
    result = destinations(hosts, found, 4, 1)

    assert result is not None
    assert [("b-0", "c"), ("a-0", "b")] == [(piece.run, target) for piece, target in result.moves]


_LIMITED = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.one_of(st.none(), st.integers(0, 6)),
        st.lists(st.tuples(st.integers(1, 2), st.integers(0, 4), st.integers(0, 3)), max_size=2),
    ),
    min_size=2,
    max_size=3,
)


def _limited(drawn: list[tuple[int, int | None, list[tuple[int, int, int]]]]) -> list[Host]:
    return [
        roomy(f"n{n}", free, cpus, *((gpus, need) for gpus, need, _ in held), barred=tuple({f"n{b}" for *_, b in held}))
        for n, (free, cpus, held) in enumerate(drawn)
    ]


def _placed(hosts: list[Host], moves: tuple[Piece, ...], wanted: list[Piece]) -> bool:
    """By trying every node for every piece, whether all have place."""
    for places in product(hosts, repeat=len(wanted) + len(moves)):
        items = list(zip(places, [*wanted, *moves], strict=True))
        if any(one.name in piece.limits.barred or one.name == piece.node for one, piece in items):
            continue
        gpus = {one.name: one.free for one in hosts}
        cpus = {one.name: one.room[0] for one in hosts}
        for sign, name, piece in [(1, p.node, p) for p in moves] + [(-1, one.name, piece) for one, piece in items]:
            gpus[name] += sign * piece.gpus
            has = cpus[name]
            cpus[name] = None if has is None else has + sign * (piece.limits.needs[0] or 0)
        if all(gpus[one.name] >= 0 and (cpus[one.name] or 0) >= 0 for one in hosts):
            return True
    return False


@hypothesis_settings(max_examples=150, deadline=None)
@given(_LIMITED, st.integers(1, 4), st.integers(1, 2), st.integers(0, 6), st.booleans())
def test_every_move_fits_its_target_and_nothing_cheaper_would(
    drawn: list[tuple[int, int | None, list[tuple[int, int, int]]]], gpus: int, members: int, cpus: int, cleared: bool
) -> None:
    hosts, limits = _limited(drawn), Limits((1000 * cpus, None), frozenset(["n0"]))
    wanted = [Piece("", "", gpus, limits=limits)] * members
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(defrag, "EXACT_PIECES_MAX", -1 if cleared else 20)
        found = plan(hosts, gpus, members, limits)
    pieces = [piece for one in hosts for piece in one.pieces]
    choices = [some for size in range(len(pieces) + 1) for some in combinations(pieces, size)]
    if found is not None and (not cleared or destinations(hosts, found, gpus, members, limits) is not None):
        assert _placed(hosts, found.moves, wanted)
    if not cleared:
        prices = [Plan(some, True).price for some in choices if _placed(hosts, some, wanted)]
        assert (min(prices) if prices else None) == (None if found is None else found.price)
        assert found is None or found.exact
