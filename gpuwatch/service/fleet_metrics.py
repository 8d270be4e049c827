"""What a fleet costs and wastes, as Prometheus gauges: the last 24 hours of the ledger, by cluster, pool and team."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gpuwatch.audit.facts import last_of
from gpuwatch.billing.chargeback import ledger
from gpuwatch.billing.records import GroupMeasures
from gpuwatch.core.clock import HOUR_US, Window
from gpuwatch.findings import read as findings_read
from gpuwatch.ledger.measures import WORDS, Measure, Measures
from gpuwatch.state import State
from gpuwatch.store.database import Store

SPAN_HOURS = 24
GROUPS_MAX = 500
"""Teams per pool that have series: those with the most avoidable time. The others are in no series of their own."""
FINDINGS_MAX = 1000
"""Series of open findings: the most frequent kinds."""
FINDINGS_READ_MAX = 10_000
"""Open findings that are counted, the most expensive first."""
FINDING_LABELS = ("cluster", "team", "detector", "severity")
PLACE = ("cluster", "pool", "team")
KIND = ("cluster", "pool", "gpu_model", "mig_profile")


@dataclass(frozen=True)
class Snapshot:
    """One reading: the window, measures by PLACE, by team alone and by KIND of device, and open findings by kind."""

    window: Window | None = None
    groups: tuple[GroupMeasures, ...] = ()
    teams: tuple[GroupMeasures, ...] = ()
    kinds: tuple[GroupMeasures, ...] = ()
    findings: tuple[tuple[Sequence[str], int], ...] = ()
    passes: int = -1
    """The number of passes before it."""


def read_snapshot(store: Store, state: State) -> Snapshot:
    """The last SPAN_HOURS hours of the ledger, less where it is younger. Prices and teams are those of the last pricing."""
    window = last_of(store, SPAN_HOURS * HOUR_US)
    if window is None:
        return Snapshot()
    return Snapshot(
        window,
        ledger(store, state, window, PLACE, limit=GROUPS_MAX).groups,
        ledger(store, state, window, ("team",), limit=GROUPS_MAX).groups,
        ledger(store, state, window, KIND, limit=GROUPS_MAX).groups,
        tuple(_open_findings(store).most_common(FINDINGS_MAX)),
    )


def _open_findings(store: Store) -> Counter[tuple[str, ...]]:
    """How many findings are open, acknowledged ones included, by FINDING_LABELS."""
    found = findings_read.page(store, states=["open"], limit=FINDINGS_READ_MAX).items
    return Counter((one.cluster, one.team or "", one.detector, one.severity) for one in found)


class FleetMetrics(Collector):
    """Shows the last snapshot; no series before the first one, because unknown is not zero."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()

    def refresh(self, store: Store, state: State, passes: int) -> None:
        """Reads a new snapshot if there was a pass since the last one."""
        if passes != self.snapshot.passes:
            self.snapshot = replace(read_snapshot(store, state), passes=passes)

    def collect(self) -> Iterator[Metric]:
        """The gauges of the snapshot."""
        found = self.snapshot
        if found.window is None:
            return
        hours = (found.window.end_us - found.window.start_us) / HOUR_US
        yield _gauge(
            "fleet_window_hours",
            f"Hours that the gpuwatch_team_ gauges cover, at most {SPAN_HOURS}.",
            (),
            [((), hours)],
        )
        about = "GPU-hours by measure: " + ", ".join(WORDS) + "."
        yield _gauge("team_gpu_hours", about, (*PLACE, "measure"), list(_hours(found.groups, PLACE)))
        yield _gauge("device_gpu_hours", about, (*KIND, "measure"), list(_hours(found.kinds, KIND)))
        yield from _costs_per_hour(found.groups, hours)
        ratios = [((group.group["team"],), group.measures.avoidable.ratio) for group in found.teams]
        yield _gauge("team_waste_ratio", "Avoidable part of the team's GPU time, 0..1.", ("team",), ratios)
        yield _gauge("open_findings", "Findings whose condition holds now.", FINDING_LABELS, found.findings)


def _hours(groups: Sequence[GroupMeasures], by: Sequence[str]) -> Iterator[tuple[Sequence[str | None], float]]:
    """GPU-hours of each group and measure; what was not measured has no row."""
    for group in groups:
        for name in WORDS:
            measure: Measure = getattr(group.measures, name)
            if measure.gpu_seconds is not None:
                yield (*(group.group[label] for label in by), name), float(measure.gpu_seconds) / 3600


def _costs_per_hour(groups: Sequence[GroupMeasures], hours: float) -> Iterator[Metric]:
    """What each team costs an hour, and the avoidable part."""
    cost, avoidable = [], []
    for group in groups:
        place = tuple(group.group[name] for name in PLACE)
        cost += [((*place, currency), amount / hours) for currency, amount in _costs(group.measures).items()]
        avoidable += [((*place, unit), float(amount) / hours) for unit, amount in group.measures.avoidable.costs]
    labels = (*PLACE, "currency")
    yield _gauge("team_cost_per_hour", "Cost an hour, without time that has no price.", labels, cost)
    about = "Avoidable cost an hour, by the one definition of waste."
    yield _gauge("team_avoidable_cost_per_hour", about, labels, avoidable)


def _costs(found: Measures) -> dict[str, float]:
    """What all measures cost together, by currency."""
    total: dict[str, float] = {}
    for name in WORDS:
        measure: Measure = getattr(found, name)
        for currency, amount in measure.costs:
            total[currency] = total.get(currency, 0.0) + float(amount)
    return total


def _gauge(
    name: str, about: str, labels: Sequence[str], rows: Sequence[tuple[Sequence[str | None], float | None]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"gpuwatch_{name}", about, labels=labels)
    for values, number in rows:
        if number is not None:
            family.add_metric([value or "" for value in values], number)
    return family
