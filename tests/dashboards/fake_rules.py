"""Canned answers about rules: findings of every kind of subject, the rules, back-tests, reclaims and capacity."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fastapi import FastAPI, Request

from tests.dashboards import fake_map
from tests.dashboards.fake_money import error
from tests.dashboards.fake_names import ENDLESS, HOSTILE, NOW, Json, at

PLACED: Json = {
    "grade": "D", "spans": "2 sockets of gpu-h100-01", "best": "one NVLink domain of gpu-h100-02", "kind": "numa",
    "best_kind": "nvlink", "worst_level": "SYS", "best_level": "NV18", "best_nodes": "gpu-h100-02", "nodes": 1.0,
    "gb_per_s": 50.0, "best_gb_per_s": 350.0, "bandwidth_ratio": 7.0, "slowdown_low": 1.17, "slowdown_high": 1.66,
    "lost_gpu_hours_low": 12.4, "lost_gpu_hours_high": 33.1, "exposed_ratio_low": 0.028, "exposed_ratio_high": 0.11,
    "free_gpus": 8.0, "at": "2026-11-20 02:10", "scheduler": "slurm", "talking_gpu_hours": 81.5,
    "workload_class": "communication-bound",
}  # fmt: skip
PIECES: Json = {
    "fragmentation_ratio": 0.71, "free_gpus": 24.5, "largest_gang_gpus": 4.0, "starved_minutes": 95.0,
    "waiting_job": "pretrain-9", "shape": "8 GPUs on one node", "moves": f"4863 from gpu-a100-05; {HOSTILE}",
    "moved_gpus": 2.0,
}  # fmt: skip


def of(key: str, kind: str, ident: str, bucket: str | None, evidence: Json, **more: Any) -> Json:
    """A finding about a thing."""
    detector = key.rpartition("-")[0]
    wasted = None if bucket is None else "41.20"
    window = {"start": at(NOW - timedelta(hours=9)), "end": at(NOW)}
    found: Json = {
        "key": key, "detector": detector, "title": detector.replace("-", " ").capitalize(), "severity": "medium",
        "state": "open", "confidence": 0.8, "cluster": "sim", "subject": {"kind": kind, "id": ident, "name": None},
        "team": "__platform__", "user": None, "started_at": window["start"], "ended_at": None,
        "last_seen_at": at(NOW), "wasted_gpu_seconds": "0.000000" if bucket is None else "61800.000000",
        "wasted_cost": wasted, "currency": None if wasted is None else "USD", "bucket": bucket,
        "summary": f"Something about the {kind}.", "remedy": "Mend it.",
        "evidence": {**evidence, "thresholds": {"wait_us_min": 1.8e9}, "window": window},
        "devices": [], "nodes": ["gpu-h100-01"], "suppressed_by": None,
    }  # fmt: skip
    return {**found, **more}


FINDINGS = {
    one["key"]: one
    for one in (
        of("topology-blind-placement-00a0", "job", "4301", "communication",
           PLACED | {"claimed_gpu_seconds": {"communication": "36000.000000", "stalled": "25800.000000"}}),
        of("fragmentation-00a1", "pool", "h100", "stranded", PIECES, severity="critical"),
        of("degraded-gpu-00a2", "gpu", "GPU-1c1abed6-d93c-21e0-71c7-00000000000a", "out_of_service", {"xid": "79"}),
        of("mig-mismatch-00a3", "slice", "GPU-353d56e8/GI-3", "below_roof", {"sm_active_max_ratio": 0.11}),
        of("partial-island-00a4", "node", "gpu-h100-01", "stranded", {"moves": None, "blockers": HOSTILE}),
        of("starvation-00a5", "queue", "s40-mixed", None, {"longest_wait_minutes": 80.0}),
        of("own-vs-cloud-00a6", "team", "nlp", None, {"saved_a_month": "12840.00", "currency": "EUR"}),
        of("right-sizing-00a7", "job", "4302", None, {"fits": "3g.40gb", "memory_gib": 21.5}),
        of("idle-hoarding-00a8", "job", ENDLESS, "hoarded",
           {"price": "no rate for L40S: add a line to rates.csv", "contention": {
               "gpu_hours": "3.250000", "cost": "7.80", "currency": "USD", "requests": 3,
               "requested_devices_max": 8}}, wasted_cost=None),
    )
}  # fmt: skip


def rule(ident: str, title: str, why: str, bucket: str | None, thresholds: Json, **more: Any) -> Json:
    """A rule as the API has it."""
    return {
        "id": ident, "title": title, "why": why, "remedy": None, "bucket": bucket, "mode": "hours",
        "origin": "gpuwatch", "file": None, "preset": "default", "off": False, "thresholds": thresholds,
        "sources": dict.fromkeys(thresholds, f"the page of {ident}"), "doc": f"docs/detectors/{ident}.md",
        "feedback": {"true_positives": 0, "false_positives": 0, "precision": None},
    } | more  # fmt: skip


DETECTORS: Json = {
    "items": [
        rule("idle-hoarding", "GPUs held and idle", "An idle GPU that is held helps nobody.", "hoarded",
             {"idle_us_min": 9e8, "grace_us": 6e7, "fb_used_ratio_max": 0.6},
             feedback={"true_positives": 9, "false_positives": 1, "precision": 0.9}),
        rule("false-utilization", "Busy by name, mostly idle SMs", "Utilization counts any kernel.", "stalled",
             {"busy_ratio_min": 0.8}, preset="princeton"),
        rule("blind-spot", "Held and never measured", "What is not measured cannot be judged.", "unobserved", {}),
        rule("right-sizing", "A smaller GPU would do", "It costs less.", None, {"headroom_ratio": 0.25}, off=True),
        rule("night-idle", HOSTILE, ENDLESS, "hoarded", {"idle_minutes": 30.0}, origin="site", feedback=None,
             file="/etc/gpuwatch/detectors/night-idle.sql", doc="/etc/gpuwatch/detectors/night-idle.sql"),
    ],
    "refused": [
        {"file": "/etc/gpuwatch/detectors/typo.sql", "line": 7, "reason": "no column start_us", "fix": "select it"}
    ],
    "next": None,
}  # fmt: skip
CARD: Json = {
    "preset": None, "off": ["right-sizing"], "thresholds": {"idle-hoarding": {"idle_us_min": 9e8}},
    "pools": [{"pool": "batch", "cluster": "sim", "preset": "meta-rsc", "off": [], "thresholds": {}}],
    "teams": [{"team": HOSTILE, "preset": None, "off": ["blind-spot"], "thresholds": {}}],
    "version": 3,
    "history": [{"version": 3, "at": at(NOW), "by": "ada", "source": "PUT", "digest": "ab"}],
}  # fmt: skip


def tried(place: int, change: str) -> Json:
    """A finding of a back-test."""
    return {
        "key": f"idle-hoarding-{place:04x}", "change": change, "cluster": "sim",
        "subject": {"kind": "job", "id": f"{4200 + place}", "name": HOSTILE if place == 1 else "pretrain"},
        "team": "nlp", "started_at": at(NOW - timedelta(hours=30)), "ended_at": None, "confidence": 0.95,
        "gpu_hours": "12.500000", "cost": None if place == 2 else "30.00", "currency": None if place == 2 else "USD",
        "summary": "1 of 1 device idle.", "verdict": "false_positive" if change == "gone" else None,
    }  # fmt: skip


def backtest(body: Json) -> Json:
    """What a rule would have said."""
    sums = {"findings": 3, "gpu_hours": "37.500000", "cost": [{"amount": "60.00", "currency": "USD"}], "unpriced": 1}
    record = {"true_positives": 3, "false_positives": 1, "precision": 0.75, "unsaid": 0}
    off = body.get("preset") == "gpu-pruner"
    return {
        "detector": "idle-hoarding", "window": {"start": at(NOW - timedelta(days=7)), "end": at(NOW)},
        "preset": body.get("preset") or "default", "thresholds": None if off else {"idle_us_min": 1.8e9},
        "today_thresholds": {"idle_us_min": 9e8}, "left_out": 4,
        "items": [tried(0, "same"), tried(1, "new"), tried(2, "same"), tried(3, "gone")],
        "teams": [{"team": "nlp", **sums, "gone": 1}], "changes": {"new": 1, "gone": 1, "same": 2},
        "total": sums, "today": sums, "feedback": record, "today_feedback": record,
    }  # fmt: skip


def reclaim(place: int, **more: Any) -> Json:
    """A proposal."""
    return {
        "key": f"idle-hoarding-{place:04x}", "cluster": "sim", "job": f"{4200 + place}",
        "name": HOSTILE if place == 2 else "pretrain", "scheduler": "slurm", "team": "nlp", "user": "bob",
        "nodes": ["gpu-h100-01"], "devices": 4, "idle_devices": 4, "idle_since": at(NOW - timedelta(hours=3)),
        "idle_minutes": 180.0, "step": "recommendation", "step_at": at(NOW - timedelta(hours=1)), "next_step": None,
        "next_at": None, "held_by": None, "held_until": None, "action": "end", "preset": "default",
        "confidence": 0.95, "wasted_gpu_hours": "12.000000", "wasted_cost": "28.80", "currency": "USD",
        "contention": None, "command": f"scancel {4200 + place}",
    } | more  # fmt: skip


RECLAIMS = (
    reclaim(0, contention={"gpu_hours": "4.000000", "cost": "9.60", "currency": "USD", "requests": 3,
                           "requested_devices_max": 8}),
    reclaim(1, step="notice", next_step="warning", next_at=at(NOW + timedelta(minutes=45)), command=None,
            idle_devices=1, action="shrink", wasted_cost=None, currency=None),
    reclaim(2, held_by="snoozed", held_until=at(NOW + timedelta(days=7)), command="scancel 4202"),
)  # fmt: skip


def slot(shape: str, gpus: float, *fits: int | None, profile: str | None = None, pool: str | None = "h100") -> Json:
    """A row of the table of shapes."""
    names = ("ready", "creatable", "placeable", "after_repartition") if profile else (
        "node_local", "nvlink_local", "leaf_local", "across")  # fmt: skip
    bare = dict.fromkeys(("node_local", "nvlink_local", "leaf_local", "across", "ready", "creatable", "placeable",
                          "after_repartition"))  # fmt: skip
    return {
        "cluster": "sim", "pool": pool, "gpu_model": "NVIDIA H100 80GB HBM3", "shape": shape, "profile": profile,
        "gpus": gpus, "requested_ratio": 0.2, **bare, **dict(zip(names, fits, strict=True)),
        "exact": False if profile else None,
    }  # fmt: skip


SHAPES: Json = {
    "items": [
        slot("1", 1.0, 12, 12, None, 12), slot("2", 2.0, 5, 5, None, 6), slot("4", 4.0, 0, 0, None, 3),
        slot("1", 1.0, 0, 0, 0, 0, pool=None), slot("1g.10gb", 0.125, 3, 4, 7, 9, profile="1g.10gb"),
    ],
    "at": at(NOW), "days": 28,
    "clusters": [
        {
            "cluster": "sim", "as_of": at(NOW - timedelta(minutes=2)),
            "demand": {"since": at(NOW - timedelta(days=28)), "requests": 20, "requests_judged": 20,
                       "requests_unsized": 0, "usual": False,
                       "shapes": [{"shape": "4", "gpu_models": None, "requests": 4, "ratio": 0.2, "level": "node",
                                   "placeable": 0, "starved": True}]},
            "gpus": {"free_gpus": 12.0, "stranded_gpus": 6.5, "rate": 0.54, "causes": [
                {"case": "Q2", "gpus": 6.5, "means": "too few free GPUs together", "remedy": "Pack small jobs."}]},
            "slices": None,
            "gangs": [{"gpu_model": "NVIDIA H100 80GB HBM3", "level": "node", "gpus": 3, "domain": ENDLESS,
                       "free_gpus": 12, "availability_gap": 9},
                      {"gpu_model": "NVIDIA H100 80GB HBM3", "level": "leaf", "gpus": None, "domain": None,
                       "free_gpus": 12, "availability_gap": None}],
            "notes": [{"what": "network", "gpus": 48, "fix": "Import it:\ngpuwatch import slurm-topology x"}],
        }
    ],
    "stranded": [{"cluster": "sim", "pool": "h100", "gpu_model": "NVIDIA H100 80GB HBM3", "free_gpus": 12.0,
                  "stranded_gpus": 6.5, "rate": 0.54, "cost_per_hour": "15.60", "currency": "USD"}],
    "total": {"free_gpus": 12.0, "stranded_gpus": 6.5, "rate": 0.54,
              "cost_per_hour": [{"amount": "15.60", "currency": "USD"}], "unpriced_gpus": 0},
    "next": None,
}  # fmt: skip


def plan(shape: str, **more: Any) -> Json:
    """A plan that makes room for a shape."""
    return {
        "cluster": "sim", "as_of": at(NOW), "pool": "h100", "gpu_model": "NVIDIA H100 80GB HBM3", "shape": shape,
        "free_gpus": 12, "placeable": False, "possible": True, "exact": True, "moved_gpus": 2,
        "moves": [{"job": HOSTILE, "node": "gpu-h100-01", "gpus": 1, "preemptible": True},
                  {"job": None, "node": "gpu-h100-01", "gpus": 1, "preemptible": False}],
        "blockers": [{"job": "4810", "gpus": 4, "free_gpus": 4}],
    } | more  # fmt: skip


PLANS: Json = {
    "at": at(NOW),
    "items": [plan("4", exact=False), plan("2x8", possible=False, moves=[], moved_gpus=None, exact=None)],
    "repartition": [
        {"cluster": "sim", "pool": "mig", "gpu_model": "NVIDIA H100 80GB HBM3", "since": at(NOW - timedelta(days=7)),
         "until": at(NOW), "served_ratio": 0.4, "served_ratio_after": 0.9,
         "changes": [{"gpu": "GPU-1c1abed6-d93c", "layout": ["7g.80gb"], "better": ["3g.40gb"] + 4 * ["1g.10gb"]}]}
    ],
    "unknown": {},
}  # fmt: skip


def history() -> list[Json]:
    """Free and stranded GPUs of two pools, by the hour."""
    return [
        {"start": at(NOW - timedelta(hours=24 - hour)), "cluster": "sim", "pool": pool, "gpu_model": "H100",
         "free_gpus": 10.0, "stranded_gpus": 4.0, "rate": 0.4, "largest_gang": 4, "slots": {"1": 10.0}, "requests": 5}
        for hour in range(24)
        for pool in ("h100", "batch")
    ]  # fmt: skip


def stranded_by() -> list[Json]:
    """Jobs that stranded free GPUs; the last is nobody."""
    return [
        {"cluster": "sim", "pool": "h100", "gpu_model": "NVIDIA H100 80GB HBM3", "job": job,
         "team": "nlp" if job else None, "user": "bob" if job else None, "stranded_gpu_hours": 7.5,
         "cost": "18.00" if job else None, "currency": "USD" if job else None}
        for job in ("4813", HOSTILE, None)
    ]  # fmt: skip


def install(app: FastAPI) -> None:
    """Adds these routes. `tried` of the app's state are the back-tests that were asked for."""
    app.state.tried = []

    def listing(rows: Any, **more: Any) -> Json:
        return {"items": [] if app.state.mode == "empty" else list(rows), "next": None, **more}

    @app.get("/api/v1/detectors")
    def detectors() -> Json:
        return listing(DETECTORS["items"], refused=[] if app.state.mode == "empty" else DETECTORS["refused"])

    @app.get("/api/v1/detectors/card")
    def card() -> Json:
        empty = {"preset": None, "off": [], "thresholds": {}, "pools": [], "teams": [], "version": 0, "history": []}
        return empty if app.state.mode == "empty" else CARD

    @app.post("/api/v1/detectors/{ident}/backtest")
    async def run(ident: str, request: Request) -> Any:
        body = await request.json()
        app.state.tried.append({"rule": ident, **body})
        if "nonsense" in (body.get("thresholds") or {}).values():
            return error(400, "bad_value", f"thresholds.{ident}.idle_us_min: 'nonsense' is no time")
        return backtest(body)

    @app.get("/api/v1/reclaim")
    def reclaims(step: str | None = None) -> Json:
        return listing([one for one in RECLAIMS if step in (None, one["step"])], at=at(NOW))

    @app.get("/api/v1/capacity/shapes")
    def shapes() -> Json:
        if app.state.mode != "empty":
            return SHAPES
        total = dict.fromkeys(SHAPES["total"])
        return {**SHAPES, "items": [], "clusters": [], "stranded": [], "total": total}

    @app.get("/api/v1/capacity/plan")
    def plans() -> Json:
        return PLANS

    @app.get("/api/v1/capacity/place")
    def place() -> Json:
        return fake_map.PLACED

    @app.get("/api/v1/capacity/pending")
    def pending() -> Json:
        return listing(fake_map.PENDING)

    @app.get("/api/v1/topology/map")
    def drawn() -> Json:
        return fake_map.fleet([]) if app.state.mode == "empty" else fake_map.fleet()

    @app.get("/api/v1/capacity/history")
    def went() -> Json:
        return listing(history())

    @app.get("/api/v1/capacity/stranded")
    def by_job() -> Json:
        return listing(stranded_by())
