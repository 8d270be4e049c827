"""A small API of the shapes of contract.md section 3, with canned answers and the odd names real fleets have."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from gpuwatch.dashboards.shell.theme import AT_ROOF, MEASURES
from gpuwatch.ledger.hours import HELD_BUCKETS
from tests.dashboards import fake_money, fake_overview, fake_rules, fake_setup
from tests.dashboards.fake_money import error
from tests.dashboards.fake_names import ENDLESS, HOSTILE, NOW, Json, at

RATE = Decimal("2.40") / 3600
GPUS = 128
TEAMS = ("search", "vision", "recsys", "nlp", HOSTILE, "__unallocated__")
SHARES = {
    "compute": 0.21,
    "memory_roof": 0.11,
    "below_roof": 0.13,
    "stalled": 0.05,
    "communication": 0.06,
    "gap": 0.07,
    "hoarded": 0.09,
    "unobserved": 0.08,
    "schedulable": 0.12,
    "stranded": 0.03,
    "mig_remainder": 0.02,
    "out_of_service": 0.03,
}
GOOD, READ, INGEST = "gw_admin", "gw_read", "gw_ingest"


def seconds(value: float) -> str:
    """GPU-seconds as the API writes them."""
    return f"{value:.6f}"


def cost(value: float) -> str:
    """Money as the API writes it."""
    return str((Decimal(f"{value:.6f}") * RATE).quantize(Decimal("0.01")))


def window_of(text: str) -> tuple[datetime, datetime]:
    """Ends of a window; named ones end now."""
    if "," in text:
        start, end = (datetime.fromisoformat(part) for part in text.split(","))
        return start, end
    days = {"24h": 1, "today": 1, "yesterday": 1, "month": 30, "lastmonth": 30}.get(text, 7)
    return NOW - timedelta(days=days), NOW


def row(gpu_seconds: float, **keys: Any) -> Json:
    """A row of a listing of money."""
    return {**keys, "gpu_seconds": seconds(gpu_seconds), "cost": cost(gpu_seconds), "currency": "USD"}


def measures(items: list[Json]) -> Json:
    """The measures of ledger rows, as the API adds them up."""
    sizes = {
        name: sum(float(one["gpu_seconds"]) for one in items if one["bucket"] in own) for name, own in MEASURES.items()
    }
    whole = sum(sizes.values())
    held = sum(float(one["gpu_seconds"]) for one in items if one["bucket"] in HELD_BUCKETS)
    seen = held - sizes["not_measured"]
    known = seen * 2 >= held

    def one(name: str) -> Json:
        blank = name == "working" and held and not seen
        return {
            "gpu_seconds": None if blank else seconds(sizes[name]),
            "cost": None if blank else cost(sizes[name]),
            "ratio": sizes[name] / whole if known and whole and not blank else None,
        }

    at_roof = sum(float(one["gpu_seconds"]) for one in items if one["bucket"] in AT_ROOF)
    return {
        **{name: one(name) for name in ("working", "avoidable", "free")},
        "unknown": {name: one(name) for name in ("not_measured", "out_of_service")},
        "roofline_efficiency": at_roof / sizes["working"] if known and sizes["working"] else None,
        "measured_ratio": seen / held if held else None,
        "groups": [],
    }


def ledger(window: str, by: str, step: str | None) -> Json:
    """Buckets, by team too where asked, in steps where asked; one day is missing in the steps."""
    start, end = window_of(window)
    whole = GPUS * (end - start).total_seconds()
    wobble = 1.0 if end == NOW else 0.93
    items: list[Json] = []
    if step:
        length = timedelta(hours=1) if step == "1h" else timedelta(days=1)
        count = min(int((end - start) / length), 200)
        for place in range(count):
            if place == count // 2:
                continue
            tilt = 1 + 0.25 * ((place * 7) % 5 - 2) / 2
            parts = {name: share * (tilt if name in ("compute", "gap") else 1) for name, share in SHARES.items()}
            size = sum(parts.values())
            items += [
                row(GPUS * length.total_seconds() * share / size, bucket=name, start=at(start + place * length))
                for name, share in parts.items()
            ]
    elif by.startswith(("team", "user")):
        key = by.split(",")[0]
        names = TEAMS if key == "team" else ("alice", "bob", HOSTILE)
        items = [
            row(whole * share * (6 - place) / 21, **{key: team, "bucket": name})
            for place, team in enumerate(names)
            for name, share in SHARES.items()
        ]
    else:
        items = [
            row(whole * share * (wobble if name == "hoarded" else 1), bucket=name) for name, share in SHARES.items()
        ]
    levels = {"total": 1.0, "reporting": 0.92, "allocated": 0.8, "active": 0.56, "effective": 0.32}
    key = by.split(",")[0]
    names = {} if step or key not in ("team", "user") else dict.fromkeys(str(one[key]) for one in items)
    groups = [{key: name, **measures([one for one in items if one[key] == name])} for name in names]
    return {
        "items": items,
        **measures(items),
        "groups": groups,
        "capacity_gpu_seconds": seconds(whole),
        "window": {"start": at(start), "end": at(end)},
        "funnel": {
            name: {"gpu_seconds": seconds(whole * part), "cost": cost(whole * part)} for name, part in levels.items()
        },
        "currency": "USD",
        "next": None,
    }


def chargeback(window: str, by: str) -> Json:
    """Charges by one or two dimensions."""
    start, end = window_of(window)
    whole = GPUS * (end - start).total_seconds()
    key = by.split(",")[0]
    names = {"team": TEAMS, "job": ("4242", "sandbox/nb-4336", ENDLESS), "slice": ("GPU-1c1abed6/GI-3",)}.get(
        key, ("alice", "bob", HOSTILE)
    )
    extra = {name: "sim" if name == "cluster" else "alice" for name in by.split(",")[1:]}
    items = [
        {**row(whole * 0.8 * (place + 1) / 21, **{key: name}, **extra), "kind": "allocated", "charge": "held"}
        for place, name in enumerate(names)
    ]
    if key == "team":
        nlp = {"team": "nlp", "gpu_seconds": "0.000000", "currency": "USD"}
        items += [
            {**row(whole * 0.2, team="__platform__"), "kind": "platform", "charge": "held"},
            {**nlp, "cost": "310.00", "kind": "shared", "charge": "dealt"},
            {**nlp, "cost": "-12.40", "kind": "correction", "charge": "correction"},
        ]
    return {"items": items, "window": {"start": at(start), "end": at(end)}, "total": {}, "next": None}


def finding(place: int, state: str = "open") -> Json:
    """One finding; every fourth has no price and no owner."""
    kinds = (
        ("idle-hoarding", "GPUs held and idle", "hoarded"),
        ("false-utilization", "Busy by name, mostly idle SMs", "stalled"),
    )
    detector, title, bucket = kinds[place % 2]
    dark = place % 4 == 3
    start = NOW - timedelta(hours=5 + place * 3)
    return {
        "key": f"{detector}-{place:04x}",
        "detector": detector,
        "title": title,
        "severity": ("critical", "high", "medium", "low", "info")[place % 5],
        "state": state,
        "confidence": 0.95,
        "cluster": "sim",
        "subject": {"kind": "job", "id": f"{4200 + place}", "name": ENDLESS if place == 4 else "resnet-ddp"},
        "team": None if dark else TEAMS[place % 6],
        "user": None if dark else "bob",
        "started_at": at(start),
        "ended_at": None,
        "last_seen_at": at(NOW - timedelta(minutes=2)),
        "wasted_gpu_seconds": seconds(90_000.0 / (place + 1)),
        "wasted_cost": None if dark else cost(9_000_000.0 / (place + 1)),
        "currency": None if dark else "USD",
        "bucket": bucket,
        "summary": f"4 of 4 devices busy 94 % of the time with 17 % of SMs active. {HOSTILE if place == 2 else ''}",
        "remedy": "Kernels are too small for the GPU: batch or fuse them, or move to a MIG slice of this size.",
        "evidence": {
            "devices": 4,
            "sm_active_ratio": 0.1694,
            "gr_engine_ratio": 0.9364,
            "cause": "small kernels",
            "longest_idle_minutes": 361.0,
            "thresholds": {"busy_ratio_min": 0.8, "sm_active_max": 0.5, "warm_up_us": 600000000.0, "windows_min": 5.0},
            "window": {"start": at(start), "end": at(NOW)},
        },
        "devices": [f"GPU-1c1abed6-d93c-21e0-71c7-{place:012x}", "GPU-353d56e8/GI-3"],
        "nodes": ["gpu-h100-01"],
        "suppressed_by": None,
        "resolved_reason": "condition ended" if state == "resolved" else None,
        "assignee": ENDLESS if place == 4 else None,
        "verdict": None,
        "cost_a_day": None if dark else cost(4_500_000.0 / (place + 1)),
        "currency_a_day": None if dark else "USD",
        "gpu_hours_a_day": "40.0",
        "saves": False,
    }


def inbox() -> Json:
    """Counts of findings, and two causes: one with many findings, one of a single finding without a price."""
    cause = {"cluster": "sim", "saves": False, "at_risk_gpu_hours_a_day": "0.0", "certainty": 0.95, "since": at(NOW)}
    return {
        "states": {"open": 12, "resolved": 3, "acked": 1, "snoozed": 0, "exempt": 0},
        "total": {"cost_a_day": "812.40", "gpu_hours_a_day": "310.0", "currency": "USD", "day_rate": True,
                  "cost_so_far": "3200.00", "gpu_hours_so_far": "1200.0"},
        "causes": [
            {
                **cause, "detector": "idle-hoarding", "title": "GPUs held and idle", "team": "nlp", "severity": "high",
                "findings": 3, "keys": [f"idle-hoarding-{place:04x}" for place in (0, 2, 4)], "cost_a_day": "640.00",
                "gpu_hours_a_day": "250.0", "currency": "USD",
            },
            {
                **cause, "detector": "degraded-gpu", "title": HOSTILE, "team": "__platform__", "severity": "critical",
                "findings": 1, "keys": ["idle-hoarding-0006"], "cost_a_day": None, "gpu_hours_a_day": "0.0",
                "currency": None, "at_risk_gpu_hours_a_day": "48.0",
            },
        ],
        "causes_total": 2,
    }  # fmt: skip


def series(hours: int = 6) -> Json:
    """Readings every two minutes with a gap in the middle."""
    points = []
    for place in range(hours * 30):
        gone = hours * 12 < place < hours * 15
        points.append(
            {
                "at": at(NOW - timedelta(minutes=2 * (hours * 30 - place))),
                "gr_engine_ratio": None if gone else 0.9 + 0.02 * (place % 4),
                "sm_active_ratio": None if gone else 0.15 + 0.01 * (place % 6),
                "tensor_active_ratio": None if gone else 0.03,
                "power_watts": None if gone else 412.5,
            }
        )
    return {"step_s": 120, "points": points, "thresholds": {"busy_ratio_min": 0.8, "sm_active_max": 0.5}}


def job(place: int) -> Json:
    """One job; the second never ran and knows little."""
    bare = place == 1
    whole = 300_000.0 / (place + 1)
    return {
        "id": ("4242", "sandbox/nb-4336")[place] if place < 2 else f"{5000 + place}",
        "cluster": "sim",
        "name": None if bare else ENDLESS if place == 2 else HOSTILE if place == 3 else "resnet-ddp",
        "team": None if bare else TEAMS[place % 6],
        "user": None if bare else "alice",
        "account": None if bare else "nlp",
        "queue": "gpu",
        "namespace": None,
        "scheduler": "kubernetes" if bare else "slurm",
        "state": ("RUNNING", "Pending", "COMPLETED", "FAILED", "OUT_OF_MEMORY")[place % 5],
        "submitted_at": at(NOW - timedelta(hours=40)),
        "started_at": None if bare else at(NOW - timedelta(hours=39)),
        "ended_at": None,
        "gpus": None if bare else 8,
        "gpu_seconds": None if bare else seconds(whole),
        "device_seconds": None if bare else seconds(whole),
        "cost": None if bare else cost(whole),
        "currency": None if bare else "USD",
        "effective_ratio": None if bare else 0.41,
        "buckets": {} if bare else {name: seconds(whole * share) for name, share in list(SHARES.items())[:8]},
        "findings": ["idle-hoarding-0000"] if place == 0 else [],
        "placement_grade": None,
    }


def slices() -> Json:
    """30 GPUs: seven small slices, a mixed one, one whose placements nobody reports, one nobody measured."""
    items: list[Json] = []
    gpus: list[Json] = []
    layouts = (
        [("1g.10gb", start, 1, 1, 1) for start in range(7)],
        [("3g.40gb", 0, 4, 3, 4), ("2g.20gb", 4, 2, 2, 2), ("1g.10gb", 6, 1, 1, 1)],
        [("3g.40gb", 0, 4, 3, 4), ("3g.40gb", 4, 4, 3, 4)],
        [("7g.80gb", 0, 8, 7, 8)],
    )
    for place in range(30):
        gpu = f"GPU-{place:08x}-0000-0000-0000-000000000000"
        for gi, (profile, start, size, compute, memory) in enumerate(layouts[place % 4]):
            dark, free = place % 5 == 4, (place + gi) % 6 == 5
            items.append(
                {
                    "slice": f"{gpu}/GI-{gi}",
                    "gpu": gpu,
                    "gi": gi,
                    "cluster": "sim",
                    "node": f"gpu-h100-{place // 8:02d}",
                    "profile": profile,
                    "gpu_model": "NVIDIA H100 80GB HBM3",
                    "team": "__platform__" if free else TEAMS[(place + gi) % 5],
                    "user": None if free else "bob",
                    "job": None if free else f"{4200 + place}",
                    "start": at(NOW - timedelta(days=2)),
                    "end": at(NOW),
                    "share": f"{compute}/7",
                    "gpu_seconds": seconds(172_800 * compute / 7),
                    "device_seconds": seconds(172_800),
                    "cost": cost(172_800 * compute / 7),
                    "currency": "USD",
                    "idle_seconds": None if dark else seconds(60_000 if gi == 1 else 0),
                    "utilisation": {
                        "gr_engine_ratio": None if dark else (0.001, 0.62, 0.03)[gi % 3],
                        "sm_active_ratio": None,
                        "tensor_active_ratio": None,
                        "dram_active_ratio": None,
                        "fb_used_ratio": None if dark else 0.4,
                    },
                    "placement": None
                    if place == 7
                    else {"start": start, "size": size, "compute_slices": compute, "memory_slices": memory},
                }
            )
        gpus.append(
            {
                "gpu": gpu,
                "node": f"gpu-h100-{place // 8:02d}",
                "cluster": "sim",
                "gpu_model": "NVIDIA H100 80GB HBM3",
                "remainder_share": ("0", "1/7", "1/7", "0")[place % 4],
                "slices": [],
            }
        )
    return {"items": items, "gpus": gpus, "next": None}


def mig_gpus() -> Json:
    """The slices of `slices`, each held by one owner or by nobody, under their GPUs."""
    answer = slices()
    items = [
        gpu | {"slices": [summed(row) for row in answer["items"] if row["gpu"] == gpu["gpu"]]} for gpu in answer["gpus"]
    ]
    total = {
        "gpus": len(items),
        "slices": len(answer["items"]),
        "held_slices": 20,
        "measured_slices": 10,
        "held_seconds": "3600",
        "known_seconds": "3600",
        "idle_seconds": "360",
        "free_seconds": "3600",
        "cost": "1234.56",
        "free_cost": "0.82",
        "currency": "USD",
        "remainder_gpus": "15/7",
        "owners": TEAMS,
        "share_methods": ["dominant"],
        "splits": ["replica"],
    }
    return {"items": items[:24], "total": total, "next": "c2"}


def summed(row: Json) -> Json:
    """A tenancy as the sum of its slice."""
    held = row["job"] is not None
    return row | {
        "current": True,
        "owner": row["team"] if held else None,
        "owners": 1 if held else 0,
        "held_seconds": row["device_seconds"] if held else "0",
        "free_seconds": "0" if held else row["device_seconds"],
        "free_cost": None,
        "share_method": "dominant",
        "split": None,
    }


QUALITY: Json = {
    "items": [
        {
            "source": "dcgm http://gpu-h100-01:9400/metrics",
            "kind": "dcgm",
            "cluster": "sim",
            "state": "ok",
            "last_seen": at(NOW - timedelta(seconds=9)),
            "lag_s": 9,
            "samples": 1_284_551,
            "rejected": 0,
            "rejects": [],
            "missing_fields": [],
            "error": None,
            "fix": None,
        },
        {
            "source": "slurm http://ctl:6820",
            "kind": "slurm",
            "cluster": "sim",
            "state": "failing",
            "last_seen": at(NOW - timedelta(hours=3)),
            "lag_s": 10_800,
            "samples": 812,
            "rejected": 3,
            "rejects": [{"reason": "time is not a number", "count": 3, "example": HOSTILE}],
            "missing_fields": ["DCGM_FI_PROF_SM_ACTIVE"],
            "error": "slurmrestd answered 401; renew the JWT",
            "fix": "scontrol token lifespan=86400 username=gpuwatch",
        },
        {
            "source": "kubernetes https://k8s:6443",
            "kind": "kubernetes",
            "cluster": "k8s",
            "state": "never",
            "last_seen": None,
            "lag_s": None,
            "samples": 0,
            "rejected": 0,
            "rejects": [],
            "missing_fields": [],
            "error": None,
            "fix": "Check the service account",
        },
    ],
    "checks": [
        {"id": "analysis", "status": "ok", "what": "112 files imported, books up to date", "fix": ""},
        {
            "id": "counters",
            "status": "fail",
            "what": "4 held devices give no DCGM_FI_PROF_SM_ACTIVE: sim/gpu-a100-lite-01",
            "fix": "Add to the counters file of dcgm-exporter (option -f):\nDCGM_FI_PROF_SM_ACTIVE, gauge, SM activity.",
        },
    ],
    "unattributed_ratio": 0.116,
    "unobserved_ratio": None,
}


def fleet() -> Json:
    """GPUs now."""
    counts = {
        "total": 128,
        "reporting": 118,
        "allocated": 102,
        "active": 71.4,
        "effective": 40.25,
        "effective_known": 96.5,
    }
    none = dict.fromkeys(counts, 0)
    item = {"cluster": "sim", "pool": "h100", "gpu_model": "NVIDIA H100 80GB HBM3", "gpus": counts, "slices": none}
    return {"at": at(NOW), "as_of": at(NOW), "items": [item], "total": {"gpus": counts, "slices": none}}


def create(mode: str = "ok", tokens: bool = False) -> FastAPI:
    """The API. `mode`: ok, empty, 403 or 500. `acts` of its state are the actions that were taken."""
    app = FastAPI(openapi_url=None)
    app.state.mode, app.state.acts = mode, []

    def problem(request: Request) -> Response | None:
        if tokens and token_of(request) not in (GOOD, READ, INGEST):
            return error(401, "unauthorized", "the token is unknown, revoked or expired")
        if app.state.mode in ("403", "500") and not request.url.path.endswith("/me"):
            status = int(app.state.mode)
            return error(status, "refused", "scope ingest may not read" if status == 403 else f"it broke {HOSTILE}")
        return None

    @app.middleware("http")
    async def guard(request: Request, call_next: Any) -> Response:
        found = problem(request) if request.url.path.startswith("/api/") else None
        answer: Response = found or await call_next(request)
        return answer

    def listing(rows: list[Json], **more: Any) -> Json:
        return {"items": [] if app.state.mode == "empty" else rows, "next": None, **more}

    @app.get("/api/v1/me")
    def me(request: Request) -> Json:
        scope = {READ: "read", INGEST: "ingest"}.get(token_of(request), "admin")
        return {
            "scope": scope,
            "teams": ["nlp"] if scope == "read" else None,
            "name": "ada",
            "tokens": tokens,
            "version": "0.1.0",
        }

    @app.get("/api/v1/reports/formats")
    def get_formats() -> Json:
        labels = {"html": "HTML", "pdf": "PDF", "xlsx": "Excel", "csv": "CSV", "focus": "FOCUS", "parquet": "Parquet"}
        return listing(
            [
                {"format": name, "label": label, "about": HOSTILE, "inline": name in ("html", "pdf")}
                for name, label in labels.items()
            ]
        )

    @app.get("/api/v1/fleet")
    def get_fleet() -> Json:
        return {**fleet(), **({"items": []} if app.state.mode == "empty" else {})}

    @app.get("/api/v1/ledger")
    def get_ledger(window: str, by: str, step: str | None = None) -> Json:
        found = ledger(window, by, step)
        return {**found, "items": [], "funnel": {}} if app.state.mode == "empty" else found

    @app.get("/api/v1/holders")
    def get_holders(window: str) -> Json:
        start, end = window_of(window)
        return listing([{"team": name} for name in TEAMS], window={"start": at(start), "end": at(end)})

    @app.get("/api/v1/overview")
    def get_overview(window: str) -> Json:
        step = "1h" if window in ("24h", "today", "yesterday") else "1d"
        found = fake_overview.overview(window, step, ledger, window_of, measures, (*TEAMS, "__platform__"))
        return fake_overview.empty(found) if app.state.mode == "empty" else found

    @app.get("/api/v1/chargeback")
    def get_chargeback(window: str, by: str) -> Json:
        found = chargeback(window, by)
        return {**found, "items": []} if app.state.mode == "empty" else found

    @app.get("/api/v1/mig/gpus")
    def get_mig_gpus() -> Json:
        return {"items": [], "total": {}, "next": None} if app.state.mode == "empty" else mig_gpus()

    @app.get("/api/v1/slices")
    def get_slices(gpu: str | None = None) -> Json:
        if app.state.mode == "empty":
            return {"items": [], "gpus": [], "next": None}
        found = slices()
        return found | {"items": [row for row in found["items"] if gpu in (None, row["gpu"])]}

    @app.get("/api/v1/findings")
    def get_findings(state: str = "open", limit: int = 100) -> Json:
        return {
            **listing([*(finding(place, state) for place in range(12)), *fake_rules.FINDINGS.values()][:limit]),
            "next": "c2" if limit == 100 else None,
        }

    @app.get("/api/v1/findings/{key}")
    def get_finding(key: str) -> Any:
        if key in fake_rules.FINDINGS:
            return {**fake_rules.FINDINGS[key], "earlier": [], "series": None, "actions": []}
        if not key.startswith(("idle-hoarding-", "false-utilization-")):
            return error(404, "not_found", f"no finding {key}")
        taken = [entry for entry in app.state.acts if entry["key"] == key]
        words = {"ack": "acked", "snooze": "snoozed", "exempt": "exempt"}
        state = words.get(taken[-1]["action"], "open") if taken else "open"
        return {**finding(int(key.rpartition("-")[2], 16), state), "earlier": [], "series": series(), "actions": taken}

    @app.get("/api/v1/inbox")
    def get_inbox() -> Json:
        empty = {"states": dict.fromkeys(("open", "resolved", "acked", "snoozed", "exempt"), 0), "causes": []}
        return empty if app.state.mode == "empty" else inbox()

    @app.post("/api/v1/inbox/actions")
    async def act(request: Request) -> Json:
        body = await request.json()
        known = {"until": None, "reason": "", "verdict": None, "assignee": None, "actor": "ada", "at": at(NOW)}
        rows = [{**known, **body, "key": key} for key in body["keys"]]
        app.state.acts += rows
        return {"items": rows}

    @app.get("/api/v1/jobs")
    def get_jobs() -> Json:
        return listing([job(place) for place in range(40)])

    @app.get("/api/v1/jobs/{ident:path}")
    def get_job(ident: str) -> Any:
        if ident == "gone":
            return error(404, "not_found", "no job gone")
        place = 1 if ident == "sandbox/nb-4336" else 0
        found = job(place)
        fall = [{"bucket": name, "gpu_seconds": value, "cost": "12.50"} for name, value in found["buckets"].items()]
        runs = [{"started_at": found["started_at"], "ended_at": None, "state": found["state"], "gpus": found["gpus"]}]
        more = {"runs": runs, "devices": ["GPU-1c1abed6/GI-3"] * 40, "waterfall": fall}
        result = (
            {"findings": [], "series": {"step_s": 60, "points": []}}
            if place
            else {"findings": [finding(0)], "series": series(39)}
        )
        return {**found, **more, **result}

    @app.get("/api/v1/quality")
    def get_quality() -> Json:
        if app.state.mode == "empty":
            return {"items": [], "checks": [], "unattributed_ratio": None, "unobserved_ratio": None}
        return QUALITY

    @app.post("/api/v1/session")
    def start_session(request: Request) -> Json:
        return {"session": f"session-{token_of(request)}", "expires_in_s": 3600}

    @app.delete("/api/v1/session", status_code=204)
    def end_session() -> None:
        app.state.ended = True

    fake_money.install(app)
    fake_rules.install(app)
    fake_setup.add(app, listing)
    return app


def token_of(request: Request) -> str:
    """The token of the header, else of the cookie."""
    header = request.headers.get("authorization")
    return (
        header.removeprefix("Bearer ")
        if header
        else request.cookies.get("gpuwatch_session", "").removeprefix("session-")
    )
