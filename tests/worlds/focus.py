"""A fleet with every kind of FOCUS row, and its rows as records."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from decimal import Decimal
from typing import Any

from gpuwatch.billing import chargeback
from gpuwatch.billing.focus import export as focus_export
from gpuwatch.billing.focus.columns import NUMBERS
from gpuwatch.billing.focus.export import Exported
from gpuwatch.billing.periods import close as periods_close
from gpuwatch.core.clock import Window
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.policy import KIND
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists
from tests.worlds.templates import computed_once
from tests.worlds.world import BUSY, H100, HOUR, IDLE, Gpu, World, claim, minutes, samples, us

DAY = 24 * HOUR
WEEK, NOW_US = "2026-W45", us(8 * DAY)
CLOSED = Window(us(0), us(7 * DAY))
MONTH = Window(us(-DAY), us(29 * DAY))
"""November 2026."""
A100 = "NVIDIA A100-SXM4-80GB"
L40S = "NVIDIA L40S"
FROM = us(-HOUR)


def rate(price: str, pricing: str = "owned", model: str = H100, **words: Any) -> Rate:
    return Rate(model, pricing, Decimal(price), FROM, **words)


def state_of(world: World, *rates: Rate) -> State:
    """Two accounts, each a team, and these prices."""
    state = State.open("sqlite://")
    replace_rates(state, list(rates), "test", "test", 0)
    replace_team_rules(state, [TeamRule("account", "a", "red"), TeamRule("account", "b", "blue")], "test", "test", 0)
    chargeback.price_all(world.store, state)
    return state


def focus_rows(
    world: World, state: State, window: Window, version: str = "1.2", teams: Collection[str] | None = None
) -> list[dict[str, Any]]:
    """Rows of a window as the CSV file has them: numbers as Decimal, what is empty as None."""
    file = io.BytesIO()
    focus_export.write(world.store, state, window, file, version=version, teams=teams)
    lines = csv.DictReader(io.StringIO(file.getvalue().decode(), newline=""))
    return [{name: _value(name, text) for name, text in line.items()} for line in lines]


def exported(world: World, state: State, window: Window) -> Exported:
    return focus_export.write(world.store, state, window, io.BytesIO())


@computed_once
def everything() -> tuple[World, State]:
    """MIG slices, committed, owned, spot and listed GPUs, idle time that a policy shares, and a week closed and corrected."""
    slices = [Gpu("GPU-m", "n3", 0, gi, profile) for gi, profile in ((1, "3g.40gb"), (2, "1g.10gb"))]
    fleet = [
        (Gpu("GPU-1", "n1"), IDLE),
        (Gpu("GPU-2", "n2"), BUSY),
        *((one, BUSY) for one in slices),
        (Gpu("GPU-a", "n4", model=A100), BUSY),
        (Gpu("GPU-l", "n5", model=L40S), BUSY),
    ]
    world = World().add(
        *(samples(gpu, minutes(0, 2 * HOUR), fields) for gpu, fields in fleet),
        claim("1", 0, HOUR, "n1", gpus="GPU-1", account="a", user_name="ann", labels='{"project":"x, \\"y\\""}'),
        claim("2", HOUR / 2, 2 * HOUR, "n2", gpus="GPU-2", account="b", user_name="bob"),
        claim("3", 0, HOUR + 7, "n3", gpus="GPU-m/GI-1", profile="3g.40gb", account="a", user_name="ann"),
        claim("4", 60, HOUR, "n4", gpus="GPU-a", account="a"),
        claim("5", 0, HOUR, "n5", gpus="GPU-l", account="b"),
    )
    state = state_of(
        world.book(),
        rate("2.49"),
        rate("1.10", "reserved", A100, commitment_id="ri-7", list_price=Decimal("2.95")),
        rate("0.613", "spot", L40S, assume_spot=True),
    )
    periods_close.close(world.store, state, WEEK, "ada", NOW_US, force=True)
    replace_rates(
        state,
        [
            rate("2.75"),
            rate("1.10", "reserved", A100, commitment_id="ri-7", list_price=Decimal("2.95")),
            rate("0.613", "spot", L40S, assume_spot=True),
        ],
        "test",
        "test",
        1,
    )
    chargeback.price_all(world.store, state)
    periods_close.find_corrections(world.store, state, NOW_US)
    share_idle(state)
    return world, state


def share_idle(state: State) -> None:
    """Idle time is paid by the teams in proportion, from before the first sample on."""
    policy = {"name": "fair", "valid_from": "2026-10-01T00:00:00Z", "payers": {"idle": {"payer": "proportional"}}}
    VersionedLists(state).replace(KIND, [policy], "test", "test", 2)


def _value(name: str, text: str) -> Any:
    if not text:
        return None
    return Decimal(text) if name in NUMBERS else text
