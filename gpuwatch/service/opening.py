"""Opens what a service works on: the store of a directory with its state, or a replica's copy with the shared state."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.service.config import Plan
from gpuwatch.service.priority import threads, yield_to_others
from gpuwatch.service.roles import Role, check_directory, is_replica, part_of
from gpuwatch.state import State
from gpuwatch.state.pairing import check_store, open_shared, open_state_of
from gpuwatch.state.server import Server
from gpuwatch.store.database import Store


@dataclass(frozen=True)
class Opened:
    """A store and its state. `scratch` is the folder of a state without a directory."""

    store: Store
    state: State
    scratch: str | None

    def close(self) -> None:
        """Closes both."""
        self.state.close()
        self.store.close()
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)


def opened(directory: Path | None, plan: Plan, role: Role, new_state: bool, new_store: bool) -> Opened:
    """Raises UsageError for a plan that the role cannot follow, StoreError for a directory in use, or without its store or state."""
    replica = is_replica(role, part_of(role, plan))
    server = Server.of(plan.settings)
    if replica and (directory is None or server is None):
        raise UsageError(
            f"--role {role.name} with [lake]: set state_url (or --state) to the PostgreSQL state of the cells, which has their tokens, "
            "prices and teams; or leave [lake] out to work on the directory as it is"
        )
    if directory is not None:
        check_directory(role, directory, replica)
    before = threads()
    if directory is not None and not replica:
        check_store(directory, new_store, server)
    settings = plan.settings
    store = Store.open(
        directory,
        memory_limit=settings.memory_limit,
        threads=settings.threads,
        temp_directory=settings.temp_directory,
    )
    # DuckDB's worker threads run at low priority; a request's own thread keeps full priority.
    yield_to_others(threads() - before)
    scratch = None
    try:
        if replica and server is not None:
            return Opened(store, _shared(store, server), None)
        if directory is not None:
            return Opened(store, open_state_of(store, directory, new_state, new_store, server), None)
        # An in-memory state would differ per thread, so use a temporary file.
        scratch = tempfile.mkdtemp(prefix="gpuwatch-")
        return Opened(store, State.open(scratch), scratch)
    except BaseException:
        store.close()
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        raise


def _shared(store: Store, server: Server) -> State:
    """The state of the cells. Raises StoreError for a directory that is no copy of a lake: it would be replaced."""
    from gpuwatch.lake import mirror

    if not mirror.is_mirror(store) and not (store.is_empty() and store.linked_state() is None):
        raise StoreError(
            f"[lake]: {store.path} has data of its own, which the copy of the lake would replace: name an empty "
            "directory with --data, or leave [lake] out to work on this one"
        )
    return open_shared(server)
