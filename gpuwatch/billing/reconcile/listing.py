"""A reconciliation as JSON and as a listing, for the API, the command line and files."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from gpuwatch.billing.listings import window_dict
from gpuwatch.billing.reconcile.differences import PARTS, Parts
from gpuwatch.billing.reconcile.records import GROUPS, RATE_COLUMNS, Reconciliation
from gpuwatch.core.money import fraction_to_decimal, largest_remainder
from gpuwatch.output.listing import Listing

CENTS = 2


def reconcile_answer(found: Reconciliation) -> dict[str, Any]:
    """The JSON answer; money is exact decimal text, and in every row the parts add up to the difference."""
    return {
        "items": [{**row.group, **_sums(row.sums), "final": row.final} for row in found.rows],
        "window": window_dict(found.window),
        "by": found.by,
        "cost": found.cost,
        "totals": [{"currency": name, **_sums(sums)} for name, sums in found.totals.items()],
        "suggestions": [
            {
                "provider": s.provider,
                "gpu_model": s.gpu_model,
                "pricing": s.pricing,
                "gpu_hours": money(s.gpu_hours),
                "bill_per_gpu_hour": money(s.billed),
                "card_per_gpu_hour": None if s.card is None else money(s.card),
                "currency": s.currency,
                "rates_csv": s.line,
            }
            for s in found.suggestions
        ],
        "notes": list(found.notes),
        "unpriced_gpu_hours": money(found.unpriced_gpu_hours),
    }


def reconcile_listing(answer: Mapping[str, Any], *, cents: bool = False) -> Listing:
    """The answer as a listing, from the JSON of a server or of a local computation.

    With `cents` amounts are rounded for people so that the parts of a row still add up to its difference.
    """
    if cents:
        answer = {**answer, **{name: [_rounded(row) for row in answer[name]] for name in ("items", "totals")}}
    words = GROUPS[answer["by"]]
    amounts = ("bill", "gpuwatch", "difference")
    used = [name for name in PARTS if any(total[name] != "0.00" for total in answer["totals"])]
    foot = [
        f"Total {total['currency']}: bill {total['bill']}, gpuwatch {total['gpuwatch']}, difference {total['difference']}"
        for total in answer["totals"]
    ]
    foot += [f"Window: {answer['window']['start']} to {answer['window']['end']}, UTC, whole days"]
    foot += answer["notes"]
    if answer["suggestions"]:
        foot.append(f"Prices of the bill that the card does not have; lines for rates.csv ({RATE_COLUMNS}):")
        foot += [
            f"  {s['rates_csv']}    # card: {s['card_per_gpu_hour'] or 'none'}, of {s['gpu_hours']} GPU-hours"
            for s in answer["suggestions"]
        ]
    extra = {name: answer[name] for name in answer if name not in ("items", "next")}
    return Listing(
        [*words, *amounts, *PARTS, "final"], answer["items"], extra, shown=[*words, *amounts, *used, "final"], foot=foot
    )


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    parts = [Decimal(row[name]) for name in PARTS]
    bill, difference = (fraction_to_decimal(Decimal(row[name]), CENTS) for name in ("bill", "difference"))
    shown = zip(PARTS, largest_remainder(parts, CENTS, PARTS, total=difference), strict=True)
    sums = {"bill": bill, "gpuwatch": bill - difference, "difference": difference, **dict(shown)}
    return {**row, **{name: money(amount) for name, amount in sums.items()}}


def money(amount: Decimal) -> str:
    """An exact amount without zeros at its end, with two places at least."""
    text = f"{amount:f}"
    whole, _, places = text.partition(".")
    shown = f"{whole}.{places.rstrip('0').ljust(CENTS, '0')}"
    return "0.00" if shown == "-0.00" else shown


def _sums(sums: Parts) -> dict[str, Any]:
    return {
        "bill": money(sums.bill),
        "gpuwatch": money(sums.gpuwatch),
        "difference": money(sums.difference),
        **{name: money(amount) for name, amount in sums.parts.items()},
    }
