"""What the books say of a recording of known loads: `python -m bench.gpu_check DIR`.

Rules judge half hours, a recording has minutes: its time is stretched, so that each load lasts an hour. Ratios, memory
and power mean the same then; counters of time and energy do not, and no rule that is looked at here reads them.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.gpu_workloads import LABELS, METRICS
from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing import chargeback
from gpuwatch.core.clock import HOUR_US, Window
from gpuwatch.core.errors import GpuwatchError, UnreadableInput
from gpuwatch.findings import read as findings_read
from gpuwatch.imports.files import import_paths
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store

CLUSTER = "recorded"
RULE = "false-utilization"
NOBODY = ("schedulable", "stranded", "out_of_service", "mig_remainder")


@dataclass(frozen=True)
class Verdict:
    """What the books say of one load beside what was expected."""

    load: str
    bucket: str
    percent: float
    """Of the load's time in that bucket, the largest."""
    accused: bool
    expected: tuple[str, ...]
    should_be_accused: bool

    @property
    def right(self) -> bool:
        """Whether the books read it right."""
        return self.bucket in self.expected and self.accused == self.should_be_accused


def stretched(lines: Sequence[str], ran: Sequence[dict[str, Any]], first_us: int) -> list[str]:
    """Sample lines with each load spread over an hour of its own, from `first_us` on; others are left out."""
    found: list[str] = []
    for line in lines:
        text, _, stamp = line.rpartition(" ")
        at_us = int(stamp) * 1000
        for place, load in enumerate(ran):
            length_us = load["end_us"] - load["start_us"]
            if load["start_us"] < at_us <= load["end_us"] + 1000 and length_us > 0:
                within = min((at_us - load["start_us"]) / length_us, 1.0)
                found.append(f"{text} {(first_us + place * HOUR_US + round(within * (HOUR_US - 1_000_000))) // 1000}")
                break
    return found


def verdicts(fixture: Path, folder: Path) -> list[Verdict]:
    """Imports a recording into a new data directory below `folder`, analyses it, and asks the books.

    Raises UnreadableInput where the fixture is not whole.
    """
    try:
        labels = json.loads((fixture / LABELS).read_text("utf-8"))
        lines = gzip.decompress((fixture / METRICS).read_bytes()).decode().splitlines()
    except (OSError, ValueError, EOFError) as error:
        raise UnreadableInput(f"{fixture}: not a recording of bench.gpu_workloads: {error}") from error
    ran: list[dict[str, Any]] = labels["ran"]
    first_us = ran[0]["start_us"] // HOUR_US * HOUR_US
    text = folder / "metrics.prom"
    text.write_text("".join(f"{line}\n" for line in stretched(lines, ran, first_us)))
    end_us = first_us + len(ran) * HOUR_US
    with Store.open(folder / "data") as store, State.open(folder / "data") as state:
        import_paths(store, state, "openmetrics", [text], cluster=CLUSTER, now_us=end_us)
        analyze(store, state, Settings(), now_us=end_us)
        accused = {f.subject["id"] or "" for f in findings_read.read(store, detectors=[RULE])}
        return [_verdict(store, state, load, first_us + at * HOUR_US, accused) for at, load in enumerate(ran)]


def _verdict(store: Store, state: State, load: dict[str, Any], start_us: int, accused: set[str]) -> Verdict:
    books = chargeback.ledger(store, state, Window(start_us, start_us + HOUR_US), ["bucket"])
    seconds: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in books.items:
        seconds[row.bucket] += row.gpu_seconds
    total = sum(seconds.values(), Decimal(0))
    bucket = max(seconds, key=lambda name: seconds[name], default="")
    share = float(100 * seconds[bucket] / total) if total else 0.0
    return Verdict(
        load["load"], bucket, share, load["load"] in accused, tuple(load["buckets"]), load["false_utilization"]
    )


def main(arguments: Sequence[str]) -> int:
    """Prints a line a load; 1 where the books read one wrong."""
    if len(arguments) != 1:
        print("usage: python -m bench.gpu_check DIR", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="gpuwatch-check-") as folder:
            told = verdicts(Path(arguments[0]), Path(folder))
    except GpuwatchError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"{'load':8} {'bucket':12} {'share':>6}  {'expected':24} {RULE:18} expected")
    for v in told:
        mark = "" if v.right else "  WRONG"
        print(
            f"{v.load:8} {v.bucket:12} {v.percent:5.1f}%  {' or '.join(v.expected):24} "
            f"{'yes' if v.accused else 'no':18} {'yes' if v.should_be_accused else 'no'}{mark}"
        )
    return 0 if all(v.right for v in told) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
