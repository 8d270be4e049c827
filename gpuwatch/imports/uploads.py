"""Bills that are sent to a running server: each file once, stored by the server's writer, whole or not at all."""

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
from gpuwatch.imports.files import DEFAULT_CLUSTER, ImportReport, closes, digest_of, noted
from gpuwatch.store.database import Store

KINDS = "bill-"
"""How the import kinds of bills begin."""
FILE_BYTES_MAX = 1 << 30
"""Of one file as it is sent; larger ones are packed, or imported while the server is stopped."""
ARRIVING = "arriving"
"""Folder of the data directory for files until they are imported; what a crash left there is deleted at the next start."""
ARRIVING_MAX = 4
"""Files that may arrive or wait at once."""
TURN_S = 60.0
"""How long a file waits for the one before it, or for room in the writer's queue."""
STORED_S = 60.0
"""How long the disk may take for a batch."""
BATCHES_AHEAD = 3
PAUSE_S = 0.1

Submit = Callable[[str, Sequence[Records | Points]], Future[None]]


def bill_importer(kind: str) -> Importer:
    """The reader of a kind of bill. Raises UsageError naming the kinds there are."""
    known = {name: found for name, found in importers().items() if name.startswith(KINDS)}
    if kind not in known:
        raise UsageError(f"kind {kind!r}: no kind of bill; known: {', '.join(known)}")
    return known[kind]


class Bills:
    """Takes files of bills, one at a time. `submit` is the writer's, `directory` where files arrive."""

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
        """An empty folder for a file that arrives, gone at the end. Raises StoreBusy when ARRIVING_MAX arrive already."""
        if not self._arriving.acquire(blocking=False):
            raise StoreBusy(f"{ARRIVING_MAX} bills arrive already; send this one when they are imported")
        try:
            try:
                self._directory.mkdir(parents=True, exist_ok=True)
                room = tempfile.mkdtemp(dir=self._directory)
            except OSError as error:
                raise StoreError(f"cannot write to {self._directory}: {error.strerror or error}; make room") from error
            try:
                yield Path(room)
            finally:
                shutil.rmtree(room, ignore_errors=True)
        finally:
            self._arriving.release()

    def take(self, kind: str, room: Path, name: str, beside: Sequence[str] = ()) -> ImportReport:
        """Imports the file `name` of a room; the names of files that are sent as parts of one bill are `beside`.

        What was imported before, here or by the command line, changes nothing. Raises UsageError for an unknown kind,
        UnreadableInput (nothing of the file counts then), StoreBusy while others are imported, StoreError.
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
        rejects, records = Rejects(), 0
        last: list[Records | Points] = []
        waiting: deque[Future[None]] = deque()
        for batch in importer.read(Source(str(path), DEFAULT_CLUSTER, beside=together), rejects):
            if closes(batch):
                last.append(batch)
                continue
            records += batch.rows.num_rows
            waiting.append(self._sent(name, [batch]))
            if len(waiting) > BATCHES_AHEAD:
                _stored(waiting.popleft())
        for one in waiting:
            _stored(one)
        rejects.first = {why: (name, line, text) for why, (_, line, text) in rejects.first.items()}
        notes = noted((digest, importer.kind, DEFAULT_CLUSTER), name, size, records, rejects, self._now_us())
        # The file's own record and the notes in one transaction: only with it its lines count.
        _stored(self._sent(name, [*last, *notes]))
        return ImportReport(files=1, records=records, rejects=[rejects] if rejects.total else [])

    def _sent(self, name: str, batches: Sequence[Records | Points]) -> Future[None]:
        """Batches in the writer's queue, as soon as it has room."""
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
        raise StoreBusy(f"the disk did not take the bill within {STORED_S:g} s; send it again") from error
