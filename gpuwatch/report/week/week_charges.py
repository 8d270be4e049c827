"""The charges of a week, rounded to cents within each team."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from gpuwatch.billing import chargeback, records
from gpuwatch.core.clock import Window
from gpuwatch.core.money import CENT_PLACES, largest_remainder
from gpuwatch.report.facts import Charge, ModelUse, amount_of
from gpuwatch.state import State
from gpuwatch.store.database import Store

FINE = ("team", "user", "cluster", "job")
Paid = tuple[str | None, str, str | None, str | None]
"""(team, kind, cause of a shared cost, currency)"""


@dataclass(frozen=True)
class WeekCharges:
    """Charges of a window by team, user, job and model; `closed`: as frozen for a closed period."""

    store: Store
    state: State
    window: Window
    teams: Collection[str] | None
    closed: bool

    def charges(self) -> list[Charge]:
        """Charges by job, most expensive first."""
        rows = [_row(charge, amount) for charge, amount in self._rounded(FINE)]
        rows.sort(
            key=lambda c: (c.kind == "platform", -(c.cost or Decimal(0)), str((c.team, c.user, c.cluster, c.job)))
        )
        return rows

    def models(self) -> list[ModelUse]:
        """Charges by GPU model and slice size."""
        rows = [
            ModelUse(
                c.group["team"],
                c.group["gpu_model"],
                c.group["mig_profile"],
                c.kind,
                amount_of(c.gpu_seconds, amount, c.currency),
            )
            for c, amount in self._rounded(("team", "gpu_model", "mig_profile"))
        ]
        rows.sort(key=lambda m: (-sum((c for _, c in m.amount.costs), Decimal(0)), str((m.gpu_model, m.mig_profile))))
        return rows

    def _rounded(self, by: Sequence[str]) -> Iterable[tuple[records.Charge, Decimal | None]]:
        """Charges rounded to cents within each team, so that a team's report and the fleet's show the same amounts.

        Corrections were rounded when they were posted, and stay as they are.
        """
        fine: dict[Paid, list[records.Charge]] = defaultdict(list)
        for charge in self._charges(by):
            if charge.kind == "correction" or charge.cost_exact is None:
                yield charge, charge.cost
            else:
                fine[_paid_key(charge)].append(charge)
        for key, group in fine.items():
            exact = [c.cost_exact for c in group if c.cost_exact is not None]
            names = [f"{c.group}" for c in group]
            yield from zip(
                group, largest_remainder(exact, CENT_PLACES, names, total=self._published.get(key)), strict=True
            )

    @cached_property
    def _published(self) -> Mapping[Paid, Decimal]:
        """What a team pays by kind and currency, in cents: its detailed rows add up to that."""
        return {_paid_key(c): c.cost for c in self._charges(("team",)) if c.cost is not None}

    def _charges(self, by: Sequence[str]) -> Sequence[records.Charge]:
        return chargeback.chargeback(
            self.store, self.state, self.window, by, teams=self.teams, closed=self.closed
        ).items


def _paid_key(charge: records.Charge) -> Paid:
    return charge.group["team"], charge.kind, charge.cause, charge.currency


def _row(charge: records.Charge, amount: Decimal | None) -> Charge:
    group = charge.group
    return Charge(
        team=group["team"],
        user=group["user"],
        cluster=group["cluster"],
        job=group["job"],
        kind=charge.kind,
        gpu_seconds=charge.gpu_seconds,
        cost=amount,
        cost_exact=charge.cost_exact,
        currency=charge.currency,
        error=charge.error,
        inferred=charge.inferred,
    )
