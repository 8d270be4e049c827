"""The overview route of the fake API."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from gpuwatch.dashboards.shell.theme import MEASURES
from tests.dashboards.fake_names import HOSTILE, Json, at

AVOIDABLE = MEASURES["avoidable"]


def stacked(items: list[Json]) -> list[Json]:
    """Ledger rows with their avoidable part."""
    return [
        {**one, "avoidable_gpu_seconds": one["gpu_seconds"] if one["bucket"] in AVOIDABLE else "0.000000"}
        for one in items
    ]


def side(found: Json, covered_seconds: int) -> Json:
    """One window's ledger."""
    total = sum((Decimal(one["cost"]) for one in found["items"] if one["cost"] is not None), Decimal(0))
    return {
        **{name: value for name, value in found.items() if name not in ("groups", "next")},
        "items": stacked(found["items"]),
        "cost": str(total) if found["items"] else None,
        "covered_seconds": covered_seconds,
    }


def team(name: str, items: list[Json], measured: Json) -> Json:
    """What a team held."""
    return {
        "team": name,
        "gpu_seconds": str(sum((Decimal(one["gpu_seconds"]) for one in items), Decimal(0))),
        "cost": str(sum((Decimal(one["cost"]) for one in items), Decimal(0))),
        **{key: value for key, value in measured.items() if key != "groups"},
        "buckets": [{key: one[key] for key in ("bucket", "gpu_seconds", "cost")} for one in items],
    }


def action(place: int, **changed: Any) -> Json:
    """One action; the names of the second are hostile."""
    hostile = HOSTILE if place == 2 else "resnet-ddp"
    owner = {
        "team": HOSTILE if place == 2 else "search",
        "user": "bob",
        "cost_a_day": "80.00",
        "gpu_hours_a_day": "40.0",
    }
    return {
        "rank": place,
        "id": f"rule-{place}",
        "title": f"Rule {place}",
        "summary": f"4 of 4 devices idle {hostile}",
        "remedy": "Release the devices.",
        "severity": "high",
        "lost_work": None,
        "certainty": 0.9,
        "cost_a_day": f"{400 - place}.00",
        "gpu_hours_a_day": "120.0",
        "at_risk_gpu_hours_a_day": "0.0",
        "currency": "USD",
        "saves": False,
        "loss": None,
        "findings": 1,
        "keys": [f"idle-hoarding-{place:04x}"],
        "detectors": ["idle-hoarding"],
        "subject": {"kind": "job", "id": "4242", "name": hostile, "cluster": "sim"},
        "since": None,
        "owners": {"items": [owner], "total": 1},
        **changed,
    }


LOSS: Json = {
    "id": "loss:stranded",
    "title": "Free but stranded",
    "summary": None,
    "remedy": "Move small jobs onto fewer nodes.",
    "loss": {"bucket": "stranded", "gpu_seconds": "3600000.000000", "cost": "2764.00"},
    "findings": 0,
    "keys": [],
    "detectors": [],
    "subject": None,
    "owners": {
        "items": [{"team": "__platform__", "user": None, "cost_a_day": "394.00", "gpu_hours_a_day": "143.0"}],
        "total": 1,
    },
}
MANY: Json = {
    "lost_work": {"gpu_seconds": "10943280.000000", "cost": "8343.00"},
    "title": "Work lost with failed runs",
    "findings": 19,
    "keys": [f"failed-work-{place:04x}" for place in range(19)],
    "detectors": ["failed-work"],
    "subject": None,
    "owners": {
        "items": [
            {"team": name, "user": None, "cost_a_day": "9.00", "gpu_hours_a_day": "4.0"}
            for name in ("nlp", "__unallocated__", "vision")
        ],
        "total": 4,
    },
}


def actions() -> list[Json]:
    """Seven actions; the largest loss ranks last."""
    return [
        action(1, **MANY),
        action(2),
        action(3, cost_a_day="3.20", saves=True),
        action(4, cost_a_day=None, currency=None),
        action(5, cost_a_day=None, gpu_hours_a_day="0.0", at_risk_gpu_hours_a_day="48.0"),
        action(6),
        action(7, **LOSS),
    ]


def overview(window: str, step: str, ledger: Any, window_of: Any, measures: Any, teams: tuple[str, ...]) -> Json:
    """The answer: a week with data for 151 of 168 hours before it."""
    start, end = window_of(window)
    length = end - start
    past = f"{at(start - length)},{at(start)}"
    covered = int(length.total_seconds())
    now = ledger(window, "bucket", None)
    rows = ledger(window, "team,bucket", None)["items"]
    by_team = [(name, stacked([one for one in rows if one["team"] == name])) for name in teams]
    return {
        "now": side(now, covered),
        "before": side(ledger(past, "bucket", None), covered - int(timedelta(hours=17).total_seconds())),
        "steps": {"step": step, "items": stacked(ledger(window, "bucket", step)["items"])},
        "steps_before": {"step": step, "items": stacked(ledger(past, "bucket", step)["items"])},
        "shift_seconds": covered,
        "teams": [team(name, items, measures(items)) for name, items in by_team],
        "teams_total": len(teams),
        "actions": actions(),
        "currency": "USD",
        "window": now["window"],
    }


def empty(found: Json) -> Json:
    """The answer of a service without data."""
    bare = {
        **found["now"],
        "items": [],
        "funnel": {},
        "cost": None,
        "covered_seconds": 0,
        "capacity_gpu_seconds": "0.000000",
    }
    nothing = {"before": None, "steps_before": None, "teams": [], "teams_total": 0, "actions": []}
    return {**found, **nothing, "now": bare, "steps": {**found["steps"], "items": []}}
