"""Which cell has a cluster, on a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuwatch.core.errors import NotHolder, StoreError
from gpuwatch.service import routing
from gpuwatch.service.routing import Routing
from gpuwatch.state import cells as module
from gpuwatch.state.cells import Cells
from gpuwatch.state.lease import Leases, cell_lease
from gpuwatch.state.server import Server
from tests.worlds.postgres import Postgres


class World:
    """A state, and the leases of cells in it."""

    def __init__(self, server: Server) -> None:
        self.server, self.cells = server, Cells(server)
        self.leases: dict[str, Leases] = {}

    def hold(self, cell: str, address: str) -> Leases:
        """A process takes a cell."""
        found = self.leases[cell] = Leases(self.server, cell_lease(cell), address, 30.0)
        assert found.take() is not None
        return found

    def routing(self, cell: str = "", address: str = "http://here:1", holds: bool = False) -> Routing:
        """The routing of a process."""
        holder = self.leases[cell].holder if holds else ""
        return Routing(self.cells, cell, holder, address, lambda: holds)


@pytest.fixture
def world(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(routing, "FRESH_S", 0.0)
    made = World(Server(postgres.url(postgres.new())))
    yield made
    made.cells.close()
    for each in made.leases.values():
        each.close()


def refusal(routing: Routing, cluster: str) -> str:
    with pytest.raises(NotHolder) as caught:
        routing.elsewhere(cluster)
    return str(caught.value)


def test_nobody_has_anything(world: World) -> None:
    assert [] == world.cells.places()
    assert not world.cells.release("c1")
    assert "cluster c1: no process holds a cell yet; start one with --role cell" == refusal(world.routing(), "c1")


def test_a_cluster_belongs_to_the_cell_that_took_it_first(world: World) -> None:
    world.hold("east", "http://east:1")
    world.hold("west", "http://west:1")

    assert ["east", "east", "west"] == [
        world.cells.claim("c1", "east"),
        world.cells.claim("c1", "west"),
        world.cells.claim("c2", "west"),
    ]
    assert [("east", "c1", "http://east:1", True), ("west", "c2", "http://west:1", True)] == [
        (each.cell, each.cluster, each.address, each.held) for each in world.cells.places()
    ]


def test_of_many_at_once_one_gets_the_cluster(world: World) -> None:
    with ThreadPoolExecutor(8) as pool:
        owners = list(pool.map(lambda number: world.cells.claim("c1", f"cell{number}"), range(8)))

    assert 1 == len(set(owners))


def test_there_is_a_limit_of_clusters(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CLAIM", module._CLAIM.replace(str(module.CLUSTERS_MAX), "1"))
    world.cells.claim("c1", "east")
    with pytest.raises(StoreError, match="cluster c2: the cells have 10000 clusters already"):
        world.cells.claim("c2", "east")

    assert "east" == world.cells.claim("c1", "west")


def test_a_cell_keeps_the_clusters_that_it_has_data_of(world: World) -> None:
    east = world.hold("east", "http://east:1")
    for cluster, cell in (("c1", "east"), ("not published", "east"), ("c2", "west")):
        world.cells.claim(cluster, cell)

    assert {} == world.cells.settle("east", "a process that holds it no more", ["c9"])
    assert ["c1", "not published"] == [each.cluster for each in world.cells.places()], "such a one changes nothing"
    assert {"c2": "west"} == world.cells.settle("east", east.holder, ["c1", "c2", "c3"])
    assert ["c1", "c3", "not published"] == [each.cluster for each in world.cells.places()]
    assert "west" == world.cells.claim("c2", "east"), "what another cell has stays there"


def test_a_cluster_is_released_when_nobody_holds_its_cell(world: World) -> None:
    east = world.hold("east", "http://east:1")
    world.cells.claim("c1", "east")

    assert not world.cells.release("c1")
    east.release(1)
    assert world.cells.release("c1")
    assert "west" == world.cells.claim("c1", "west")


def test_data_go_to_the_process_that_holds_the_cell(world: World) -> None:
    world.hold("east", "http://east:1")
    west = world.hold("west", "http://west:1")
    world.cells.claim("c1", "east")
    east_itself = world.routing("east", "http://east:1", holds=True)

    assert (None, None) == (east_itself.elsewhere("c1"), east_itself.elsewhere("first"))
    assert east_itself.is_here("first") and not east_itself.is_here("c2")
    assert "http://east:1" == world.routing().elsewhere("first"), "the others know at once"
    assert "http://west:1" == world.routing("west", "http://second:1").elsewhere("new"), (
        "what a waiting process is sent"
    )
    assert "http://east:1" == world.routing("west", "http://west:1", holds=True).elsewhere("c1")
    words = refusal(world.routing(), "new")
    assert "cluster new: no cell has it yet; send its first data to the cell that is to have it" in words
    assert words.endswith(": east (http://east:1), west (http://west:1)")

    west.release(1)
    assert "http://east:1" == world.routing().elsewhere("new"), "of a single cell there is no doubt"
    world.cells.claim("c2", "west")
    assert "cluster c2 is that of cell west, and no process holds it now; the last one was" in refusal(
        world.routing(), "c2"
    )
    assert "and no process holds it now" in refusal(world.routing("east", "http://east:1"), "c1"), "never to itself"


def test_a_cell_names_the_clusters_that_another_one_has_too(world: World) -> None:
    world.hold("east", "http://east:1")
    world.cells.claim("c2", "west")
    east = world.routing("east", "http://east:1", holds=True)
    assert [] == east.concerns()

    east.settle(["c1", "c2"])

    assert east.is_here("c1") and east.is_here("c2"), "it takes what it has had until now"
    (found,) = east.concerns()
    assert found.startswith("cluster c2 is that of cell west, and this cell has data of it too")


def test_a_server_that_is_away(world: World) -> None:
    away = Routing(Cells(Server("postgresql://gpuwatch@127.0.0.1:1/none")), "east", "x", "http://a:1", lambda: True)
    away.settle(["c1"])

    assert away.elsewhere("c1") is None
    with pytest.raises(StoreError, match="cells on postgresql://"):
        away.elsewhere("c2")
    away.close()
