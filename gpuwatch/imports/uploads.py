"""Imports bills that are uploaded to a running server: each file once, stored completely or not at all."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from gpuwatch.core.errors import StoreBusy, StoreError, UnreadableInput, UsageError
from gpuwatch.core.model import Points, Records, Rejects, Source
from gpuwatch.core.registry import Importer, importers
from gpuwatch.imports.files import DEFAULT_CLUSTER, ImportReport
from gpuwatch.imports.provenance import Facts, FileIdentity, import_records, is_bill_file, run_records
from gpuwatch.imports.read_ahead import digest_of
from gpuwatch.store.database import Store

KINDS = "bill-"
"""Prefix of the import kinds of bills."""
FILE_BYTES_MAX = 1 << 30
"""The size limit of an upload; larger files must be compressed, or imported while the server is stopped."""
ARRIVING = "arriving"
"""Folder in the data directory for files until they are imported; leftovers of a crash are deleted at the next start."""
ARRIVING_MAX = 4
"""The most files that are uploaded or wait at the same time."""
TURN_S = 60.0
"""How long a file waits for the previous one, or for space in the writer's queue."""
STORED_S = 60.0
"""How long storing a batch may take."""
BATCHES_AHEAD = 3
PAUSE_S = 0.1

Submit = Callable[[str, Sequence[Records | Points]], Future[None]]


def bill_importer(kind: str) -> Importer:
    """The importer of a kind of bill. Raises UsageError with the known kinds."""
    known = {name: found for name, found in importers().items() if name.startswith(KINDS)}
    if kind not in known:
        raise UsageError(f"kind {kind!r}: not a kind of bill; known: {', '.join(known)}")
    return known[kind]


class Bills:
    """Imports uploaded bills, one at a time. `submit` is the writer's, `directory` is for uploads."""

    def __init__(
        self,
        submit: Submit,
        reader: Callable[[], AbstractContextManager[Store]],
        now_us: Callable[[], int],
        directory: Path,
    ) -> None:
        self._submit, self._reader, self._now_us, self._directory = submit, reader, now_us, directory
        self._turn = threading.Lock()
        self._arriving = threading.BoundedSemaphore(ARRIVING_MAX)
        shutil.rmtree(directory, ignore_errors=True)

    @contextmanager
    def room(self) -> Iterator[Path]:
        """A temporary folder for an upload. Raises StoreBusy when there are already ARRIVING_MAX uploads."""
        if not self._arriving.acquire(blocking=False):
            raise StoreBusy(f"{ARRIVING_MAX} bills are being uploaded; send this one when they are imported")
        try:
            try:
                self._directory.mkdir(parents=True, exist_ok=True)
                room = tempfile.mkdtemp(dir=self._directory)
            except OSError as error:
                raise StoreError(f"cannot write to {self._directory}: {error.strerror or error}; free space") from error
            try:
                yield Path(room)
            finally:
                shutil.rmtree(room, ignore_errors=True)
        finally:
            self._arriving.release()

    def take(self, kind: str, room: Path, name: str, beside: Sequence[str] = ()) -> ImportReport:
        """Imports the file `name` in a folder; `beside` names the other files of the same bill.

        A file that was already imported, here or on the command line, changes nothing. Raises UsageError for an unknown
        kind, UnreadableInput (nothing is imported then), StoreBusy while others are imported, and StoreError.
        """
        importer = bill_importer(kind)
        if not self._turn.acquire(timeout=TURN_S):
            raise StoreBusy("other bills are being imported; send this one again in a moment")
        try:
            return self._imported(importer, room, name, beside)
        except UnreadableInput as error:
            raise UnreadableInput(str(error).replace(f"{room}/", "")) from error
        finally:
            self._turn.release()

    def _imported(self, importer: Importer, room: Path, name: str, beside: Sequence[str]) -> ImportReport:
        path = room / name
        digest, size = digest_of(path)
        file, facts = FileIdentity(digest, importer.kind, DEFAULT_CLUSTER), Facts(name, size)
        with self._reader() as store:
            before = store.sql(
                "select count(*) from import_file where digest = $digest and kind = $kind and cluster = $cluster",
                digest=digest,
                kind=importer.kind,
                cluster=DEFAULT_CLUSTER,
            )
        if before[0][0]:
            return ImportReport(repeated=1)
        together = tuple(str(room / other) for other in {name, *beside})
        rejects = Rejects()
        last: list[Records | Points] = []
        waiting: deque[Future[None]] = deque()
        for batch in importer.read(Source(str(path), DEFAULT_CLUSTER, beside=together), rejects):
            facts.see(batch)
            if is_bill_file(batch):
                last.append(batch)
                continue
            waiting.append(self._sent(name, [batch]))
            if len(waiting) > BATCHES_AHEAD:
                _stored(waiting.popleft())
        for future in waiting:
            _stored(future)
        rejects.first = {why: (name, line, text) for why, (_, line, text) in rejects.first.items()}
        done = import_records(file, facts, rejects, self._now_us())
        with self._reader() as store:
            done += run_records(store, importer.kind, name, file.file_id, self._now_us())
        # In one transaction with the file's own record, without which its lines do not count.
        _stored(self._sent(name, [*last, *done]))
        return ImportReport(files=1, records=facts.records, rejects=[rejects] if rejects.total else [])

    def _sent(self, name: str, batches: Sequence[Records | Points]) -> Future[None]:
        """Submits batches to the writer's queue as soon as it has space."""
        until_s = time.monotonic() + TURN_S
        while True:
            try:
                return self._submit(f"bill {name}", batches)
            except StoreBusy:
                if time.monotonic() > until_s:
                    raise
            time.sleep(PAUSE_S)


def _stored(done: Future[None]) -> None:
    try:
        done.result(STORED_S)
    except TimeoutError as error:
        raise StoreBusy(f"the bill was not stored within {STORED_S:g} s; send it again") from error
