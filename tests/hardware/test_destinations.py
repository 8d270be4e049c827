"""Where moved jobs go: onto free GPUs only, each whole, in an order that works; and then the request fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpuwatch.hardware.defrag import Plan, plan
from gpuwatch.hardware.destinations import Destinations, destinations
from gpuwatch.hardware.rooms import Host, Piece

_NODES = st.lists(st.tuples(st.integers(0, 4), st.lists(st.integers(1, 4), max_size=3)), min_size=2, max_size=6)


def host(name: str, free: int, *held: int) -> Host:
    return Host(name, free, tuple(Piece(name, f"{name}-{n}", gpus) for n, gpus in enumerate(held)))


def found(hosts: list[Host], gpus: int, members: int = 1) -> Destinations:
    moves = plan(hosts, gpus, members)
    assert moves is not None
    targets = destinations(hosts, moves, gpus, members)
    assert targets is not None
    return targets


def test_what_fits_gets_the_fullest_node() -> None:
    assert Destinations((), ("b",)) == found([host("a", 8), host("b", 4, 4)], 4)


def test_a_job_goes_to_the_fullest_node_with_room() -> None:
    result = found([host("a", 3, 1), host("b", 2, 2), host("c", 1, 3)], 4)

    assert [("a-0", "c")] == [(piece.run, target) for piece, target in result.moves]
    assert ("a",) == result.places


def test_a_chain_is_in_the_order_in_which_it_works() -> None:
    result = found([host("a", 2, 2), host("b", 1, 1, 2), host("c", 1, 3)], 4)

    assert [("b-0", "c"), ("a-0", "b")] == [(piece.run, target) for piece, target in result.moves]
    assert not result.at_once


def test_jobs_that_exchange_their_nodes_have_targets() -> None:
    hosts = [host("a", 0, 1), host("b", 0, 1)]
    swap = Plan((hosts[0].pieces[0], hosts[1].pieces[0]), False)
    result = destinations([Host("a", 1, hosts[0].pieces), Host("b", 0, hosts[1].pieces)], swap, 1, 1)

    assert result is not None
    assert {"a-0": "b", "b-0": "a"} == {piece.run: target for piece, target in result.moves}


def test_without_an_assignment_there_is_none() -> None:
    hosts = [host("a", 0, 2), host("b", 0, 2)]

    assert destinations(hosts, Plan(hosts[0].pieces, False), 2, 1) is None


def test_as_many_members_as_may_be_asked_for_are_placed() -> None:
    result = found([host(f"n{n:04}", 8) for n in range(1024)], 8, 1024)

    assert 1024 == len(set(result.places))


@hypothesis_settings(max_examples=150, deadline=None)
@given(_NODES, st.integers(1, 4), st.integers(1, 3))
def test_a_plan_moves_onto_free_gpus_only_and_makes_room(
    nodes: list[tuple[int, list[int]]], gpus: int, members: int
) -> None:
    """Every piece moves whole, once, to another node; no node is ever overfull; then the request fits."""
    hosts = [host(f"n{n}", free, *held) for n, (free, held) in enumerate(nodes)]
    moves = plan(hosts, gpus, members)
    result = None if moves is None else destinations(hosts, moves, gpus, members)
    if moves is None or result is None:
        return

    assert sorted(piece.run for piece in moves.moves) == sorted(piece.run for piece, _ in result.moves)
    assert members == len(result.places)
    left = {one.name: one.free for one in hosts}
    for piece, target in result.moves:
        assert piece.node != target
        assert result.at_once or left[target] >= piece.gpus
        left[target] -= piece.gpus
        left[piece.node] += piece.gpus
    for place in result.places:
        left[place] -= gpus
    assert min(left.values()) >= 0
