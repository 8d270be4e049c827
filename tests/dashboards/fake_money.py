"""The money of the fake API: policies, budgets, periods, an explained charge, decisions, reports."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fastapi import FastAPI
from starlette.responses import JSONResponse, Response

from tests.dashboards.fake_names import ENDLESS, HOSTILE, NOW, Json, at

WEEK = {"start": "2026-11-09T00:00:00Z", "end": "2026-11-16T00:00:00Z"}
DIGEST = "3f8a0c5d7e2b419f" * 4
HELD, DEALT, CORRECTION, UNPRICED, FROZEN = "held", "dealt", "correction", "unpriced", "frozen"
"""Charges that can be opened."""

POLICIES: Json = {
    "items": [
        {"name": "2026 H2", "valid_from": "2026-07-01T00:00:00Z", "valid_to": None, "basis": {"allocated": "1"}},
        {"name": f"share what is idle {HOSTILE}", "valid_from": "2026-11-16T00:00:00Z", "valid_to": None},
    ],
    "version": 3,
    "in_force": "share what is idle",
    "history": [],
}


def segment(place: int) -> Json:
    """A line of a charge: a whole GPU, a slice, or one that two sources claimed."""
    rate = {
        "price": "2.40",
        "currency": "USD",
        "pricing": "on_demand",
        "rate": "H100 from 2026-01-01 (line 2)",
        "card": "rates",
        "card_version": 4,
        "converted": {
            "base_price": "2.18",
            "base_currency": "EUR",
            "fx_rate": "1.10",
            "fx_from": "2026-11-01T00:00:00Z",
        },
    }
    return {
        "what": "segment",
        "device": f"GPU-{place:08x}-0000-0000-0000-000000000000" + ("/GI-3" if place % 2 else ""),
        "node": HOSTILE if place == 3 else f"gpu-h100-{place:02d}",
        "cluster": "sim",
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "mig_profile": "3g.40gb" if place % 2 else None,
        "start": at(NOW - timedelta(hours=9)),
        "end": at(NOW - timedelta(hours=3)),
        "device_seconds": "21600.000000",
        "owner": "nlp",
        "job": (ENDLESS, "sandbox/nb-4336", "4242")[place % 3],
        "bucket": None,
        "share": "4/7" if place % 2 else "1",
        "share_method": "dominant" if place % 2 else None,
        "split": "bound" if place % 4 == 3 else None,
        "conflict": place == 2,
        "rate": rate | ({} if place % 2 else {"converted": None}),
        "policy": {"name": "2026 H2", "basis": {"allocated": "1"}, "discount": "0.3" if place == 4 else None},
        "coverage": None if place == 1 else 0.93,
        "bucket_hours": {"compute": "4.0", "hoarded": "2.0"},
        "formula": f"21600 s x {'4/7' if place % 2 else '1'} x 2.40 / 3600",
        "gpu_seconds": "21600.000000000000",
        "cost_exact": "0.004200000000" if place == 5 else "14.400000000000",
        "text": f"job 4242 held a GPU for 6 h {HOSTILE}",
    }


def free() -> Json:
    """A line of time that nobody held."""
    return segment(0) | {"job": None, "owner": "__platform__", "bucket": "stranded", "coverage": None}


def dealt() -> Json:
    """A line of what a policy deals."""
    return {
        "what": "dealt",
        "day": "2026-11-17",
        "cause": "idle",
        "policy": {"name": "share what is idle", "payer": "proportional"},
        "gpu_seconds": "0.000000000000",
        "cost_exact": "3.111111111111",
        "text": "2026-11-17: a share of free GPUs, 12 of 96 weights",
    }


def corrected() -> Json:
    """A line of a correction."""
    return {
        "what": "correction",
        "text": f"Correction of period 2026-W45: rates version 7 {HOSTILE}",
        "period": "2026-W45",
        "posted": "2026-11-17T08:00:00Z",
        "gpu_seconds": "0.000000000000",
        "cost_exact": "-12.400000000000",
    }


def explained(charge: str, policy: str | None) -> Json:
    """A charge with its lines; under another policy where one is asked for, of which nothing is known when frozen."""
    items = {
        DEALT: [dealt()],
        CORRECTION: [corrected()],
        UNPRICED: [segment(0) | {"rate": None, "formula": None, "cost_exact": None}],
    }.get(charge, [*(segment(place) for place in range(6)), free()])
    priced = charge != UNPRICED
    sums = {
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "mig_profile": None,
        "share": "1",
        "price": "2.40" if priced else None,
        "currency": "USD",
        "pricing": "on_demand" if priced else None,
        "devices": 6,
        "gpu_seconds": "129600.000000",
        "cost_exact": "86.400000000000" if priced else None,
    }
    then = {
        "policies": [policy],
        "now": "86.40",
        "cost": "51.20",
        "difference": "-35.20",
        "currency": "USD",
        "parts": [
            {
                "kind": "allocated",
                "cause": None,
                "gpu_seconds": "1",
                "now": "86.40",
                "cost": "40.00",
                "difference": "-46.40",
            },
            {
                "kind": "shared",
                "cause": "idle",
                "gpu_seconds": "0",
                "now": "0.00",
                "cost": "11.20",
                "difference": "11.20",
            },
        ],
    }
    return {
        "charge": charge,
        "kind": {DEALT: "shared", CORRECTION: "correction"}.get(charge, "allocated"),
        "group": {"team": "nlp"},
        "cause": None,
        "currency": "USD" if priced else None,
        "window": WEEK,
        "closed": {"period": "2026-W46", "number": 1, "digest": DIGEST} if charge == FROZEN else None,
        "gpu_seconds": "129600.000000",
        "gpu_seconds_exact": "129600.000000000000",
        "cost": "86.40" if priced else None,
        "cost_exact": "86.400000000000" if priced else None,
        "error": None if priced else f"no rate for H100\nadd to rates.csv:\nH100,on_demand,2.40 {HOSTILE}",
        "summary": f"Team nlp held 6 GPUs of {HOSTILE} for 36 GPU-hours at 2.4 USD a GPU-hour: 86.40 USD",
        "sums": [sums] if charge in (HELD, UNPRICED, FROZEN) else [],
        "policies": [{"name": "2026 H2", "version": 3}],
        "lines": 420 if charge == HELD else len(items),
        "items": items,
        "next": "l2" if charge == HELD else None,
        "under": None if policy is None or not priced else then,
    }


def budget(team: str, spent: str | None, forecast: str | None, amount: str = "1000.00") -> Json:
    """A budget of this month, half over."""
    days = [
        {
            "day": f"2026-11-{day:02d}",
            "cost": "30.00",
            "left": f"{1000 - 30 * day}.00",
            "even": f"{1000 - 33 * day}.00",
        }
        for day in range(1, 21)
    ]
    result = (
        {
            "amount": forecast,
            "low": f"{float(forecast) - 90:.2f}",
            "high": f"{float(forecast) + 90:.2f}",
            "level": "80 %",
        }
        if forecast
        else None
    )
    return {
        "team": team,
        "period": "2026-11",
        "window": {"start": "2026-11-01T00:00:00Z", "end": "2026-12-01T00:00:00Z"},
        "amount": amount,
        "currency": "USD",
        "spent": spent,
        "spent_ratio": None if spent is None else float(spent) / float(amount),
        "gpu_hours": "410.000000",
        "gpu_hours_quota": "800" if team == "nlp" else None,
        "gpu_hours_ratio": 0.5125 if team == "nlp" else None,
        "forecast": result,
        "runs_out": "2026-11-27" if forecast and float(forecast) > float(amount) else None,
        "burn_down": days if spent else [],
        "missing": None if spent else f"charges are in EUR, the budget in USD: set [reporting] currency {HOSTILE}",
    }


BUDGETS = (
    budget("vision", "900.00", "980.00"),
    budget("nlp", "600.00", "1100.00"),
    budget(HOSTILE, None, None),
    budget("*", "1200.00", "1800.00"),
    budget("search", "120.00", None),
    budget("recsys", "300.00", "700.00", "2000.00"),
)


def period(name: str = "2026-W46", *, closed: bool = True, signed: bool = True) -> Json:
    """A period, its bill and its corrections by few words."""
    words = {"cluster": "sim", "gpu_model": "NVIDIA H100 80GB HBM3", "mig_profile": None, "currency": "USD"}
    rows = [
        {**words, "team": team, "kind": kind, "cause": None, "gpu_seconds": "360000.000000", "cost": cost}
        for team, kind, cost in (
            ("nlp", "allocated", "240.00"),
            (HOSTILE, "allocated", "90.00"),
            ("__platform__", "platform", "60.00"),
        )
    ]
    later = [{**words, "team": "nlp", "kind": "allocated", "gpu_seconds": "0.000000", "cost": "-12.40"}]
    signature = {"number": 1, "digest": DIGEST, "signer": f"Ada {HOSTILE}", "note": "agreed", "signed_at": at(NOW)}
    closing = {"number": 1, "closed_at": "2026-11-17T09:00:00Z", "closed_by": "ada", "digest": DIGEST}
    opened = {"reopened_at": at(NOW), "reopened_by": "bo", "reason": f"rates of pool b {HOSTILE}"}
    shut = {"reopened_at": None, "reopened_by": None, "reason": None}
    return {
        "period": name,
        "state": "closed" if closed else "reopened",
        "number": 1,
        "window": WEEK,
        "closed_at": closing["closed_at"],
        "closed_by": "ada",
        "digest": DIGEST,
        "versions": {"rates": 4, "policies": 3},
        "gpu_seconds": "1080000.000000",
        "cost": "390.00",
        "currency": "USD",
        "rows": rows,
        "corrections": later if closed else [],
        "signatures": [signature] if signed else [],
        "closings": [{**closing, **(shut if closed else opened)}],
    }


LINES = (
    {
        "team": "nlp",
        "posted_at": "2026-11-18T08:00:00Z",
        "why": "rates version 7",
        "currency": "USD",
        "gpu_seconds": "0",
        "cost": "-10.00",
    },
    {
        "team": "nlp",
        "posted_at": "2026-11-18T08:00:00Z",
        "why": "rates version 7",
        "currency": "USD",
        "gpu_seconds": "0",
        "cost": "-2.40",
    },
)


def decision(question: str) -> Json:
    """An answer to a question, with what it assumed."""
    job = {
        "cluster": "sim",
        "job": "4242",
        "name": ENDLESS,
        "team": HOSTILE,
        "gpu_hours": "120.000000",
        "cost": "288.00",
        "currency": "USD",
    }
    case = {"break_even_utilisation": 0.62, "saved_by_owning_a_month": "1200.00", "payback_months": 54.7}
    owned = {
        "cluster": "sim",
        "pool": "h100",
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "gpus": 32,
        "utilisation": 0.65,
        "owned_price": "2.163467",
        "cloud_price": "3.500000",
        "cloud_price_from": "on-demand rate of the card",
        "currency": "USD",
        "break_even_utilisation": 0.618,
        "cheaper": "owned",
        "saved_by_owning_a_month": "2614.00",
        "payback_months": 54.7,
        "payback_needs": None,
        "sensitivity": [
            case | {"cloud_price": price, "utilisation": use, "saved_by_owning_a_month": f"{place * 900 - 1000}.00"}
            for price in ("2.240000", "3.500000", "4.200000")
            for place, use in enumerate((0.55, 0.65, 0.75))
        ],
    }
    lacking = owned | {"pool": "a100", "missing": "owned price: gpuwatch rates owned FILE", "sensitivity": []}
    expensive = owned | {
        "pool": "b200",
        "cheaper": "cloud",
        "saved_by_owning_a_month": "-90.00",
        "break_even_utilisation": 1.4,
    }
    items: dict[str, list[Json]] = {
        "own-vs-cloud": [
            owned,
            expensive | {"payback_months": None, "payback_needs": "capex of the hardware: gpuwatch rates owned FILE"},
            lacking,
        ],
        "spot": [
            job | {"longest_run_hours": 4.2, "suitable": True, "saving": "172.80", "why": "short runs"},
            job
            | {
                "job": "77",
                "longest_run_hours": 400.0,
                "suitable": False,
                "saving": "0.00",
                "why": "runs of 400 h without checkpoints",
            },
        ],
        "right-sizing": [
            job
            | {
                "gpu_model": "NVIDIA A100",
                "memory_mib": 9000,
                "sm_active_ratio": 0.11,
                "mig_profile": "2g.10gb",
                "share": "2/7",
                "saving": "205.71",
            }
        ],
        "consolidation": [
            {
                "cluster": "sim",
                "gpu_model": "NVIDIA H100 80GB HBM3",
                "pools": {"h100": 32, HOSTILE: 16},
                "gpus": 48,
                "peak_gpus": 29.5,
                "needed_gpus": 33,
                "freed_nodes": 1,
                "freed_gpus": 8,
                "utilisation_before": 0.44,
                "utilisation_after": 0.53,
                "saving_a_month": "14016.00",
                "currency": "USD",
            }
        ],
    }
    return {
        "items": items[question],
        "assumptions": {
            "cloud_price": None,
            "spot_discount": "0.6",
            "interruptions_an_hour": "0.05",
            "headroom": "0.10",
        },
        "notes": ["the cloud would be rented for the hours that somebody held"],
        "window": WEEK,
        "jobs": 2,
        "jobs_without_price": 1,
        "jobs_unjudged": 3,
        "saving": {"USD": "172.80"},
    }


def install(app: FastAPI) -> None:
    """The routes, on the fake API."""

    def listing(rows: Any, **more: Any) -> Json:
        return {"items": [] if app.state.mode == "empty" else list(rows), "next": None, **more}

    @app.get("/api/v1/policies")
    def policies() -> Json:
        return {"items": [], "version": 0, "in_force": ""} if app.state.mode == "empty" else POLICIES

    @app.get("/api/v1/charges/{charge}/explain")
    def explain(charge: str, policy: str | None = None) -> Any:
        if charge not in (HELD, DEALT, CORRECTION, UNPRICED, FROZEN):
            return error(404, "not_found", "charge: no such row in the chargeback now")
        if policy == "nonsense":
            return error(400, "bad_value", "policy 'nonsense': neither a preset nor the name of a current policy")
        found = explained(charge, policy)
        return found | {"items": [], "sums": [], "lines": 0, "next": None} if app.state.mode == "empty" else found

    @app.get("/api/v1/budgets")
    def budgets(team: str | None = None) -> Json:
        return listing([one for one in BUDGETS if team in (None, one["team"])], version=2)

    @app.get("/api/v1/periods")
    def periods() -> Json:
        names = (period(), period("2026-W45", signed=False), period("2026-W44", closed=False))
        return listing(names)

    @app.get("/api/v1/periods/{name}")
    def one(name: str, of: str) -> Any:
        if name not in ("2026-W46", "2026-W44"):
            return error(404, "not_found", f"period {name} was never closed")
        return listing(LINES if of == "corrections" else [], period=period(name, closed=name == "2026-W46"))

    @app.get("/api/v1/decisions/{question}")
    def decide(question: str, cloud_price: str | None = None) -> Any:
        if cloud_price == "x":
            return error(400, "bad_value", "cloud_price 'x': not a decimal number such as 0.10")
        found = decision(question)
        return found | {"items": [], "saving": {}, "jobs": 0} if app.state.mode == "empty" else found


def error(status: int, code: str, message: str) -> Response:
    """An error as the API writes it."""
    return JSONResponse({"error": {"code": code, "message": message, "hint": None}}, status)
