"""The DuckDB file: open, migrate, append, seal, query. The only importer of duckdb."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa

from gpuwatch.core import sqlfile
from gpuwatch.core.errors import StoreError
from gpuwatch.core.fields import columns as field_columns
from gpuwatch.core.model import TABLES, Points, Records
from gpuwatch.store.wide_rows import wide

FILE_NAME = "gpuwatch.duckdb"
# Files written by DuckDB 2 stay readable by 1.5 (the lake extensions exist for 1.5.5 only).
STORAGE_VERSION = "v1.5.0"
DAY_US = 86_400_000_000
MEMORY_LIMIT = "2GB"
# Small commits go to the log; folding it into the file for each of them would cost more than the commits.
WAL_BYTES = "256MB"
CHECKPOINT_ROOM_BYTES = 64 << 20
"""Space that a checkpoint may need beside the size of the log. One that fills the disk breaks the store until it is opened anew."""
INTERRUPTED = "Query interrupted"
"""What DuckDB makes of a Ctrl-C: a plain RuntimeError."""
THREADS_MAX = 64
NOTES = ("import_file", "reject")
"""Tables in which an import notes what it read, beside the records of model.TABLES."""


class Store:
    """A connection to an open data directory. Not for use by two threads at once: each takes a `cursor` of its own."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path | None) -> None:
        self._connection = connection
        self._within = False
        self._hollow: dict[str, bool] = {}
        """Tables this transaction has written, and whether only empty results so far."""
        self.path = path

    @classmethod
    def open(
        cls,
        directory: Path | str | None,
        *,
        memory_limit: str = MEMORY_LIMIT,
        threads: int | None = None,
        temp_directory: str | None = None,
        create: bool = True,
    ) -> Store:
        """Opens or creates the store in `directory`; None is a store in memory. Migrates it.

        Raises StoreError when the directory is missing (create=False), not writable, held by another process,
        or written by a newer gpuwatch.
        """
        config: dict[str, Any] = {"memory_limit": memory_limit, "wal_autocheckpoint": WAL_BYTES}
        if threads:
            config["threads"] = min(threads, THREADS_MAX)
        path: Path | None = None
        target = ":memory:"
        if directory is not None:
            path = Path(directory)
            if not (path / FILE_NAME).exists() and not create:
                raise StoreError(f"no gpuwatch data in {path}: import something first, or give --data DIR")
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"data directory {path}: {error.strerror}; choose another with --data") from error
            config["temp_directory"] = temp_directory or str(path / "tmp")
            config["storage_compatibility_version"] = STORAGE_VERSION
            target = str(path / FILE_NAME)
        try:
            connection = duckdb.connect(target, config=config)
        except duckdb.Error as error:
            raise _cannot_open(error, path) from error
        store = cls(connection, path)
        try:
            store._migrate()
        except BaseException:
            connection.close()
            raise
        return store

    def cursor(self) -> Store:
        """Another connection to the same open store, for another thread: own transactions, temporary tables and views."""
        return Store(self._connection.cursor(), self.path)

    def interrupt(self) -> None:
        """Ends the query that runs on this connection, from another thread; it raises there."""
        self._connection.interrupt()

    def close(self) -> None:
        """Closes this connection, and the file with the last one; what was committed is on disk."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Queries ---------------------------------------------------------------------------------------------------

    def run(self, name: str, /, **parameters: object) -> int:
        """Runs every statement of a SQL file; returns the rows that the last one changed or returned."""
        changed = 0
        for statement in sqlfile.load(name):
            rows = self._do(statement, parameters)
            changed = int(rows[0][0]) if rows and len(rows[0]) == 1 and isinstance(rows[0][0], int) else len(rows)
        return changed

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
        self._connection.execute(last.text, last.pick(parameters) or None)
        names = [column[0] for column in self._connection.description or ()]
        return [dict(zip(names, row, strict=True)) for row in self._connection.fetchall()]

    def keep(self, table: str, text: str, /, **parameters: object) -> None:
        """Makes a temporary table of the last statement of a SQL text; those before it run first."""
        *first, last = sqlfile.split(text)
        for statement in first:
            self._do(statement, parameters)
        made = f"create or replace temp table {_identifier(table)} as\n{last.text}"
        self._do(sqlfile.Statement(made, last.names, table), parameters)

    def keep_file(self, table: str, name: str, /, **parameters: object) -> None:
        """The same of a SQL file."""
        self.keep(table, ";\n".join(statement.text for statement in sqlfile.load(name)), **parameters)

    def insert_as(self, table: str, text: str, /, **parameters: object) -> None:
        """Inserts what a SELECT returns into the columns of the same names."""
        (statement,) = sqlfile.split(text)
        made = f"insert into {_identifier(table)} by name\n{statement.text}"
        self._do(sqlfile.Statement(made, statement.names, table, inserts=True), parameters)

    def sql(self, text: str, **parameters: object) -> list[tuple[Any, ...]]:
        """A short query written beside its caller (counts, lookups). SQL text is never formatted."""
        return self._connection.execute(text, parameters or None).fetchall()

    def _do(self, statement: sqlfile.Statement, parameters: dict[str, object]) -> list[tuple[Any, ...]]:
        """Runs a statement.

        DuckDB 2.0.0 counts rows that several threads insert, but never reads them again, where the same transaction has put
        nothing but an empty result into that table before. A row that is put there and deleted mends it.
        """
        table = statement.writes
        if table is not None and statement.inserts and self._within and self._hollow.get(table):
            name = _identifier(table)
            self._connection.execute(
                f"insert into {name} select t.* from (select 1) left join {name} t on false"
            ).fetchall()
            self._connection.execute(f"delete from {name} where rowid = (select max(rowid) from {name})").fetchall()
        rows = self._connection.execute(statement.text, statement.pick(parameters)).fetchall()
        if table is not None and self._within:
            empty = bool(rows) and rows[0][0] == 0
            self._hollow[table] = empty and (not statement.inserts or self._hollow.get(table, True))
        return rows

    def _arrow(self, text: str, parameters: dict[str, object]) -> pa.Table:
        table: pa.Table = self._connection.sql(text, params=parameters or None).to_arrow_table()
        return table

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing: commits at the end of the block, rolls back when it raises. Not nestable."""
        try:
            self._connection.execute("begin transaction").fetchall()
            self._within, self._hollow = True, {}
            try:
                yield
            except BaseException:
                # A transaction that DuckDB has ended itself cannot be rolled back again.
                with suppress(duckdb.Error):
                    self._connection.execute("rollback").fetchall()
                raise
            self._connection.execute("commit").fetchall()
        except duckdb.Error as error:
            raise self._explained(error) from error
        except RuntimeError as error:
            if str(error) == INTERRUPTED:  # else it would pass for a failure of whatever asked
                raise KeyboardInterrupt from error
            raise
        finally:
            self._within = False

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
    def view(self, name: str, rows: pa.Table) -> Iterator[None]:
        """Makes an Arrow table readable in SQL as `name` within the block."""
        self._connection.register(name, rows)
        try:
            yield
        except BaseException:
            # In a failed transaction nothing can be unregistered; its rollback drops the name.
            with suppress(duckdb.Error):
                self._connection.unregister(name)
            raise
        self._connection.unregister(name)

    # Writing ---------------------------------------------------------------------------------------------------

    def append(self, batch: Records | Points) -> int:
        """Appends a batch to its table; returns rows appended. Call within a transaction for all-or-nothing."""
        if isinstance(batch, Points):
            batch = Records("sample", wide(batch))
        if batch.rows.num_rows == 0:
            return 0
        if batch.table == "sample":
            names = batch.rows.column_names
            table = "sample_tail"
        elif batch.table in NOTES:
            names = batch.rows.column_names
            table = batch.table
        elif batch.table in TABLES:
            names = TABLES[batch.table].names
            table = batch.table
        else:
            raise ValueError(f"no table {batch.table!r}")
        with self.view("batch_rows", batch.rows):
            if table == "context":
                return self.run("store/new_context")
            if table == "bill_file":
                return self.run("store/complete_bill")
            self.insert(table, names, "batch_rows")
        return int(batch.rows.num_rows)

    def insert(self, table: str, names: Sequence[str], source: str) -> None:
        """Inserts the named columns of `source` into `table`. Names come from our own schemas, never from input."""
        listed = ", ".join(_identifier(n) for n in names)
        text = f"insert into {_identifier(table)} ({listed}) select {listed} from {_identifier(source)}"
        self._do(sqlfile.Statement(text, frozenset(), table, inserts=True), {})

    def checkpoint(self) -> None:
        """Moves committed changes from the log into the file; not now where another connection is writing, or room lacks."""
        if not self._has_room():
            return
        try:
            self._connection.execute("checkpoint").fetchall()
        except duckdb.TransactionException as error:
            if "cannot checkpoint" not in str(error).lower():
                raise self._explained(error) from error
        except duckdb.Error as error:
            raise self._explained(error) from error

    def _has_room(self) -> bool:
        if self.path is None:
            return True
        with suppress(OSError):
            log = self.path / f"{FILE_NAME}.wal"
            logged = log.stat().st_size if log.exists() else 0
            return shutil.disk_usage(self.path).free >= logged + CHECKPOINT_ROOM_BYTES
        return True

    def copy_to(self, path: Path) -> None:
        """Writes a copy of the store as it is now to a new file; others go on reading and writing meanwhile."""
        own = self._connection.execute("select current_database()").fetchall()[0][0]
        try:
            self._connection.execute(
                "attach $path as copy_target (storage_version 'v1.5.0')", {"path": str(path)}
            ).fetchall()
            try:
                self._connection.execute(f'copy from database "{own}" to copy_target').fetchall()
                self._connection.execute("checkpoint copy_target").fetchall()
            finally:
                self._connection.execute("detach copy_target").fetchall()
        except duckdb.Error as error:
            raise self._explained(error) from error

    def seal(self, before_us: int) -> int:
        """Sorts samples older than `before_us` by (device, time), without duplicates; returns rows sealed.

        Works a day at a time, each day in a transaction: an interrupted seal continues where it stopped. A day that
        already has sealed rows is rewritten only in the hours that got late samples.
        """
        days = self.sql(
            "select distinct observed_us // 86400000000 from sample_tail where observed_us < $before order by 1",
            before=before_us,
        )
        sealed = 0
        for (day,) in days:
            start, end = day * DAY_US, min((day + 1) * DAY_US, before_us)
            with self.transaction():
                self.run("store/late_hour", start_us=start, end_us=end)
                sealed += self._seal_day(start, end)
                self.run("store/sealed_day", start_us=start, end_us=end, day_us=day * DAY_US)
        return sealed

    def _seal_day(self, start_us: int, end_us: int) -> int:
        """Moves a day's samples from the tail into order, with those already sealed in the same hours."""
        span = {"start_us": start_us, "end_us": end_us}
        tail = "sample_tail where observed_us >= $start_us and observed_us < $end_us"
        late = (
            "sample where observed_us // 86400000000 = $start_us // 86400000000"
            " and observed_us // 3600000000 in (select hour from late_hour)"
        )
        counts = ", ".join(f"count({_identifier(c)})" for c in field_columns())
        filled = [self.sql(f"select count(*), {counts} from {tail}", **span)[0]]
        filled.append(self.sql(f"select count(*), {counts} from {late}", start_us=start_us)[0])
        present = [c for n, c in enumerate(field_columns(), 1) if filled[0][n] or filled[1][n]]
        # Most fields are in no sample of a day: sorting only those that are is several times faster.
        names = ", ".join(["device_id", "context_id", "observed_us", *map(_identifier, present)])
        source = f"select {names} from {tail}"
        if filled[1][0]:
            self._connection.execute(
                f"create or replace temp table late_sample as select {names} from {late}", {"start_us": start_us}
            ).fetchall()
            self._connection.execute(f"delete from {late}", {"start_us": start_us}).fetchall()
            source += " union all select * from late_sample"
        if self.run("store/repeated", **span) or filled[1][0]:
            merged = ", ".join(f"max({_identifier(c)})" for c in present)
            source = (
                f"select device_id, context_id, observed_us, {merged} from ({source}) "
                "group by device_id, context_id, observed_us"
            )
        changed = self._connection.execute(
            f"insert into sample ({names}) {source} order by device_id, observed_us, context_id", span
        ).fetchall()
        self._connection.execute(f"delete from {tail}", span).fetchall()
        if filled[1][0]:
            self._connection.execute("drop table late_sample").fetchall()
        return int(changed[0][0])

    # Opening ---------------------------------------------------------------------------------------------------

    def _migrate(self) -> None:
        self._connection.execute(
            "create table if not exists schema_migration (version integer, name varchar, applied_us bigint)"
        ).fetchall()
        done = {row[0] for row in self.sql("select version from schema_migration")}
        available = {int(name.split("/")[1][:4]): name for name in sqlfile.names_in("schema")}
        unknown = sorted(done - set(available))
        if unknown:
            raise StoreError(
                f"{self.path}: schema version {unknown[-1]} was written by a newer gpuwatch; "
                "upgrade gpuwatch or choose another --data"
            )
        for version in sorted(set(available) - done):
            with self.transaction():
                self.run(available[version])
                self.sql(
                    "insert into schema_migration values ($version, $name, $now)",
                    version=version,
                    name=available[version],
                    now=time.time_ns() // 1000,
                )


def _identifier(name: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        raise ValueError(f"not a column or table name: {name!r}")
    return name


def _cannot_open(error: duckdb.Error, path: Path | None) -> StoreError:
    text = str(error)
    if "lock" in text.lower():
        pid = re.search(r"PID (\d+)", text)
        holder = f"process {pid[1]}" if pid else "another process"
        return StoreError(f"{path} is in use by {holder}: stop it, or ask it instead of opening its files")
    first = text.splitlines()[0] if text else type(error).__name__
    return StoreError(f"cannot open the store in {path}: {first}")
