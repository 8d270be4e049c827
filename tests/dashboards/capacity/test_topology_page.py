"""The pages Topology and Capacity and their drawing: what is sent to the canvas, and the same in words and tables."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.fleet import capacity_history, capacity_place, colours
from gpuwatch.dashboards.fleet.colours import COLOURS
from gpuwatch.dashboards.fleet.drawing import Style, drawing, places_of, small
from gpuwatch.dashboards.fleet.finding_map import finding_map
from gpuwatch.dashboards.pages import finding
from gpuwatch.dashboards.shell.query import Query
from tests.dashboards import fake_map, fake_rules
from tests.dashboards.fake_map import fleet, node
from tests.dashboards.laid_out import answering, check_layout, links, shown, text

KEY = "c1\u001fn1"


def topology(path: str = "", **changed: Any) -> Component:
    layout = shown(f"/topology{path}", source=answering(fake_map.answers() | changed))
    check_layout(layout)
    return layout


def spec(layout: Any) -> dict[str, Any]:
    """What a drawing sends to the canvas."""
    sent = json.dumps(layout, default=Component.to_plotly_json)
    found = json.loads(sent)

    def look(one: Any) -> Any:
        if isinstance(one, dict):
            if "data-spec" in one:
                return json.loads(one["data-spec"])
            return next((hit for value in one.values() if (hit := look(value)) is not None), None)
        return next((hit for value in one if (hit := look(value)) is not None), None) if isinstance(one, list) else None

    return dict(look(found))


def test_the_drawing_has_every_gpu_below_its_leaf() -> None:
    sent = spec(topology())

    assert ["leaf-1", "Leaf not known"] == [group["t"] for group in sent["groups"]]
    assert [8, 8, 4] == [len(one["c"]) for group in sent["groups"] for one in group["nodes"]]
    assert {"search", "Free", "Free, of no use to most requests", "Out of service", "Not your teams' (not shown)"} == {
        one["w"] for one in sent["classes"]
    }
    assert ["", 1, 2, 3] == sent["groups"][1]["nodes"][0]["x"]


def test_the_page_says_the_same_in_words_and_a_table() -> None:
    layout = topology("", **{"topology/map": fleet([node("n1", "leaf-1", "hhff"), node("n2", "leaf-1", "hhss")])})
    words = text(layout)

    assert "8 GPUs on 2 nodes below 1 leaf switch: 4 free, 2 of them of no use to most requests" in words
    assert "leaf-1  · c1 n1   n2   2 8 4 4 2 0 0" in words
    assert "/ui/topology?node=n2&in=c1" in links(layout)


@pytest.mark.parametrize("colour", [*COLOURS, "nonsense"])
def test_every_colour_can_be_chosen(colour: str) -> None:
    kinds = {one["w"] for one in spec(topology(f"?colour={colour}"))["classes"]}

    expected = {"waste": "Held idle", "health": "Critical fault", "heat": "40 to 60 °C", "free": "Held"}.get(
        colour, "search"
    )
    assert expected in kinds


def test_a_job_is_outlined_beside_its_best_place() -> None:
    layout = topology("?job=4711")
    held, best = spec(layout)["marks"]

    assert (False, [0, 1, 2, 3]) == (held["ghost"], held["at"][KEY])
    assert (True, list(range(8))) == (best["ghost"], best["at"][KEY])
    assert "When it started,  one NVLink domain n1/nvlink-0 had 8 free GPUs: the dashed outline." in text(layout)
    assert "370.8 GB/s instead of 50.0 GB/s" in text(layout)


def test_a_job_that_is_not_known_is_reported_as_such() -> None:
    answers = {name: value for name, value in fake_map.answers().items() if name != "topology/job"}

    assert "Job 9 held no GPU that is known" in text(shown("/topology?job=9", source=answering(answers)))


def test_a_node_shows_its_gpus_links_and_what_they_touch() -> None:
    layout = topology("?node=n1&in=c1")
    words = text(layout)

    assert "NVLink links only some of its GPUs" in words
    assert "Uplink of node n1: 1 job would lose a link" in words
    assert "4 of its 8 GPUs inside" in words
    assert {"/ui/jobs/4711?in=c1", "/ui/team/search", "/ui/findings/idle-1"} <= set(links(layout))
    assert KEY == spec(layout)["selected"]


def test_health_counts_the_faults() -> None:
    assert "1 of 20 GPUs have an open finding about hardware, links or driver" in text(topology("?colour=health"))


def test_without_gpus_the_reason_is_shown() -> None:
    nothing = fleet() | {"nodes": [], "unknown": {"c1": "The ledger begins later."}}

    assert "No GPUs here The ledger begins later." in text(topology("", **{"topology/map": nothing}))


def test_a_team_filter_leaves_its_nodes() -> None:
    assert 1 == len(spec(topology("?team=search"))["groups"])


def test_ten_thousand_gpus_are_sent_in_a_quarter_of_a_megabyte() -> None:
    nodes = [node(f"gpu-{n:04}", f"leaf-{n // 32:03}", "hhhhhhff") for n in range(1250)]
    layout = drawing(fleet(nodes), "x", "many", Style())

    assert len(json.dumps(spec(layout))) < 250_000


def test_a_small_drawing_has_only_the_nodes_concerned() -> None:
    marks = places_of(fleet(), ["GPU-n2-1", "GPU-none"])
    found = small(fleet(), "finding", "Nodes of the finding", ["n2"], "c1", Style("health"))

    assert {("c1", "n2"): [1]} == marks
    assert [["n2"]] == [[one["n"] for one in group["nodes"]] for group in spec(found)["groups"]]
    assert small(fleet(), "finding", "x", ["n9"], "c1", Style()) is None


@pytest.mark.parametrize(
    ("celsius", "word"),
    [
        (20, "below 40 °C"),
        (40, "40 to 60 °C"),
        (84.9, "75 to 85 °C"),
        (85, "85 °C and more"),
        (None, None),
        ("?", None),
    ],
)
def test_a_temperature_has_a_class(celsius: object, word: str | None) -> None:
    kind = colours.heat_kind(celsius)

    assert word == (None if kind is None else kind.word)


def capacity(path: str = "", **changed: Any) -> Component:
    layout = shown(f"/capacity{path}", **changed)
    check_layout(layout)
    return layout


def test_capacity_draws_the_jobs_that_would_move() -> None:
    moving, free = spec(capacity("?shape=8"))["marks"]

    assert (False, [0, 1, 2, 3]) == (moving["ghost"], moving["at"][KEY])
    assert (True, [4, 5, 6, 7]) == (free["ghost"], free["at"][KEY])


def test_the_simulator_has_the_reason_the_moves_and_the_idle_gpus() -> None:
    words = text(capacity())

    assert "8 GPUs on one node do not fit now" in words
    assert "8 GPUs are free, but at most 4 on one node." in words
    assert "4711 : 4 GPUs from  n1  to  n2" in words
    assert "Then it fits on  n1" in words
    assert "stop them at the same time" in words
    assert "Or reclaim: 2 idle GPUs of" in words


def test_pools_beyond_the_first_are_folded_and_not_left_out() -> None:
    pools = [fake_map.tried(f"pool-{number}", False) for number in range(9)]
    words = text(capacity_place.simulator(fake_map.PLACED | {"items": pools}, Query("/capacity")))

    assert "3 more pools" in words
    assert [True] * 9 == [f"pool-{number}" in words for number in range(9)]
    few = capacity_place.simulator(fake_map.PLACED | {"items": pools[:6]}, Query("/capacity"))
    assert "more pool" not in text(few)


def test_what_fits_is_outlined_where_it_would_go() -> None:
    [mark] = capacity_place.marks(fleet(), fake_map.PLACED | {"items": [fake_map.tried("h100", True)]})

    assert (True, {("c1", "n1"): [4, 5, 6, 7]}) == (mark.ghost, mark.at)


def test_idle_gpus_are_outlined_where_nothing_can_move() -> None:
    [mark] = capacity_place.marks(
        fleet(), fake_map.PLACED | {"items": [fake_map.tried("h100", False, reclaim=fake_map.IDLE)]}
    )

    assert {("c1", "n1"): [0, 1]} == mark.at


def test_the_queue_has_the_reason_of_each_wait() -> None:
    words = text(capacity())

    assert "3 requests wait, 1 of them for GPUs or MIG slices" in words
    assert "It could start if 1 job with 4 GPUs moved to other nodes." in words
    assert "Free GPUs would not start it." in words
    assert "No reason reported" in words


def test_a_team_sees_its_own_requests_and_gpus() -> None:
    me = {"name": "t", "scope": "read", "teams": ["search"], "tokens": True, "version": "1"}
    own = [fake_map.waiting("4800", None, shape=None)]
    answers = fake_map.answers() | {"me": me, "capacity/pending": {"items": own, "next": None}}
    words = text(shown("/capacity", source=answering(answers)))

    assert "1 request waits" in words
    assert "depends on other teams" in words


def test_how_often_a_shape_fitted() -> None:
    rows = [
        {"start": f"t{n}", "slots": {"4": 2.0, "8": float(n % 2)}, "gangs": {"2x8": 0.0, "4x8": 0.0}} for n in range(4)
    ]
    steps = capacity_history.fitted([*rows, *rows])

    assert {"4": 4, "8": 2, "2x8": 0, "4x8": 0} == steps["t1"]
    assert "fitted at some time in 2 of 4 days" in text(capacity_history.slots({"items": rows}, "light", Query()))
    assert capacity_history.slots({"items": []}, "light", Query()) is None
    assert "never fitted" in text(capacity_history.slots({"items": rows[:1]}, "light", Query()))


def test_a_shape_that_fitted_for_a_part_of_each_hour_fitted() -> None:
    """The line of the chart is an average, which is below 1 where the shape fitted for a part of the hour."""
    rows = [{"start": f"2026-11-20T0{n}:00:00Z", "slots": {"8": size}} for n, size in enumerate((0.2, 0.9, 0.5))]

    def title(*found: Any) -> str:
        return capacity_history.title(capacity_history.fitted(list(found)), Query())

    assert "fitted at some time in each of 3 hours in the last 7 days" in title(*rows)
    assert "fitted at some time in 2 of 3 hours" in title(rows[0], rows[1], rows[2] | {"slots": {"8": 0}})
    assert "never fitted" in title(rows[0] | {"slots": {"8": 0.0}}, rows[1] | {"slots": {}})


def test_a_finding_about_places_has_a_small_drawing() -> None:
    found = {
        "key": "k",
        "detector": "straggler",
        "cluster": "c1",
        "nodes": ["n1"],
        "devices": ["GPU-n2-1", "GPU-n1-0/GI-3"],
    }
    drawn = finding_map(fleet(), found, Query(), "dark")
    check_layout(html.Div([drawn]))
    sent = spec(drawn)

    assert [["n1", "n2"]] == [[one["n"] for one in group["nodes"]] for group in sent["groups"]]
    assert {KEY: [0], "c1\u001fn2": [1]} == sent["marks"][0]["at"]
    for other in ({"detector": "idle-hoarding"}, {"ended_at": "2026-11-21T12:00:00Z"}, {"cluster": "c9"}):
        assert finding_map(fleet(), found | other, Query(), "light") is None
    assert finding_map(None, found, Query(), "light") is None


def test_the_page_of_a_finding_about_places_draws_them() -> None:
    where, idle = fake_rules.FINDINGS["fragmentation-00a1"], fake_rules.FINDINGS["idle-hoarding-00a8"]
    nodes = fleet([node(where["nodes"][0], "leaf-1", "hhff", cluster=where["cluster"])])
    source = answering({"topology/map": nodes, **{f"findings/{one['key']}": one for one in (where, idle)}})

    assert "Where it is" in text(shown(f"/findings/{where['key']}", source=source))
    assert "Where it is" not in text(shown(f"/findings/{idle['key']}", source=source))
    assert asyncio.run(finding.load(source, Query(f"/findings/{idle['key']}"))).fleet is None, "a question for nothing"
