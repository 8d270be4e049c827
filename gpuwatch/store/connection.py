"""A connection to the store: SQL files, transactions, temporary tables and Arrow views."""

from __future__ import annotations

import atexit
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa

from gpuwatch.core import sqlfile
from gpuwatch.core.errors import StoreError
from gpuwatch.store.changes import Changes, made_by

OutOfMemory = duckdb.OutOfMemoryException
"""What a query raises that needs more than memory_limit and cannot spill."""
INTERRUPTED = "Query interrupted"
"""DuckDB's error message when a query is interrupted: a plain RuntimeError."""
PARSED_MAX = 2048
"""Parsed statements that are kept; gpuwatch has fewer than half as many of its own: 20 MB."""
_parsed: dict[str, duckdb.Statement] = {}
"""Statements by their text. Parsing them is a fifth of a small pass, and the same few hundred run in every pass."""
_CHANGING = frozenset({"INSERT", "DELETE", "UPDATE", "MERGE_INTO", "CREATE", "DROP", "ALTER"})
"""Kinds of statements that may change tables."""
atexit.register(_parsed.clear)  # DuckDB's binding complains about objects that outlive the interpreter


def was_interrupted(error: BaseException) -> bool:
    """Whether a query ended because it was interrupted, as when the service stops."""
    return isinstance(error, duckdb.InterruptException) or str(error) == INTERRUPTED


def is_query_error(error: BaseException) -> bool:
    """Whether DuckDB refused a query or failed at its data, apart from interrupts."""
    return isinstance(error, duckdb.Error) and bool(str(error)) and not was_interrupted(error)


class Connection:
    """One connection. Not for use by two threads at once."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, path: Path | None, changes: Changes | None = None
    ) -> None:
        self._connection = connection
        self._within = False
        self.changes = changes or Changes()
        """Shared by all connections to the same open store."""
        self._written: set[str] = set()
        """Permanent tables that this transaction has written."""
        self._read: set[str] | None = None
        """Permanent tables that were read since `reading` began."""
        self._views: set[str] = set()
        """Permanent tables that temporary views and macros of this connection name."""
        self._made: set[str] = set()
        """Temporary tables and views that this connection has made and not dropped with `drop_made`."""
        self.hollow: dict[str, bool] = {}
        """Tables this transaction has written, and whether only empty results so far."""
        self.ends = ExitStack()  # closed at the end of a transaction
        self._workspaces: list[Self] = []
        self.path = path

    def cursor(self) -> Self:
        """Another connection to the same open store, for another thread: own transactions, temporary tables and views."""
        return type(self)(self._connection.cursor(), self.path, self.changes)

    @contextmanager
    def workspace(self) -> Iterator[Self]:
        """Another connection whose temporary tables all end with the block: none of them has to be dropped.

        Interrupting this store interrupts it too.
        """
        work = self.cursor()
        work._read = self._read
        self._workspaces.append(work)
        try:
            yield work
        finally:
            self._workspaces.remove(work)
            work.close()

    def interrupt(self) -> None:
        """Ends the query that runs on this connection or in a workspace of it, from another thread; it raises there."""
        self._connection.interrupt()
        for work in tuple(self._workspaces):
            with suppress(duckdb.Error):  # the other thread may have closed it meanwhile
                work.interrupt()

    def close(self) -> None:
        """Closes this connection, and the file with the last one; what was committed is on disk."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _execute(self, text: str, parameters: object = None) -> duckdb.DuckDBPyConnection:
        """Every statement goes through here, apart from those of `_arrow`."""
        statement = self._parse(text)
        try:
            return self._connection.execute(statement, parameters)
        finally:
            self._note(text, isinstance(statement, str) or statement.type.name in _CHANGING)

    def _note(self, text: str, changing: bool) -> None:
        """Remembers which permanent tables a statement has read and changed."""
        if self._read is not None:
            self._read |= self.changes.read_by(text)
        if not changing:
            return
        self._views |= self.changes.named_by_view(text)
        self._made |= made_by(text)
        if written := self.changes.written_by(text):
            if self._within:
                self._written |= written
            else:
                self.changes.note(written)

    @property
    def within(self) -> bool:
        """Whether a transaction has begun on this connection."""
        return self._within

    def has_read(self, tables: frozenset[str]) -> None:
        """Notes permanent tables whose content was known without a statement, for `reading`."""
        if self._read is not None:
            self._read |= tables

    @contextmanager
    def reading(self) -> Iterator[set[str]]:
        """The permanent tables that the statements of the block read; complete when the block ends."""
        self._read = set(self._views)
        try:
            yield self._read
        finally:
            self._read = None

    def _parse(self, text: str) -> duckdb.Statement | str:
        """The parsed statement, or the text where it holds several. Executing a statement copies it, so all connections share it."""
        found = _parsed.get(text)
        if found is None:
            statements = self._connection.extract_statements(text)
            if len(statements) != 1:
                return text
            if len(_parsed) >= PARSED_MAX:
                _parsed.clear()
            found = _parsed[text] = statements[0]
        return found

    def run(self, name: str, /, **parameters: object) -> int:
        """Runs every statement of a SQL file; returns the rows that the last one changed or returned."""
        changed = 0
        for statement in sqlfile.load(name):
            changed = _changed(self._do(statement, parameters))
        return changed

    def drop_made(self, name: str, /) -> None:
        """Runs the statements of a SQL file that drop one temporary table or view each, for those that this connection has made."""
        for statement in sqlfile.load(name):
            dropped = statement.text.split()[-1].removeprefix("temp.")
            if dropped in self._made:
                self._do(statement, {})
                self._made.discard(dropped)

    def table(self, name: str, /, **parameters: object) -> pa.Table:
        """The result of a SQL file's last statement as an Arrow table; earlier statements run first."""
        *first, last = sqlfile.load(name)
        for statement in first:
            self._do(statement, parameters)
        return self._arrow(last.text, last.pick(parameters))

    def rows(self, name: str, /, **parameters: object) -> list[dict[str, Any]]:
        """The result of a SQL file as dicts, for small answers."""
        *first, last = sqlfile.load(name)
        for statement in first:
            self._do(statement, parameters)
        # Not through `table`: a relation is bound twice, which costs a small answer more than the query.
        self._execute(last.text, last.pick(parameters) or None)
        names = [column[0] for column in self._connection.description or ()]
        return [dict(zip(names, row, strict=True)) for row in self._connection.fetchall()]

    def keep(self, table: str, text: str, /, **parameters: object) -> int:
        """Makes a temporary table of the last statement of a SQL text, after those before it; returns its rows."""
        return self._keep(table, sqlfile.split(text), parameters)

    def keep_file(self, table: str, name: str, /, **parameters: object) -> int:
        """The same of a SQL file."""
        return self._keep(table, sqlfile.load(name), parameters)

    def _keep(self, table: str, statements: Sequence[sqlfile.Statement], parameters: dict[str, object]) -> int:
        *first, last = statements
        for statement in first:
            self._do(statement, parameters)
        made = f"create or replace temp table {identifier(table)} as\n{last.text}"
        return _changed(self._do(sqlfile.Statement(made, last.names, table), parameters))

    def insert_as(self, table: str, text: str, /, **parameters: object) -> int:
        """Inserts what a SELECT returns into the columns of the same names; returns how many rows."""
        (statement,) = sqlfile.split(text)
        made = f"insert into {identifier(table)} by name\n{statement.text}"
        return _changed(self._do(sqlfile.Statement(made, statement.names, table, inserts=True), parameters))

    def reader(self, text: str) -> pa.RecordBatchReader:
        """The rows of a query in batches, for a copy of any size. Read it to its end before the next statement."""
        self._note(text, changing=False)
        return self._connection.execute(text).to_arrow_reader()

    def sql(self, text: str, **parameters: object) -> list[tuple[Any, ...]]:
        """A short query written beside its caller (counts, lookups). SQL text is never formatted."""
        return self._execute(text, parameters or None).fetchall()

    def _do(self, statement: sqlfile.Statement, parameters: dict[str, object]) -> list[tuple[Any, ...]]:
        """Runs a statement.

        DuckDB 2.0.0 counts rows that several threads insert, but never reads them again, where the same transaction has put
        nothing but an empty result into that table before. A row that is put there and deleted mends it.
        """
        table = statement.writes
        if table is not None and statement.inserts and self._within and self.hollow.get(table):
            name = identifier(table)
            self._execute(f"insert into {name} default values").fetchall()
            self._execute(f"delete from {name} where rowid = (select max(rowid) from {name})").fetchall()
        rows = self._execute(statement.text, statement.pick(parameters)).fetchall()
        if table is not None and self._within:
            empty = bool(rows) and rows[0][0] == 0
            self.hollow[table] = empty and (not statement.inserts or self.hollow.get(table, True))
        return rows

    def _arrow(self, text: str, parameters: dict[str, object]) -> pa.Table:
        self._note(text, changing=False)
        table: pa.Table = self._connection.sql(self._parse(text), params=parameters or None).to_arrow_table()
        return table

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing: commits at the end of the block, rolls back when it raises. Not nestable."""
        try:
            self._execute("begin transaction").fetchall()
            self._within, self.hollow = True, {}
            try:
                yield
            except BaseException:
                # A transaction that DuckDB has ended itself cannot be rolled back again.
                with suppress(duckdb.Error):
                    self._execute("rollback").fetchall()
                raise
            self._execute("commit").fetchall()
        except duckdb.Error as error:
            raise self._explained(error) from error
        except RuntimeError as error:
            if was_interrupted(error):  # a Ctrl-C is no failure of the query
                raise KeyboardInterrupt from error
            raise
        finally:
            self._within = False
            self.changes.note(self._written)
            self._written = set()
            self.ends.close()

    def _explained(self, error: duckdb.Error) -> Exception:
        """A full disk and the like as StoreError; what is our own mistake stays as it is."""
        text = str(error)
        full = "no space left" in text.lower() or "could not write" in text.lower() or "disk quota" in text.lower()
        if full or isinstance(error, duckdb.IOException | duckdb.FatalException | duckdb.OutOfMemoryException):
            return StoreError(
                f"cannot write to {self.path}: {text.splitlines()[0]}; what was acknowledged is kept: make room, "
                "then run the command again"
            )
        return error

    @contextmanager
    def view(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> Iterator[None]:
        """Makes an Arrow table readable in SQL as `name` within the block; a reader once."""
        self._connection.register(name, rows)
        try:
            yield
        except BaseException:
            # In a failed transaction nothing can be unregistered; its rollback drops the name.
            with suppress(duckdb.Error):
                self._connection.unregister(name)
            raise
        self._connection.unregister(name)


def _changed(rows: list[tuple[Any, ...]]) -> int:
    """Rows that a statement changed, as its result has them, or that it returned."""
    return int(rows[0][0]) if rows and len(rows[0]) == 1 and isinstance(rows[0][0], int) else len(rows)


def identifier(name: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        raise ValueError(f"not a column or table name: {name!r}")
    return name
