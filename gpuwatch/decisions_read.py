"""Decisions from measured use: what the books say of a window, put into the formulas of gpuwatch/decisions.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch import cost, mig, rate_cards
from gpuwatch.books import scale_of
from gpuwatch.clock import HOUR_US, SECOND_US, Window, rfc3339
from gpuwatch.decisions import (
    HOURS_A_MONTH,
    Case,
    break_even,
    payback_months,
    sensitivity,
    smallest_fit,
    spot,
    together,
)
from gpuwatch.errors import UsageError
from gpuwatch.ledger import HELD_BUCKETS
from gpuwatch.mig_profiles import GEOMETRIES
from gpuwatch.money import fraction_to_decimal
from gpuwatch.owned import Owned
from gpuwatch.rates import resolve
from gpuwatch.state import State
from gpuwatch.store import Store

ITEMS_MAX = 1000
"""Jobs of an answer, those that would save the most."""
POOLS_MAX = 50
SEEN_MIN = Fraction(8, 10)
"""Of a job that was measured for less of its time nobody says what it needs."""
HELD_HOURS_MIN = 1
"""A job that held less than a GPU-hour is not worth a proposal."""
MIB = 1 << 20


@dataclass(frozen=True)
class Assumptions:
    """What nobody measured: shown with every answer, and each of them may be given by who asks.

    `cloud_price` is for a whole GPU-hour (None: the on-demand rate of the card), `spot_discount` what spot is cheaper
    than that (None: the spot rates of the card), `headroom` a part of what was used that is added to it.
    """

    cloud_price: Decimal | None = None
    spot_discount: Decimal | None = None
    interruptions_an_hour: Decimal = Decimal("0.05")
    headroom: Decimal = Decimal("0.10")

    def __post_init__(self) -> None:
        if self.cloud_price is not None and not 0 < self.cloud_price < 100_000:
            raise UsageError(f"cloud price {self.cloud_price}: give the price of a GPU-hour, such as 3.50")
        if self.spot_discount is not None and not 0 < self.spot_discount < 1:
            raise UsageError(f"spot discount {self.spot_discount}: give a part between 0 and 1, such as 0.6")
        if not 0 <= self.interruptions_an_hour <= 60:
            raise UsageError(f"interruptions {self.interruptions_an_hour}: give how many an hour, such as 0.05")
        if not 0 <= self.headroom <= 10:
            raise UsageError(f"headroom {self.headroom}: give a part of the use, such as 0.10")

    def as_dict(self) -> dict[str, str | None]:
        """As JSON has them."""
        return {name: None if value is None else f"{value:f}" for name, value in asdict(self).items()}


def own_vs_cloud(store: Store, state: State, window: Window, assumed: Assumptions) -> dict[str, Any]:
    """Of each cluster, pool and model: the utilisation at which owning breaks even, the payback, and the sensitivity.

    Utilisation is the part of the capacity that was held: the cloud would be rented for that. What lacks a price is
    told with what to do about it.
    """
    owned, items = rate_cards.owned_hardware(state), []
    for group, row in _groups(store, state, window).items():
        cluster, pool, model = group
        hardware = _hardware(owned, cluster, pool, model, window.end_us)
        cloud, source = _cloud_price(state, group, window, assumed)
        hourly = row.hourly if hardware is None else hardware.hourly_exact
        currency = row.currency if hardware is None else hardware.currency
        item: dict[str, Any] = {
            "cluster": cluster,
            "pool": pool,
            "gpu_model": model,
            "gpus": row.gpus,
            "utilisation": _ratio(row.used),
            "owned_price": _money(hourly, 6),
            "cloud_price": _money(cloud, 6),
            "cloud_price_from": source,
            "currency": currency,
        }
        if cloud is None or hourly is None or row.used is None:
            item["missing"] = _lacking(hourly, cloud, model)
        else:
            item |= _verdict(row, hourly, cloud, hardware)
        items.append(item)
    return _answer(window, assumed, items)


def spot_suitability(
    store: Store, state: State, window: Window, teams: Collection[str] | None, assumed: Assumptions
) -> dict[str, Any]:
    """Jobs by what they would save on spot capacity: those that are for it first, then those that are not, with why.

    A job's own checkpoints count where it says so with the label gpuwatch.io/checkpoint-minutes.
    """
    jobs = {(r["cluster"], r["job"], r["team"]): r for r in store.rows("decisions/run", **_asked(window, teams))}
    rates, items, unpriced = rate_cards.in_force(state), [], 0
    by = ("cluster", "job", "team", "gpu_model", "pool")
    for charge in cost.chargeback(store, state, window, by, teams=teams).items:
        group = charge.group
        run = jobs.get((group["cluster"], group["job"], group["team"]))
        if charge.kind != "allocated" or run is None or charge.gpu_seconds < HELD_HOURS_MIN * 3600:
            continue
        priced = (group["cluster"] or "", group["pool"], group["gpu_model"] or "", None, window.end_us - 1)
        ratio = _spot_ratio(rates, priced, assumed)
        if charge.cost_exact is None or ratio is None:
            unpriced += 1
            continue
        hours = run["longest_us"] / HOUR_US
        checkpoint = None if run["checkpoint_minutes"] is None else run["checkpoint_minutes"] / 60
        found = spot(charge.cost_exact, ratio, hours, float(assumed.interruptions_an_hour), checkpoint)
        items.append(
            {
                **group,
                "name": run["name"],
                "runs": run["runs"],
                "longest_run_hours": round(hours, 3),
                "gpu_hours": f"{charge.gpu_seconds / 3600:.6f}",
                "cost": f"{charge.cost_exact:.2f}",
                "currency": charge.currency,
                "spot_price_ratio": f"{ratio:.4f}",
                "suitable": found.suitable,
                "saving": f"{found.saved:.2f}",
                "why": found.why,
            }
        )
    items.sort(key=lambda item: (-Decimal(item["saving"]), str(item["job"])))
    extra = {"jobs": len(items), "jobs_without_price": unpriced, "saving": _sums(items)}
    return _answer(window, assumed, items[:ITEMS_MAX], **extra)


def right_sizing(
    store: Store, state: State, window: Window, teams: Collection[str] | None, assumed: Assumptions
) -> dict[str, Any]:
    """Jobs that held one whole GPU and would have fitted in a MIG slice of it: the smallest one, and what that saves.

    Judged by the most memory and SM use of any five minutes, with headroom. Jobs that were measured for less than
    SEEN_MIN of their time are counted as unjudged.
    """
    asked = _asked(window, teams)
    used = {(r["cluster"], r["job"], r["team"], r["gpu_model"]): r for r in store.rows("decisions/small", **asked)}
    items, unjudged = [], 0
    by = ("cluster", "job", "team", "gpu_model")
    for charge in cost.chargeback(store, state, window, by, teams=teams).items:
        row = used.get(tuple(charge.group[name] for name in by))  # type: ignore[arg-type]
        if charge.kind != "allocated" or row is None or charge.gpu_seconds < HELD_HOURS_MIN * 3600:
            continue
        seen = Fraction(row["covered_us"], 1) / (Fraction(charge.gpu_seconds) * SECOND_US)
        if row["memory_bytes"] is None or row["sm_ratio"] is None or seen < SEEN_MIN:
            unjudged += 1
            continue
        sizes = _slices(row["gpu_model"])
        fit = smallest_fit(sizes, row["memory_bytes"], row["sm_ratio"], Fraction(assumed.headroom))
        if fit is None:
            continue
        saving = None if charge.cost_exact is None else charge.cost_exact * (1 - Decimal(str(float(fit.share))))
        items.append(
            {
                **charge.group,
                "memory_mib": row["memory_bytes"] // MIB,
                "sm_active_ratio": round(float(row["sm_ratio"]), 4),
                "gpu_hours": f"{charge.gpu_seconds / 3600:.6f}",
                "cost": None if charge.cost_exact is None else f"{charge.cost_exact:.2f}",
                "currency": charge.currency,
                "mig_profile": fit.profile,
                "share": str(fit.share),
                "saving": None if saving is None else f"{saving:.2f}",
            }
        )
    items.sort(key=lambda item: (-Decimal(item["saving"] or 0), str(item["job"])))
    return _answer(window, assumed, items[:ITEMS_MAX], jobs=len(items), jobs_unjudged=unjudged, saving=_sums(items))


def consolidation(
    store: Store, state: State, window: Window, cluster: str, pools: Sequence[str], assumed: Assumptions
) -> dict[str, Any]:
    """Pools of one cluster as one, by model: GPUs that their common peak needs, nodes freed, and what those cost.

    Raises UsageError for a pool that the cluster does not have, or more than POOLS_MAX.
    """
    if not pools or len(pools) > POOLS_MAX:
        raise UsageError(f"pools: name 1 to {POOLS_MAX} of them")
    rows = [r for r in store.rows("decisions/pool", **_asked(window, None, cluster)) if r["pool"] is not None]
    known = sorted({row["pool"] for row in rows})
    if missing := [pool for pool in pools if pool not in known]:
        raise UsageError(f"pool {missing[0]!r}: cluster {cluster!r} has {', '.join(known) or 'none'} in this window")
    groups, scale, items = _groups(store, state, window), scale_of(store, window), []
    for model in sorted({row["gpu_model"] or "" for row in rows if row["pool"] in pools}):
        mine = [row for row in rows if row["pool"] in pools and (row["gpu_model"] or "") == model]
        asked = _asked(window, None, cluster) | {"pools": list(pools), "gpu_model": model, "scale": scale.shares}
        held = store.rows("decisions/held_at_once", **asked)[0]
        gpus = sum(row["gpus"] for row in mine)
        peak = Fraction(held["peak"], scale.shares)
        mean = Fraction(int(held["unit_us"]), scale.shares * (window.end_us - window.start_us))
        sizes = [row["gpus_a_node"] for row in mine]
        if None in sizes:
            raise UsageError(f"pool {mine[sizes.index(None)]['pool']!r}: the nodes of its GPUs are unknown")
        found = together(gpus, peak, mean, max(sizes), Fraction(assumed.headroom))
        prices = [groups[(cluster, row["pool"], row["gpu_model"])] for row in mine]
        # The dearest GPUs are given back first where pools differ in price.
        dearest = max((p.hourly for p in prices if p.hourly is not None), default=None)
        monthly = None if dearest is None else dearest * found.freed_gpus * HOURS_A_MONTH
        items.append(
            {
                "cluster": cluster,
                "gpu_model": model or None,
                "pools": {row["pool"]: row["gpus"] for row in mine},
                "gpus": gpus,
                "peak_gpus": _ratio(peak),
                "needed_gpus": found.needed_gpus,
                "freed_nodes": found.freed_nodes,
                "freed_gpus": found.freed_gpus,
                "utilisation_before": _ratio(found.utilisation_before),
                "utilisation_after": _ratio(found.utilisation_after),
                "saving_a_month": _money(monthly, 2),
                "currency": next((p.currency for p in prices if p.currency), None),
            }
        )
    return _answer(window, assumed, items)


@dataclass
class _Group:
    """What the books say of a cluster, pool and model: GPU-seconds held and owned, and the mean price of a GPU-hour."""

    gpus: int = 0
    held: Fraction = Fraction(0)
    owned: Fraction = Fraction(0)
    priced: Fraction = Fraction(0)
    cost: Fraction = Fraction(0)
    currency: str | None = None

    @property
    def used(self) -> Fraction | None:
        return self.held / self.owned if self.owned else None

    @property
    def hourly(self) -> Fraction | None:
        return self.cost * 3600 / self.priced if self.priced else None


def _groups(store: Store, state: State, window: Window) -> dict[tuple[str | None, ...], _Group]:
    by = ("cluster", "pool", "gpu_model")
    groups: dict[tuple[str | None, ...], _Group] = {}
    for row in cost.ledger(store, state, window, (*by, "bucket")).items:
        one = groups.setdefault(tuple(row.group[name] for name in by), _Group())
        seconds = Fraction(row.gpu_seconds)
        one.owned += seconds
        one.held += seconds if row.bucket in HELD_BUCKETS else 0
        if row.cost is not None:
            one.priced, one.cost, one.currency = one.priced + seconds, one.cost + Fraction(row.cost), row.currency
    for found in store.rows("decisions/pool", **_asked(window, None)):
        if (one_group := groups.get(tuple(found[name] for name in by))) is not None:
            one_group.gpus = found["gpus"]
    return groups


def _verdict(row: _Group, hourly: Fraction, cloud: Fraction, hardware: Owned | None) -> dict[str, Any]:
    used, gpus = row.used or Fraction(0), row.gpus or 1
    capex = None if hardware is None else Fraction(hardware.capex) * gpus / hardware.gpus
    monthly = Fraction(0) if hardware is None else _monthly(hardware) * gpus / hardware.gpus
    point = break_even(hourly, cloud)
    return {
        "break_even_utilisation": _ratio(point),
        "cheaper": "owned" if used > point else "cloud",
        "saved_by_owning_a_month": _money(gpus * HOURS_A_MONTH * (used * cloud - hourly), 2),
        "payback_months": _ratio(None if capex is None else payback_months(capex, gpus, used, cloud, monthly)),
        "payback_needs": None if capex is not None else "capex of the hardware: gpuwatch rates owned FILE",
        "sensitivity": [_case(case) for case in sensitivity(hourly, cloud, gpus, used, capex, monthly)],
    }


def _case(case: Case) -> dict[str, str | None]:
    return {
        "cloud_price": _money(case.cloud_price, 6),
        "utilisation": _ratio(case.utilisation),
        "break_even_utilisation": _ratio(case.break_even),
        "saved_by_owning_a_month": _money(case.saved_a_month, 2),
        "payback_months": _ratio(case.payback_months),
    }


def _monthly(hardware: Owned) -> Fraction:
    """Running costs of a month: power and the yearly amounts, without the investment."""
    kwh = Fraction((hardware.kw or Decimal(0)) + hardware.host_kw) * Fraction(hardware.pue) * HOURS_A_MONTH
    yearly = hardware.ops_per_year + hardware.space_per_year + hardware.support_per_year
    return kwh * Fraction(hardware.price_per_kwh) + Fraction(yearly) / 12


def _hardware(
    owned: Sequence[Owned], cluster: str | None, pool: str | None, model: str | None, at_us: int
) -> Owned | None:
    """The hardware record that prices these GPUs, the most specific one."""
    rates = {one.rate(): one for one in owned if one.kw is not None}
    found = resolve(list(rates), cluster or "", pool, model or "", None, at_us - 1)
    return None if found is None else rates[found]


def _cloud_price(
    state: State, group: tuple[str | None, ...], window: Window, assumed: Assumptions
) -> tuple[Fraction | None, str | None]:
    """The price of an hour in the cloud, and where it comes from."""
    if assumed.cloud_price is not None:
        return Fraction(assumed.cloud_price), "given"
    cluster, pool, model = group
    listed = [rate for rate in rate_cards.in_force(state) if rate.pricing == "on_demand"]
    found = resolve(listed, cluster or "", pool, model or "", None, window.end_us - 1)
    return (None, None) if found is None else (Fraction(found.usd_per_gpu_hour), "on-demand rate of the card")


def _spot_ratio(rates: Sequence[Any], priced: tuple[Any, ...], assumed: Assumptions) -> Decimal | None:
    """Spot price over the price now: of the assumption, else of the card; None where neither says, or it is spot now."""
    in_use = resolve(list(rates), *priced)
    if in_use is not None and in_use.pricing == "spot":
        return None
    if assumed.spot_discount is not None:
        return 1 - assumed.spot_discount
    now = resolve([rate for rate in rates if rate.pricing != "spot"], *priced)
    there = resolve([rate for rate in rates if rate.pricing == "spot"], *priced)
    if now is None or there is None or not now.usd_per_gpu_hour or now.currency != there.currency:
        return None
    return there.usd_per_gpu_hour / now.usd_per_gpu_hour


def _slices(model: str | None) -> list[tuple[str, Fraction, int, Fraction]]:
    """Slices of a model for smallest_fit; [] for one without known MIG profiles."""
    key = mig.model_key(model) if model else None
    if key is None:
        return []
    geometry = GEOMETRIES[key]
    return [
        (
            profile.name,
            Fraction(mig.share_units(key, profile.name)) / mig.SHARE_UNITS,
            int((profile.memory_gib or Fraction(profile.memory_gb)) * 2**30),
            Fraction(profile.compute_slices, geometry.compute_slices),
        )
        for profile in geometry.profiles.values()
        if not profile.media and profile.memory_slices < geometry.memory_slices
    ]


def _lacking(hourly: Fraction | None, cloud: Fraction | None, model: str | None) -> str:
    if hourly is None:
        return f"no price for {model or 'this model'}: add a rate, or gpuwatch rates owned FILE"
    if cloud is None:
        return f"no cloud price for {model or 'this model'}: give one, or add a rate with pricing on_demand"
    return "nothing was owned in this window"


def _asked(window: Window, teams: Collection[str] | None, cluster: str | None = None) -> dict[str, Any]:
    wanted = None if teams is None else sorted(teams)
    return {"start_us": window.start_us, "end_us": window.end_us, "teams": wanted, "cluster": cluster}


def _sums(items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Savings by currency."""
    sums: dict[str, Decimal] = {}
    for item in items:
        if item["currency"] is not None and item["saving"] is not None:
            sums[item["currency"]] = sums.get(item["currency"], Decimal(0)) + Decimal(item["saving"])
    return {currency: f"{amount:f}" for currency, amount in sorted(sums.items())}


def _answer(window: Window, assumed: Assumptions, items: list[dict[str, Any]], **extra: Any) -> dict[str, Any]:
    span = {"start": rfc3339(window.start_us), "end": rfc3339(window.end_us)}
    return {"items": items, **extra, "assumptions": assumed.as_dict(), "window": span}


def _money(amount: Fraction | None, places: int) -> str | None:
    return None if amount is None else f"{fraction_to_decimal(amount, places):f}"


def _ratio(value: Fraction | None) -> str | None:
    return _money(value, 4)
