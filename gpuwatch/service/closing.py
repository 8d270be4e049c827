"""Who closes a period: a process with all data of its own, or the lead over the copy of all cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuwatch.billing.prices import is_priced
from gpuwatch.core.errors import Misdirected
from gpuwatch.service.leading import leads
from gpuwatch.state import State
from gpuwatch.store.database import Store

if TYPE_CHECKING:
    from gpuwatch.service.service import Service


def needs(service: Service, store: Store) -> tuple[Callable[[], bool], State]:
    """What prices the ledger first, or says that it waits for the cells, and the state to write to.

    Raises Misdirected if a lead does it: this process has a part of the fleet, or a copy.
    """
    if not leads(service) and service.plan.lake is not None and service.state.on_server:
        raise Misdirected(
            f"a process of role {service.role.name} closes no period of a lake: send it to the one with --role lead"
        )
    if service.mirror is None:
        return service.reprice, service.state
    service.holding.check()
    return lambda: is_priced(store, service.state), service.holding.fenced(service.state)
