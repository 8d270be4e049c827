"""Doctor: what is missing or wrong in the inputs, each with a fix to paste."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpuwatch.billing.prices import FAR_FUTURE_US
from gpuwatch.core.clock import HOUR_US, SECOND_US, rfc3339
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality import double_checks, dumps, hold_checks, measure_checks, rate_checks, source_checks
from gpuwatch.quality.check import (
    COLUMNS,
    FAIL,
    NAMED_MAX,
    NOT_JUDGED,
    OK,
    WARN,
    Check,
    Evidence,
    named,
    unjudged,
    wrong,
)
from gpuwatch.quality.clocks import WrongClock
from gpuwatch.quality.measure_checks import COUNTERS, missing_fields
from gpuwatch.quality.status import SourceStatus
from gpuwatch.rates.card import BEGINNING_US
from gpuwatch.rates.models import model_tokens
from gpuwatch.state import State
from gpuwatch.store import remembered
from gpuwatch.store.database import Store

__all__ = [
    "COLUMNS",
    "COUNTERS",
    "FAIL",
    "NOT_JUDGED",
    "OK",
    "WARN",
    "Check",
    "clocks",
    "examine",
    "missing_fields",
    "wrong",
]

FILES = Advice()
OPEN_HOURS = 2
"""Hours that a healthy server may still have to compute: the current one, and the one before."""
NOTHING = "nothing has been imported or received"
NOT_ANALYSED = "nothing has been analysed"
NO_GPU = "no record names a GPU"
NO_TIME = "no record of a GPU has a time after its start"
AFTER_ANALYSIS = (
    "counters",
    "verdicts",
    "detectors",
    "unmeasured",
    "unscheduled",
    "clusters",
    "owners",
    "rates",
    "placement",
    "local-times",
    "conflicts",
    "doubled",
    "inventory",
    "telemetry",
    "exporters",
    "labels",
    "profiles",
    "topology",
    "books",
)
"""Checks that read the results of the analysis, in order."""


def examine(
    store: Store,
    since_us: int = 0,
    advice: Advice = FILES,
    sources: Sequence[SourceStatus] = (),
    state: State | None = None,
) -> list[Check]:
    """Every check of the store, from `since_us` (the start of an hour) on. Prices and teams are those of the last pricing.

    `advice` decides how fixes are phrased, `sources` come from a running service, and `state` has ownership rules and
    exchange rates. A check that has nothing to read is NOT_JUDGED: all of AFTER_ANALYSIS if nothing is stored or analysed,
    or the records name no GPU, or no time after its start.
    """
    first = [_analysed(store, advice), source_checks.rejects(store, advice, sources)]
    if (why := _not_checked(store)) is not None:
        return first + [unjudged(name, why, first[0].fix) for name in AFTER_ANALYSIS]
    holds = remembered.rows(store, "quality/doctor_holds", since_us=since_us)
    evidence = _evidence(store, since_us, advice)
    links = measure_checks.without_links(store, since_us)
    twice = double_checks.doubled_runs(store, since_us) if evidence.holds else []
    counters = measure_checks.fields(store, since_us, evidence, links)
    return [
        *first,
        counters,
        measure_checks.evaluated(store, evidence, links, counters.fix),
        measure_checks.detectors(store, evidence),
        measure_checks.unmeasured(store, evidence, advice),
        source_checks.unknown(store, evidence, advice, sources),
        source_checks.clusters(store, since_us, evidence),
        *dumps.checks(store),
        hold_checks.owners(store, since_us, evidence, advice),
        _rates(store, evidence, advice),
        *(rate_checks.checks(store, state, advice) if state is not None else ()),
        hold_checks.estimated(store, holds, evidence, advice),
        hold_checks.local_times(store, since_us, evidence),
        double_checks.spoiled(hold_checks.conflicts(holds, evidence), twice, "devices are held twice in", advice),
        *double_checks.checks(store, since_us, evidence, advice, twice),
        measure_checks.gaps(store, holds, evidence, since_us),
        *source_checks.exporters(store, since_us, evidence),
        *source_checks.profiles(store),
        source_checks.topology(store, advice),
        double_checks.spoiled(
            hold_checks.ledger_adds_up(store, since_us, advice), twice, "the ledger cannot be relied on in", advice
        ),
    ]


def clocks(wrong_clocks: Sequence[WrongClock]) -> Check:
    """Clocks that differ from the running service's own."""
    if not wrong_clocks:
        return Check("clocks", OK, "no node's clock is known to be wrong")
    differing = (
        f"{c.cluster}/{c.name} ({abs(c.offset_us) / SECOND_US:.0f} s {'ahead' if c.offset_us > 0 else 'behind'})"
        for c in wrong_clocks
    )
    fix = "Let chrony or systemd-timesyncd set these clocks (chronyc tracking; timedatectl), and check this machine's own."
    return Check("clocks", WARN, f"{len(wrong_clocks)} clocks differ from this machine's: {named(differing)}", fix)


def _analysed(store: Store, advice: Advice) -> Check:
    files, hours, devices, stored = remembered.sql(
        store,
        "select (select count(*) from import_file), (select count(distinct hour_us) from dirty_hour),"
        " (select count(*) from device), exists(from context) or exists(from claim) or exists(from node)",
    )[0]
    if not devices and (files or stored):
        if _not_checked(store) == NO_TIME:
            fix = "Import the other objects of that moment too: kubectl get pods,nodes,events -A -o json."
            return Check("analysis", FAIL, "records name GPUs, but none has a time after its start", fix)
        if _not_checked(store) == NO_GPU:
            fix = "Send GPU metrics, or records of a scheduler with GPUs: docs/connect/sources.md."
            return Check("analysis", WARN if advice.live else FAIL, "no analysed record names a GPU", fix)
        if advice.live:
            return Check("analysis", WARN, "received data is not analysed yet", advice.analysis())
        return Check("analysis", FAIL, "nothing has been analysed", advice.analysis())
    if not devices and advice.live:
        fix = "Name your sources in gpuwatch.toml and start the server with --config, or push data to it: docs/connect/sources.md."
        return Check("analysis", FAIL, "nothing has been received", fix)
    if not devices:
        fix = f"{advice.command('import bundle BUNDLE')}\n{advice.analysis()}"
        return Check("analysis", FAIL, "nothing has been imported", fix)
    if hours and not (advice.live and hours <= OPEN_HOURS):
        return Check("analysis", WARN, f"{hours} hours are not analysed yet", advice.analysis())
    return Check("analysis", OK, f"{files} files imported, {devices} devices, ledger up to date")


def _not_checked(store: Store) -> str | None:
    """Why the checks in AFTER_ANALYSIS have nothing to read; None if they have."""
    devices, stored, analysed, held = remembered.sql(
        store,
        "select exists(from device),"
        " exists(from import_file) or exists(from context) or exists(from claim) or exists(from node),"
        " exists(from run) or exists(from topology_state), exists(from claim where device_count > 0)",
    )[0]
    if devices:
        return None
    if not stored:
        return NOTHING
    if not analysed:
        return NOT_ANALYSED
    return NO_TIME if held else NO_GPU


def _evidence(store: Store, since_us: int, advice: Advice) -> Evidence:
    """What the checks can read, and how to add the rest."""
    (row,) = remembered.rows(store, "quality/doctor_evidence", since_us=since_us)
    then = "name its targets in [[dcgm]], or let its sender push here" if advice.live else "import its metrics"
    return Evidence(
        **row,
        measure_fix=f"Run dcgm-exporter on every node with GPUs (option -d f), check that it is scraped, and {then}.",
        scheduler_fix="Name the scheduler in gpuwatch.toml: docs/connect/sources.md."
        if advice.live
        else "Import the scheduler's records of the same time: docs/connect/sources.md.",
    )


def _rates(store: Store, evidence: Evidence, advice: Advice) -> Check:
    if not evidence.prices:
        return unjudged(
            "rates", "no price was computed", f"{advice.command('rates set rates.csv')}\n{advice.analysis()}"
        )
    rows = remembered.rows(store, "quality/doctor_rates")
    if not rows:
        return Check("rates", OK, "a rate covers every GPU-hour")
    hours = sum(r["lacking_us"] for r in rows) / HOUR_US
    fix = advice.rates(_rate_lines(rows)[:NAMED_MAX])
    return Check("rates", FAIL, f"{hours:.1f} GPU-hours have no rate, so no cost", fix)


def _rate_lines(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Lines of rates.csv for the spans without a price; they overlap neither each other nor existing lines."""
    spans: dict[frozenset[str], list[tuple[str, int, int]]] = {}
    for row in sorted(rows, key=lambda row: (row["from_us"], row["to_us"])):
        known = spans.setdefault(model_tokens(row["model"]), [])
        model, from_us, to_us = row["model"] or "*", max(row["from_us"], BEGINNING_US), row["to_us"]
        if known and from_us <= known[-1][2]:
            model, from_us, to_us = known[-1][0], known[-1][1], max(known.pop()[2], to_us)
        known.append((model, from_us, to_us))
    return [
        f"{model},on_demand,USD_PER_HOUR,{rfc3339(from_us)},{'' if to_us >= FAR_FUTURE_US else rfc3339(to_us)}"
        for known in spans.values()
        for model, from_us, to_us in known
    ]
