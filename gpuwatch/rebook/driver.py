"""The process that speaks with a Ray cluster: Ray ends its driver's process when the head is gone, and must not end a store.

It reads tasks from standard input, a JSON object per line, and writes an answer to each to standard output. Start it with
`python -m gpuwatch.rebook.driver ADDRESS`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from queue import Empty, SimpleQueue
from typing import Any

from gpuwatch.rebook import part

RETRIES = 3
"""How often Ray restarts a task after its node or process has died. A task that raises an error is not restarted."""
POLL_S = 0.2
HEAD_GONE_S = "15"
"""After how many seconds without a head the process ends."""
WORDS_MAX = 500


def main(address: str) -> None:
    """Runs the tasks that come until standard input is closed."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what Ray prints is no answer
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", HEAD_GONE_S)

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        import ray as module
    except ImportError:
        say(error="Ray is not installed here: pip install 'gpuwatch[lake,ray]'")
        return
    ray: Any = module  # it is not typed
    failures = (ray.exceptions.RayError, RuntimeError, OSError, ValueError)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=None)
        run = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(part.compute)
        say(cpus=int(ray.cluster_resources().get("CPU", 0)))
        _serve(ray, run, say, failures)
    except failures as error:
        say(error=_words(error))


def _serve(ray: Any, run: Any, say: Any, failures: tuple[type[Exception], ...]) -> None:
    """Submits every task at once: Ray queues them. Answers in the order in which they end."""
    given: SimpleQueue[dict[str, Any] | None] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            given.put(json.loads(line))
        given.put(None)

    threading.Thread(target=read, daemon=True).start()
    waiting: dict[Any, int] = {}
    while True:
        try:
            task = given.get(timeout=POLL_S / 10 if waiting else None)
            if task is None:
                return
            waiting[run.remote(**task["arguments"])] = task["id"]
            continue
        except Empty:
            pass
        for done in ray.wait(list(waiting), num_returns=1, timeout=POLL_S)[0]:
            number = waiting.pop(done)
            try:
                say(id=number, files=ray.get(done))
            except failures as error:
                say(id=number, error=_words(error))


def _words(error: Exception) -> str:
    """The error in one line: the first line of what a task raised, or the last line of an error of Ray."""
    cause = getattr(error, "cause", None)
    lines = [line.strip() for line in str(cause or error).splitlines() if line.strip()] or [""]
    return f"{type(cause or error).__name__}: {lines[0 if cause else -1]}"[:WORDS_MAX]


if __name__ == "__main__":
    main(sys.argv[1])
