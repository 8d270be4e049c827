"""The charts of a finding prove it: every rule has one, members that differ stand out, limits are drawn."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.dashboards.components import evidence_charts
from gpuwatch.dashboards.components.evidence_specs import SPECS, Spec
from gpuwatch.dashboards.shell.theme import INK
from gpuwatch.rules.rule import rules
from tests.dashboards import fake_api

TIMES = ["2026-11-15T18:00:00Z", "2026-11-15T18:05:00Z", "2026-11-15T18:10:00Z"]
RED = INK["light"].threshold


def member(name: str, is_subject: bool, *values: float | None) -> dict[str, Any]:
    """One member's line."""
    return {"device": f"GPU-{name}", "node": "n1", "is_subject": is_subject, "values": list(values)}


def found(detector: str, evidence: dict[str, Any], **series: Any) -> dict[str, Any]:
    """A finding with its series."""
    times = {"started_at": TIMES[0], "last_seen_at": "2026-11-15T22:00:00Z"}
    return {**fake_api.finding(0), **times, "detector": detector, "evidence": evidence, "series": series or None}


def test_every_rule_has_a_chart() -> None:
    """Another rule draws its best known columns."""
    assert set(rules()) == set(SPECS)
    assert [] == [name for name, spec in SPECS.items() if spec in (Spec(), None)]


def test_names_of_charts_are_those_of_the_rules() -> None:
    """A limit that no rule has would never be drawn."""
    known = rules()
    wrong = [
        (name, limit)
        for name, spec in SPECS.items()
        for limit in (spec.limit, *(mark for mark, _ in spec.marks), *spec.against)
        if limit and limit not in known[name].parameters and limit not in known[name].measures
    ]

    assert [] == wrong


def test_nothing_to_draw_is_no_chart() -> None:
    assert [] == evidence_charts.charts(found("idle-hoarding", {}), "light")
    assert [] == evidence_charts.charts(found("degraded-gpu", {"remapped_uncorrectable_rows": 0}), "light")
    empty = {"column": "gr_engine_ratio", "times": TIMES, "items": [member("a", True, None, None, None)]}
    assert [] == evidence_charts.charts(found("idle-hoarding", {}, members=empty, points=[]), "light")


def test_the_straggler_is_drawn_among_its_gang() -> None:
    gang = [member(name, False, 0.3, 0.3, None) for name in "abc"] + [member("d", True, 0.5, 0.5, 0.5)]
    members = {"column": "tensor_active_ratio", "times": TIMES, "items": gang}
    evidence = {"slow_gpus": 1, "gpus": 4, "sm_clock_mhz": 1400, "gang_sm_clock_mhz": 1900}
    (title, figure, _), (_, bars, _) = evidence_charts.charts(
        found("straggler", evidence, members=members, points=[]), "light"
    )

    assert "1 of 4 GPUs works while the others wait" == title
    assert [False] * 3 + [True] == [line["line"]["color"] == RED for line in figure["data"]]
    assert "GPU-d n1" == figure["layout"]["annotations"][-1]["text"]
    assert [1400.0, 1900.0] == bars["data"][0]["x"]


def test_idleness_is_marked_at_the_times_that_the_rule_acts() -> None:
    limits = {"idle_us_min": 900e6, "warn_us": 3600e6, "reclaim_us": 7200e6}
    members = {"column": "gr_engine_ratio", "times": TIMES, "items": [member("a", True, 0.0, 0.0, 0.0)]}
    evidence = {"idle_devices": 1, "devices": 1, "thresholds": limits}
    ((_, figure, _),) = evidence_charts.charts(found("idle-hoarding", evidence, members=members, points=[]), "light")

    marks = [shape["x0"] for shape in figure["layout"]["shapes"]]
    assert ["2026-11-15T18:15:00Z", "2026-11-15T19:00:00Z", "2026-11-15T20:00:00Z"] == marks


def test_a_mark_after_the_end_is_not_drawn() -> None:
    limits = {"idle_us_min": 900e6, "warn_us": 3600e6}
    one = found("idle-hoarding", {"thresholds": limits}) | {"ended_at": "2026-11-15T18:30:00Z"}
    shapes, _ = evidence_charts.marks(SPECS["idle-hoarding"], one, INK["light"])

    assert ["2026-11-15T18:15:00Z"] == [shape["x0"] for shape in shapes]


def test_a_slice_is_drawn_against_what_the_smaller_profile_offers() -> None:
    points = [{"at": at, "fb_used_bytes": 5 * 2**30, "sm_active_ratio": 0.3} for at in TIMES]
    evidence = {"profile": "3g.40gb", "fit": "2g.20gb", "memory_gib": 12.5, "sm_active_max_ratio": 0.4}
    memory, sms = evidence_charts.charts(found("mig-mismatch", evidence, points=points), "light")

    assert "The slice's memory and SMs, against what a 2g.20gb offers" == memory[0]
    assert [5.0] * 3 == memory[1]["data"][0]["y"]
    assert [12.5, 20.0, 40.0] == [shape["y0"] for shape in memory[1]["layout"]["shapes"]]
    assert [0.4, pytest.approx(0.8 * 2 / 3)] == [shape["y0"] for shape in sms[1]["layout"]["shapes"]]


def test_placement_is_drawn_as_rates_of_links() -> None:
    """The peak of NVLink follows from the mean rate and its share of the peak."""
    points = [{"at": at, "link_ratio": 0.07, "pcie_bytes_per_s": 11e9} for at in TIMES]
    evidence = {"nvlink_gb_per_s": 52.5, "nvlink_ratio": 0.07, "gb_per_s": 25.0, "best_gb_per_s": 370.8}
    (_, rates, _), (_, bars, _) = evidence_charts.charts(
        found("topology-blind-placement", evidence, points=points), "light"
    )

    assert [[pytest.approx(52.5)] * 3, [11.0] * 3] == [line["y"] for line in rates["data"]]
    assert ["slowest link 25"] == [note["text"] for note in rates["layout"]["annotations"]]
    assert [25.0, 370.8] == bars["data"][0]["x"]


def test_the_beginning_and_the_end_of_a_finding_are_marked_in_charts_that_show_more() -> None:
    points = [
        {"at": at, "samples": count, "gpu_temp_celsius": 40.0} for at, count in zip(TIMES, (12, 3, 4), strict=True)
    ]
    one = found("degraded-gpu", {}, points=points) | {"started_at": "2026-11-15T18:05:00Z", "ended_at": None}
    first, second = (figure["layout"] for _, figure, _ in evidence_charts.charts(one, "light"))
    ended = one | {"started_at": TIMES[0], "ended_at": "2026-11-15T18:07:00Z"}
    _, figure, _ = evidence_charts.charts(ended, "light")[0]

    assert [("2026-11-15T18:05:00Z", " begins 15 Nov 18:05 ")] == [
        (shape["x0"], note["text"]) for shape, note in zip(first["shapes"], first["annotations"], strict=True)
    ]
    assert ["Readings an hour", "Temperature (°C)"] == [layout["yaxis"]["title"]["text"] for layout in (first, second)]
    assert ["2026-11-15T18:07:00Z"] == [shape["x0"] for shape in figure["layout"]["shapes"]]


def test_a_finding_that_fills_its_chart_has_no_mark() -> None:
    points = [{"at": at, "samples": 12} for at in TIMES]
    one = found("degraded-gpu", {}, points=points) | {"ended_at": None}

    assert [[]] == [figure["layout"]["shapes"] for _, figure, _ in evidence_charts.charts(one, "light")]
