"""FOCUS rows beside usage: what a policy moves between teams, and what corrects closed periods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpuwatch.billing import chargeback
from gpuwatch.billing.focus.columns import PLACES
from gpuwatch.billing.focus.tables import month_of
from gpuwatch.billing.periods.corrections.repository import Corrections
from gpuwatch.billing.periods.repository import FINE, Periods
from gpuwatch.core.clock import SECOND_US, Window, day_floor, rfc3339, second_floor
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.policy.policy import Policies
from gpuwatch.state import State
from gpuwatch.store.database import Store

Records = Mapping[int, Sequence[Mapping[str, Any]]]
"""Rows by the start of their charge period; amounts are in units of 10^-12."""
CLASS = ("team", "cluster", "pool", "gpu_model", "mig_profile")
"""Words by which a charge without a policy is compared with one."""
ONE = 10**PLACES

Key = tuple[str | None, ...]


@dataclass(frozen=True)
class Rest:
    """What is asked for beyond usage; `days` are the parts of days of the usage rows."""

    store: Store
    state: State
    window: Window
    policies: Policies
    days: Sequence[Window]
    cluster: str | None
    pool: str | None
    teams: Collection[str] | None


def adjustments(rest: Rest) -> Records:
    """Rows that bring usage to what is charged: each day by the policies in force, and the window of a closed period to
    what was frozen. None where teams pay for what they hold and nothing is closed.
    """
    records: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for day in rest.days:
        if rest.policies.plain(day.start_us, day.end_us):
            continue
        policy = rest.policies.at(day_floor(day.start_us)).name
        moved = _difference(_charged(rest, day, closed=False), _charged(rest, day, Policies()))
        records[day.start_us] += [_adjustment(key, units, day, f"Policy {policy}", policy) for key, units in moved]
    if (name := _frozen(rest)) is not None:
        whole = rest.window
        moved = _difference(_charged(rest, whole, closed=True, less_posted=True), _charged(rest, whole, closed=False))
        reason = f"Found after period {name} was closed, billed where it was corrected"
        records[whole.start_us] += [_adjustment(key, units, whole, reason, None) for key, units in moved]
    return {start: rows for start, rows in records.items() if rows}


def corrections(rest: Rest) -> Records:
    """Rows of what corrects closed periods (ChargeClass Correction): billed in the window, or with its sign turned where the
    window has the change already and it is billed elsewhere.
    """
    records: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in Corrections(rest.state).billed(rest.window, _frozen(rest)):
        words = line.words
        if not _shown(rest, words) or line.cost_exact is None or line.currency is None:
            continue
        amount, seconds = _units(line.cost_exact), _units(line.gpu_seconds)
        start_us = second_floor(line.posted_us)
        held = words.get("team") not in (None, PLATFORM)
        record = {
            **_amounts(amount, line.currency),
            "PricingQuantity": _rounded(Fraction(seconds, 3600)),
            "ConsumedQuantity": seconds,
            "ChargePeriodStart": start_us,
            "ChargePeriodEnd": start_us + SECOND_US,
            "ChargeDescription": f"Correction of period {line.period}: {line.why}",
            "AllocatedResourceId": words.get("job"),
            "AllocatedResourceName": words.get("job"),
            "AllocatedMethodId": "gpuwatch:period-correction:v1" if words.get("job") else None,
            **_words(words, held=held),
            "x_User": words.get("user"),
            "x_Account": words.get("account"),
            "x_Queue": words.get("queue"),
            "x_Namespace": words.get("namespace"),
            "x_Job": words.get("job"),
        }
        records[month_of(start_us)[0]].append(record)
    return records


def _frozen(rest: Rest) -> str | None:
    """The closed period whose frozen rows answer for the window by CLASS; one of an earlier release has not all its words."""
    closing = Periods(rest.state).at(rest.window)
    return None if closing is None or closing.level != FINE else closing.name


def _charged(
    rest: Rest, window: Window, policies: Policies | None = None, *, closed: bool = False, less_posted: bool = False
) -> dict[Key, int]:
    """Exact cost by the words of CLASS and the currency. `less_posted`: without corrections that are rows of their own."""
    answer = chargeback.chargeback(
        rest.store, rest.state, window, CLASS, rest.cluster, rest.teams, pool=rest.pool, policy=policies, closed=closed
    )
    sums: dict[Key, int] = defaultdict(int)
    for charge in answer.items:
        if charge.cost_exact is None or (less_posted and charge.kind == "correction"):
            continue
        sums[(*(charge.group[name] for name in CLASS), charge.currency)] += _units(charge.cost_exact)
    return sums


def _difference(target: Mapping[Key, int], base: Mapping[Key, int]) -> list[tuple[Key, int]]:
    keys = dict.fromkeys((*base, *target))
    found = [(key, target.get(key, 0) - base.get(key, 0)) for key in keys]
    return sorted((one for one in found if one[1]), key=lambda one: tuple(word or "" for word in one[0]))


def _adjustment(key: Key, units: int, span: Window, reason: str, policy: str | None) -> dict[str, Any]:
    words, currency = dict(zip(CLASS, key, strict=False)), key[-1]
    start_us = second_floor(span.start_us)
    # A charge lies within one month, which a week may not.
    end_us = min(-(-span.end_us // SECOND_US) * SECOND_US, month_of(start_us)[1])
    return {
        **_amounts(units, currency or ""),
        "ChargePeriodStart": start_us,
        "ChargePeriodEnd": end_us,
        "ChargeDescription": f"{reason}: {'less' if units < 0 else 'more'} than usage from {rfc3339(start_us)}",
        **_words(words, held=words["team"] != PLATFORM),
        "x_Policy": policy,
    }


def _amounts(units: int, currency: str) -> dict[str, Any]:
    costs = dict.fromkeys(("BilledCost", "EffectiveCost", "ContractedCost", "ListCost"), units)
    return {**costs, "BillingCurrency": currency, "PricingCurrency": currency, "PricingCurrencyEffectiveCost": units}


def _words(words: Mapping[str, str | None], *, held: bool) -> dict[str, Any]:
    team, account = words.get("team"), words.get("cluster") or PLATFORM
    return {
        "BillingAccountId": account,
        "BillingAccountName": account,
        **(dict.fromkeys(("SubAccountId", "SubAccountName"), team) if held else {}),
        **({"SubAccountType": "Team"} if held else {}),
        "x_Cluster": words.get("cluster"),
        "x_Pool": words.get("pool"),
        "x_GpuModel": words.get("gpu_model"),
        "x_MigProfile": words.get("mig_profile"),
        "x_Team": team,
    }


def _shown(rest: Rest, words: Mapping[str, str | None]) -> bool:
    return (
        (rest.teams is None or words.get("team") in rest.teams)
        and (rest.cluster is None or words.get("cluster") == rest.cluster)
        and (rest.pool is None or words.get("pool") == rest.pool)
    )


def _units(amount: Any) -> int:
    """An amount in units of 10^-12; more decimals are rounded."""
    return _rounded(Fraction(amount) * ONE)


def _rounded(value: Fraction) -> int:
    return round(value)
