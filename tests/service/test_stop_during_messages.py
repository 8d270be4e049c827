"""A stop while messages are queued after a pass leaves no traceback and no dead analyzer."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gpuwatch.core.errors import StoreBusy
from gpuwatch.service.analyzer import Analyzer
from gpuwatch.service.read_pool import Readers
from gpuwatch.service.timekeeping import Timekeeping
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.connection import INTERRUPTED
from gpuwatch.store.database import Store


@pytest.mark.parametrize("inside", [True, False], ids=["inside a transaction", "outside one"])
@pytest.mark.parametrize("stopping", [True, False], ids=["while it stops", "by a stray interrupt"])
def test_an_interrupt_after_the_pass_ends_quietly(
    tmp_path: Path, inside: bool, stopping: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with Store.open(tmp_path) as store, State.open(tmp_path) as state:

        def after(opened: Store) -> None:
            if stopping:
                analyzer._stopping = True
            if not inside:
                raise RuntimeError(INTERRUPTED)
            with opened.transaction():
                raise RuntimeError(INTERRUPTED)

        times = Timekeeping(store, lambda: 1, None, 14)
        analyzer = Analyzer(store, state, Settings(), times, after, lambda status: None, lambda: 0)
        with caplog.at_level(logging.WARNING):
            analyzer.run_once()

    assert (0 if stopping else 1) == len(caplog.records)
    assert stopping == (analyzer.status.last_error is None)


def test_a_request_that_is_late_inside_a_transaction_is_busy(tmp_path: Path) -> None:
    """A KeyboardInterrupt in a request would end the server."""
    with Store.open(tmp_path) as store:
        readers = Readers(store)
        try:
            with pytest.raises(StoreBusy, match="took longer"), readers.lend() as cursor:
                (loan,) = readers._lent.values()
                loan.late = True  # as the watchdog sets it
                with cursor.transaction():
                    raise RuntimeError(INTERRUPTED)
        finally:
            readers.close()
