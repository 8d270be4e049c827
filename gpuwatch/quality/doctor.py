"""Doctor: what is missing or wrong in the inputs, each with a fix to paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from gpuwatch.billing.prices import FAR_FUTURE_US
from gpuwatch.core.clock import HOUR_US, SECOND_US, rfc3339
from gpuwatch.core.errors import LedgerDoesNotClose
from gpuwatch.findings import custom_rules, evaluate
from gpuwatch.ledger.hours import check as check_ledger
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality import rate_checks, source_checks
from gpuwatch.quality.check import FAIL, NAMED_MAX, OK, WARN, Check, named, place
from gpuwatch.quality.clocks import WrongClock
from gpuwatch.quality.status import SourceStatus
from gpuwatch.rates.card import BEGINNING_US
from gpuwatch.rates.models import model_tokens
from gpuwatch.state import State
from gpuwatch.store.database import Store

__all__ = ["COLUMNS", "COUNTERS", "FAIL", "OK", "WARN", "Check", "clocks", "examine", "missing_fields", "wrong"]

COLUMNS = ("id", "status", "what", "fix")
UNALLOCATED_SHARE_MAX = 0.01
UNOBSERVED_SHARE_MAX = 0.05

COUNTERS = {
    "lacks_sm_active": "DCGM_FI_PROF_SM_ACTIVE, gauge, The ratio of cycles an SM has at least 1 warp assigned.",
    "lacks_sm_occupancy": "DCGM_FI_PROF_SM_OCCUPANCY, gauge, The ratio of number of warps resident on an SM.",
    "lacks_gr_engine": "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Ratio of time the graphics engine is active.",
    "lacks_tensor": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, Ratio of cycles the tensor pipe is active.",
    "lacks_dram": "DCGM_FI_PROF_DRAM_ACTIVE, gauge, Ratio of cycles the device memory interface is active.",
}
"""Lines of dcgm-exporter's counters file, by what is missing without them."""
NEEDED = tuple(name for name in COUNTERS if name != "lacks_sm_occupancy")
"""Fields that detectors cannot do without."""


FILES = Advice()
OPEN_HOURS = 2
"""Hours that a healthy server may still have to compute: the current one, and the one before."""
NOT_ANALYSED = "not checked: nothing has been analysed"
NO_GPU = "not checked: no record names a GPU"
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
    "conflicts",
    "telemetry",
    "exporters",
    "labels",
    "profiles",
    "topology",
    "books",
)
"""Checks that read the results of the analysis, in order."""


def wrong(checks: Iterable[Check]) -> bool:
    """Whether any check needs a fix: doctor's exit code."""
    return any(check.status != OK for check in checks)


def examine(
    store: Store,
    since_us: int = 0,
    advice: Advice = FILES,
    sources: Sequence[SourceStatus] = (),
    state: State | None = None,
) -> list[Check]:
    """Every check of the store, from `since_us` (the start of an hour) on. Prices and teams are those of the last pricing.

    `advice` decides how fixes are phrased, `sources` come from a running service, and `state` has ownership rules and
    exchange rates. If records are stored but not analysed, every check in AFTER_ANALYSIS answers NOT_ANALYSED; if the
    analysed records name no GPU, NO_GPU.
    """
    first = [_analysed(store, advice), source_checks.rejects(store, advice, sources)]
    if (why := _not_checked(store)) is not None:
        return first + [Check(name, WARN, why, first[0].fix) for name in AFTER_ANALYSIS]
    holds = store.rows("quality/doctor_holds", since_us=since_us)
    return [
        *first,
        _fields(store, since_us),
        _unjudged(store),
        _rules(store),
        _unmeasured(store, advice),
        source_checks.unknown(store, advice, sources),
        source_checks.clusters(store, since_us),
        _owners(store, since_us, advice),
        _rates(store, advice),
        *(rate_checks.checks(store, state, advice) if state is not None else ()),
        _estimated(holds, advice),
        _conflicts(holds),
        _gaps(holds),
        *source_checks.exporters(store, since_us),
        *source_checks.profiles(store),
        source_checks.topology(store, advice),
        _books(store, since_us, advice),
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


def missing_fields(row: dict[str, Any]) -> list[str]:
    """Names in NEEDED that a row of quality/doctor_fields lacks."""
    return [name for name in NEEDED if row[name]]


def _analysed(store: Store, advice: Advice) -> Check:
    files, hours, devices, stored = store.sql(
        "select (select count(*) from import_file), (select count(distinct hour_us) from dirty_hour),"
        " (select count(*) from device), exists(from context) or exists(from claim) or exists(from node)"
    )[0]
    if not devices and (files or stored):
        if _not_checked(store) == NO_GPU:
            fix = "Send GPU metrics, or records of a scheduler with GPUs: docs/connect/sources.md."
            return Check("analysis", WARN if advice.live else FAIL, "no analysed record names a GPU", fix)
        if advice.live:
            return Check("analysis", WARN, "received data is not analysed yet", advice.book())
        return Check("analysis", FAIL, "nothing has been analysed", advice.book())
    if not devices and advice.live:
        fix = "Name your sources in gpuwatch.toml and start the server with --config, or push data to it: docs/connect/sources.md."
        return Check("analysis", FAIL, "nothing has been received", fix)
    if not devices:
        fix = f"{advice.command('import bundle BUNDLE')}\n{advice.book()}"
        return Check("analysis", FAIL, "nothing has been imported", fix)
    if hours and not (advice.live and hours <= OPEN_HOURS):
        return Check("analysis", WARN, f"{hours} hours are not analysed yet", advice.book())
    return Check("analysis", OK, f"{files} files imported, {devices} devices, ledger up to date")


def _not_checked(store: Store) -> str | None:
    """Why the checks in AFTER_ANALYSIS have nothing to read although records are stored; None if they have, or none are."""
    devices, stored, analysed = store.sql(
        "select exists(from device),"
        " exists(from import_file) or exists(from context) or exists(from claim) or exists(from node),"
        " exists(from run) or exists(from topology_state)"
    )[0]
    if devices or not stored:
        return None
    return NO_GPU if analysed else NOT_ANALYSED


def _fields(store: Store, since_us: int) -> Check:
    lacking = [r for r in store.rows("quality/doctor_fields", since_us=since_us) if missing_fields(r)]
    if not lacking:
        return Check("counters", OK, "every node with held GPUs delivers the fields that detectors need")
    missing = [name for name in COUNTERS if any(r[name] for r in lacking)]
    fields = ", ".join(COUNTERS[name].split(",")[0] for name in missing)
    devices = sum(r["devices"] for r in lacking)
    what = f"{devices} held devices deliver no {fields}: {named(place(r) for r in lacking)}"
    fix = ["Add to the counters file of dcgm-exporter (option -f) on these nodes:"]
    return Check("counters", FAIL, what, "\n".join([*fix, *(COUNTERS[name] for name in missing)]))


def _unjudged(store: Store) -> Check:
    rows = store.rows("quality/doctor_unjudged")
    if not rows:
        return Check("verdicts", OK, "every detector had the data it needs")
    reasons = [
        f"{r['detector']} on {r['devices']} devices for {r['device_us'] / HOUR_US:.1f} device-hours: {r['reason']}"
        for r in rows
    ]
    lines = [line for name, line in COUNTERS.items() if any(_field(line) in r["reason"] for r in rows)]
    if COUNTERS["lacks_sm_active"] in lines:
        lines.insert(1, COUNTERS["lacks_sm_occupancy"])
    if lines:
        fix = ["Add to the counters file of dcgm-exporter (option -f):", *lines]
    else:
        fix = ["Import metrics of these devices: see the checks counters and unmeasured."]
    return Check("verdicts", WARN, f"could not be evaluated: {named(reasons, '; ')}", "\n".join(fix))


def _rules(store: Store) -> Check:
    failures = [f"{one['detector']} in {one['cluster']}: {one['reason']}" for one in evaluate.failures(store)]
    failures += [str(refusal) for refusal in custom_rules.refused()]
    if not failures:
        return Check("detectors", OK, "every detector ran")
    fix = (
        "Correct the named file in detectors_dir, or report a bug in a built-in detector; the next analysis catches up."
    )
    return Check("detectors", FAIL, f"detectors that failed: {named(failures, '; ')}", fix)


def _unmeasured(store: Store, advice: Advice) -> Check:
    rows = [r for r in store.rows("quality/doctor_devices") if r["unmeasured"]]
    if not rows:
        return Check("unmeasured", OK, "every GPU known to a scheduler is measured")
    what = f"{sum(r['unmeasured'] for r in rows)} GPUs are known to a scheduler and were never measured: "
    then = "name it in targets of [[dcgm]] or let its sender push here" if advice.live else "import its metrics"
    fix = f"Run dcgm-exporter on these nodes for every GPU (option -d f), check that it is scraped, and {then}."
    return Check("unmeasured", FAIL, what + named(f"{place(r)} ({r['unmeasured']})" for r in rows), fix)


def _owners(store: Store, since_us: int, advice: Advice) -> Check:
    rows = store.rows("quality/doctor_owners", since_us=since_us)
    share = sum(r["held_us"] for r in rows) / rows[0]["all_held_us"] if rows else 0.0
    if share <= UNALLOCATED_SHARE_MAX:
        return Check("owners", OK, f"{100 * share:.1f} % of held time has no team")
    lines = list(dict.fromkeys(line for r in rows if (line := _team_line(r))))
    what = f"{100 * share:.1f} % of held time has no team: it is charged to __unallocated__"
    return Check("owners", WARN, what, advice.teams(lines[:NAMED_MAX] or ["user,NAME,TEAM"]))


def _team_line(row: dict[str, Any]) -> str | None:
    """An ownership rule that gives this owner a team, by the widest name it has."""
    for kind, column in (("account", "account"), ("namespace", "namespace"), ("user", "user_name"), ("queue", "queue")):
        if row[column]:
            return f"{kind},{row[column]},TEAM"
    return None


def _rates(store: Store, advice: Advice) -> Check:
    rows = store.rows("quality/doctor_rates")
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


def _estimated(holds: Sequence[dict[str, Any]], advice: Advice) -> Check:
    rows = [r for r in holds if r["estimated_us"]]
    if not rows:
        return Check("placement", OK, "the devices of every job are known")
    hours = sum(r["estimated_us"] for r in rows) / HOUR_US
    what = f"{hours:.1f} device-hours belong to jobs whose devices on the node are estimated: {named(place(r) for r in rows)}"
    fix = "Start dcgm-exporter with --hpc-job-mapping-dir and let the Slurm prolog write there, or "
    if advice.live:
        fix += "name [[slurm]] in gpuwatch.toml: it asks scontrol while jobs run."
    else:
        fix += "import the output of scontrol while jobs run:"
        for cluster in sorted({r["cluster"] for r in rows})[:NAMED_MAX]:
            words = f"import scontrol jobs.txt --cluster {shlex.quote(cluster)}"
            fix += f"\nscontrol show job -d > jobs.txt && {advice.command(words)}"
    return Check("placement", WARN, what, fix)


def _conflicts(holds: Sequence[dict[str, Any]]) -> Check:
    rows = [r for r in holds if r["conflict_us"]]
    if not rows:
        return Check("conflicts", OK, "no device is allocated to two jobs at once")
    hours = sum(r["conflict_us"] for r in rows) / HOUR_US
    what = f"{hours:.1f} device-hours are allocated to two jobs at once and charged to the newer: {named(place(r) for r in rows)}"
    fix = "Check that one scheduler owns these nodes and that their records use one time zone (import --timezone)."
    return Check("conflicts", WARN, what, fix)


def _gaps(holds: Sequence[dict[str, Any]]) -> Check:
    bad = [r for r in holds if r["unobserved_us"] > UNOBSERVED_SHARE_MAX * r["held_us"]]
    if not bad:
        return Check(
            "telemetry", OK, f"at least {100 * (1 - UNOBSERVED_SHARE_MAX):.0f} % of held time is measured on every node"
        )
    shares = (f"{place(r)} ({100 * r['unobserved_us'] / r['held_us']:.0f} %)" for r in bad)
    fix = "Check that dcgm-exporter runs there, that its target is scraped, and that profiling is not paused (dcgmi profile --resume)."
    return Check("telemetry", WARN, f"held time that was not measured: {named(shares)}", fix)


def _books(store: Store, since_us: int, advice: Advice) -> Check:
    clusters = store.sql("select cluster, min(start_us), max(end_us) from segment group by 1 order by 1")
    for cluster, start_us, end_us in clusters:
        try:
            check_ledger(store, cluster, max(start_us // HOUR_US * HOUR_US, since_us), -(-end_us // HOUR_US) * HOUR_US)
        except LedgerDoesNotClose as error:
            return Check("books", FAIL, str(error), advice.book())
    return Check("books", OK, "every GPU-microsecond is in exactly one bucket")


def _field(line: str) -> str:
    """`SM_ACTIVE` of a counters line, as reasons name it."""
    return line.split(",")[0].removeprefix("DCGM_FI_PROF_")
