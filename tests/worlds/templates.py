"""Worlds that several tests start from: computed once, then copied, which is many times faster."""

from __future__ import annotations

import copy
import functools
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import duckdb

from gpuwatch.state import State
from gpuwatch.store.database import Store

P = ParamSpec("P")
T = TypeVar("T")


def computed_once(build: Callable[P, T]) -> Callable[P, T]:
    """For a function that makes a world: equal arguments give equal worlds, so only the first call computes.

    It may return a store, a state, a world that has one, or a tuple of such things. Each call returns its own copies,
    in memory.
    """

    def first(*arguments: Any, **named: Any) -> Callable[[], Any]:
        return _saved(build(*arguments, **named))

    template: Callable[..., Callable[[], Any]] = functools.cache(first)

    @functools.wraps(build)
    def made(*arguments: P.args, **named: P.kwargs) -> T:
        found: T = template(*arguments, **named)()
        return found

    return made


def _saved(value: Any) -> Callable[[], Any]:
    """Saves a value; returns what makes copies of it."""
    if isinstance(value, tuple):
        parts = [_saved(part) for part in value]
        return lambda: tuple(part() for part in parts)
    if isinstance(value, Store):
        return _saved_store(value)
    if isinstance(value, State):
        return _saved_state(value)
    kept = {name: _saved(part) for name, part in vars(value).items()} if hasattr(value, "store") else {}
    if not kept:
        return lambda: copy.deepcopy(value)

    def another() -> Any:
        one = copy.copy(value)
        for name, part in kept.items():
            setattr(one, name, part())
        return one

    return another


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where templates of this process are kept; removed when it ends."""
    return tempfile.TemporaryDirectory(prefix="gpuwatch-templates-")


def _path(suffix: str) -> Path:
    folder = Path(_folder().name)
    return folder / f"{len(list(folder.iterdir()))}.{suffix}"


def _saved_store(store: Store) -> Callable[[], Store]:
    path = _path("duckdb")
    here = store.sql("select current_database()")[0][0]
    _copied(store._connection, f"attach '{path}' as template", f'copy from database "{here}" to template')
    store.close()

    def another() -> Store:
        connection = duckdb.connect(":memory:")
        _copied(connection, f"attach '{path}' as template (read_only)", "copy from database template to memory")
        return Store(connection, None)

    return another


def _copied(connection: duckdb.DuckDBPyConnection, *statements: str) -> None:
    for statement in (*statements, "detach template"):
        connection.execute(statement)


def _saved_state(state: State) -> Callable[[], State]:
    path = _path("sqlite")
    state.copy_to(path)
    state.close()

    def another() -> State:
        made = State.open("sqlite://")
        with made._engine.connect() as connection:
            raw: Any = connection.connection.driver_connection
            with sqlite3.connect(path) as saved:
                saved.backup(raw)
        return made

    return another
