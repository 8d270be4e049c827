"""Pools that are owned or reserved where the cloud would cost less, or rented where owning would."""

from __future__ import annotations

from decimal import Decimal

from gpuwatch.advisor.daily import own_cases
from gpuwatch.core.clock import DAY_US
from gpuwatch.rules.layers import WEEKS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, register


def _summary(e: Evidence) -> str:
    used, even = f"{100 * e['utilisation_ratio']:.0f} %", f"{100 * e['break_even_ratio']:.0f} %"
    owned, cloud = (f"{Decimal(e[name]):,.2f}" for name in ("owned_price", "cloud_price"))
    prices = f"{_fixed(e).capitalize()} {owned} against cloud {cloud} {e['currency']} a GPU-hour"
    saved = f"{Decimal(e['saved_a_month']):,.0f} {e['currency']} a month"
    return f"{prices}: break-even at {even} use, measured {used}; {saved}."


def _fixed(e: Evidence) -> str:
    """What the cloud is compared with: the capacity as it is paid, or hardware that could be bought."""
    paid = str(e.get("paid") or "")
    return paid if e["cheaper"] == "cloud" and paid else "owned"


def _remedy(e: Evidence) -> str:
    if e["cheaper"] == "cloud" and "reserved" in _fixed(e):
        return (
            "Let the reservation end and rent what is used, or put more work on these GPUs: look at gpuwatch decide own-vs-cloud "
            "before the reservation is renewed."
        )
    if e["cheaper"] == "cloud":
        return "Rent what is used, or put more work on these GPUs: look at gpuwatch decide own-vs-cloud before hardware is renewed."
    return "Look at gpuwatch decide own-vs-cloud: owning these GPUs costs less; hardware that is ordered now comes in 3 to 6 months."


OWN_VS_CLOUD = register(
    Rule(
        id="own-vs-cloud",
        title="A pool paid for in the more expensive way",
        why="Owned and reserved GPUs cost the same whether they are used; above the break-even use they are cheaper than rented ones.",
        bucket=None,
        layer="placement",
        effort=WEEKS,
        needs=("on_demand_rates",),
        priced=True,
        thresholds=(
            Threshold("known_us_min", 2 * DAY_US, "less data does not show how a pool is used"),
            Threshold("sure_us_min", 14 * DAY_US, "two weeks have two weekends"),
            Threshold("gpus_min", 1, "any pool with a GPU is compared"),
        ),
        summary=_summary,
        remedy=_remedy,
        mode="all",
        measures={
            "gpus": "last",
            "utilisation_ratio": "last",
            "break_even_ratio": "last",
            "payback_months": "last",
        },
        prepare=own_cases,
    )
)
