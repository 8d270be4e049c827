"""Every page lays out what it was given without a browser: full, empty, odd and hostile answers."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from dash import dcc, html
from dash.development.base_component import Component

from gpuwatch import dashboards
from gpuwatch.audit.summary import STEP_WORDS
from gpuwatch.dashboards.client import ApiFailure
from gpuwatch.dashboards.components import (
    charge_cells,
    finding_actions,
    findings_inbox,
    findings_list,
    formats,
    funnel,
    ledger_math,
    mig_drawing,
    slice_use,
)
from gpuwatch.dashboards.components.ledger_math import Sum
from gpuwatch.dashboards.pages import finding, job, jobs, me, mig, mig_gpu, overview, quality, teams
from gpuwatch.dashboards.shell import frame
from gpuwatch.dashboards.shell import page as registry
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.states import failed
from gpuwatch.dashboards.shell.theme import MEASURE_WORDS, MEASURES, STAGES
from gpuwatch.dashboards.waste import charges as charge_waste
from gpuwatch.dashboards.waste import do_first, morning
from gpuwatch.dashboards.waste import jobs as work
from gpuwatch.dashboards.waste import teams as team_waste
from gpuwatch.ledger.measures import AVOIDABLE, FREE, NOT_MEASURED, OUT_OF_SERVICE, WORDS, WORKING
from tests.dashboards import fake_api, fake_overview, fake_rules
from tests.dashboards.fake_names import NOW, at
from tests.dashboards.laid_out import answering, api, check_layout, links, shown, text

PATHS = (
    "/",
    "/teams",
    "/teams?by=user&team=nlp",
    "/teams?by=job&team=nlp&user=alice",
    "/teams?by=slice",
    "/teams?by=nonsense&sort=nonsense",
    "/teams?sort=avoidable",
    "/teams?sort=avoidable_share&vs=lastmonth",
    "/teams?by=queue&vs=2026-11-01T00:00:00Z,2026-11-08T00:00:00Z",
    "/team/nlp",
    "/team/nobody?window=24h",
    "/me",
    "/me?user=alice",
    "/me?user=<b>nobody</b>",
    "/mig",
    "/mig?page=2&sort=node",
    "/mig?page=999",
    "/findings",
    "/findings?state=all&cursor=c2",
    "/findings?state=nonsense",
    "/findings/idle-hoarding-0003",
    "/jobs",
    "/jobs?user=alice&q=x",
    "/jobs/4242?in=sim",
    "/jobs/sandbox/nb-4336",
    "/quality",
    "/?pool=h100&cluster=sim",
    "/teams?by=cause&team=nlp",
    "/charges/held",
    "/charges/held?policy=share-idle",
    "/charges/dealt",
    "/charges/correction",
    "/charges/unpriced?policy=pay-for-use",
    "/charges/frozen",
    "/budgets",
    "/budgets?team=nlp",
    "/periods",
    "/periods/2026-W46",
    "/periods/2026-W44",
    "/reports",
    "/reports?team=nlp&week=2026-W40",
    "/reports?week=nonsense",
    "/decisions",
    "/decisions?of=spot",
    "/decisions?of=slices",
    "/decisions?of=pools",
    "/decisions?of=nonsense&cloud_price=x",
    "/findings?detector=idle-hoarding&severity=high",
    *(f"/findings/{key}" for key in fake_rules.FINDINGS),
    "/findings/idle-hoarding-0000?action=ack",
    "/detectors",
    "/reclaim",
    "/reclaim?step=notice",
    "/reclaim?step=nonsense",
    "/capacity",
    "/capacity?view=history&window=month&cluster=sim",
    "/capacity?view=shapes",
)


@pytest.mark.parametrize("mode", ["ok", "empty"])
@pytest.mark.parametrize("path", PATHS)
def test_a_page_lays_out_whatever_comes(path: str, mode: str) -> None:
    """Hostile names stay text: text is a child, never markup."""
    check_layout(shown(path, mode))


def test_a_page_of_a_route_that_the_fake_api_lacks() -> None:
    with pytest.raises(ApiFailure, match="404"):
        shown("/quality", source=answering({}))

    assert text(shown("/quality")) == text(shown("/quality", source=answering({"quality": fake_api.QUALITY})))


def test_a_layout_with_markup_none_or_a_foreign_link_is_refused() -> None:
    for layout in (dcc.Markdown("x"), html.P("None"), html.A("x", href="https://example.com")):
        with pytest.raises(AssertionError):
            check_layout(html.Div([layout]))


def test_the_overview_names_the_largest_loss_and_closes() -> None:
    page_text = text(shown("/"))

    assert "$15.5 k  of $51.6 k was avoidable in the last 7 days , 8 % less than the week before ;" in page_text
    assert "Compared per hour with data: 168 hours now, 151 before" in page_text
    assert "$15.5 k was avoidable (30 % of the cost) in the last 7 days" in page_text
    assert "Of the working time, the hardware ran at 71 % of its roofline" in page_text
    assert "All GPUs 100 % 21,504.0 51,610" in page_text, "a column has one unit, so that its numbers compare"
    assert "Total 100 % 21,504.0 51,610" in page_text
    assert "45 % of the GPU time was working" in page_text
    assert "Working 45 % 9,676.8" in page_text, "the share of the title is a row"


def test_free_time_that_no_job_can_use_is_avoidable() -> None:
    page_text = text(blind({"compute": "20", "gap": "13", "stranded": "17", "schedulable": "50"}))

    assert "was avoidable (30 % of the cost)" in page_text
    assert "Free 50 %" in page_text


def test_pages_and_the_ledger_have_one_definition_of_waste() -> None:
    own = {"free": FREE, "not_measured": (NOT_MEASURED,), "out_of_service": (OUT_OF_SERVICE,)}

    assert {name: set(buckets) for name, buckets in MEASURES.items()} == {
        name: set(buckets) for name, buckets in {"working": WORKING, "avoidable": AVOIDABLE, **own}.items()
    }
    assert MEASURE_WORDS == WORDS


def test_the_page_and_the_command_line_have_one_word_for_a_step() -> None:
    assert {name: word for name, word, _ in STAGES} == STEP_WORDS


def test_an_overview_without_books_leads_to_the_last_week_that_has_some() -> None:
    layout = shown("/", "empty")

    assert "No GPU time in this window" in text(layout)
    assert "/ui/?window=2026-11-13T12%3A00%3A00Z%2C2026-11-20T12%3A00%3A00Z" in links(layout)


def test_the_overview_does_without_the_fleet_now() -> None:
    data = asyncio.run(overview.load(api(), Query()))
    answer = {**data.answer, "before": None, "steps_before": None}
    page_text = text(overview.layout(overview.Data(answer, None), Query(), "light"))

    assert "vs. previous" not in page_text
    assert "no earlier data" in page_text
    assert "week before" not in page_text


def test_a_pool_has_no_reporting_stage_because_nobody_reported_it() -> None:
    sums = ledger_math.by_key([{"bucket": "compute", "gpu_seconds": "10", "cost": "1"}], "bucket")

    assert {"total", "allocated", "active", "effective"} == set(funnel.pool_stages(sums))


def test_unknown_is_missing_and_never_zero() -> None:
    """A pending job knows neither its GPUs nor its cost."""
    layout = jobs.listing([fake_api.job(1)], Query("/jobs"))
    row = layout.children[1].children.children[-1].children[0]
    listed = [text(cell) for cell in row.children]

    assert [formats.MISSING] * 3 == listed[4:7]
    assert ["not measured", formats.MISSING, "No GPU time"] == listed[7:10]


def test_jobs_are_listed_with_what_was_avoidable() -> None:
    """Half of its $8.00 was avoidable; the header sorts by it."""
    one = {
        **fake_api.job(0),
        "cost": "8.00",
        "currency": "USD",
        "buckets": {"compute": "50", "hoarded": "20", "gap": "30"},
    }
    layout = jobs.listing([one], Query("/jobs"))

    assert "Cost ($) ↓ Avoidable ($)" in text(layout)
    assert "8.00 4.00" in text(layout)
    assert "/ui/jobs?sort=avoidable" in links(layout)


def test_a_funnel_without_prices_has_no_money() -> None:
    """The API says 0.00 for a stage that no rate covers."""
    data = asyncio.run(overview.load(api(), Query()))
    bare = [{**row, "cost": None, "currency": None} for row in data.now["items"]]
    sums = ledger_math.by_key(bare, "bucket")
    zero = {name: {**stage, "cost": "0.00"} for name, stage in data.now["funnel"].items()}
    body = funnel.card(zero, data.fleet, sums, Query(), "").children[1].children.children[-1]

    assert [formats.MISSING] * 6 == [text(row.children[4]) for row in body.children]


def blind(shares: dict[str, str]) -> Component:
    """The overview where the buckets have these GPU-hours."""
    data = asyncio.run(overview.load(api(), Query()))
    now = [{"bucket": name, "gpu_seconds": f"{Decimal(size) * 3600}", "cost": size} for name, size in shares.items()]
    stepped = [{**row, "start": f"2026-11-1{day}T00:00:00Z"} for day in (4, 5) for row in now]
    whole = sum(Decimal(one["gpu_seconds"]) for one in now)
    record = {
        **data.now,
        "capacity_gpu_seconds": str(whole),
        "cost": fake_api.cost(float(whole)),
        "items": fake_overview.stacked(now),
        **fake_api.measures(now),
    }
    steps = {"step": "1d", "items": fake_overview.stacked(stepped)}
    answer = {
        **data.answer,
        "now": record,
        "before": None,
        "steps": steps,
        "steps_before": None,
        "teams": [],
        "actions": [],
    }
    return overview.layout(replace(data, answer=answer), Query(), "light")


def test_work_that_nobody_measured_is_not_zero() -> None:
    """Every held GPU is busy at 97 % by an exporter without SM activity."""
    layout = blind({"unobserved": "62", "gap": "2", "schedulable": "36"})
    page_text = text(layout)

    assert page_text.startswith("Not measured : 97 % of the GPU time held in the last 7 days")
    assert "Working – SM activity is not measured" in page_text
    assert "Only 3.1 % of the GPU time held was measured" in page_text
    assert page_text.index("Not measured 62 %") < page_text.index("Working –")
    assert "Allocated, measured 2.0 %" in page_text
    assert "Active – – –" in page_text
    assert "Effective – – –" in page_text
    assert "Not measured 62 %" in page_text
    assert "was avoidable (" not in page_text
    assert 2 <= sum(href == "/ui/quality" for href in links(layout))


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        pytest.param({"compute": "20", "schedulable": "16"}, "Nothing of $86.40 was avoidable in the last 7 days", id="nothing"),
        pytest.param({"compute": "20", "hoarded": "16"}, "$38.40  of $86.40 was avoidable in the last 7 days", id="no week before"),
        pytest.param({"unobserved": "20"}, "Not measured : 100 % of the GPU time held in the last 7 days", id="not measured"),
    ],
)  # fmt: skip
def test_the_first_sentence_is_honest(shares: dict[str, str], expected: str) -> None:
    page_text = text(blind(shares))

    assert page_text.startswith(expected), page_text[:200]
    assert "than the" not in page_text[:200]


def test_without_prices_the_sentence_is_of_gpu_hours() -> None:
    data = asyncio.run(overview.load(api(), Query()))
    bare = {**data.now, "cost": None, "avoidable": {**data.now["avoidable"], "cost": None}}
    page_text = text(
        overview.layout(replace(data, answer={**data.answer, "now": bare, "before": None}), Query(), "light")
    )

    assert page_text.startswith("6,451 GPU-h  of 21.5 k GPU-h was avoidable in the last 7 days")


def test_the_first_actions_lead_somewhere_and_name_whom_to_ask() -> None:
    """19 findings of one cause are one line; the largest loss takes the last of five places; GPUs at risk have no amount."""
    card = do_first.card(fake_overview.actions(), Query())
    page_text, found = text(card), links(card)

    assert 5 == len(card.children[-1].children)
    assert "Work lost with failed runs" in page_text
    assert "19 findings" in page_text
    assert "Free but stranded" in page_text
    assert "Largest loss: $2.76 k in the last 7 days" in page_text
    assert "Ask  the platform team" in page_text
    assert "/ui/findings?detector=failed-work" in found
    assert "/ui/findings/idle-hoarding-0002" in found
    assert "/ui/capacity" in found
    assert "could save  $3.20  a day" in page_text
    assert "lost  $8.34 k" in page_text
    unpriced = {"lost_work": {"gpu_seconds": "10943280.000000", "cost": None}}
    assert "lost  3,040 GPU-h" in text(do_first.line(fake_overview.action(1, **unpriced), Query()))
    assert "2 GPUs at risk" in text(do_first.line(fake_overview.actions()[4], Query()))


def api_overview() -> dict[str, Any]:
    """The answer of the overview route."""
    return dict(asyncio.run(overview.load(api(), Query())).answer)


def test_a_loss_without_a_finding_says_who_has_it_and_what_to_do_by_kind_of_work() -> None:
    remedy = "Servers ($9.00 k): run fewer replicas. Notebooks and sessions ($2.50 k): end what idles."
    parts = [
        {"team": team, "kind": kind, "gpu_seconds": "3600.000000", "cost": cost}
        for team, kind, cost in (("chat", "service", "6000"), ("lab", "session", "2500"), ("chat", "batch", "1500"), ("a", "batch", "1"), ("b", "batch", "1"))
    ]  # fmt: skip
    loss = {"bucket": "gap", "gpu_seconds": "1.0", "cost": "12000.00", "parts": parts, "parts_total": 5}
    shown = do_first.line(fake_overview.action(1, loss=loss, findings=0, keys=[], detectors=[], remedy=remedy), Query())
    page_text = text(shown)

    assert remedy in page_text
    assert "chat  $7.50 k ,  lab  $2.50 k ,  a  $1.00  and 1 more" in page_text
    assert "Ask" not in page_text
    assert "/ui/jobs?sort=gap" in links(shown)


def test_the_largest_row_is_first_also_without_a_team() -> None:
    answer = api_overview()
    lost = {"__unallocated__": "9079.00", "vision": "19.00", "__platform__": "0.00"}
    rows = [
        {**answer["teams"][0], "team": team, "avoidable": {"gpu_seconds": "60.0", "cost": cost, "ratio": 0.1}}
        for team, cost in lost.items()
    ]
    page_text = text(team_waste.card({**answer, "teams": rows}, Query()))

    assert sorted(map(page_text.index, ("No team assigned", "vision", "Platform"))) == [
        page_text.index(word) for word in ("No team assigned", "vision", "Platform")
    ]


def test_what_was_not_measured_is_no_waste() -> None:
    loss = {"bucket": "unobserved", "gpu_seconds": "1.0", "cost": "12000.00", "parts": [], "parts_total": 0}
    page_text = text(do_first.line(fake_overview.action(1, loss=loss, findings=0, keys=[], detectors=[]), Query()))

    assert "no waste is known" in page_text
    assert "a day" not in page_text


def test_what_began_within_a_day_costs_so_far() -> None:
    brief = {"day_rate": False, "cost_a_day": "20.64", "cost_so_far": "20.64", "gpu_hours_so_far": "3.0"}

    assert "$20.64  so far" in text(do_first.line(fake_overview.action(1, **brief), Query()))


def test_without_metrics_what_is_free_is_known_and_shares_say_of_what() -> None:
    """Nothing of the 60 held GPU-hours is measured: that is 60 % of all, and 100 % of what was held."""
    page_text = text(blind({"unobserved": "60", "schedulable": "40"}))

    assert "None of the GPU time held was measured" in page_text
    assert "Not measured 60 % of all GPU time, 100 % of the time held" in page_text
    assert "Free 40 %" in page_text


def test_an_action_names_the_nodes_and_no_uuid() -> None:
    gpu = {"kind": "gpu", "id": "GPU-60a3dc09-4481", "name": "clip-align", "cluster": "sim"}
    many = text(do_first.line(fake_overview.action(1, subject=None, nodes=["n1", "n2", "n3"], nodes_total=7), Query()))
    known = text(do_first.line(fake_overview.action(1, subject=gpu, nodes=["n1"], nodes_total=1, gpu_index=5), Query()))
    bare = text(do_first.line(fake_overview.action(1, subject=gpu, nodes=["n1"], nodes_total=1), Query()))

    assert "on n1, n2 and 5 more nodes" in many
    assert "GPU  5 on n1" in known
    assert "GPU  GPU-60a3dc09 on n1" in bare


def test_findings_have_a_visible_order_and_say_when_they_ended() -> None:
    page_text = text(shown("/findings"))

    assert "Most urgent first: severity × cost a day × certainty." in page_text
    assert "Most urgent first" not in text(shown("/findings?sort=cost"))
    ended = {"key": "k", "title": "Idle", "ended_at": "2026-11-23T00:00:00Z", "state": "resolved"}
    assert "Idle ended 23 Nov 00:00" in text(findings_inbox.what(ended, Query()))


def test_work_that_was_measured_in_part_says_so() -> None:
    page_text = text(blind({"compute": "20", "unobserved": "60", "schedulable": "20"}))

    assert "Working –" in page_text
    assert "Only 25 % of the GPU time held was measured" in page_text
    assert "Allocated, measured 20 %" in page_text


def test_time_that_nobody_held_did_no_work() -> None:
    page_text = text(blind({"schedulable": "36"}))

    assert "0 % of the GPU time was working" in page_text
    assert "SM activity is not measured" not in page_text


def test_held_and_measured_now_are_the_held_gpus_whose_work_is_known() -> None:
    """Of 102 held GPUs 96.5 give activity."""
    page_text = text(shown("/"))

    assert "Allocated, measured 72 % 15,482.9 37,159 96.5" in page_text
    assert " 102 " not in page_text


def test_a_funnel_of_a_team_has_neither_the_fleet_nor_owners() -> None:
    page_text = text(shown("/?team=nlp"))

    assert "of the GPU time held was working" in page_text
    assert "All GPUs" not in page_text
    assert "Now" not in page_text


def test_what_was_not_counted_as_waste_costs_no_zero() -> None:
    blind = {**fake_api.finding(0), "wasted_cost": "0.00", "wasted_gpu_seconds": "0.000000"}
    blind |= {"cost_a_day": None, "gpu_hours_a_day": "0.0"}
    free = {**blind, "wasted_gpu_seconds": "60.000000"}
    rated = {**fake_api.finding(0), "cost_a_day": "12.00"}
    rows = findings_inbox.rows([blind, rated], Query("/findings"), "priority")
    row, _ = rows.children.children[0].children.children[-1].children

    assert [formats.MISSING] * 2 == [text(cell) for cell in row.children[5:7]]
    assert "$0" == text(findings_list.wasted(free))


def test_the_cards_of_gpus_on_one_node_are_distinguished() -> None:
    page_text = text(shown("/mig?sort=node"))

    assert "gpu-h100-00 · GPU-00000000" in page_text
    assert "gpu-h100-00 · GPU-00000001" in page_text


@pytest.mark.parametrize(
    ("then", "known", "expected"),
    [
        pytest.param(Sum(Decimal(8)), True, formats.MISSING, id="there was time but no price"),
        pytest.param(Sum(Decimal(8), Decimal(1)), False, formats.MISSING, id="nothing to compare with"),
        pytest.param(None, True, "new", id="nothing before"),
        pytest.param(Sum(Decimal(8), Decimal(1)), True, "+100 %", id="twice the money"),
    ],
)
def test_a_change_of_money_needs_money_before(then: Sum | None, known: bool, expected: str) -> None:
    assert expected == text(charge_cells.change_cell(Sum(Decimal(8), Decimal(2)), then, known))


def test_a_drill_narrows_and_leads_on() -> None:
    layout = shown("/teams?by=user&team=nlp")

    assert "/ui/teams?by=job&team=nlp&user=alice" in links(layout)
    assert "All teams nlp" in text(layout)


def test_exports_ask_the_api_for_what_is_shown() -> None:
    exports = [href for href in links(shown("/teams?by=user&team=nlp&window=24h")) if href.startswith("/api/")]

    assert "/api/v1/chargeback?window=24h&team=nlp&by=user&format=csv" == exports[0]


def test_teams_sort_by_money_unless_asked_otherwise() -> None:
    """What is nobody's stays below; what was avoidable is a column."""
    data = asyncio.run(teams.load(api(), Query("/teams")))

    def names(sort: str) -> list[str]:
        query = Query("/teams", {"sort": sort} if sort else {})
        body = teams.listing(data, data.charges["items"], "team", query).children[1].children.children[-1]
        *rows, last = (text(row.children[0]).removesuffix("  ·  users") for row in body.children)
        assert "All 7 rows" == last
        return rows

    body = teams.listing(data, data.charges["items"], "team", Query("/teams")).children[1].children.children[-1]
    cells = [[text(cell) for cell in row.children] for row in body.children]
    assert ["1,475", "2,212", "2,949", "3,686", "4,424", "737", "–"] == [row[7] for row in cells[:-1]]
    assert ["15,483", "30.0"] == cells[-1][7:9], "the sum of the rows that are known"
    assert ["no change"] * 6 == [row[10] for row in cells[:-2]], "what was avoidable, against the week before"
    nobody = ["No team assigned", "Platform"]
    assert [fake_api.HOSTILE, "nlp", "recsys", "vision", "search", *nobody] == names("")
    assert ["search", "vision", "recsys", "nlp", fake_api.HOSTILE, *nobody] == names("avoidable")
    assert [fake_api.HOSTILE, "nlp", "recsys", "search", "vision", *nobody] == names("name")


def test_a_team_page_has_its_money_jobs_budget_and_ways_on() -> None:
    layout = shown("/team/nlp")
    page_text, found = text(layout), links(layout)

    assert page_text.startswith("Team  nlp $15.5 k  of $51.6 k was avoidable in the last 7 days")
    assert "resnet-ddp" in page_text
    assert "nlp has spent" in page_text
    assert "/ui/teams?team=nlp&by=queue" in found
    assert "/ui/me?user=alice" in found


def test_a_team_without_gpu_time_says_so() -> None:
    assert "This team held no GPUs in this window" in text(shown("/team/nlp", "empty"))


def test_my_work_is_of_one_person() -> None:
    """The open findings are those of the person; without a name, there is a choice."""
    mine, everyone = shown("/me?user=bob"), shown("/me")

    assert "Work of  bob" in text(mine)
    assert "bob" in text(everyone)
    assert "/ui/me?user=bob" in links(everyone)
    assert "No GPU time in this window" in text(shown("/me?user=nobody"))


@pytest.mark.parametrize(
    ("buckets", "lost", "worst"),
    [
        pytest.param({}, None, None, id="no time"),
        pytest.param({"unobserved": "60", "hoarded": "40"}, None, None, id="mostly not measured"),
        pytest.param({"compute": "100"}, Decimal(0), None, id="nothing avoidable"),
        pytest.param({"compute": "50", "hoarded": "20", "gap": "30"}, Decimal("0.5"), "gap", id="half of it"),
    ],
)
def test_what_was_avoidable_of_a_job(buckets: dict[str, str], lost: Decimal | None, worst: str | None) -> None:
    found = work.of({"buckets": buckets, "cost": "8.00"})

    assert (lost, worst) == (found.lost, found.worst)
    assert (None if lost is None else lost * 8) == found.cost


def bars_of(gpu: int, rest: Fraction) -> list[list[tuple[str, str]]]:
    """(width, class) of the blocks of the compute and the memory bar of a MIG GPU."""
    data = asyncio.run(mig.load(api(), Query("/mig")))
    held = mig.in_order(data["items"][gpu], data["items"][gpu]["slices"])
    drawn = mig_drawing.drawing(held, "GPU", "A100-SXM4-80GB", mig_drawing.colours(data["total"]["owners"]), rest)
    return [[(block.style["width"], block.className) for block in row.children[1].children] for row in drawn.children]


def test_a_mig_gpu_is_a_bar_of_compute_and_a_bar_of_memory() -> None:
    """3g, 2g and 1g slices: 3, 2 and 1 of seven, and 4, 2 and 1 of eight."""
    compute, memory = bars_of(1, Fraction(1, 7))

    assert ["42.86%", "28.57%", "14.29%", "14.29%"] == [width for width, _ in compute]
    assert ["50.00%", "25.00%", "12.50%", "12.50%"] == [width for width, _ in memory]
    assert "mig-block rest" == compute[-1][1] == memory[-1][1]


def test_seven_small_slices_fill_the_compute_and_leave_memory_that_nothing_can_use() -> None:
    compute, memory = bars_of(0, Fraction(0))

    assert ["14.29%"] * 7 == [width for width, _ in compute]
    assert ("12.50%", "mig-block spare") == memory[-1]


@pytest.mark.parametrize(
    ("profile", "model", "expected"),
    [
        pytest.param("1g.10gb", "A100-SXM4-80GB", (Fraction(1, 7), Fraction(1, 8)), id="the smallest"),
        pytest.param("1g.20gb", "A100-SXM4-80GB", (Fraction(1, 7), Fraction(2, 8)), id="one with double memory"),
        pytest.param("3g.71gb", "H200", (Fraction(3, 7), Fraction(4, 8)), id="a model without its memory in its name"),
        pytest.param("odd", "H200", (Fraction(1, 4), Fraction(1, 4)), id="a name that is no profile: its share"),
    ],
)
def test_the_size_of_a_slice_without_a_position(profile: str, model: str, expected: tuple[Fraction, Fraction]) -> None:
    part = slice_use.summed({"gpu": "g"}, {"slice": "s", "profile": profile, "share": "1/4"})

    assert expected == (mig_drawing.compute_share(part), mig_drawing.memory_share(part, model))


def test_a_slice_has_its_number_its_price_of_an_hour_and_what_it_cost_while_free() -> None:
    """Six hours held for $2.46, two free for $0.82."""
    row = {"slice": "GPU-1/GI-3", "profile": "1g.10gb", "currency": "USD", "owner": "nlp", "owners": 2, "job": "7"}
    gpu, sums = {"gpu": "GPU-1"}, {"held_seconds": 6 * 3600, "cost": "2.46", "free_cost": "0.82"}
    part = slice_use.summed(gpu, row | sums)
    line = mig.line(part, mig_drawing.colours(["nlp"]), Query("/mig"))

    assert ("GI-3 1g.10gb", Decimal("0.41"), Decimal("0.82")) == (part.instance, part.price, part.free_cost)
    assert "$0.41" == slice_use.price_words(Decimal("0.41"), "USD")
    assert "and $0.82 while free" == mig.while_free("0.82", "USD")
    assert ["/ui/mig/GPU-1/GI-3"] * 2 == links(line), "several holders: all of them, not the job of one"
    assert "nlp + 1 more" in text(line)
    assert "1g.10gb" == slice_use.summed(gpu, row | {"slice": "MIG-5"}).instance
    assert (None, None) == (slice_use.summed(gpu, row).price, mig.while_free(None, "USD"))


def test_charges_by_slice_lead_to_the_slice() -> None:
    cell = charge_cells.name_cell("GPU-1/GI-3", "slice", "c1", Query("/teams", {"team": "nlp"}))

    assert ["/ui/mig/GPU-1/GI-3"] == links(cell)


@pytest.mark.parametrize(
    ("before", "words"),
    [
        pytest.param({"cost": "55100", "covered_seconds": 100}, "$55.1 k", id="as much time"),
        pytest.param({"cost": "55100", "covered_seconds": 98}, "previous", id="less time: amounts are not comparable"),
        pytest.param({"cost": None, "covered_seconds": 100}, "previous", id="no price"),
        pytest.param(None, "previous", id="nothing before"),
    ],
)
def test_the_period_before_has_its_amount(before: Any, words: str) -> None:
    assert words == overview.amount_before({"covered_seconds": 100}, before, before, "USD")


def test_many_owners_share_the_last_colour() -> None:
    rows = [{"team": f"t{n}", "job": "j", "device_seconds": 100 - n} for n in range(9)]
    found = mig_drawing.colours(mig_gpu.by_time(rows[::-1]))

    assert [0, 1, 2, 3, 4, 5, 6, 7, 7] == [found[f"t{n}"] for n in range(9)]


def test_a_slice_has_a_page_with_who_held_it() -> None:
    row = next(row for row in fake_api.slices()["items"] if row["job"])
    page = shown(f"/mig/{row['slice']}")
    page_text = text(page)

    assert "Who held it" in page_text and formats.clip(row["job"], 40) in page_text
    assert "Memory used" in text(mig_gpu.numbers([row])), "the last of its six numbers"
    assert "No slices in this window" in text(shown("/mig/GPU-none-such"))
    check_layout(page)


def test_readers_may_not_exempt() -> None:
    """Only an administrator says for good that a waste is none."""
    data = asyncio.run(finding.load(api(), Query("/findings/idle-hoarding-0000")))
    as_reader = finding.Data(data.finding, data.rule, {"scope": "read"})

    assert "Exempt" in text(finding.decide(data))
    assert "Exempt" not in text(finding.decide(as_reader))


def test_a_finding_shows_its_limits_and_its_reason() -> None:
    page_text = text(shown("/findings/false-utilization-0001"))

    assert "What to do:" in page_text
    assert "4 thresholds of the rule" in page_text
    assert "SMs active at most 50 %" in page_text
    assert "Utilization counts any kernel." in page_text


def test_a_finding_without_a_price_says_so() -> None:
    data = asyncio.run(finding.load(api(), Query("/findings/false-utilization-0003")))
    facts = finding.summary(data, Query()).children[3].children

    assert ["–", "40 GPU-h"] == [text(fact.children[1]) for fact in facts[:2]]


def test_a_finding_of_three_hours_has_no_cost_a_day() -> None:
    """$20.64 in three hours are no $20.64 a day. What has ended costs nothing now, and work is lost once."""
    three = {"cost_a_day": "20.64", "currency_a_day": "USD", "day_rate": False, "wasted_cost": "20.64"}
    whole = {**three, "day_rate": True}

    assert ["–", "$20.64", "–", "–"] == [
        text(findings_list.daily(one))
        for one in (three, whole, {**whole, "state": "resolved"}, {**whole, "evidence": {"lost_gpu_hours": 3.0}})
    ]
    card = text(findings_list.card({**three, "wasted_gpu_seconds": "10800", "currency": "USD"}, Query()))
    assert "per day" not in card
    assert "$20.64" in card


@pytest.mark.parametrize(
    ("changed", "over", "expected"),
    [
        pytest.param({}, False, "$41.20 a day", id="all have lasted a day"),
        pytest.param({"day_rate": False}, False, "$12.30 so far", id="one has not"),
        pytest.param({}, True, "$12.30 so far", id="some are over"),
        pytest.param({"cost_a_day": None, "cost_so_far": None}, False, "24 GPU-h a day", id="without a price"),
        pytest.param({"cost_a_day": None, "cost_so_far": None, "gpu_hours_a_day": "0.0"}, False, "", id="nothing"),
    ],
)
def test_an_amount_names_its_time(changed: dict[str, Any], over: bool, expected: str) -> None:
    amount = {
        "cost_a_day": "41.20", "gpu_hours_a_day": "24.0", "currency": "USD", "day_rate": True, "cost_so_far": "12.30",
        "gpu_hours_so_far": "7.0",
    }  # fmt: skip

    assert expected == findings_list.spanned({**amount, **changed}, over)


def test_sources_that_fail_come_first_with_their_fix() -> None:
    page_text = text(shown("/quality"))

    assert "2 sources are late or failing, 1 check needs attention." in page_text
    assert page_text.index("slurm http://ctl:6820") < page_text.index("1 healthy source")
    assert "scontrol token lifespan=86400" in page_text
    assert "DCGM_FI_PROF_SM_ACTIVE, gauge" in page_text


def test_a_snooze_ends_at_its_time() -> None:
    assert "2026-11-27T12:00:00Z" == finding_actions.until_after("snooze", "7", "2026-11-20T12:00:00Z")
    assert "2026-11-27T12:00:00Z" == finding_actions.until_after("snooze", "nonsense", "2026-11-20T12:00:00Z")
    assert finding_actions.until_after("exempt", "", "2026-11-20T12:00:00Z") is None


@pytest.mark.parametrize(
    ("status", "title"),
    [
        pytest.param(401, "Sign in to see this", id="nobody"),
        pytest.param(403, "You don't have access to this", id="not allowed"),
        pytest.param(404, "Not found", id="not there"),
        pytest.param(500, "This could not be loaded", id="broken"),
        pytest.param(0, "This could not be loaded", id="unreachable"),
    ],
)
def test_failures_are_states_of_a_page(status: int, title: str) -> None:
    page_text = text(failed(ApiFailure(status, "x", "because", "do this"), Query("/jobs", {"team": "a"})))

    assert page_text.startswith(title)


def test_who_sees_some_teams_is_led_to_what_is_theirs() -> None:
    """No words about routes; the map has their GPUs."""
    refused = ApiFailure(403, "team_scope", "this route covers the whole fleet", "ask with a token")
    on_fleet, elsewhere = (failed(refused, Query(path)) for path in ("/fleet", "/quality"))

    assert text(on_fleet).startswith("This covers the whole fleet You are signed in for some teams only")
    assert "route" not in text(on_fleet)
    assert "/ui/topology" in links(on_fleet)
    assert "/ui/topology" not in links(elsewhere)


def test_the_navigation_has_no_page_that_is_refused() -> None:
    """Nor one that is listed below such a page."""
    known = {page.path for page in registry.pages() if page.whole_fleet}
    hidden = {page.path for page in registry.pages() if page.icon and (page.path in known or page.under in known)}
    everyone, bound = (links(frame.navigation(Query(), None, one)) for one in (False, True))

    assert {"/fleet", "/quality", "/imports", "/reconcile", "/commitments", "/channels"} == known
    assert {f"/ui{path}" for path in hidden} == set(everyone) - set(bound)


def test_of_one_team_the_overview_names_no_part() -> None:
    """It said that the only team that is seen has 100 % of it."""
    answer = api_overview()
    own = {**answer, "teams": [row for row in answer["teams"] if row["team"] == "vision"]}

    assert "%  of it" not in text(morning.answered(own, Query())) and " is 100 %" not in text(
        morning.answered(own, Query())
    )
    assert "of it" in text(morning.answered(answer, Query()))


def test_checks_that_say_the_same_are_one_card() -> None:
    """A server without data had twenty cards of one sentence."""
    same = {"status": "unknown", "what": "nothing was received", "fix": "name your sources"}
    rows = [
        {**same, "id": "clocks"},
        {"status": "bad", "what": "late", "id": "rates"},
        {**same, "id": "labels"},
    ]
    found = quality.alike(rows)

    assert [["clocks", "labels"], ["rates"]] == [[str(row["id"]) for row in group] for group in found]
    assert "Clocks, Labels Nothing was received name your sources" in " ".join(text(quality.check(found[0])).split())


def test_signing_in_leads_back() -> None:
    layout = failed(ApiFailure(401, "x", "m"), Query("/jobs", {"team": "a"}))

    assert ["/ui/login?next=%2Fui%2Fjobs%3Fteam%3Da"] == links(layout)


def test_navigation_is_in_the_order_of_the_pages() -> None:
    """Other pages may come between these."""
    expected = ["Overview", "Teams & chargeback", "Capacity", "MIG", "Findings", "Jobs", "Data quality"]
    below = ["Budgets", "Periods", "Reports", "Decisions", "Rules", "Reclaims"]
    top = [page.title for page in registry.pages() if page.icon and not page.under]
    under = [page.title for page in registry.pages() if page.icon and page.under]

    assert expected == [title for title in top if title in expected]
    assert below == [title for title in under if title in below]
    assert None is registry.find("/nothing")
    assert quality.layout is registry.find("/quality").layout  # type: ignore[union-attr]


@pytest.mark.parametrize("page", registry.pages(), ids=lambda page: page.path)
def test_a_page_in_the_navigation_has_an_icon_and_a_parent_that_exist(page: registry.Page) -> None:
    assets = Path(dashboards.__path__[0]) / "assets"
    styled = set(re.findall(r"^\.i-([a-z]+) {", (assets / "style.css").read_text("utf-8"), re.MULTILINE))
    icons = styled & {path.stem for path in (assets / "icons").glob("*.svg")}
    top = {one.path for one in registry.pages() if one.icon and not one.under}

    assert page.icon in icons | {""}
    assert page.under in top | {""}


def test_slices_that_no_exporter_reports_stand_under_their_node() -> None:
    """Their GPU is not known: they are no GPU, and are neither idle nor drawn on one."""
    shape = next(item for item in fake_api.slices()["items"] if item["profile"] == "1g.10gb")
    unknown = {"gi": None, "idle_seconds": None, "placement": None, "utilisation": dict.fromkeys(shape["utilisation"])}
    rows = [fake_api.summed(shape | unknown | {"slice": f"dark/1g.10gb/{n}"}) for n in range(2)]
    node = {"gpu": None, "node": "dark", "cluster": "sim", "gpu_model": None, "remainder_share": None, "slices": rows}
    total = {"gpus": 0, "slices": 2, "held_slices": 2, "measured_slices": 0}
    page_text = text(shown("/mig", source=answering({"mig/gpus": {"items": [node], "total": total, "next": None}})))

    assert "0 GPUs, 2 slices" in page_text
    assert "2 slices, not measured" in page_text
    assert "which GPU each is on is not known" in page_text
    assert "0 of 2" in page_text
    assert "None" not in page_text


def test_a_remainder_that_a_token_may_not_see_is_not_zero() -> None:
    found = fake_api.mig_gpus()
    hidden = found | {"total": found["total"] | {"remainder_gpus": None}}

    assert "2.1 GPUs" in text(shown("/mig", source=answering({"mig/gpus": found})))
    assert "0.0 GPUs" not in text(shown("/mig", source=answering({"mig/gpus": hidden})))


def test_the_page_of_a_finding_begins_with_what_happens_to_whom() -> None:
    """A rule without such a sentence has its title there."""
    sentence = "train-llm (job 4711) of team red on n1 holds 8 idle GPUs"
    plain = fake_api.finding(0)
    for found, head in ((plain, "GPUs held and idle"), (plain | {"headline": sentence}, sentence)):
        layout = finding.summary(finding.Data(found, {}, None), Query("/findings/x", {}))

        assert [head] == [child.children for child in layout.children if isinstance(child, html.H1)]
        assert 1 == text(layout).count("GPUs held and idle")


def test_a_row_of_findings_has_two_lines() -> None:
    """The title with what took the finding back, and one line of the summary, which a phone leaves out."""
    cell = findings_inbox.what(fake_api.finding(0) | {"resolved_reason": "records changed"}, Query("/findings", {}))
    first, second, about, phone = cell.children

    assert "jobname" == first.className
    assert "two-lines first-line soft narrow-hide" == second.className
    assert ["about narrow-only", "facts narrow-only"] == [about.className, phone.className]
    assert fake_api.finding(0)["summary"] == second.title


def test_a_list_of_findings_without_a_cost_a_day_has_no_column_for_it() -> None:
    """Waste of less than a day, lost work and savings have none."""
    short = {**fake_api.finding(0), "day_rate": False}
    saves = {**fake_api.finding(0), "saves": True}
    without = text(findings_inbox.rows([short, saves], Query("/findings"), "priority"))

    assert "Per day" not in without
    assert "Cost so far" in without
    assert "Per day" in text(findings_inbox.rows([short, fake_api.finding(0)], Query("/findings"), "priority"))


def test_a_finding_names_its_subject_on_a_phone_too() -> None:
    """Beside the column that phones hide, the first cell has it."""
    leak = {**fake_api.finding(0), "subject": {"kind": "gpu", "id": "GPU-1c1abed6-x"}, "gpu_index": 3, "nodes": ["n7"]}
    cell = findings_inbox.what(leak, Query("/findings"))

    assert "3 on n7" in text(cell)
    assert "team" not in text(cell) and "search" in text(cell)


def test_teams_that_waste_most_of_their_own_cost_are_named() -> None:
    """By money search is last; by share it is first. A tiny team, and one that was hardly measured, are not named."""
    answer = api_overview()
    sizes = {"big": ("1000.00", "200.00"), "search": ("100.00", "60.00"), "tiny": ("1.00", "1.00"), "dark": ("300.00", "290.00")}  # fmt: skip
    rows = [
        {**answer["teams"][0], "team": team, "cost": cost, "avoidable": {"gpu_seconds": "60.0", "cost": lost, "ratio": 0.1},
         "measured_ratio": 0.1 if team == "dark" else 1.0}
        for team, (cost, lost) in sizes.items()
    ]  # fmt: skip
    note = team_waste.by_share(rows, "USD", Query())

    assert "Highest share of their own cost:   search  (60 %) . All teams: 24 %." == text(note)
    assert ["/ui/team/search"] == links(note)
    assert team_waste.by_share(rows[:1], "USD", Query()) is None, "one team is not above all"


def test_a_team_that_the_list_leaves_out_is_named_for_its_share() -> None:
    answer = api_overview()
    sizes = {f"team{place}": ("1000.00", "200.00") for place in range(team_waste.SHOWN)} | {
        "search": ("150.00", "90.00")
    }
    rows = [
        {**answer["teams"][0], "team": team, "cost": cost, "avoidable": {"gpu_seconds": "60.0", "cost": lost, "ratio": 0.1},
         "measured_ratio": 1.0}
        for team, (cost, lost) in sizes.items()
    ]  # fmt: skip
    page_text = text(team_waste.card({**answer, "teams": rows, "teams_total": len(rows)}, Query()))

    assert "All teams (1 more)" in page_text
    assert "Highest share of their own cost:   search  (60 %)" in page_text


def test_an_average_is_called_one() -> None:
    assert re.search(r"\$\S+( k)? was avoidable a day on average", text(shown("/")))


@pytest.mark.parametrize("bucket", work.ADVICE)
def test_what_to_change_about_a_job_fits_two_lines(bucket: str) -> None:
    """More was cut off in the column, and with it the advice."""
    job = {"buckets": {"compute": "50", bucket: "50"}, "cost": "8.00"}

    assert len(text(work.change(work.of(job)))) <= 64


def test_people_are_listed_by_what_was_avoidable() -> None:
    """The column by which they are in order is shown."""
    groups = [{"user": name, "avoidable": {"gpu_seconds": "1", "cost": cost, "ratio": 0.1}} for name, cost in (("a", "1"), ("b", "30.5"), ("c", None))]  # fmt: skip
    items = [{"user": one["user"], "bucket": "gap", "gpu_seconds": "36", "cost": "100.00"} for one in groups]
    table = text(me.people(me.Data({"groups": groups, "items": items, "currency": "USD"}), Query("/me")))

    assert "User GPU-h Cost ($) Avoidable ($) % of time b < 0.1 100.00 30.50 10.0 a < 0.1 100.00 1.00 10.0 c" in table


def test_stranded_gpus_have_the_cause_that_reports_name() -> None:
    cause = "79 % of it: free, but requests ask for another GPU model. GPUs of H100-80GB."
    shown = text(do_first.line(fake_overview.action(1, **{**fake_overview.LOSS, "summary": cause}), Query()))

    assert "79 % of it: free, but requests ask for another GPU model. Move small jobs onto fewer nodes." in shown
    assert "79 %" not in text(do_first.line(fake_overview.action(1, summary=cause), Query())), "only of this loss"


def test_a_team_opens_its_page_and_its_users() -> None:
    found = links(shown("/teams?window=24h"))

    assert "/ui/team/nlp?window=24h" in found
    assert "/ui/teams?window=24h&by=user&team=nlp" in [
        href.replace("team=nlp&by=user", "by=user&team=nlp") for href in found
    ]


@pytest.mark.parametrize(
    ("path", "expected", "absent"),
    [
        pytest.param("/teams", "The 7 days before", "The period before", id="of the last 7 days"),
        pytest.param("/teams?window=lastweek", "The week before", "Last calendar week", id="a week is not compared with itself"),
        pytest.param("/teams?window=2026-11-01T00:00:00Z,2026-11-08T00:00:00Z", "The period before", "days before", id="own dates"),
    ],
)  # fmt: skip
def test_the_window_to_compare_with_is_named(path: str, expected: str, absent: str) -> None:
    page_text = text(shown(path))

    assert expected in page_text
    assert absent not in page_text


@pytest.mark.parametrize(
    ("now", "then", "expected"),
    [
        pytest.param(("12", "0.1"), ("8", "0.1"), "+50 %", id="more"),
        pytest.param(("12", "0.1"), ("0", "0"), "new", id="nothing before"),
        pytest.param(("0", "0"), ("0", "0"), "no change", id="nothing at all"),
        pytest.param(("12", "0.1"), (None, None), formats.MISSING, id="too little was measured before"),
        pytest.param((None, None), ("8", "0.1"), formats.MISSING, id="too little was measured now"),
        pytest.param(("12", "0.1"), None, formats.MISSING, id="no row before"),
    ],
)
def test_the_change_of_waste_needs_waste_that_is_known(now: Any, then: Any, expected: str) -> None:
    def of(one: Any) -> charge_waste.Waste | None:
        return (
            None if one is None else charge_waste.Waste(*(None if value is None else Decimal(value) for value in one))
        )

    assert expected == text(charge_waste.change(of(now), of(then), "USD"))


def test_the_sum_of_waste_is_not_compared_where_a_row_is_unknown() -> None:
    known = charge_waste.Waste(Decimal(5), Decimal("0.1"), None, {"gap": Sum(Decimal(1), Decimal(50))})
    dark = charge_waste.Waste(None, None, None, {"unobserved": Sum(Decimal(1), Decimal(50))})

    assert Decimal(10) == charge_waste.whole({"a": known, "b": known}).cost
    assert charge_waste.whole({"a": known, "b": dark}).cost is None
    assert charge_waste.whole({}) is None


def test_a_job_that_was_not_measured_says_so_with_the_finding_about_its_node() -> None:
    node = {**fake_api.finding(0), "title": "GPUs held and not measured", "nodes": ["n1"]}
    waterfall = [{"bucket": "unobserved", "gpu_seconds": "50", "cost": "1"}, {"bucket": "compute", "gpu_seconds": "50", "cost": "1"}]  # fmt: skip
    bare: Any = {"id": "4102", "devices": [{"id": "n1/gpu0", "node": "n1"}], "findings": [], "waterfall": waterfall}
    answers = {"jobs/4102": bare, "findings": {"items": [node, {**node, "key": "other", "nodes": ["n2"]}]}}
    data = asyncio.run(job.load(answering(answers), Query("/jobs/4102")))
    shown = job.found(data, Query())

    assert [node["key"]] == [item["key"] for item in data["unmeasured"]], "of its own node only"
    assert "50 % of its GPU time was not measured" in text(shown)
    assert "GPUs held and not measured" in text(shown)

    whole = {**bare, "waterfall": waterfall[1:]}
    assert "not measured" not in text(job.found(asyncio.run(job.load(answering({"jobs/4102": whole}), Query("/jobs/4102"))), Query()))  # fmt: skip
    unknown = job.found({**bare, "unmeasured": []}, Query())
    assert "/ui/quality" in links(unknown)


def test_jobs_of_one_name_are_told_apart_by_their_ids() -> None:
    assert "4242" == text(work.id_of("4242", "clip-align"))
    assert work.id_of("sandbox/llm-sft-4102", "llm-sft-4102") is None


def test_reclaims_name_gangs_whose_gpus_wait_for_the_others() -> None:
    gang = {**fake_api.finding(0), "title": "Gang that runs in part"}
    page_text = text(shown("/reclaim", source=answering({"reclaim": {"items": []}, "findings": {"items": [gang]}})))

    assert "Also idle: jobs of which some members wait for a place" in page_text
    assert "Gang that runs in part" in page_text and "resnet-ddp (4200)" in page_text
    assert "Also idle" not in text(shown("/reclaim", source=answering({"reclaim": {"items": []}})))


@pytest.mark.parametrize(
    ("lags", "expected"),
    [
        pytest.param([40, 3000], " The last data came 40 s ago.", id="one is fresh"),
        pytest.param([1440, 1500], " The last data came 24 min ago. That is long: is the service that sends it running?", id="all are silent"),
        pytest.param([None], "", id="nothing is known"),
    ],
)  # fmt: skip
def test_data_quality_says_when_the_last_data_came(lags: list[int | None], expected: str) -> None:
    """A source that is an imported file is healthy however old."""
    assert expected == quality.received([{"state": "ok", "lag_s": lag} for lag in lags])


def test_a_decision_says_what_it_needs_and_covers() -> None:
    page_text = text(finding_actions.form(fake_api.finding(0), None))

    assert "Exempt sets this one finding aside" in page_text
    assert "Exempt sets" not in text(finding_actions.form(fake_api.finding(0, "resolved"), None))
    assert "required" in finding_actions.reason().label
    marked = {"action": "ack", "verdict": "false_positive", "reason": "false alarm", "actor": "ann", "at": at(NOW)}
    assert "ann: acknowledged, marked a false alarm" == text(finding_actions.past(marked)).split("  ")[0]
    assert "false alarm false alarm" not in text(finding_actions.past(marked))
    assert "assigned to bob" in text(finding_actions.past({"action": "assign", "assignee": "bob", "actor": "ann"}))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/", "window=7d&format=pdf", id="the overview"),
        pytest.param("/teams?window=24h", "window=24h&format=pdf", id="all teams"),
        pytest.param("/teams?team=nlp&by=user", "window=7d&format=pdf&team=nlp", id="a team's users"),
        pytest.param("/team/nlp?window=2026-W46", "window=2026-W46&format=pdf&team=nlp", id="a team's page"),
    ],
)
def test_a_window_is_one_click_from_its_pdf(path: str, expected: str) -> None:
    assert f"/api/v1/reports/weekly?{expected}" in links(shown(path))


@pytest.mark.parametrize("path", ["/teams?cluster=sim", "/teams?pool=h100", "/?pool=h100", "/teams?team=__platform__"])
def test_what_no_report_is_of_has_no_pdf(path: str) -> None:
    """A report is of a team or the fleet, never of a cluster or pool."""
    assert [] == [href for href in links(shown(path)) if "/reports/weekly" in href]


def test_a_search_for_a_job_that_waits_leads_to_it() -> None:
    """It is in no list of jobs that ran; without a search nothing more is asked."""
    request = {"job": "pretrain-6768", "name": "pretrain", "state": "pending", "user": "ann"}
    answers = {"jobs": {"items": []}, "workloads": {"items": [request, {**request, "job": "other", "name": "x"}]}}
    found = shown("/jobs?q=pretrain-6768", source=answering(answers))

    assert "1 request that waits matches" in text(found)
    assert "No jobs match" not in text(found)
    assert "/ui/jobs?q=pretrain-6768&state=waiting" in links(found)
    assert "No jobs match" in text(shown("/jobs?q=nothing", source=answering(answers)))
    assert "waits match" not in text(shown("/jobs", source=answering(answers)))
    assert "No jobs match" in text(shown("/jobs?q=pretrain-6768", source=answering({"jobs": {"items": []}})))
