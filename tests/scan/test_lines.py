"""What a scan prints below its table."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.report.document import Table
from gpuwatch.report.scorecard.plan import unknown_section
from gpuwatch.report.text import GAP
from gpuwatch.scan.lines import action_lines, no_team, unknown_lines, with_data


def test_a_remedy_of_several_actions_is_printed_once() -> None:
    remedies = ["Look at the log.", "Release them.", "Look at the log.", "Not among the first."]
    actions = [{"rank": rank, "remedy": remedy} for rank, remedy in enumerate(remedies, 1)]

    assert ["Actions 1 and 3: Look at the log.", "Action 2: Release them."] == action_lines(actions)


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        pytest.param({"__platform__": 50, "nlp": 10}, [], id="a team is named"),
        pytest.param({"nlp": 91, "__unallocated__": 9}, [], id="nine in a hundred have none"),
        pytest.param({"__platform__": 1}, [": no record and no label of the samples shows a job that held a GPU."], id="nobody held a GPU"),
        pytest.param(
            {"__platform__": 1, "__unallocated__": 3},
            [": none of the held GPU time has a Slurm account or a Kubernetes namespace."],
            id="jobs without a team",
        ),
        pytest.param(
            {"__platform__": 900, "nlp": 60, "__unallocated__": 40},
            [" for 40 % of the held GPU time: its jobs have no Slurm account and no Kubernetes namespace."],
            id="some jobs without a team",
        ),
    ],
)  # fmt: skip
def test_a_scan_without_a_team_has_the_reason(hours: dict[str, int], expected: list[str]) -> None:
    teams = [{"team": team, "gpu_hours": f"{many}.000"} for team, many in hours.items()]

    assert [f"No team is named{reason}" for reason in expected] == [
        one["what"].replace(GAP, " ") for one in no_team(teams)
    ]


def unknown(*whats: str) -> list[dict[str, Any]]:
    return [{"layer": "", "what": what, "fix": "Do it."} for what in whats]


@pytest.mark.parametrize(
    ("whats", "expected"),
    [
        pytest.param([], [], id="all was judged"),
        pytest.param(
            ["Links are known: For none."], ["Not judged: “Links are known”. The page has the fix of each."], id="one"
        ),
        pytest.param(
            ["A: x", "Not graded: B: y", "A: z", "C."],
            ["Not judged: “A”, “B” and 1 more. The page has the fix of each."],
            id="each once, and the rest counted",
        ),
        pytest.param(
            [
                "Not graded: 0 % of the held GPU time was measured.",
                "12 held GPU-hours were not measured: not counted.",
                "A: x",
            ],
            [
                "12 held GPU-hours were not measured: not counted. Do it.",
                "Not judged: “A”. The page has the fix of each.",
            ],
            id="what was not measured has its fix, and no grade besides",
        ),
        pytest.param(
            ["12 GPU-hours have no rate, so their cost is unknown.", "A: x"],
            [
                "12 GPU-hours have no rate, so their cost is unknown. Do it.",
                "Not judged: “A”. The page has the fix of each.",
            ],
            id="what has no price has its fix",
        ),
        pytest.param(["No team is named: no job."], ["No team is named: no job. Do it."], id="the reason has its fix"),
    ],
)
def test_what_was_not_judged_is_one_line(whats: list[str], expected: list[str]) -> None:
    assert expected == unknown_lines(unknown(*whats))


def test_a_command_in_a_remedy_can_be_pasted() -> None:
    lines = ["Pack small jobs: `gpuwatch shapes --plan asked` lists the moves.", "Cull idle notebooks."]

    assert [
        "Pack small jobs: `gpuwatch shapes --plan asked --data 'my scan/data'` lists the moves.",
        "Cull idle notebooks.",
    ] == with_data(lines, " --data 'my scan/data'")


def test_a_reason_of_several_layers_is_written_once() -> None:
    layers = [{"id": one, "name": one.capitalize()} for one in ("placement", "fabric")]
    unjudged = [{"layer": one["id"], "what": "Not graded.", "fix": "Measure."} for one in layers]
    section = unknown_section({"layers": layers, "unknown": unjudged})
    table = section.blocks[0]
    assert isinstance(table, Table)

    assert [["Placement, Fabric", "Not graded.", "Measure."]] == [
        [str(cell.text) for cell in row.cells] for row in table.rows
    ]
