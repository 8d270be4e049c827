"""What is missing or wrong in the inputs, each with the fix to paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from gpuwatch.billing.prices import FAR_FUTURE_US
from gpuwatch.core.clock import HOUR_US, SECOND_US, rfc3339
from gpuwatch.core.errors import BooksDoNotClose
from gpuwatch.findings import custom_rules, evaluate
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality import rate_checks, source_checks
from gpuwatch.quality.check import FAIL, NAMED_MAX, OK, WARN, Check, named, place
from gpuwatch.quality.clocks import WrongClock
from gpuwatch.quality.status import SourceStatus
from gpuwatch.rates.card import BEGINNING_US, model_tokens
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
"""Lines of dcgm-exporter's counters file by what is missing without them."""
NEEDED = tuple(name for name in COUNTERS if name != "lacks_sm_occupancy")
"""Those without which a verdict cannot be reached."""


FILES = Advice()
OPEN_HOURS = 2
"""Hours that a server may owe the books without anything wrong: the one that runs, and the one before."""
NOT_LOOKED = "not looked at: nothing has been analysed"
NO_GPU = "not looked at: no record names a GPU"
OF_BOOKS = (
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
"""Checks that read what the analysis wrote, in their order."""


def wrong(checks: Iterable[Check]) -> bool:
    """Whether anything needs a fix: doctor's exit code."""
    return any(check.status != OK for check in checks)


def examine(
    store: Store,
    since_us: int = 0,
    advice: Advice = FILES,
    sources: Sequence[SourceStatus] = (),
    state: State | None = None,
) -> list[Check]:
    """Every check over what the store holds; prices and teams are those of the last pricing.

    `advice` says whom the fixes are for, `sources` are those of a running service; `state` has the rules and exchange rates. From `since_us`, the start of an
    hour, on: what is measured and held before is left out. Where nothing has been analysed although records are
    stored, every check of the books says NOT_LOOKED; NO_GPU where they were and name none.
    """
    told = [_analysed(store, advice), source_checks.rejects(store, advice, sources)]
    if (why := _not_looked(store)) is not None:
        return told + [Check(name, WARN, why, told[0].fix) for name in OF_BOOKS]
    holds = store.rows("quality/doctor_holds", since_us=since_us)
    return [
        *told,
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
    """Clocks that a running service found to differ from its own."""
    if not wrong_clocks:
        return Check("clocks", OK, "no node's clock is known to be wrong")
    differing = (
        f"{c.cluster}/{c.name} ({abs(c.offset_us) / SECOND_US:.0f} s {'ahead' if c.offset_us > 0 else 'behind'})"
        for c in wrong_clocks
    )
    fix = "Let chrony or systemd-timesyncd set these clocks (chronyc tracking; timedatectl), and check this machine's own."
    return Check("clocks", WARN, f"{len(wrong_clocks)} clocks differ from this machine's: {named(differing)}", fix)


def missing_fields(row: dict[str, Any]) -> list[str]:
    """Names in COUNTERS of the readings that verdicts need and a row of reports/doctor_fields lacks."""
    return [name for name in NEEDED if row[name]]


def _analysed(store: Store, advice: Advice) -> Check:
    files, hours, devices, stored = store.sql(
        "select (select count(*) from import_file), (select count(distinct hour_us) from dirty_hour),"
        " (select count(*) from device), exists(from context) or exists(from claim) or exists(from node)"
    )[0]
    if not devices and (files or stored):
        if _not_looked(store) == NO_GPU:
            fix = "Let metrics of GPUs come, or records of a scheduler that has GPUs: docs/connect/sources.md."
            return Check("analysis", WARN if advice.live else FAIL, "no record that was analysed names a GPU", fix)
        if advice.live:
            return Check("analysis", WARN, "what has come is not analysed yet", advice.book())
        return Check("analysis", FAIL, "nothing has been analysed", advice.book())
    if not devices and advice.live:
        fix = "Name what there is in gpuwatch.toml and start the server with --config, or send to it: docs/connect/sources.md."
        return Check("analysis", FAIL, "nothing has been received", fix)
    if not devices:
        fix = f"{advice.command('import bundle BUNDLE')}\n{advice.book()}"
        return Check("analysis", FAIL, "nothing has been imported", fix)
    if hours and not (advice.live and hours <= OPEN_HOURS):
        return Check("analysis", WARN, f"{hours} hours are newer than the books", advice.book())
    return Check("analysis", OK, f"{files} files imported, {devices} devices, books up to date")


def _not_looked(store: Store) -> str | None:
    """Why the checks of the books have nothing to read although records are stored; None where they have, or none are."""
    devices, stored, analysed = store.sql(
        "select exists(from device),"
        " exists(from import_file) or exists(from context) or exists(from claim) or exists(from node),"
        " exists(from run) or exists(from topology_state)"
    )[0]
    if devices or not stored:
        return None
    return NO_GPU if analysed else NOT_LOOKED


def _fields(store: Store, since_us: int) -> Check:
    lacking = [r for r in store.rows("quality/doctor_fields", since_us=since_us) if missing_fields(r)]
    if not lacking:
        return Check("counters", OK, "every node with held GPUs gives the readings that verdicts need")
    missing = [name for name in COUNTERS if any(r[name] for r in lacking)]
    fields = ", ".join(COUNTERS[name].split(",")[0] for name in missing)
    devices = sum(r["devices"] for r in lacking)
    what = f"{devices} held devices give no {fields}: {named(place(r) for r in lacking)}"
    fix = ["Add to the counters file of dcgm-exporter (option -f) on these nodes:"]
    return Check("counters", FAIL, what, "\n".join([*fix, *(COUNTERS[name] for name in missing)]))


def _unjudged(store: Store) -> Check:
    rows = store.rows("quality/doctor_unjudged")
    if not rows:
        return Check("verdicts", OK, "every verdict could be reached")
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
    return Check("verdicts", WARN, f"could not be judged: {named(reasons, '; ')}", "\n".join(fix))


def _rules(store: Store) -> Check:
    told = [f"{one['detector']} in {one['cluster']}: {one['reason']}" for one in evaluate.failures(store)]
    told += [str(refusal) for refusal in custom_rules.refused()]
    if not told:
        return Check("detectors", OK, "every detector judged")
    fix = "Mend the named file of detectors_dir, or report it where the detector is ours; it judges what it owes with the next analysis."
    return Check("detectors", FAIL, f"detectors that could not judge: {named(told, '; ')}", fix)


def _unmeasured(store: Store, advice: Advice) -> Check:
    rows = [r for r in store.rows("quality/doctor_devices") if r["unmeasured"]]
    if not rows:
        return Check("unmeasured", OK, "every GPU that a scheduler knows is measured")
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
    """A rule that gives this owner a team, by the widest name it has."""
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
    """Lines of rates.csv for the spans without a price: no two of them, nor one and a line there is, are valid at once."""
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
        return Check("placement", OK, "which device each job held is known")
    hours = sum(r["estimated_us"] for r in rows) / HOUR_US
    what = f"{hours:.1f} device-hours are held by a job whose devices on the node are estimated: {named(place(r) for r in rows)}"
    fix = "Start dcgm-exporter with --hpc-job-mapping-dir and let the Slurm prolog write there, or "
    if advice.live:
        fix += "name [[slurm]] in gpuwatch.toml: it asks scontrol while jobs run."
    else:
        fix += "import what scontrol says while jobs run:"
        for cluster in sorted({r["cluster"] for r in rows})[:NAMED_MAX]:
            words = f"import scontrol jobs.txt --cluster {shlex.quote(cluster)}"
            fix += f"\nscontrol show job -d > jobs.txt && {advice.command(words)}"
    return Check("placement", WARN, what, fix)


def _conflicts(holds: Sequence[dict[str, Any]]) -> Check:
    rows = [r for r in holds if r["conflict_us"]]
    if not rows:
        return Check("conflicts", OK, "no device is claimed by two jobs at once")
    hours = sum(r["conflict_us"] for r in rows) / HOUR_US
    what = f"{hours:.1f} device-hours are claimed by two jobs at once, charged to the newer: {named(place(r) for r in rows)}"
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
    return Check("telemetry", WARN, f"held time that nobody measured: {named(shares)}", fix)


def _books(store: Store, since_us: int, advice: Advice) -> Check:
    clusters = store.sql("select cluster, min(start_us), max(end_us) from segment group by 1 order by 1")
    for cluster, start_us, end_us in clusters:
        try:
            ledger_hours.check(
                store, cluster, max(start_us // HOUR_US * HOUR_US, since_us), -(-end_us // HOUR_US) * HOUR_US
            )
        except BooksDoNotClose as error:
            return Check("books", FAIL, str(error), advice.book())
    return Check("books", OK, "every GPU-microsecond is in exactly one bucket")


def _field(line: str) -> str:
    """`SM_ACTIVE` of a counters line, as reasons name it."""
    return line.split(",")[0].removeprefix("DCGM_FI_PROF_")
