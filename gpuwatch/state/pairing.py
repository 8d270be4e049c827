"""A store and its state, opened together and refused if they do not belong together.

The store remembers the id of its state. An empty state in place of a lost one would drop tokens, prices and policies
without a word, and let everybody on the machine in.
"""

from __future__ import annotations

import logging
from pathlib import Path
from shlex import quote

from gpuwatch.core.errors import StoreError
from gpuwatch.state.core import State
from gpuwatch.state.sqlite_file import StateMissing
from gpuwatch.store.database import FILE_NAME, Store, linked_state

log = logging.getLogger(__name__)


def open_state_of(store: Store, directory: Path, new_state: bool = False) -> State:
    """The state of an open store in a data directory. Creates it for a new store, or if `new_state` is set.

    A store of an older version, which remembers no state, adopts the one it has. Raises StoreError if the state is
    missing or another one; then it has created nothing.
    """
    linked = store.linked_state()
    try:
        state = State.open(directory, create=new_state or (linked is None and store.is_empty()))
    except StateMissing as error:
        raise _refused(f"{error}, but the store had one", directory) from error
    try:
        found = state.identity()
        if linked == found:
            if new_state:
                log.warning(
                    "--new-state has no effect: the state is the one that the store remembers; remove the option"
                )
            return state
        if linked is not None and not new_state:
            raise _refused(f"state {state.name}: is not the state that the store remembers", directory)
        store.link_state(found)
        if linked is not None:
            log.warning("the store now uses another state, %s; check tokens, prices and policies", state.name)
    except BaseException:
        state.close()
        raise
    return state


def open_state_only(directory: Path) -> State:
    """The state of a data directory that a server may hold, or that has no store yet.

    Raises StoreError as open_state_of does. The id is compared unless another process has the store open: that process
    has compared it.
    """
    exists = (directory / FILE_NAME).exists()
    linked = linked_state(directory) if exists else None
    try:
        state = State.open(directory, create=not exists)
    except StateMissing as error:
        raise _refused(f"{error}, but there is a store", directory) from error
    if linked is not None and linked != state.identity():
        state.close()
        raise _refused(f"state {state.name}: is not the state that the store remembers", directory)
    return state


def _refused(problem: str, directory: Path) -> StoreError:
    where = quote(str(directory))
    return StoreError(
        f"{problem}. Without it there are no tokens, prices and policies. Restore it from a backup "
        f"(gpuwatch restore BACKUP --state-only --data {where}), or start with what is there: "
        f"gpuwatch serve --new-state --data {where}"
    )
