"""gpuwatch's own Prometheus metrics, with prefix `gpuwatch_`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from gpuwatch.quality.status import SourceStatus
from gpuwatch.service.analyzer import AnalysisStatus
from gpuwatch.service.fleet_metrics import FleetMetrics

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
OTHER = "other"
"""Label value for unknown names."""
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Telemetry:
    """Counters and gauges of one service, in their own registry."""

    def __init__(self, sources: Callable[[], Iterable[SourceStatus]], now_us: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry, namespace="gpuwatch")
        self.registry.register(_SourceMetrics(sources, now_us))
        self.fleet = FleetMetrics()
        self.fleet_registry = CollectorRegistry()
        """Apart from the others: not every caller who may read those may read what teams cost."""
        self.fleet_registry.register(self.fleet)
        self.rows = self._counter("committed_rows", "Rows written to disk.")
        self.requests = self._counter("committed_requests", "Requests whose rows were written to disk.")
        self.refused = self._counter("refused_requests", "Requests that could not be stored, by reason.", ["reason"])
        self.commit = Histogram(
            "commit_seconds",
            "Duration of a group commit.",
            namespace="gpuwatch",
            registry=self.registry,
            buckets=SECONDS,
        )
        self.queued = self._gauge("queued_rows", "Rows waiting to be written.")
        self.analysis = self._gauge("analysis_seconds", "Duration of the last analysis.")
        self.analyses = self._counter("analyses", "Analyses, by outcome.", ["outcome"])
        self.analysis_failed = self._gauge("analysis_failed", "1 if the last analysis failed, else 0.")
        self.clock_steps = self._counter(
            "clock_steps", "Steps of the server's clock by more than a minute, by outcome.", ["outcome"]
        )
        self.clock_doubted = self._gauge("clock_doubted", "1 while the server's own time cannot be trusted, else 0.")
        self.ledger_until = self._gauge("books_until_timestamp_seconds", "End of the ledger.")
        self.requests_served = self._counter(
            "http_requests", "API responses by route, method and status.", ["route", "method", "status"]
        )
        self.alerts = self._counter("alert_deliveries", "Messages by channel kind and outcome.", ["kind", "outcome"])

    def committed(self, seconds: float, rows: int, requests: int) -> None:
        """Records one group commit."""
        self.commit.observe(seconds)
        self.rows.inc(rows)
        self.requests.inc(requests)

    def analysed(self, status: AnalysisStatus) -> None:
        """Records one analysis pass."""
        self.analysis.set(status.seconds)
        self.analysis_failed.set(status.last_error is not None)
        self.analyses.labels("failed" if status.last_error else "ok").inc()
        if status.ledger_until_us is not None:
            self.ledger_until.set(status.ledger_until_us / 1e6)

    def clock_stepped(self, outcomes: Iterable[str]) -> None:
        """Records steps of the server's clock by their outcomes."""
        for outcome in outcomes:
            self.clock_steps.labels(outcome).inc()

    def served(self, route: str, method: str, status: int) -> None:
        """Records one HTTP response; `route` is the route template, not the path."""
        self.requests_served.labels(route, method if method in METHODS else OTHER, status).inc()

    def delivered(self, kind: str, outcome: str) -> None:
        """Notes one message to a channel: sent, failed (it is tried again), or given up."""
        self.alerts.labels(kind, outcome).inc()

    def _counter(self, name: str, about: str, labels: Iterable[str] = ()) -> Counter:
        return Counter(name, about, labels, namespace="gpuwatch", registry=self.registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(name, about, namespace="gpuwatch", registry=self.registry)


class _SourceMetrics(Collector):
    """Sources by kind and cluster: one series a source would be as many as a fleet has nodes."""

    def __init__(self, sources: Callable[[], Iterable[SourceStatus]], now_us: Callable[[], int]) -> None:
        self._sources = sources
        self._now_us = now_us

    def collect(self) -> Iterator[Metric]:
        """Counts by state, the largest lag, samples and rejects of each kind and cluster."""
        states = GaugeMetricFamily(
            "gpuwatch_sources", "Sources by state: ok, late, failing, never.", labels=["kind", "cluster", "state"]
        )
        lag = GaugeMetricFamily(
            "gpuwatch_source_lag_seconds", "Time since the last success of the source that is furthest behind.",
            labels=["kind", "cluster"],
        )  # fmt: skip
        samples = CounterMetricFamily("gpuwatch_source_samples", "Samples read.", labels=["kind", "cluster"])
        rejects = CounterMetricFamily("gpuwatch_source_rejected", "Invalid input records.", labels=["kind", "cluster"])
        ignored = CounterMetricFamily(
            "gpuwatch_source_ignored", "Valid input records that were left out on purpose.", labels=["kind", "cluster"]
        )
        now_us = self._now_us()
        groups: dict[tuple[str, str], list[SourceStatus]] = {}
        for source in self._sources():
            groups.setdefault((source.kind, source.cluster), []).append(source)
        for key, members in sorted(groups.items()):
            for state in ("ok", "late", "failing", "never"):
                states.add_metric([*key, state], sum(1 for m in members if m.state(now_us) == state))
            behind = max(now_us - (m.last_success_us or m.since_us) for m in members)
            lag.add_metric(list(key), behind / 1e6)
            samples.add_metric(list(key), sum(m.samples for m in members))
            faults = sum(sum(m.rejects.faults.values()) for m in members)
            rejects.add_metric(list(key), faults)
            ignored.add_metric(list(key), sum(m.rejects.total for m in members) - faults)
        yield from (states, lag, samples, rejects, ignored)
