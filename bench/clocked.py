"""`gpuwatch serve` with a clock that lags, so that old data are today's: `python -m bench.clocked LAG_US CONFIG DATA PORT`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from gpuwatch.commands.serve import HOST, run
from gpuwatch.service.config import load
from gpuwatch.service.service import Service


def main(lag_us: str, config: str, data: str, port: str) -> None:
    """Serves with a clock that shows `lag_us` microseconds less than it is."""
    lag = int(lag_us)
    plan = load(Path(config), os.environ)
    service = Service.open(Path(data), plan.settings, plan, now_us=lambda: time.time_ns() // 1000 - lag)
    run(service, HOST, int(port), lambda url: print(url, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
