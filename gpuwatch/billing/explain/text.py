"""A charge and its lines in words."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from gpuwatch.billing.charge_id import Asked
from gpuwatch.ledger.dimensions import CAUSE
from gpuwatch.output.listing import BUCKET_WORDS

HOUR_S = 3600
EVERYBODY = "All teams"
PRICE_PLACES = 4
"""Decimal places of a price in a sentence; the lines have all."""
CAUSES = {
    "idle": "free GPUs",
    "stranded": "free but stranded GPUs",
    "out_of_service": "GPUs out of service",
    "mig_remainder": "remainders of MIG GPUs",
    "unused": "held time that the basis does not charge",
    "discount": "what discounts leave",
    "minimum": "whole increments of billing",
    "lost_work": "work that failures destroyed",
}
"""What a cause of a policy is called."""

Item = Mapping[str, Any]


def summary(asked: Asked, head: Item) -> str:
    """The charge in one sentence: "Team vision held 4 GPUs of H100 for 50 GPU-hours at 2.49 USD a GPU-hour: 124.50 USD"."""
    cost = "no rate covers it" if head["cost"] is None else f"{Decimal(head['cost']):,.2f} {asked.currency}"
    who = _who(asked)
    if asked.kind == "correction":
        return f"{who}: corrections of closed periods: {cost}"
    if asked.kind == "shared":
        what = "what others left" if asked.cause is None else CAUSES.get(asked.cause, f"shared cost {asked.cause!r}")
        return f"{who} {'pay' if who == EVERYBODY else 'pays'} a share of {what}: {cost}"
    verb = "held" if asked.kind == "allocated" else "kept"
    if asked.cause is not None:
        verb += f" ({CAUSES.get(asked.cause, asked.cause)})"
    return f"{who} {verb} {_what(head)} for {_hours(head['gpu_seconds_exact'])} GPU-hours{_price(head)}: {cost}"


def segment_text(item: Item) -> str:
    """A segment in one sentence."""
    share = "" if item["share"] == "1" else f" ({item['share']} of a GPU)"
    if item["run"] is None:
        bucket = BUCKET_WORDS.get(item["bucket"] or "", item["bucket"] or "free").lower()
        return f"{item['device']}{share} was nobody's ({bucket}) for {_hours(item['device_seconds'])} h"
    job = f"job {item['job']}" if item["job"] else "a run"
    return f"{job} held {item['device']}{share} for {_hours(item['device_seconds'])} h"


def dealt_text(item: Item) -> str:
    """A line of a day's money in one sentence."""
    cause = CAUSES.get(item["cause"], item["cause"])
    if item["what"] == "shared_cost":
        cause = f"shared cost {item['cause']!r}"
    if item["what"] in ("dealt", "shared_cost"):
        dealt = item["dealt"]
        part = ""
        if dealt is not None and dealt["weight"] is not None:
            part = f", {Decimal(dealt['weight']) / Decimal(dealt['weights']):.2%} of {Decimal(dealt['amount']):,.2f}"
        return f"{item['day']}: a share of {cause}{_where(item)}{part}"
    if item["what"] == "passed_on":
        return f"{item['day']}: {cause}{_where(item)}, passed on to teams"
    return f"{item['day']}: {cause}{_where(item)}"


def _where(item: Item) -> str:
    """Which GPUs a line is about: a day may have one for each model, pool and cluster."""
    # A pool that nobody named is called as its model is.
    pool = None if item["pool"] == item["gpu_model"] else item["pool"]
    kinds = (("model", item["gpu_model"]), ("pool", pool), ("cluster", item["cluster"]))
    found = [f"{word} {name}" for word, name in kinds if name is not None]
    return f" ({', '.join(found)})" if found else ""


def _who(asked: Asked) -> str:
    """Team vision, job 4711: the words of the charge."""
    words = [f"{name.replace('_', ' ')} {value}" for name, value in asked.group if name != CAUSE and value is not None]
    words = ["the platform" if word == "team __platform__" else word for word in words]
    words = ["held time without a team" if word == "team __unallocated__" else word for word in words]
    names = ", ".join(words) or ("the platform" if asked.kind == "platform" else EVERYBODY)
    return names[:1].upper() + names[1:]


def _what(head: Item) -> str:
    """4 GPUs of H100; where there are several models, how many of all."""
    sums = head["sums"]
    models = list(dict.fromkeys(one["gpu_model"] for one in sums))
    whole = all(one["mig_profile"] is None for one in sums)
    kinds = len({(one["gpu_model"], one["mig_profile"]) for one in sums})
    # Devices of one model at several prices are the same ones: they are counted only where there is one sum.
    if len(sums) == 1:
        count = sums[0]["devices"]
        noun = ("GPU" if whole else f"{sums[0]['mig_profile']} slice") + ("" if count == 1 else "s")
        return f"{count} {noun} of {models[0] or 'an unknown model'}"
    if kinds == 1:
        return f"GPUs of {models[0]}" if whole else f"{sums[0]['mig_profile']} slices of {models[0]}"
    return f"GPUs of {len(models)} models" if len(models) > 1 else "GPUs and slices"


def _price(head: Item) -> str:
    prices = sorted({Decimal(one["price"]) for one in head["sums"] if one["price"] is not None})
    if not prices:
        return ""
    low, high = (_short(price) for price in (prices[0], prices[-1]))
    return f" at {low if low == high else f'{low} to {high}'} {head['currency']} a GPU-hour"


def _hours(seconds: str) -> str:
    """Hours with at most two decimals."""
    return _short(Decimal(seconds) / HOUR_S, 2)


def _short(value: Decimal, places: int = PRICE_PLACES) -> str:
    """A number with at most so many decimals, thousands apart."""
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
