"""Models of the deliveries routes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuwatch.api.schema.common import Strict, Time

DeliveryState = Literal["waiting", "sending", "sent", "given_up", "withdrawn"]


class Delivery(Strict):
    id: int
    channel: str
    event: str = Field(description="opened, worsened, resolved or report; for budgets, the threshold that was reached.")
    subject: str = Field(description="What it is about, in one sentence.")
    finding: str | None = Field(description="Key of the finding; null for a report.")
    severity: str | None
    team: str | None
    to: list[str] = Field(description="Recipients of a report that are not in the settings of the channel.")
    state: DeliveryState
    tries: int
    created_at: Time
    tried_at: Time | None
    sent_at: Time | None
    next_at: Time | None
    last_error: str | None


class Deliveries(Strict):
    items: list[Delivery]
    next: str | None
