"""A store and its state, opened together and refused if they do not belong together.

Each remembers the id of the other. An empty state in place of a lost one would drop tokens, prices and policies without a
word, and let everybody on the machine in. An empty store in place of a lost one would drop the ledger without a word.
"""

from __future__ import annotations

import logging
from pathlib import Path
from shlex import quote

from gpuwatch.core.errors import StoreError
from gpuwatch.state.core import State
from gpuwatch.state.server import Server
from gpuwatch.state.sqlite_file import FILE, StateMissing
from gpuwatch.store.database import FILE_NAME, Store, linked_state

log = logging.getLogger(__name__)
STORE = "store_id"
"""The setting with the id of the store that belongs to a state; on a server, those of several that share it."""
STORES_MAX = 100


MOVED = "moved_to"
"""The setting with the address of the copy that replaces a state."""


def check_store(directory: Path, new_store: bool = False, server: Server | None = None) -> None:
    """Call before a store is opened, which may create it. Raises StoreError if it is missing although the state of the
    directory remembers one, unless `new_store` is set.
    """
    if new_store or (directory / FILE_NAME).exists():
        return
    try:
        with _open(directory, server, create=False) as state:
            remembered = state.setting(STORE)
    except StateMissing:
        return
    if remembered is not None:
        raise _no_store(f"store {directory / FILE_NAME}: is missing, but the state remembers one", directory)


def open_state_of(
    store: Store, directory: Path, new_state: bool = False, new_store: bool = False, server: Server | None = None
) -> State:
    """The state of an open store in a data directory, or on a server. Creates it for a new store, or if `new_state` is set.

    Each of the two remembers the other. One of an older version, which remembers none, adopts the one it has, and so does
    one whose process was killed before both were noted. Raises StoreError if the state is missing or another one, or if
    the state remembers another store and neither `new_store` nor `new_state` is set; then it has created nothing.
    """
    linked = store.linked_state()
    try:
        state = _open(directory, server, create=new_state or (linked is None and store.is_empty()))
    except StateMissing as error:
        raise _no_state(f"{error}, but the store had one", directory, server) from error
    try:
        found = state.identity()
        if linked is not None and linked != found and not new_state:
            raise _no_state(f"state {state.name}: is not the state that the store remembers", directory, server)
        remembered, known = state.setting(STORE), store.identity()
        stores = [] if remembered is None else remembered.split(",")
        if stores and known not in stores and not (new_store or new_state):
            raise _no_store(f"store {directory / FILE_NAME}: is not the store that the state remembers", directory)
        if linked != found:
            store.link_state(found)
        if known not in stores:
            shared = [] if server is None else stores[1 - STORES_MAX :]
            state.note(STORE, ",".join([*shared, known]))
    except BaseException:
        state.close()
        raise
    if new_state and linked == found:
        log.warning("--new-state has no effect: the state is the one that the store remembers; remove the option")
    elif linked not in (None, found):
        log.warning("the store now uses another state, %s; check tokens, prices and policies", state.name)
    if new_store and (not stores or known in stores):
        log.warning("--new-store has no effect: the store is the one that the state remembers; remove the option")
    elif stores and known not in stores:
        others = "another store; what only the former one had is not in it" if server is None else "one more store"
        log.warning("the state now belongs to %s", others)
    return state


def open_shared(server: Server) -> State:
    """The state of other processes on a server, for one that only copies their data. Raises StoreError if there is none."""
    try:
        return _open(Path(), server, create=False)
    except StateMissing as error:
        raise StoreError(f"{error}; start a process that analyzes with this state first") from error


def open_state_only(directory: Path, server: Server | None = None) -> State:
    """The state of a data directory that a server may hold, or that has no store yet.

    Raises StoreError as open_state_of does. The id is compared unless another process has the store open: that process
    has compared it.
    """
    exists = (directory / FILE_NAME).exists()
    linked = linked_state(directory) if exists else None
    try:
        state = _open(directory, server, create=not exists)
    except StateMissing as error:
        raise _no_state(f"{error}, but there is a store", directory, server) from error
    if linked is not None and linked != state.identity():
        state.close()
        raise _no_state(f"state {state.name}: is not the state that the store remembers", directory, server)
    return state


def _open(directory: Path, server: Server | None, create: bool) -> State:
    """The state, unless it was moved to another database."""
    state = State.open(server or directory, create=create)
    try:
        moved = state.setting(MOVED)
    except BaseException:
        state.close()
        raise
    if moved is not None:
        state.close()
        raise StoreError(
            f"state {state.name}: was copied to {moved}, which is used since; name that with --state, GPUWATCH_STATE_URL or "
            "state_url"
        )
    return state


def _no_state(problem: str, directory: Path, server: Server | None) -> StoreError:
    where = quote(str(directory))
    if server is None:
        other = "If it is on PostgreSQL, name it: --state URL or GPUWATCH_STATE_URL. "
    elif (directory / FILE).exists():
        other = f"If it is the one in {directory / FILE}, copy it: unset GPUWATCH_STATE_URL and run gpuwatch state copy URL "
        other += f"--data {where}. "
    else:
        other = "Check that the URL names the right database. "
    return StoreError(
        f"{problem}. Without it there are no tokens, prices and policies. {other}Restore it from a backup "
        f"(gpuwatch restore BACKUP --state-only --data {where}), or start with what is there: "
        f"gpuwatch serve --new-state --data {where}"
    )


def _no_store(problem: str, directory: Path) -> StoreError:
    where = quote(str(directory))
    return StoreError(
        f"{problem}. Without it the measurements and the ledger are lost. Restore both from a backup "
        f"(gpuwatch restore BACKUP --data {where}), or go on without them: gpuwatch serve --new-store --data {where}"
    )
