"""`gpuwatch serve` with a clock that lags, so that old data are today's: `python -m bench.clocked LAG_US CONFIG DATA PORT`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gpuwatch.commands.serve import HOST, known_tables, run, settings_with_tables
from gpuwatch.service import Service
from gpuwatch.settings import load_tables


def main(lag_us: str, config: str, data: str, port: str) -> None:
    """Serves with a clock that shows `lag_us` microseconds less than it is."""
    lag = int(lag_us)
    settings, tables = settings_with_tables(Path(config)), load_tables(Path(config), known_tables())
    service = Service.open(Path(data), settings, tables, now_us=lambda: time.time_ns() // 1000 - lag)
    run(service, HOST, int(port), lambda url: print(url, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
