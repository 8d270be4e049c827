"""What people set, in the fake API: rates, hardware, owners, budgets, tokens, imports and the audit log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from tests.dashboards.fake_names import ENDLESS, HOSTILE, Json

BEGAN, ENDED, AHEAD = "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"
RATE: Json = {
    "gpu_model": "H100", "pricing": "on_demand", "usd_per_gpu_hour": "2.49", "currency": "USD", "valid_from": BEGAN,
    "valid_to": None, "cluster": None, "pool": None, "mig_profile": None, "quantity": None, "commitment_id": None,
}  # fmt: skip
RATES: list[Json] = [
    RATE | {"valid_to": ENDED},
    RATE | {"valid_from": ENDED, "usd_per_gpu_hour": "2.1"},
    RATE | {"gpu_model": ENDLESS, "pool": HOSTILE, "pricing": "reserved", "quantity": 64, "commitment_id": HOSTILE},
    RATE | {"valid_from": AHEAD, "gpu_model": "A100"},
]
"""One that has ended, two in force, one that has not begun."""
OWNED: list[Json] = [
    {
        "name": HOSTILE, "gpu_model": "H100", "gpus": 8, "capex": "320000", "years": "5", "kw": "10.2",
        "price_per_kwh": "0.2", "valid_from": BEGAN, "valid_to": None, "currency": "USD", "usd_per_gpu_hour": "1.2",
        "formula": "[(capex + ...)]\n320000 / 5", "kw_source": None,
    }
]  # fmt: skip
RULES: list[Json] = [
    {"match_kind": "namespace", "match": "vision-*", "team": "vision"},
    {"match_kind": "label:cost-center", "match": HOSTILE, "team": ENDLESS},
]
BUDGETS: list[Json] = [
    {
        "team": "vision", "period": "month", "amount": "25000", "currency": "USD", "gpu_hours": None,
        "valid_from": "1970-01-01T00:00:00Z", "valid_to": None, "alert_at": "80 100",
    }
]  # fmt: skip
TOKENS: list[Json] = [
    {
        "id": "ab12", "name": HOSTILE, "scope": "read", "teams": ["vision", ENDLESS], "created_at": BEGAN,
        "created_by": "ada", "expires_at": AHEAD, "revoked_at": None,
    },
    {
        "id": "cd34", "name": "old", "scope": "admin", "teams": None, "created_at": BEGAN, "created_by": "ada",
        "expires_at": ENDED, "revoked_at": None,
    },
    {
        "id": "ef56", "name": "gone", "scope": "ingest", "teams": None, "created_at": BEGAN, "created_by": "ada",
        "expires_at": None, "revoked_at": ENDED,
    },
]  # fmt: skip
IMPORTS: list[Json] = [
    {
        "id": 7, "imported_at": ENDED, "kind": "sacct", "path": f"/data/{ENDLESS}", "cluster": "c1", "timezone": None,
        "files": 1, "records": 12345, "rejected": 2, "replaced": 0, "replaced_by": None, "state": "complete",
    },
    {
        "id": 3, "imported_at": BEGAN, "kind": "dcgm-csv", "path": HOSTILE, "cluster": None, "timezone": "UTC",
        "files": 2, "records": 5, "rejected": 0, "replaced": 5, "replaced_by": 7, "state": "not removable",
    },
]  # fmt: skip
CHANGES: list[Json] = [
    {
        "id": 2, "at": ENDED, "actor": HOSTILE, "what": "rates replaced", "before": {"version": 1},
        "after": {"version": 2},
        "difference": {
            "added": [{"gpu_model": ENDLESS, "usd_per_gpu_hour": "2.1"}], "removed": [{"gpu_model": HOSTILE}] * 7,
            "added_count": 1, "removed_count": 700,
        },
    },
    {"id": 1, "at": BEGAN, "actor": "ada", "what": "signed in", "before": None, "after": "admin", "difference": None},
]  # fmt: skip
RECIPIENTS: list[Json] = [
    {"team": "*", "to": ["ada@example.com"]},
    {"team": HOSTILE, "to": [ENDLESS, "bo@example.com"]},
]
LISTS = {
    "recipients": RECIPIENTS,
    "rates": RATES,
    "owned": OWNED,
    "teams": RULES,
    "budgets/set": BUDGETS,
    "tokens": TOKENS,
    "imports": IMPORTS,
    "audit": CHANGES,
}


def add(app: FastAPI, listing: Callable[..., Json]) -> None:
    """Adds the routes. They give one version to every list."""
    for path, rows in LISTS.items():

        def get(rows: list[Json] = rows) -> Any:
            return listing(rows, version=3)

        app.add_api_route(f"/api/v1/{path}", get)
