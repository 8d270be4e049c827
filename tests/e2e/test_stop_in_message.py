"""A server that is asked to end while it sends what to reclaim."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpuwatch.alerts.text import RECLAIM
from tests.e2e.process import Server, idle_job, now_ms
from tests.e2e.receiver import Receiver
from tests.worlds.patience import FACTOR, wait_until

IDLE_MINUTES = 200
"""Long enough for the last step of a reclaim."""
ANSWER_S = 60.0
"""A receiver that keeps the message open: the server ends before its answer."""
STOP_S_MAX = 30.0 * FACTOR


@pytest.mark.parametrize("kept", [True, False], ids=["whose receiver does not answer", "one after the other"])
def test_a_stop_in_the_middle_of_reclaim_messages_is_quiet(tmp_path: Path, kept: bool) -> None:
    with Receiver(answer_s=ANSWER_S if kept else 0.0) as receiver:
        config = tmp_path / "gpuwatch.toml"
        config.write_text(
            '[alerts]\nallow_private = ["127.0.0.1"]\n\n[[channel]]\nname = "ops"\nkind = "webhook"\n'
            f'url = "{receiver.url}"\nseverity_min = "info"\nrules = ["reclaim"]\n'
        )
        with Server(tmp_path / "data", config=config, analyze_interval_s=1) as server:
            for number in range(3):
                sent = server.write(idle_job(f"GPU-{number}", f"trainer-{number}", now_ms(), IDLE_MINUTES))
                assert 204 == sent.status

            def reclaims() -> bool:
                found = [key for message in list(receiver.messages) for _, key in message.alerts]
                return any(key.startswith(RECLAIM) for key in found)

            wait_until(reclaims, "a reclaim message is under way")
            asked = time.monotonic()
            assert 0 == server.stop(), server.log
            took = time.monotonic() - asked
        log = server.log

    assert STOP_S_MAX > took
    assert [] == [word for word in ("traceback", "error") if word in log.lower()], log
