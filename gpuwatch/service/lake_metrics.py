"""How late the lake is, for Prometheus: since when nothing was published to it, or copied from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gpuwatch.store.database import Store

PUBLISH, PULL = "publish", "pull"


def clusters_of(store: Store) -> tuple[str, ...]:
    """The clusters with devices."""
    return tuple(row["cluster"] for row in store.rows("service/cluster"))


@dataclass(frozen=True)
class Step:
    """The last success of publishing or pulling in microseconds; None: not since the start. And which clusters it is of."""

    name: str
    success_us: int | None
    clusters: tuple[str, ...]


class LakeMetrics(Collector):
    """One series for each cluster; one without a name before any cluster is known."""

    def __init__(self, step: Callable[[], Step], now_us: Callable[[], int]) -> None:
        self._step = step
        self._now_us = now_us
        self._since_us = now_us()

    def collect(self) -> Iterator[Metric]:
        """The age of the last success, or of this process if there was none."""
        found, now_us = self._step(), self._now_us()
        lag = GaugeMetricFamily(
            "gpuwatch_lake_lag_seconds",
            "Time since the ledger was last published to the lake, or copied from it (label step), without an error.",
            labels=["step", "cluster"],
        )
        since_us = self._since_us if found.success_us is None else found.success_us
        for cluster in found.clusters or ("",):
            lag.add_metric([found.name, cluster], max(0, now_us - since_us) / 1e6)
        yield lag
