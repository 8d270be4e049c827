"""The DuckDB file: open, migrate, append, checkpoint, copy."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import duckdb

from gpuwatch.core import sqlfile
from gpuwatch.core.errors import StoreError
from gpuwatch.core.model import TABLES, Points, Records
from gpuwatch.store.connection import Connection, identifier
from gpuwatch.store.damage import ChangeLog, cannot_open, check_replayed, warn_if_cut
from gpuwatch.store.private_files import close_to_others, make_private, private_umask
from gpuwatch.store.sample_columns import filled, lacking, narrow, widen
from gpuwatch.store.sealing import seal
from gpuwatch.store.wide_rows import wide

FILE_NAME = "gpuwatch.duckdb"
# Files written by DuckDB 2 stay readable by 1.5 (the lake extensions exist for 1.5.5 only).
STORAGE_VERSION = "v1.5.0"
BLOCK_BYTES = 65536
"""The size of the file's blocks. Every table has a block at least: with DuckDB's own 262,144 bytes, an analyzed store of 64 GPUs
and two days has 26.2 MB in use instead of 17.0. Smaller blocks cut large columns into more pieces than they save.
"""
MEMORY_LIMIT = "2GB"
# Small commits go to the log; folding it into the file for each of them would cost more than the commits.
WAL_BYTES = "256MB"
CHECKPOINT_ROOM_BYTES = 64 << 20
"""Space that a checkpoint may need beside the size of the log. One that fills the disk breaks the store until it is reopened."""
THREADS_MAX = 64
TABLES_KNOWN = "select table_name from duckdb_tables() where not temporary and not internal"
NARROWED = 29
"""The migration from which on only fields that a sample has are stored."""
NOTES = ("import_file", "reject", "import_run", "import_given")
"""Tables in which an import notes what it read, beside the records of model.TABLES."""
TRACED = frozenset({"sample_tail", *TABLES} - {"context", "bill", "bill_file"})
"""Tables whose rows have the file_id of the imported file that gave them."""


class Store(Connection):
    """A connection to an open data directory. Not for use by two threads at once: each takes a `cursor` of its own."""

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

        Raises StoreError when the directory is missing (create=False), not writable, held by another process, damaged,
        or written by a newer gpuwatch.
        """
        config: dict[str, Any] = {"memory_limit": memory_limit, "wal_autocheckpoint": WAL_BYTES}
        if threads:
            config["threads"] = min(threads, THREADS_MAX)
        path: Path | None = None
        file: Path | None = None
        changes: ChangeLog | None = None
        target = ":memory:"
        if directory is not None:
            path = Path(directory)
            if not (path / FILE_NAME).exists() and not create:
                raise StoreError(f"no gpuwatch data in {path}: import something first, or give --data DIR")
            try:
                make_private(path)
            except OSError as error:
                raise StoreError(f"data directory {path}: {error.strerror}; choose another with --data") from error
            temp_directory = temp_directory or str(path / "tmp")
            config["storage_compatibility_version"] = STORAGE_VERSION
            file = path / FILE_NAME
            target, changes = str(file), ChangeLog.of(file)
        if temp_directory is not None:
            config["temp_directory"] = temp_directory
        with private_umask() if path else nullcontext():
            try:
                if file is not None and not file.exists():
                    with duckdb.connect() as none_yet:
                        none_yet.execute(_attach(file, "new_store")).fetchall()
                connection = duckdb.connect(target, config=config)
            except duckdb.Error as error:
                raise cannot_open(error, path, file, changes) from error
            store = cls(connection, path)
            try:
                if path is not None and file is not None and changes is not None:
                    check_replayed(connection, path, file, changes)
                    warn_if_cut(connection, file, changes, store._newest_us)
                store._migrate()
            except BaseException:
                connection.close()
                raise
        return store

    def identity(self) -> str:
        """The random id of this store. Copies of it have the same."""
        return str(self.sql("select id from store_identity")[0][0])

    # The state that belongs to it ------------------------------------------------------------------------------

    def linked_state(self) -> str | None:
        """The id of the state that belongs to this store; None for a new store and for one of an older version."""
        found = self.sql("select state_id from state_link")
        return str(found[0][0]) if found else None

    def link_state(self, state_id: str) -> None:
        """Remembers the id of the state."""
        with self.transaction():
            self.sql("delete from state_link")
            self.sql("insert into state_link values ($state_id)", state_id=state_id)

    def is_empty(self) -> bool:
        """Whether nothing was ever imported, scraped or sent."""
        kept = ("import_file", "sample", "sample_tail", *TABLES)
        return not any(
            self.sql(f"select exists(select 1 from {identifier(name)})")[0][0] for name in dict.fromkeys(kept)
        )

    # Writing ---------------------------------------------------------------------------------------------------

    def prepare(self, batches: Iterable[Records | Points]) -> None:
        """Makes columns for the fields of batches, before the transaction that appends them."""
        widen(self, lacking(self, batches))

    def lacks(self, batch: Records | Points) -> bool:
        """Whether a field of the batch has no column yet: end the transaction and `prepare` before it is appended."""
        return bool(lacking(self, (batch,)))

    def append(self, batch: Records | Points, file_id: int | None = None) -> int:
        """Appends a batch to its table; returns rows appended. Call within a transaction for all-or-nothing.

        `file_id` is that of the imported file which gave the batch.
        """
        if isinstance(batch, Points):
            batch = Records("sample", wide(batch))
        if batch.rows.num_rows == 0:
            return 0
        if batch.table == "sample":
            widen(self, lacking(self, (batch,)))
            names = filled(batch.rows)
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
            self.insert(table, names, "batch_rows", file_id if table in TRACED else None)
        return int(batch.rows.num_rows)

    def insert(self, table: str, names: Sequence[str], source: str, file_id: int | None = None) -> None:
        """Inserts the named columns of `source` into `table`. Names come from our own schemas, never from input."""
        listed = ", ".join(identifier(n) for n in names)
        into, given = (listed, listed) if file_id is None else (f"{listed}, file_id", f"{listed}, $file_id::bigint")
        text = f"insert into {identifier(table)} ({into}) select {given} from {identifier(source)}"
        used = frozenset() if file_id is None else frozenset({"file_id"})
        self._do(sqlfile.Statement(text, used, table, inserts=True), {"file_id": file_id})

    def checkpoint(self) -> None:
        """Moves committed changes from the log into the file; not now where another connection is writing, or room lacks."""
        if not self._has_room():
            return
        try:
            self._execute("checkpoint").fetchall()
        except duckdb.TransactionException as error:
            if "cannot checkpoint" not in str(error).lower():
                raise self._explained(error) from error
        except duckdb.Error as error:
            raise self._explained(error) from error

    def _has_room(self) -> bool:
        if self.path is None:  # a store in memory has no log
            return False
        with suppress(OSError):
            log = self.path / f"{FILE_NAME}.wal"
            logged = log.stat().st_size if log.exists() else 0
            return shutil.disk_usage(self.path).free >= logged + CHECKPOINT_ROOM_BYTES
        return True

    def copy_to(self, path: Path) -> None:
        """Writes a copy of the store as it is now to a new file; others go on reading and writing meanwhile."""
        own = self._execute("select current_database()").fetchall()[0][0]
        try:
            self._execute(_attach(path, "copy_target")).fetchall()
            try:
                close_to_others(path)
                self._execute(f'copy from database "{own}" to copy_target').fetchall()
                self._execute("checkpoint copy_target").fetchall()
            finally:
                self._execute("detach copy_target").fetchall()
        except duckdb.Error as error:
            raise self._explained(error) from error

    def seal(self, before_us: int) -> int:
        """Sorts samples older than `before_us`, without duplicates; returns rows sealed."""
        return seal(self, before_us)

    def _newest_us(self) -> int | None:
        """The time of the newest stored sample."""
        with suppress(duckdb.CatalogException):  # a store that was being created
            found = self.sql(
                "select max(newest) from (select max(observed_us) as newest from sample union all select max(observed_us) from sample_tail)"
            )
            return None if found[0][0] is None else int(found[0][0])
        return None

    # Opening ---------------------------------------------------------------------------------------------------

    def _migrate(self) -> None:
        self._execute(
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
                if version == NARROWED:
                    narrow(self)
                self.sql(
                    "insert into schema_migration values ($version, $name, $now)",
                    version=version,
                    name=available[version],
                    now=time.time_ns() // 1000,
                )
        self.changes.learn(name for (name,) in self.sql(TABLES_KNOWN))


def _attach(path: Path, name: str) -> str:
    """The statement that creates a store's file. DuckDB 1.5 takes no parameter here."""
    quoted = str(path).replace("'", "''")
    return f"attach '{quoted}' as {identifier(name)} (storage_version '{STORAGE_VERSION}', block_size {BLOCK_BYTES})"


def linked_state(directory: Path) -> str | None:
    """The id of the state that a closed store remembers; None if it remembers none or another process has it open."""
    try:
        with duckdb.connect(str(directory / FILE_NAME), read_only=True) as connection:
            found = connection.execute("select state_id from state_link").fetchone()
    except duckdb.Error:
        return None  # in use, of an older version, or damaged: opening the store explains it
    return None if found is None else str(found[0])
