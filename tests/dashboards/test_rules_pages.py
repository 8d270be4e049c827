"""The pages of rules, reclaims and capacity, and what goes with a decision about a finding."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from dash.development.base_component import Component

from gpuwatch.dashboards.client import ApiFailure, Caller, Client
from gpuwatch.dashboards.components import (
    capacity_moves,
    capacity_now,
    capacity_slots,
    charts,
    finding_actions,
    findings_inbox,
    findings_list,
    quantities,
    rule_trial,
    rules_list,
)
from gpuwatch.dashboards.pages import capacity, detector, reclaim
from gpuwatch.dashboards.pages import finding as finding_page
from gpuwatch.dashboards.shell import acting, frame
from gpuwatch.dashboards.shell.page import find
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.scripts import FOCUS_SCRIPT
from tests.dashboards import fake_api, fake_rules
from tests.dashboards.laid_out import api, asked, links, shown, text

TRIAL = "/detectors/idle-hoarding?try=1&t.idle_us_min=30m&preset=princeton&window=24h&cluster=sim"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param("fragmentation-00a1", "/ui/capacity?cluster=sim", id="a pool leads to what could be placed"),
        pytest.param("mig-mismatch-00a3", "/ui/mig?cluster=sim", id="a slice leads to the slices"),
        pytest.param("own-vs-cloud-00a6", "/ui/team/nlp", id="a team leads to its page"),
        pytest.param("right-sizing-00a7", "/ui/jobs/4302?in=sim", id="a job leads to its page"),
        pytest.param("partial-island-00a4", "/ui/fleet?q=gpu-h100-01&cluster=sim", id="a node leads to its GPUs"),
        pytest.param(
            "degraded-gpu-00a2",
            "/ui/fleet/GPU-1c1abed6-d93c-21e0-71c7-00000000000a?in=sim",
            id="a GPU leads to its page",
        ),
    ],
)
def test_what_a_finding_is_about_leads_to_it(key: str, expected: str) -> None:
    assert expected in links(findings_list.subject(fake_rules.FINDINGS[key], Query()))


def test_a_gpu_is_named_by_its_place_or_the_first_part_of_its_name() -> None:
    found = fake_rules.FINDINGS["degraded-gpu-00a2"]

    assert "GPU  GPU-1c1abed6 on gpu-h100-01" == text(findings_list.subject(found, Query()))
    assert "GPU  7 on n1" == text(findings_list.subject(found | {"gpu_index": 7, "nodes": ["n1"]}, Query()))


def test_what_has_no_page_of_its_own_is_named() -> None:
    about = findings_list.subject(fake_rules.FINDINGS["starvation-00a5"], Query())

    assert "Queue  s40-mixed" == text(about)
    assert [] == links(about)


def test_a_saving_is_no_loss() -> None:
    """Nothing red, no waste so far, and the currency of what would be saved."""
    found = fake_rules.FINDINGS["own-vs-cloud-00a6"]
    page_text = text(shown("/findings/own-vs-cloud-00a6"))

    assert "could save  €12.8 k  per month" == text(findings_list.amount(found))
    assert "lost" not in classes(findings_list.amount(found))
    assert "Could save per month €12.8 k" in page_text
    assert "So far" not in page_text
    assert "none; no GPU time counts as wasted" in page_text


def test_a_saving_without_a_price_says_no_number() -> None:
    assert "Could save" == text(findings_list.amount(fake_rules.FINDINGS["right-sizing-00a7"]))


def test_lost_work_has_its_cost_though_no_bucket_has_it() -> None:
    found = {"detector": "failed-work", "bucket": None, "evidence": {"lost_cost": "800.00", "currency": "USD"}}

    assert "$800.00  of lost work" == text(findings_list.amount(found))


def test_a_wait_without_a_bucket_is_neither_waste_nor_saving() -> None:
    assert "–" == text(findings_list.amount(fake_rules.FINDINGS["starvation-00a5"]))


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        pytest.param("condition ended", "Resolved", id="it is over"),
        pytest.param("records changed", "Withdrawn: later records contradict it", id="late samples"),
        pytest.param("rule_changed", "Withdrawn: its rule changed", id="other thresholds"),
    ],
)
def test_what_was_taken_back_is_not_called_resolved(reason: str, expected: str) -> None:
    finding = {**fake_api.finding(0, "resolved"), "resolved_reason": reason}

    assert expected == findings_list.state_words(finding)
    assert ("Withdrawn" in text(findings_inbox.rows([finding], Query("/findings"), "priority"))) == expected.startswith(
        "Withdrawn"
    )


def test_a_placement_is_shown_beside_the_better_one() -> None:
    page_text = text(shown("/findings/topology-blind-placement-00a0"))

    assert "Each step takes 1.17 to 1.66 times as long as with the best free placement" in page_text
    assert "Farthest pair SYS NV18" in page_text
    assert "Slowest link 50 GB/s 350 GB/s" in page_text
    assert "12.4 to 33.1 GPU-h" in page_text
    assert "2.8 % to 11 %" in page_text
    assert "An estimate" in page_text
    assert "Workload communication bound" in page_text


def test_what_a_finding_claims_is_reported_by_bucket() -> None:
    page_text = text(shown("/findings/topology-blind-placement-00a0"))

    assert "17.2 GPU-h of the ledger counted as waste" in page_text
    assert "Busy, SMs idle 7.2 GPU-h" in page_text
    assert "Waiting on network 10 GPU-h" in page_text


def test_free_gpus_in_pieces_show_what_would_make_room() -> None:
    layout = shown("/findings/fragmentation-00a1")

    assert "Waiting:  pretrain-9 for 8 GPUs on one node, 95 min" in text(layout)
    assert "Fewest moves:  4863 from gpu-a100-05" in text(layout)
    assert "/ui/capacity?cluster=sim" in links(layout)


def test_others_who_waited_are_reported_with_their_price() -> None:
    page_text = text(shown("/findings/idle-hoarding-00a8"))

    assert "3 requests from others waited and would have fit" in page_text
    assert "GPU time waited for 3.2 GPU-h Its cost $7.80 Largest request 8 devices" in page_text
    assert "No price: no rate for L40S" in page_text


def test_a_finding_names_its_rule_and_its_preset() -> None:
    layout = shown("/findings/false-utilization-0001")

    assert "Preset princeton." in text(layout)
    assert "/ui/detectors/false-utilization" in links(layout)


@pytest.mark.parametrize(
    ("search", "title", "first"),
    [
        pytest.param("?action=ack", "Acknowledge", "Acknowledge", id="a link that acknowledges"),
        pytest.param("?action=snooze", "Snooze", "Snooze", id="a link that snoozes"),
        pytest.param("", "Decide", "Acknowledge", id="no link"),
        pytest.param("?action=delete", "Decide", "Acknowledge", id="an action that is none"),
    ],
)
def test_a_link_opens_the_form_and_changes_nothing(search: str, title: str, first: str) -> None:
    app = fake_api.create()
    query = asked(f"/findings/idle-hoarding-0000{search}")
    page = find(query.path)
    assert page is not None
    layout = page.layout(asyncio.run(page.load(Client(app).of(Caller()), query)), query, "light")
    (form,) = [part for part in walk(layout) if getattr(part, "id", None) == "decide"]
    buttons = [part for part in walk(form) if "primary" in str(getattr(part, "className", ""))]

    assert title == text(form.children[0])
    assert [first] == [text(button) for button in buttons]
    assert [] == app.state.acts


def test_a_fault_that_came_back_says_so() -> None:
    """And that it ended does not say that it was repaired; a finding that is neither has no such words."""
    earlier = [
        {
            "key": f"degraded-gpu-000{n}",
            "started_at": f"2026-11-{day}T13:00:00Z",
            "ended_at": f"2026-11-{day}T16:00:00Z",
        }
        for n, day in ((1, 19), (2, 12))
    ]
    ended = {**fake_api.finding(0, "resolved"), "detector": "degraded-gpu", "ended_at": "2026-11-20T18:00:00Z"}
    found = finding_page.returned({**ended, "earlier": earlier}, Query())
    words = " ".join(" ".join(text(one) for one in found).split())

    assert "It has come back. Earlier in these 30 days: 19 Nov" in words and "12 Nov" in words
    assert "That does not mean that the GPU was repaired." in words
    assert {"/ui/findings/degraded-gpu-0001", "/ui/findings/degraded-gpu-0002"} <= {
        href.partition("?")[0] for one in found for href in links(one)
    }
    assert [] == finding_page.returned({**ended, "ended_at": None, "earlier": []}, Query())


def test_the_focus_is_taken_for_links_of_messages_alone() -> None:
    assert "action=(ack|snooze)" in FOCUS_SCRIPT
    assert "fetch" not in FOCUS_SCRIPT


def test_readers_who_come_to_acknowledge_what_is_settled_see_so() -> None:
    snoozed = {**fake_api.finding(0, "snoozed"), "actions": []}
    form = finding_actions.form(snoozed, None, "ack")

    assert "This finding is already snoozed" in text(form)
    assert "Reopen" in text(form)


SENT = [
    pytest.param("ack", {"reason": "loading"}, None, ("ack", "loading", None, None, None), id="acknowledged"),
    pytest.param("dismiss", {}, None, ("ack", "false alarm", None, "false_positive", None), id="a false alarm"),
    pytest.param("false", {}, None, ("judge", "", None, "false_positive", None), id="false, and the state stays"),
    pytest.param("true", {"reason": "seen"}, None, ("judge", "seen", None, "true_positive", None), id="correct"),
    pytest.param("assign", {"assignee": "bob"}, None, ("assign", "", None, None, "bob"), id="assigned"),
    pytest.param("assign", {}, None, ("assign", "", None, None, None), id="assigned to nobody"),
    pytest.param("snooze", {"reason": "x"}, "7", ("snooze", "x", "2026-11-27T12:00:00Z", None, None), id="snoozed"),
    pytest.param("exempt", {"reason": "x"}, "", ("exempt", "x", None, None, None), id="exempt without an end"),
    pytest.param("exempt", {"reason": "x"}, "30", ("exempt", "x", "2026-12-20T12:00:00Z", None, None), id="exempt a while"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "words", "days", "expected"), SENT)
def test_a_button_sends_its_action_for_every_selected_finding(
    name: str, words: dict[str, str], days: str | None, expected: tuple[str | None, ...]
) -> None:
    app = fake_api.create()
    keys = ["idle-hoarding-0000", "idle-hoarding-0002"]
    given = {"reason": "", "assignee": "", **words}
    message, _ = asyncio.run(acting.send(Client(app).of(Caller()), name, keys, given, days))

    assert f"{finding_actions.ACTIONS[name]} 2 findings: done." == text(message)
    assert keys == [row["key"] for row in app.state.acts]
    assert expected == tuple(app.state.acts[0][part] for part in ("action", "reason", "until", "verdict", "assignee"))


@pytest.mark.parametrize(
    ("name", "keys", "reason", "message"),
    [
        pytest.param("ack", [], "x", "Select at least one finding first.", id="nothing is selected"),
        pytest.param("ack", ["k"], "", "Enter a reason first.", id="no reason"),
        pytest.param("ack", ["k"], "x" * 501, "The reason may have at most 500 characters.", id="a long reason"),
        pytest.param("assign", ["k"] * 501, "", "Select at most 500 findings; 501 are selected.", id="too many"),
    ],
)
def test_what_is_not_sent(name: str, keys: list[str], reason: str, message: str) -> None:
    app = fake_api.create()
    given = {"reason": reason, "assignee": ""}

    assert message == text(asyncio.run(acting.send(Client(app).of(Caller()), name, keys, given, None))[0])
    assert [] == app.state.acts


def test_the_checkbox_of_a_cause_selects_its_findings() -> None:
    assert [] == acting.picked([[], None])
    assert ["a", "b", "c"] == acting.picked([["a,b"], None, ["b"], ["c"]])


def test_the_inbox_counts_states_and_exports_what_it_shows() -> None:
    page = shown("/findings?state=acked&team=nlp")

    assert "Open 12" in text(page) and "Acknowledged 1" in text(page) and "All 16" in text(page)
    assert "$812" in text(page)
    assert "/api/v1/findings?team=nlp&sort=priority&format=csv&state=acked" in links(page)


def test_a_cause_opens_its_findings_and_a_single_one_opens_itself() -> None:
    page = shown("/findings?view=cause")

    assert "/ui/findings?detector=idle-hoarding&team=nlp&cluster=sim" in links(page)
    assert "/ui/findings/idle-hoarding-0006" in links(page)
    assert "2 GPUs at risk" in text(page)


def test_the_navigation_shows_how_many_findings_are_open() -> None:
    assert "Findings 12 open" in " ".join(text(frame.navigation(asked("/"), 12)).split())
    assert "open" not in text(frame.navigation(asked("/"), 0))


def test_a_decision_before_tells_its_verdict() -> None:
    row = {"actor": "ada", "action": "ack", "until": None, "reason": "loading", "at": None, "verdict": "false_positive"}
    assigned = {"actor": "ada", "action": "assign", "reason": "", "at": None, "assignee": "bob"}

    assert "ada: acknowledged, marked a false alarm" in text(finding_actions.past(row))
    assert "ada: assigned to bob" in text(finding_actions.past(assigned))
    assert "ada: unassign" in text(finding_actions.past(assigned | {"assignee": None}))


def test_rules_tell_their_limits_precision_and_what_is_open() -> None:
    page_text = text(shown("/detectors"))

    assert "5 rules, 1 disabled; 21 open findings" in page_text
    assert "An idle GPU that is held helps nobody." in page_text
    assert "9 of 10 judged true" in page_text
    assert "not reviewed" in page_text
    assert "saving" in page_text
    assert "Custom rule" in page_text


def test_a_refused_rule_is_named_with_line_reason_and_fix() -> None:
    page_text = text(shown("/detectors"))

    assert "/etc/gpuwatch/detectors/typo.sql, line 7 : no column start_us" in page_text
    assert "select it" in page_text


def test_a_rule_that_could_not_judge_is_shown() -> None:
    check = {
        "id": "detectors",
        "status": "fail",
        "what": "detectors that could not judge: straggler in sim: no column x",
    }
    owners = {"id": "rules", "status": "warn", "what": "ownership rules without effect: line 2"}

    assert "straggler in sim: no column x" in text(rules_list.troubles([], [check | {"fix": "Mend it."}, owners]))
    assert None is rules_list.troubles([], [owners, {"id": "detectors", "status": "ok", "what": "every detector ran"}])


def test_limits_of_pools_and_teams_are_listed() -> None:
    page_text = text(shown("/detectors"))

    assert "Pool batch in sim meta-rsc" in page_text
    assert "Version 3" in page_text
    assert "Not set: each rule uses its defaults" in text(shown("/detectors", "empty"))


def test_no_card_is_no_section() -> None:
    assert None is rules_list.layers(None)


def test_a_trial_asks_for_what_the_address_says() -> None:
    app = fake_api.create()
    query = asked(TRIAL)
    asyncio.run(detector.load(Client(app).of(Caller()), query))

    assert [
        {
            "rule": "idle-hoarding",
            "window": "24h",
            "preset": "princeton",
            "thresholds": {"idle_us_min": "30m"},
            "cluster": "sim",
        }
    ] == app.state.tried


def test_a_rule_that_nobody_tries_asks_for_no_back_test() -> None:
    app = fake_api.create()
    asyncio.run(detector.load(Client(app).of(Caller()), asked("/detectors/idle-hoarding?t.idle_us_min=30m")))

    assert [] == app.state.tried


def test_a_trial_says_who_would_have_been_flagged() -> None:
    page_text = text(shown(TRIAL))

    assert "3 findings with these thresholds, 3 with the current ones" in page_text
    assert "New (1)" in page_text
    assert "Gone (1)" in page_text
    assert "Cost $60.00 currently $60.00" in page_text
    assert "of 4 reviewed; currently 75 %" in page_text
    assert "1 of them have no price" in page_text
    assert "and 4 smaller ones" in page_text
    assert "Nothing is stored and nobody is notified." in page_text


def test_a_trial_can_show_what_is_gone_alone() -> None:
    page_text = text(shown(f"{TRIAL}&show=gone"))

    assert "pretrain (4203)" in page_text
    assert "pretrain (4200)" not in page_text
    assert "false alarm" in page_text


def test_only_what_is_a_finding_today_leads_to_one() -> None:
    found = links(shown(TRIAL))

    assert any(href.startswith("/ui/findings/idle-hoarding-0000") for href in found)
    assert not any(href.startswith("/ui/findings/idle-hoarding-0001") for href in found)


def test_a_rule_that_a_preset_switches_off_flags_nobody() -> None:
    assert "Disabled by this preset" in text(shown(TRIAL.replace("princeton", "gpu-pruner")))


def test_a_wrong_limit_is_shown_beside_the_form() -> None:
    page_text = text(shown(TRIAL.replace("30m", "nonsense")))

    assert "Invalid back-test" in page_text
    assert "'nonsense' is no time" in page_text
    assert "Try it" in page_text


def test_a_rule_that_there_is_not_is_no_page() -> None:
    with pytest.raises(ApiFailure) as raised:
        asyncio.run(detector.load(api(), asked("/detectors/nothing")))

    assert 404 == raised.value.status


def test_a_trial_is_not_run_again_by_itself() -> None:
    page, findings = find("/detectors/idle-hoarding"), find("/findings")
    assert page is not None
    assert findings is not None

    assert (True, False) == (page.load_once, findings.load_once)


def test_trying_writes_the_address_and_forgets_what_was_tried() -> None:
    query = asked("/detectors/x?window=24h&t.old=1&preset=princeton&show=gone")

    assert "?window=24h&try=1&t.idle_us_min=30m" == rule_trial.trial_search(
        query, {"preset": "", "idle_us_min": " 30m ", "grace_us": None}
    )


@pytest.mark.parametrize(
    ("name", "entry", "expected"),
    [
        pytest.param("idle_us_min", 9e8, "15m", id="a time"),
        pytest.param("warn_us", 7.2e9, "2h", id="hours"),
        pytest.param("grace_us", 9e7, "90s", id="odd seconds"),
        pytest.param("grace_us", 0.0, "0s", id="no time"),
        pytest.param("fb_used_ratio_max", 0.6, "0.6", id="a ratio whose name looks like a time"),
        pytest.param("windows_min", 5.0, "5", id="a count"),
    ],
)
def test_a_limit_is_offered_as_one_would_write_it(name: str, entry: float, expected: str) -> None:
    assert expected == quantities.typed(name, entry)


@pytest.mark.parametrize(
    ("name", "entry", "expected"),
    [
        pytest.param("fb_used_ratio_max", 0.6, ("Memory used at most", "60 %"), id="a ratio"),
        pytest.param("idle_us_min", 9e8, ("Idle at least", "15 min"), id="a time"),
        pytest.param("starved_minutes", 95, ("Starved", "95 min"), id="minutes"),
        pytest.param("memory_gib", 21.5, ("Memory", "21.5 GiB"), id="memory"),
        pytest.param("quiet_pcie_bytes_per_s", 1e9, ("Quiet PCIe", "1 GB/s"), id="a bandwidth"),
        pytest.param("waiting_job", "504013", ("Waiting job", "504013"), id="a job's number is no amount"),
        pytest.param("idle_device_hours", 14.009, ("Idle", "14.0 device-h"), id="device-hours"),
    ],
)
def test_evidence_is_shown_in_its_unit(name: str, entry: Any, expected: tuple[str, str]) -> None:
    assert expected == (quantities.label(name), text(quantities.value(name, entry)))


def test_reclaims_say_that_nothing_is_killed() -> None:
    for mode in ("ok", "empty"):
        assert "gpuwatch never stops, scales or signals a job." in text(shown("/reclaim", mode))


def test_a_reclaim_tells_its_step_the_next_and_who_waited() -> None:
    page_text = text(shown("/reclaim"))

    assert "3 jobs hold idle GPUs; others waited for those of 1 job" in page_text
    assert "Warning  20 Nov 12:45" in page_text
    assert "none; your decision" in page_text
    assert "4 GPU-h $9.60" in page_text
    assert "Partly in use: shrink only" in page_text
    assert "Snoozed until 27 Nov 12:00 UTC" in page_text


def test_only_recommendations_that_nobody_holds_have_a_line_to_paste() -> None:
    card = reclaim.lines(list(fake_rules.RECLAIMS))

    assert "1 command to carry out" in text(card)
    assert "scancel 4200" in text(card)
    assert "scancel 4202" not in text(card)
    assert "gpuwatch runs none" in text(card)


def test_capacity_says_what_could_start_now() -> None:
    page_text = text(shown("/capacity?view=shapes"))

    assert "5 jobs of 2 GPUs could start now on one node, but none of 4" in page_text
    assert "Free GPUs 12" in page_text
    assert "54 % of the free GPUs" in page_text
    assert "Stranded cost per hour $15.60" in page_text
    assert "1 of 1 of the requested shapes" in page_text
    assert "Nothing is free in sim · H100 80GB HBM3" in page_text


def test_a_level_that_nobody_knows_is_missing_and_not_zero() -> None:
    page_text = text(shown("/capacity?view=shapes"))

    assert "1 GPU 20 % 12 12 – 12" in page_text


def test_capacity_shows_what_is_stranded_and_when() -> None:
    page_text = text(shown("/capacity?view=history"))

    assert "of the free GPU-hours" in page_text
    assert "could start now on one node" not in page_text
    assert page_text == text(shown("/capacity?view=history&shape=8"))
    assert text(shown("/capacity?view=unknown")) == text(shown("/capacity"))


def test_pools_without_a_free_gpu_take_one_line() -> None:
    """Twelve shapes of which no GPU was free were twelve plans that none of them could have."""
    base = {"cluster": "sim", "gpu_model": "H100", "possible": False, "moves": [], "blockers": []}
    rows = [
        base | {"pool": "a", "shape": "1", "free_gpus": 0},
        base | {"pool": "a", "shape": "2", "free_gpus": 0},
        base | {"pool": "b", "shape": "1", "free_gpus": 0},
        base | {"pool": "c", "shape": "4", "free_gpus": 2},
    ]
    page_text = text(capacity_moves.plans({"items": rows}, Query()))

    assert "1 shape that no moves would make fit, counted in each pool" in page_text
    assert "3 shapes are asked for where no GPU is free: sim · a · H100, sim · b · H100." in page_text
    assert "no GPU is free" not in text(capacity_moves.plans({"items": rows[3:]}, Query()))


def test_plans_name_moves_and_say_where_none_helps() -> None:
    page_text = text(shown("/capacity"))

    assert "1 shape would fit after moving jobs, counted in each pool" in page_text
    assert "move 2 GPUs" in page_text
    assert "unknown job : 1 GPU on gpu-h100-01" in page_text
    assert "The search stopped early" in page_text
    assert "1 shape that no moves would make fit, counted in each pool" in page_text
    assert "gpuwatch moves nothing" in page_text


def test_a_plan_names_the_requests_that_need_it() -> None:
    """The same shape in the same pool of the same cluster; another pool's request is not named."""
    place = {"pool": "h100", "gpu_model": "H100 80GB HBM3", "shape": "4"}
    moves = [{"job": "4810", "gpus": 1, "node": "n1", "to": "n2"}]
    plan = {**place, "cluster": "sim", "possible": True, "moves": moves, "moved_gpus": 1, "free_gpus": 4}

    def waits(job: str, team: str, **changed: str) -> dict[str, object]:
        return {"cluster": "sim", "job": job, "name": "pretrain", "team": team, "start": {"best": {**place, **changed}}}

    pending = {"items": [waits("504013", "physics"), waits("7", "nlp", pool="a100"), waits("8", "__unallocated__")]}
    named = text(capacity_moves.plans({"items": [plan]}, Query(), pending))

    assert "For   pretrain (504013) of physics ,  pretrain (8) of no team assigned" in named
    assert "No waiting request needs it now" in text(capacity_moves.plans({"items": [plan]}, Query(), {"items": []}))
    assert "waiting request" not in text(capacity_moves.plans({"items": [plan]}, Query()))


def test_better_mig_layouts_are_reported_with_what_they_serve() -> None:
    page_text = text(capacity_moves.repartition(fake_rules.PLANS))

    assert "3g.40gb + 4 × 1g.10gb" in page_text
    assert "90 % would have" in page_text
    assert None is capacity_moves.repartition({"repartition": [{"changes": []}]})


def test_free_and_stranded_gpus_add_up_over_pools() -> None:
    rows = fake_rules.history()
    figure = charts.fragmentation(rows, "light")
    assert figure is not None

    assert [[8.0] * 24, [12.0] * 24] == [bar["y"] for bar in figure["data"]]
    assert "40 % of the free GPU-hours" in text(capacity_moves.history({"items": rows}, "light", Query()))
    assert None is charts.fragmentation([{**rows[0], "free_gpus": 0.0}], "light")


def test_what_could_not_be_had_is_shown_and_the_rest_is_shown() -> None:
    assert "could not be loaded" in text(capacity_moves.history(None, "light", Query()))
    assert "could not be loaded" in text(capacity_moves.strands(None, Query()))
    assert "could not be loaded" in text(capacity_moves.plans(None, Query()))


def test_an_unknown_total_is_missing() -> None:
    total = dict.fromkeys(fake_rules.SHAPES["total"])
    page_text = text(capacity_now.headlines({"total": total, "clusters": []}))

    assert re.search(r"Free GPUs –", page_text)
    assert "None" not in page_text


@pytest.mark.parametrize("path", ["/detectors", "/reclaim", "/capacity", "/detectors/idle-hoarding"])
@pytest.mark.parametrize("mode", ["403", "500"])
def test_a_failing_api_is_a_state(path: str, mode: str) -> None:
    with pytest.raises(ApiFailure) as raised:
        shown(path, mode)

    assert int(mode) == raised.value.status


def walk(node: Any) -> list[Any]:
    """All components of a layout."""
    found = [node] if isinstance(node, Component) else []
    held = getattr(node, "children", None) if isinstance(node, Component) else node
    for part in held if isinstance(held, list | tuple) else [held]:
        if isinstance(part, Component | list | tuple):
            found += walk(part)
    return found


def classes(node: Any) -> str:
    """All class names of a layout."""
    return " ".join(str(getattr(part, "className", "")) for part in walk(node))


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        pytest.param("7d", "1h", id="a week by the hour"),
        pytest.param("month", "1d", id="a month by the day"),
        pytest.param("2026-11-09T00:00:00Z,2026-11-11T00:00:00Z", "1h", id="two days of one's own by the hour"),
        pytest.param("2026-10-01T00:00:00Z,2026-11-11T00:00:00Z", "1d", id="six weeks of one's own by the day"),
        pytest.param(
            "lastweek@Europe/Berlin", "1h", id="a week of a time zone by the hour, whose days are not those of UTC"
        ),
        pytest.param("nonsense", "1d", id="nonsense"),
    ],
)
def test_the_history_has_as_many_steps_as_one_can_see(window: str, expected: str) -> None:
    assert expected == capacity.step_of(window)


def test_of_many_pools_the_first_tables_are_open() -> None:
    rows = [fake_rules.slot("1", 1.0, fits, fits, 0, fits, pool=f"p{fits}") for fits in range(9)]
    names = [name for name, _ in capacity_slots.grouped(rows, "across")]
    page_text = text(capacity_slots.whole_table(rows))

    assert "sim · p8 · H100 80GB HBM3" == names[0]
    assert "4 more pools" in page_text
    assert "Nothing is free in sim · p0 · H100 80GB HBM3." in page_text
