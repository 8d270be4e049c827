"""What a window would cost each team under other policies, prices or ownership rules, compared with today's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

from gpuwatch.billing import chargeback
from gpuwatch.billing.periods.repository import Periods
from gpuwatch.billing.proposed import Proposed
from gpuwatch.core.clock import Window
from gpuwatch.policy.policy import Policies
from gpuwatch.state import State
from gpuwatch.store.database import Store


@dataclass(frozen=True)
class Difference:
    """A team's published cost now and under other policies, in one currency. The sums over all teams equal the bill."""

    team: str | None
    currency: str
    now: Decimal
    then: Decimal

    @property
    def difference(self) -> Decimal:
        """What the team would pay more."""
        return self.then - self.now


def compare(
    store: Store,
    state: State,
    window: Window,
    policies: Policies | None = None,
    teams: Collection[str] | None = None,
    proposed: Proposed | None = None,
) -> tuple[Difference, ...]:
    """Each team's cost of a window now and under other policies, or prices and rules, the largest change first. Closed periods are recomputed,
    because this compares rules, not bills. Time without a price is left out. Raises UsageError as chargeback does.
    """
    sums: dict[tuple[str | None, str], list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    nothing: tuple[Policies | None, Proposed | None] = (None, None)
    for place, (policy, cards) in enumerate((nothing, (policies, proposed))):
        answer = chargeback.chargeback(store, state, window, teams=teams, policy=policy, closed=False, proposed=cards)
        for charge in answer.items:
            if charge.cost is not None and charge.currency is not None:
                sums[(charge.group["team"], charge.currency)][place] += charge.cost
    found = [Difference(team, currency, now, then) for (team, currency), (now, then) in sums.items()]
    return tuple(sorted(found, key=lambda d: (-abs(d.difference), d.currency, d.team or "")))


def closed_in(state: State, window: Window) -> list[str]:
    """The closed periods that a window touches: a change for them becomes a correction, and their bill stays."""
    return sorted(
        one.name
        for one in Periods(state).in_force()
        if one.window.start_us < window.end_us and window.start_us < one.window.end_us
    )
