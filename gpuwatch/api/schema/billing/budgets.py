"""Models of the budgets routes."""

from __future__ import annotations

from pydantic import Field

from gpuwatch.api.schema.common import Money, Quantity, Shape, Span, Strict, Time


class BudgetRow(Strict):
    team: str = Field(min_length=1, max_length=200, examples=["vision"], description="* is the fleet.")
    period: str = Field(max_length=10, examples=["month"])
    amount: str = Field(max_length=40, examples=["25000"])
    currency: str = Field(pattern=r"^[A-Z]{3}$")
    gpu_hours: str | None = Field(None, max_length=40)
    valid_from: Time | None = None
    valid_to: Time | None = None
    alert_at: str | None = Field(None, max_length=100, examples=["80 100"])


class BudgetsBody(Strict):
    items: list[BudgetRow] = Field(max_length=10_000)


class LevelChange(Shape):
    since: str
    before: Money
    after: Money


class Foretold(Shape):
    amount: Money
    low: Money
    high: Money
    level: str
    level_change: LevelChange | None


class Day(Shape):
    day: str
    cost: Money
    left: Money
    even: Money


class BudgetStatus(Shape):
    team: str
    period: str
    window: Span
    amount: Money
    currency: str
    spent: Money | None
    spent_ratio: float | None
    gpu_hours: Quantity
    gpu_hours_quota: str | None
    gpu_hours_ratio: float | None
    forecast: Foretold | None
    runs_out: str | None
    burn_down: list[Day]
    missing: str | None


class Budgets(Shape):
    items: list[BudgetStatus]
    version: int | None = Field(description="null for team-scoped tokens: budgets of other teams count in it.")


class BudgetsSet(Shape):
    items: list[BudgetRow]
    version: int | None = Field(description="null for team-scoped tokens: budgets of other teams count in it.")
