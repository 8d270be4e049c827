"""Pools that are owned or reserved where the cloud would cost less, or rented where owning would."""

from __future__ import annotations

from decimal import Decimal

from gpuwatch.advisor.daily import own_cases
from gpuwatch.core.clock import DAY_US
from gpuwatch.rules.layers import WEEKS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, price_text, register


def _summary(e: Evidence) -> str:
    used, even = f"{100 * e['utilisation_ratio']:.0f} %", f"{100 * e['break_even_ratio']:.0f} %"
    owned, cloud = (price_text(e[name], e["currency"]) for name in ("owned_price", "cloud_price"))
    prices = f"A GPU-hour costs {owned} {_fixed(e)} and {cloud} in the cloud"
    saved = f"the difference is {price_text(e['saved_a_month'], e['currency'])} a month"
    return f"{prices}; owning pays from {even} use on, measured {used}: {saved}."


def _headline(e: Evidence) -> str:
    saved = price_text(Decimal(e["saved_a_month"]).quantize(Decimal(1)), e["currency"])
    other = "in the cloud" if e["cheaper"] == "cloud" else "owned"
    return f"would cost {saved} a month less {other} at {100 * e['utilisation_ratio']:.0f} % use"


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
        headline=_headline,
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
