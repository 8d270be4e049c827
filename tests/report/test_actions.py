"""Actions of a report: their order, owners and money, and what is no action."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.core.clock import DAY_US, HOUR_US, Window, rfc3339
from gpuwatch.findings.read import Finding
from gpuwatch.ledger.measures import Measures
from gpuwatch.ledger.month import MONTH_DAYS, Basis
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.quality.dumps import MISSING
from gpuwatch.report.actions import (
    LOST_NOTE,
    PROPOSAL_NOTE,
    actions,
    card,
    lost_work,
    named,
    owner_of,
    proposed,
    steps,
    unnamed,
)
from gpuwatch.report.compose import _savings, document, lead
from gpuwatch.report.data_quality import terms
from gpuwatch.report.document import Block, Card, Table, Text
from gpuwatch.report.facts import Amount, Facts, Payer, Quality, Versions, added
from gpuwatch.report.flat_table import rows
from gpuwatch.report.headlines import headlines
from gpuwatch.report.period_records import Past
from gpuwatch.report.report_window import week_window
from gpuwatch.report.steps import Step
from gpuwatch.report.tables import payers as payers_section
from gpuwatch.report.text import GAP
from gpuwatch.report.top_waste import wastes
from gpuwatch.report.xlsx.sheets import sheets

WEEK = week_window("2026-W45")


def finding(key: str, cost: str | None, **more: Any) -> Finding:
    """Idle since the first day of the week, and seen so for a day."""
    known: dict[str, Any] = {
        "key": key, "detector": "idle-hoarding", "title": "GPUs held and idle", "severity": "medium", "state": "open",
        "confidence": 1.0, "cluster": "c1", "subject": {"kind": "job", "id": key, "name": None}, "team": "ants",
        "user": "ann", "started_at": rfc3339(WEEK.start_us), "ended_at": None,
        "last_seen_at": rfc3339(WEEK.start_us + DAY_US), "wasted_gpu_seconds": "3600", "wasted_cost": cost,
        "currency": "USD", "bucket": "hoarded", "summary": "It idles.", "remedy": "Let it go.", "evidence": {},
        "devices": [], "nodes": ["n1"], "suppressed_by": None, "resolved_reason": None,
    }  # fmt: skip
    return Finding(**{**known, **more})


def over(key: str, cost: str, **more: Any) -> Finding:
    """Idle for the first day of the week."""
    return finding(key, cost, ended_at=rfc3339(WEEK.start_us + DAY_US), state="resolved", **more)


def facts(*findings: Finding, covered: Window = WEEK, **buckets: str) -> Facts:
    """A week that cost 700 dollars; `buckets` cost what is given."""
    amounts = {name: Amount(Decimal(3600), (("USD", Decimal(cost)),)) for name, cost in buckets.items()}
    whole = Amount(Decimal(3600), (("USD", Decimal(700)),))
    payer = Payer("ants", whole, None, amounts)
    return Facts(
        "2026-W45", WEEK, covered, None, None, whole, None, Amount(), amounts, None, findings, (), (payer,), (), (),
        Quality(None, None, Decimal(0), (), 0), Versions(1, 1), WEEK.start_us, measures=Measures.nothing(),
        job_names={("c1", "7"): "llama-pretrain"},
    )  # fmt: skip


def test_a_rule_and_a_team_are_one_action_with_their_names() -> None:
    (step,) = steps(facts(finding("7", "7.00"), finding("8", "14.00")))
    shown = card(facts(finding("7", "7.00")), step)

    assert (Fraction(21), 21 * MONTH_DAYS) == (step.cost, step.saving)
    assert "GPUs held and idle: 8, llama-pretrain" == shown.title
    assert "$639 a month" == shown.lost.replace("\u00a0", " ")
    assert "ants (ann)" in shown.about


def test_only_the_part_within_the_week_counts() -> None:
    """It began a day before the week, and lasted two days."""
    early = finding("7", "14.00", started_at=rfc3339(WEEK.start_us - DAY_US))

    assert [Fraction(7)] == [step.cost for step in steps(facts(early))]


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(finding("7", None), id="no price"),
        pytest.param(finding("7", "0.00"), id="no cost"),
        pytest.param(over("7", "0.05"), id="cents that show as zero"),
        pytest.param(finding("7", "7.00", state="exempt"), id="exempt by its owner"),
        pytest.param(finding("7", "7.00", currency="EUR"), id="another currency"),
        pytest.param(finding("7", "7.00", bucket="unobserved"), id="not measured is no waste"),
    ],
)
def test_what_saves_nothing_is_no_action(one: Finding) -> None:
    assert [] == steps(facts(one))
    assert actions(facts(one)) is None


SIX_HOURS = {"last_seen_at": rfc3339(WEEK.start_us + 6 * HOUR_US)}


@pytest.mark.parametrize(
    ("found", "basis", "expected"),
    [
        pytest.param([finding("7", "7.00", **SIX_HOURS)], 6 * HOUR_US, "$7.00 in the 6 measured hours", id="six measured hours"),
        pytest.param([over("7", "7.00")], 7 * DAY_US, "$7.00 this week", id="one that is over"),
        pytest.param([finding("7", "7.00")], 60 * HOUR_US, "$213 a month", id="one that is open: its own mean"),
        pytest.param([finding("7", "7.00"), over("8", "7.00")], 7 * DAY_US, "$244 a month", id="one of both"),
        pytest.param([finding("7", "7.00"), over("8", "7.00")], 23 * HOUR_US, "$14.00 in the 23 measured hours", id="too little"),
    ],
)  # fmt: skip
def test_a_month_is_of_what_lasts_and_was_measured_for_a_day(found: list[Finding], basis: int, expected: str) -> None:
    known = replace(facts(*found), basis=Basis(7 * DAY_US, basis))
    (step,) = steps(known)

    assert expected == card(known, step).lost.replace("\u00a0", " ")


def test_the_title_has_the_dollars_of_the_measured_hours_where_there_is_no_month() -> None:
    known = replace(facts(finding("7", "7.00", **SIX_HOURS)), basis=Basis(7 * DAY_US, 6 * HOUR_US))
    section = actions(known)

    assert section is not None
    title = "What to do: one action, $7.00 of waste in the 6 measured hours"
    assert title == section.title.replace("\u00a0", " ")
    assert [] == [one for one in headlines(known) if one.label.startswith("Expected")]


def lost(key: str, cost: str | None, **more: Any) -> Finding:
    """A run that failed on the second day of the week."""
    evidence = {"lost_gpu_hours": 3039.8, "lost_cost": cost, "currency": "USD"}
    words = {"detector": "failed-work", "title": "Work lost with failed runs", "severity": "high", "bucket": None}
    return finding(key, "0.00", evidence=evidence, **{**words, **more})


def test_lost_work_comes_first_with_its_own_money_and_is_not_a_saving() -> None:
    known = facts(finding("8", "14.00"), lost("7", "8343.00"))
    first, second = steps(known)
    shown = card(known, first)

    assert (("failed-work", 8343, 0, 0), ("idle-hoarding", 0, 14, 14 * MONTH_DAYS)) == tuple(
        (step.findings[0].detector, step.lost, step.cost, step.saving) for step in (first, second)
    )
    assert ("Work lost with failed runs: llama-pretrain", "$8.34 k of lost work") == (
        shown.title,
        shown.lost.replace("\u00a0", " "),
    )
    assert "Owner: ants (ann) · 1 finding" == shown.about
    assert (14 * MONTH_DAYS, 0, 8343) == (
        named([first, second]),
        unnamed([first, second]),
        lost_work([first, second]),
    )
    section = actions(known)
    assert section is not None
    title = "What to do: two actions, $426 of waste a month, $8.34 k of work lost with failed runs"
    assert title == section.title.replace("\u00a0", " ")
    assert "Failed runs lost $8.34 k of work, the most llama-pretrain." in lead(known).replace("\u00a0", " ")


def test_lost_work_needs_no_projection() -> None:
    """An hour of data says nothing of a month, but the run is lost."""
    short = facts(over("8", "14.00"), lost("7", "8343.00"), covered=Window(WEEK.start_us, WEEK.start_us + HOUR_US))

    assert [("failed-work", 8343), ("idle-hoarding", 0)] == [
        (step.findings[0].detector, step.lost) for step in steps(short)
    ]


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(lost("7", None), id="no price"),
        pytest.param(lost("7", "0.05"), id="cents"),
        pytest.param(lost("7", "9.00", state="exempt"), id="exempt by its owner"),
    ],
)
def test_lost_work_without_money_is_no_action(one: Finding) -> None:
    assert [] == steps(facts(one))


def test_a_team_s_largest_waste_lists_its_lost_work_and_does_not_add_it_to_waste() -> None:
    section = wastes(replace(facts(lost("7", "8343.00"), finding("8", "14.00")), team="ants"))

    title = "Largest waste: 2 findings, $14.00 since they began, $8.34 k of lost work"
    assert title == section.title.replace("\u00a0", " ")
    assert ["$14.00", "$8.34 k of lost work"] == [one.lost.replace("\u00a0", " ") for one in section.blocks[1:]]  # type: ignore[union-attr]
    assert LOST_NOTE in section.blocks[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param([], "No findings this week.", id="none"),
        pytest.param([finding("7", "0.00")], "1 finding has no cost: the data files list it.", id="one"),
        pytest.param([finding("7", "0.00"), finding("8", "0.00")], "2 findings have no cost: the data files list them.", id="two"),
    ],
)  # fmt: skip
def test_no_findings_is_shown_only_where_there_are_none(found: list[Finding], expected: str) -> None:
    assert wastes(facts(*found)).blocks[0].text.startswith(expected)  # type: ignore[union-attr]


def test_the_files_have_the_amounts_of_lost_work() -> None:
    known = facts(lost("7", "8343.00"))
    (found,) = [one for one in rows(known) if one["section"] == "finding"]

    assert ("lost work", "8343.00", "USD", "10943280.000000") == tuple(
        found[name] for name in ("kind", "cost", "currency", "gpu_seconds")
    )
    by_title = {title: [list(cells) for cells in listed] for title, _, listed in sheets(known)}
    (listed,) = by_title["Findings"]
    assert (Decimal("3039.8"), None, Decimal(8343), "USD") == (round(listed[8], 6), *listed[9:12])
    (act,) = by_title["Actions"]
    assert (Decimal(8343), None, "USD", "lost work") == tuple(act[2:6])


def test_the_sheet_of_actions_expects_no_saving_of_what_is_over() -> None:
    known = facts(finding("7", "7.00", detector="a"), over("8", "7.00", detector="b"))
    (acts,) = [listed for title, _, listed in sheets(known) if title == "Actions"]

    assert {("expected", True), (None, False)} == {(act[5], act[3] is not None) for act in map(list, acts)}


def test_cost_that_no_finding_claims_is_up_to_a_saving() -> None:
    """Of 21 dollars idle, a finding explains 7; all stranded time belongs to the platform. What is over comes last."""
    known = facts(over("7", "7.00"), hoarded="21.00", stranded="70.00")
    found = steps(known)

    assert [("stranded", 10 * MONTH_DAYS), ("hoarded", 2 * MONTH_DAYS), (None, 0)] == [
        (step.bucket, step.saving) for step in found
    ]
    assert (0, 12 * MONTH_DAYS) == (named(found), unnamed(found))
    assert ["Platform", "ants", "ants (ann)"] == [owner_of(known, step) for step in found]


def test_a_team_is_not_asked_about_stranded_gpus() -> None:
    assert [] == steps(replace(facts(stranded="70.00"), team="ants"))


def test_an_action_of_a_team_names_its_users_and_the_jobs_with_most_of_it() -> None:
    """An unknown user is nobody to ask; a job without such time is not named."""
    jobs = tuple(
        Payer(job, Amount(), None, {"gap": Amount(Decimal(seconds))}, cluster="c1")
        for job, seconds in (("6", 0), ("9", 1800), ("7", 3600))
    )
    users = tuple(
        Payer(user, Amount(), None, {"gap": Amount(Decimal(60), (("USD", Decimal(9)),))}) for user in (None, "bo")
    )
    mine = replace(facts(gap="70"), team="ants", jobs=jobs, payers=users)
    (step,) = steps(mine)

    assert "bo" == owner_of(mine, step)
    assert card(mine, step).about.endswith(" · most in llama-pretrain, 9")
    assert "Owner: unknown user (50\u00a0%), bo (50\u00a0%)" in card(mine, step).about, "the shares are of the whole"
    assert "your team" == owner_of(replace(mine, payers=users[:1]), step)


def test_the_jobs_that_an_action_names_are_the_most_expensive_ones() -> None:
    """Job 9 had a gap of twice the time on a GPU of a tenth of the price."""
    jobs = tuple(
        Payer(job, Amount(), None, {"gap": Amount(Decimal(seconds), (("USD", Decimal(cost)),))}, cluster="c1")
        for job, seconds, cost in (("9", 7200, "0.40"), ("7", 3600, "2.00"))
    )
    mine = replace(facts(gap="70"), team="ants", jobs=jobs, payers=())
    (step,) = steps(mine)

    assert card(mine, step).about.endswith(" · most in llama-pretrain, 9")


def test_a_title_is_an_upper_bound_where_its_actions_are() -> None:
    section = actions(facts(gap="70"))

    assert section is not None
    assert "What to do: one action, up to $304 of waste a month" == section.title.replace(GAP, " ")


def test_findings_without_a_cost_are_named_beside_those_with_one() -> None:
    """The most severe kind first; exempt ones are counted apart."""
    more = (
        finding("1", "0.00", title="GPU memory kept", severity="low"),
        finding("2", "0.00", title="Preempted again and again", severity="high"),
        finding("3", "0.00", title="GPU memory kept", severity="medium"),
        finding("4", "0.00", title="Slow GPU", state="exempt"),
    )
    section = wastes(facts(finding("7", "7.00"), *more))

    words = "Without a cost of their own: Preempted again and again (1, high) and GPU memory kept (2, medium). They are in the data files."
    assert words in _plain(section.blocks[0])
    assert "Largest waste: 1 finding, $7.00 since they began" == section.title.replace(GAP, " ")
    assert "Without a cost" not in _plain(wastes(facts(finding("7", "7.00"))).blocks[0])


def test_the_platform_is_called_so() -> None:
    (step,) = steps(facts(finding("7", "7.00", team="__platform__", user=None)))

    assert "Platform" == owner_of(facts(), step)


def _plain(block: Block) -> str:
    assert isinstance(block, Text)
    return block.text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(over("7", "7.00"), "2 Nov 00:00 to 3 Nov 00:00 UTC · 1 GPU-h", id="what is over costs nothing a day"),
        pytest.param(finding("7", "7.00", **SIX_HOURS), "ongoing since 2 Nov 00:00 UTC · 1 GPU-h", id="six hours say nothing of a day"),
        pytest.param(finding("7", "7.00"), "ongoing since 2 Nov 00:00 UTC · 1 GPU-h, $7.00 a day", id="a day of it"),
        pytest.param(lost("7", "42.00"), "since 2 Nov 00:00 UTC", id="a run that failed does not go on"),
    ],
)  # fmt: skip
def test_a_cost_a_day_is_only_of_what_goes_on(one: Finding, expected: str) -> None:
    (shown,) = [block for block in wastes(facts(one)).blocks if isinstance(block, Card)]

    assert expected in shown.about.replace("\u00a0", " ").split(" · ", 1)[1]
    assert ("ongoing" in expected, "a day" in expected) == ("ongoing" in shown.about, "a day" in shown.about)


def test_an_exempt_finding_explains_its_cost() -> None:
    assert [] == steps(facts(finding("7", "7.00", state="exempt"), hoarded="7.00"))


def test_a_saving_of_a_rule_counts_unless_its_job_wastes_already() -> None:
    proposal = finding("7", None, detector="right-sizing", bucket=None, ended_at=None, evidence={"saved_a_month": "40"})

    assert [40] == [step.saving for step in steps(facts(proposal))]
    assert ["idle-hoarding"] == [step.findings[0].detector for step in steps(facts(proposal, finding("7", "7.00")))]


def proposal(key: str, saved: str, **more: Any) -> Finding:
    """A rule that proposes another size or price."""
    about = {"detector": "right-sizing", "title": "Fewer GPUs would do", "bucket": None}
    return finding(key, None, evidence={"saved_a_month": saved}, **{**about, **more})


PRICE = {"detector": "spot-suitability", "title": "Spot GPUs would do"}


def saving_headline(known: Facts) -> list[tuple[str, str]]:
    return [
        (one.value.replace(GAP, " "), one.change.replace(GAP, " "))
        for one in headlines(known)
        if one.label in ("Saving a month", "Waste a month")
    ]


@pytest.mark.parametrize(
    ("known", "headline", "sentence"),
    [
        pytest.param(facts(), [], "", id="nothing to save"),
        pytest.param(
            facts(finding("7", "7.00")),
            [("$213", "by findings")],
            " Acting on the findings is expected to save $213 a month.",
            id="findings alone",
        ),
        pytest.param(
            facts(hoarded="21.00"),
            [("$91.31", "in no finding yet: see what to do")],
            " $91.31 of waste a month is in no finding: how much of it can be saved is not known.",
            id="waste without a finding is no saving",
        ),
        pytest.param(
            facts(finding("7", "7.00"), hoarded="21.00"),
            [("$213", "$60.88 more of waste is in no finding")],
            " Acting on the findings is expected to save $213 a month. Another $60.88 of waste a month is in no finding: how much "
            "of it can be saved is not known.",
            id="both, each once",
        ),
        pytest.param(
            facts(proposal("8", "40"), proposal("9", "900", **PRICE)),
            [("up to $900", "the largest proposal, an estimate")],
            "",
            id="proposals are not added to one another",
        ),
        pytest.param(
            facts(finding("7", "7.00"), proposal("8", "900")),
            [("$213", "by findings")],
            " Acting on the findings is expected to save $213 a month.",
            id="nor to waste",
        ),
    ],
)
def test_what_can_be_saved_adds_nothing_twice(known: Facts, headline: list[tuple[str, str]], sentence: str) -> None:
    assert headline == saving_headline(known)
    assert sentence == _savings(known, steps(known)).replace(GAP, " ")


def test_a_proposal_is_in_no_sum_and_is_called_an_estimate() -> None:
    known = facts(finding("7", "7.00"), proposal("8", "900"), proposal("9", "40", **PRICE))
    section = actions(known)

    assert section is not None
    assert "What to do: three actions, $213 of waste a month" == section.title.replace(GAP, " ")
    assert PROPOSAL_NOTE in _plain(section.blocks[-1])
    assert 900 == proposed(steps(known))
    (acts,) = [listed for title, _, listed in sheets(known) if title == "Actions"]
    assert ["estimate, not to be added", "expected", "estimate, not to be added"] == [list(act)[5] for act in acts]


def test_at_most_five_are_listed() -> None:
    many = [finding(str(n), "7.00", team=f"t{n}") for n in range(7)]
    section = actions(facts(*many))

    assert section is not None
    assert 5 == len(section.blocks) - 1
    assert "2 more actions, $426 of waste a month, are not listed." in _plain(section.blocks[-1])


def test_the_opening_does_not_begin_with_utilisation() -> None:
    text = lead(facts(finding("7", "7.00"))).replace("\u00a0", " ")

    assert text.startswith("The fleet cost $700 in week 2026-W45.")


def test_a_report_of_dumps_names_no_trend() -> None:
    """Pods that were deleted before the dump are missing in the earlier weeks."""
    weeks = tuple(
        Past(f"2026-W{number}", 168, Decimal(cost), Decimal(0), "USD") for number, cost in ((44, 100), (45, 700))
    )
    known = replace(facts(), history=weeks)
    dumped = replace(known, only_dumps=True)
    titles = {one.title for one in document(dumped).sections}

    assert any(one.title.startswith("Spend by week: up") for one in document(known).sections)
    assert "Spend by week" in titles
    assert MISSING in document(dumped).head[0].text  # type: ignore[union-attr]


def _of(team: str, **costs: str) -> Payer:
    buckets = {bucket: Amount(Decimal(3600), (("USD", Decimal(cost)),)) for bucket, cost in costs.items()}
    return Payer(team, added(buckets.values()), None, buckets)


@pytest.mark.parametrize(
    ("payers", "expected"),
    [
        pytest.param([_of("ants", gap="90")], "Owner: ants", id="one team needs no shares"),
        pytest.param([_of("ants", gap="90"), _of("bees", compute="9")], "Owner: ants", id="others do not hold it"),
        pytest.param([_of("ants", gap="90"), _of("bees", gap="10")], "Owner: ants (90 %), bees (10 %)", id="two teams"),
        pytest.param(
            [
                _of("ants", gap="50"),
                _of("bees", gap="20"),
                _of("cats", gap="15"),
                _of("dogs", gap="10"),
                _of("emus", gap="5"),
            ],
            "Owner: ants (50 %), bees (20 %), cats (15 %) and 2 more (15 %)",
            id="the others together",
        ),
    ],
)
def test_a_waste_of_the_whole_fleet_is_divided_by_its_owners(payers: list[Payer], expected: str) -> None:
    known = replace(facts(gap="100"), payers=tuple(payers))
    step = Step((), Fraction(100), Fraction(0), "gap")

    assert expected == card(known, step).about.replace(GAP, " ")


def test_the_method_has_the_scale_of_severity_and_says_where_nothing_is_compared() -> None:
    found = terms(facts())

    assert found["Severity"].startswith(
        "By the cost a day. info: less than $10; low: less than $100; medium: less than $1,000; high: $1,000 or more."
    )
    assert found["Window"].endswith("Not compared: the data does not cover the previous week.")


def test_free_gpus_and_the_total_have_an_avoidable_part() -> None:
    free = {
        "stranded": Amount(Decimal(1800), (("USD", Decimal(50)),)),
        "schedulable": Amount(Decimal(5400), (("USD", Decimal(150)),)),
    }
    known = facts()
    platform = Payer(PLATFORM, added(free.values()), None, free, "platform")
    known = replace(known, payers=(*known.payers, platform))
    table = payers_section(known).blocks[0]
    assert isinstance(table, Table)
    shown = {str(row.cells[0].text): [str(cell.text).replace(GAP, " ") for cell in row.cells[4:]] for row in table.rows}

    assert ["\u2013", "25 %"] == shown["Unallocated (platform)"]
