"""The first sentence of a scan: what was avoidable, and whose it is."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.report.document import Numbers, Table
from gpuwatch.report.scorecard.plan import worth
from gpuwatch.report.text import GAP
from gpuwatch.scan.document import document, headline, what
from gpuwatch.scan.facts import Source, top_actions
from gpuwatch.scan.teams import section, team_lines

WINDOW = {"start": "2026-11-02T00:00:00Z", "end": "2026-11-16T00:00:00Z"}
WASTE: dict[str, Any] = {
    "gpu_hours": "400.000",
    "cost": "1000.00",
    "cost_a_month": "2142.86",
    "basis": "",
    "ratio": 0.4,
    "measured_ratio": 0.9,
    "roofline_efficiency": None,
    "explained_gpu_hours": "10",
    "buckets": [],
}
SOURCE = Source("a Prometheus server", "", (), (("Open the dashboard", "gpuwatch serve"),))


def team(name: str, avoidable: str | None, cost: str = "1500.00") -> dict[str, Any]:
    return {
        "team": name,
        "inferred": name == "guessed",
        "gpu_hours": "500.000",
        "cost": cost,
        "avoidable_gpu_hours": None if avoidable is None else "200.000",
        "avoidable_cost": avoidable,
        "avoidable_ratio": None if avoidable is None else 0.4,
        "measured_ratio": 0.9,
    }


def action(id: str, kind: str = "finding", **more: Any) -> dict[str, Any]:
    blank = {
        "title": id,
        "remedy": "Do it.",
        "ask": "",
        "subjects": [],
        "summary": "",
        "effort": "hours",
        "findings": 1,
        "places": [],
        "ended_at": None,
    }
    blank |= {
        "open": 1,
        "severity": "low",
        "cost_a_month": None,
        "saves_a_month": None,
        "cost": None,
        "counted": "",
        "gpu_hours": None,
    }
    return {"id": id, "kind": kind, "currency": "USD", "layer": "scheduling", "rank": 1} | blank | more


def words(text: str) -> str:
    return text.replace(GAP, " ")


def subject(name: str, cost: str | None = None, gpu_hours: str | None = None) -> dict[str, str | None]:
    return {"name": name, "cost": cost, "gpu_hours": gpu_hours}


def card(teams: list[dict[str, Any]], **changed: Any) -> dict[str, Any]:
    found = {
        "window": WINDOW,
        "known": WINDOW,
        "currency": "USD",
        "gpu_hours": "1000.000",
        "cost": "2500.00",
        "only_dumps": False,
    }
    return found | {
        "waste": WASTE, "teams": teams, "actions": [], "left_out": 0, "unknown": [], "layers": [],
    } | changed  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param(
            {}, "wastes $1.00 k of the $2.50 k it costs: 40 % of its cost, ", id="of the cost, which is beside it"
        ),
        pytest.param({"cost": None}, "wastes $1.00 k: 55 % of its GPU time, ", id="some time has no price"),
    ],
)
def test_a_share_is_of_the_amount_beside_it(changed: dict[str, Any], expected: str) -> None:
    """More than half of the time, but of the cheaper GPUs."""
    known = card([team("vision", "1.00")], waste=WASTE | {"ratio": 0.55}, **changed)

    assert expected in words(headline(known))


@pytest.mark.parametrize(
    ("teams", "expected"),
    [
        pytest.param(
            [team("vision", "400.00"), team("nlp", "300.00"), team("ops", "300.00")],
            "70 % of it is with vision and nlp.",
            id="the fewest teams that have half of it",
        ),
        pytest.param(
            [team("__platform__", "900.00"), team("nlp", "100.00")],
            "90 % of it is with the platform (free GPUs).",
            id="the platform is named as what it is",
        ),
        pytest.param(
            [team("__unallocated__", "900.00"), team("nlp", "100.00")],
            "90 % of it is with jobs without a team.",
            id="time without a team",
        ),
        pytest.param([team("vision", "1000.00")], "", id="one team alone needs no share"),
        pytest.param([team("vision", "900.00"), team("nlp", None)], "", id="a team that is not measured may have more"),
        pytest.param([team(f"t{n}", "100.00") for n in range(10)], "", id="spread over many teams"),
    ],
)
def test_teams_with_most_of_the_waste_are_named(teams: list[dict[str, Any]], expected: str) -> None:
    found = headline(card(teams)).replace(GAP, " ")

    assert (
        f"This fleet wastes $1.00 k of the $2.50 k it costs: 40 % of its cost, $2.14 k a month. {expected}".strip()
        == found
    )


def test_nothing_is_claimed_without_data() -> None:
    assert headline(card([], window=None)).startswith("No GPU time was found")
    assert "The fleet owned no GPU time in this window." == headline(card([], gpu_hours="0.000"))


def test_decisions_follow_the_findings_and_ten_are_shown() -> None:
    acts = [action("layout", "decision", severity=None), *(action(f"f{n}", cost_a_month="10.00") for n in range(11))]

    shown = top_actions(card([], actions=acts))

    assert [f"f{n}" for n in range(10)] == [one["id"] for one in shown]
    assert list(range(1, 11)) == [one["rank"] for one in shown]


def test_names_of_users_are_text_in_the_page() -> None:
    """A job may be called anything; the page shows it and runs nothing."""
    from gpuwatch.report.html.page import page

    hostile = action("idle", subjects=[subject("<script>alert(1)</script>")], ask="<b>t</b>", cost_a_month="10.00")

    html = page(document(card([team("<i>", "1.00"), team("b", "2.00")], actions=[hostile]), SOURCE))

    assert "<script>" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;" in html


def test_a_team_that_its_namespace_names_is_marked() -> None:
    from gpuwatch.report.html.page import page

    html = page(document(card([team("guessed", "1.00"), team("ruled", "2.00")]), SOURCE))

    assert "guessed (inferred)" in html
    assert "ruled (inferred)" not in html


def test_an_action_names_its_jobs_with_their_dollars() -> None:
    """Ten findings of one team: three jobs are named, one of them without a price."""
    jobs = [subject("embedder", "38.34", "18.0"), subject("feature-gen", "25.56", "12.0"), subject("ocr", None, "4.0")]
    idle = action("idle", title="GPUs held and idle", findings=10, subjects=jobs)

    assert "GPUs held and idle: embedder $38.34, feature-gen $25.56, ocr 4 GPU-h and 7 more" == words(what(idle))
    assert "layout" == what(action("layout", "decision"))


def test_lost_work_is_worth_what_was_lost() -> None:
    blank = {"gpu_hours": "0.000", "lost_gpu_hours": "3039.800"}

    assert "$8.34 k of lost work" == words(worth(action("failed-work", "lost", lost_cost="8343.00", **blank)))
    assert "3,040 GPU-h of lost work" == words(worth(action("failed-work", "lost", lost_cost=None, **blank)))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({}, ", $2.14 k a month.", id="a week or more"),
        pytest.param({"basis": "the 2.5 measured days"}, ", $2.14 k a month at the rate of the 2.5 measured days.", id="some days"),
        pytest.param({"cost_a_month": None, "basis": "the 6 measured hours"}, " in the 6 measured hours.", id="some hours"),
        pytest.param({"cost_a_month": None}, ".", id="hours of several kinds"),
    ],
)  # fmt: skip
def test_a_month_says_at_which_rate(changed: dict[str, Any], expected: str) -> None:
    found = words(headline(card([], waste=WASTE | changed)))

    assert f"This fleet wastes $1.00 k of the $2.50 k it costs: 40 % of its cost{expected}" == found


def test_findings_without_a_month_show_the_dollars_of_the_window() -> None:
    idle = action("idle", cost="263.00", gpu_hours="96.000")

    assert "$263 in this window" == words(worth(idle))
    assert "$263 in the 6 measured hours" == words(worth(idle | {"counted": "the 6 measured hours"}))


def test_a_team_that_is_not_measured_has_no_missing_price() -> None:
    from gpuwatch.report.html.page import page

    html = page(document(card([team("vision", None), team("nlp", "300.00")]), SOURCE))

    assert "not measured" in html
    assert "no price" not in html


@pytest.mark.parametrize("dumps", [True, False])
def test_a_scan_of_dumps_says_that_free_time_is_an_upper_bound(dumps: bool) -> None:
    from gpuwatch.quality.dumps import MISSING
    from gpuwatch.report.html.page import page

    html = page(document(card([team("vision", "1.00")], only_dumps=dumps), SOURCE))

    assert dumps is (MISSING in html)


PARTLY = WASTE | {"ratio": None, "measured_ratio": 0.3}
UNMEASURED = WASTE | {"ratio": None, "measured_ratio": 0.0}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({"waste": PARTLY}, "wastes at least $1.00 k of", id="held time was not measured"),
        pytest.param(
            {"waste": UNMEASURED, "only_dumps": True}, "wastes up to $1.00 k of", id="free time of a dump alone"
        ),
        pytest.param({"waste": PARTLY, "only_dumps": True}, "wastes $1.00 k of", id="both: neither bound is known"),
    ],
)
def test_a_bound_is_the_right_one(changed: dict[str, Any], expected: str) -> None:
    """In the first sentence and in the number below it."""
    known = card([team("vision", "1.00")], **changed)
    (numbers,) = [block for block in document(known, SOURCE).head if isinstance(block, Numbers)]

    assert expected in words(headline(known))
    assert expected.removeprefix("wastes ").removesuffix(" of") == words(numbers.items[1].value)


def test_teams_that_were_not_measured_have_no_columns_of_waste() -> None:
    """Only the free GPUs' waste is known: the table shows who held what, the most expensive first."""
    teams = [team("__platform__", "900.00"), team("nlp", None), team("guessed", None, cost="3000.00")]
    made = section(card(teams))

    table = made.blocks[1]
    assert isinstance(table, Table)
    assert "Who held the GPUs" == made.title
    assert ["Team", "GPU-hours held", "Cost"] == [column.head for column in table.columns]
    assert ["guessed (inferred)", "Unallocated (platform)", "nlp"] == [str(one.cells[0].text) for one in table.rows]


def test_a_terminal_shows_what_each_team_pays_and_could_avoid() -> None:
    """The first six, as the page lists them; the others in one line, with their money."""
    many = [team(f"t{number}", "1.00") for number in range(6)]

    assert [
        "vision: 500 GPU-hours, $1.50 k; avoidable $600 (40 % of its cost)",
        "guessed (inferred): 500 GPU-hours, $1.50 k; avoidable not measured",
    ] == [words(line) for line in team_lines(card([team("vision", "600.00"), team("guessed", None)]))]
    partly = team("nlp", "105.00") | {"avoidable_ratio": None, "measured_ratio": 0.17}
    assert ["nlp: 500 GPU-hours, $1.50 k; avoidable at least $105 (17 % of what it held was measured)"] == [
        words(line) for line in team_lines(card([partly]))
    ]
    assert "and 2 more teams, $3.00 k: scan.json has all" == words(
        team_lines(card([*many, team("t6", "1.00"), team("t7", "1.00")]))[6]
    )
    assert 6 == len(team_lines(card(many)))
