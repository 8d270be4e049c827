"""What the lead does over the copy of all cells: corrections of closed periods, messages, reports. All of it can be repeated."""

from __future__ import annotations

from typing import Protocol

from gpuwatch.billing.periods.close import find_corrections
from gpuwatch.service.after_pass import Alerting
from gpuwatch.service.holding import Always
from gpuwatch.service.metrics import Telemetry
from gpuwatch.service.mirroring import Mirroring
from gpuwatch.service.publishing import Publishing
from gpuwatch.service.roles import Role
from gpuwatch.state import State
from gpuwatch.state.lease import LEAD, is_held
from gpuwatch.store.database import Store


class Led(Protocol):
    """What the lead needs of a service."""

    role: Role
    holding: Always
    state: State
    mirror: Mirroring | None
    publishing: Publishing
    telemetry: Telemetry

    def now_us(self) -> int:
        """The clock of the service."""


def leads(service: Led) -> bool:
    """Whether this process does what concerns the whole fleet: its role does, and no process of role lead has that work.

    One of role `all` that is a cell of a lake leaves it to the lead, which sees all cells: both would send and correct the same.
    """
    shares = service.role.analyses and service.holding.epoch is not None
    return service.role.leads and not (shares and is_held(service.state, LEAD))


def after_pass(service: Led, alerting: Alerting, store: Store, passes: int) -> None:
    """What follows a pass: metrics, the publish, and messages, where this process sends them."""
    if service.mirror is not None:
        _lead(service, service.mirror, alerting, store)
        return
    service.telemetry.fleet.refresh(store, service.state, passes)
    service.publishing.wake()
    if service.holding.valid and leads(service):
        alerting.after_pass(store)


def _lead(service: Led, mirror: Mirroring, alerting: Alerting, store: Store) -> None:
    """One round, on one snapshot of the lake; nothing before the first copy is whole, and nothing without the lease."""
    if not service.holding.valid or mirror.problems():
        return
    state = service.holding.fenced(service.state)
    with mirror.snapshot(store) as found:
        service.telemetry.fleet.refresh(found, service.state, mirror.pulls)
        find_corrections(found, state, service.now_us())
        alerting.after_pass(found)
