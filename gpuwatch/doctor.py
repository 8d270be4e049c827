"""What is missing or wrong in the inputs, each with the fix to paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpuwatch import ledger, mig, topology_store
from gpuwatch.advice import Advice
from gpuwatch.clock import HOUR_US, SECOND_US, rfc3339
from gpuwatch.clocks import WrongClock
from gpuwatch.cost import FAR_FUTURE_US
from gpuwatch.errors import BooksDoNotClose
from gpuwatch.rates import BEGINNING_US, model_tokens
from gpuwatch.store import Store

OK, WARN, FAIL = "ok", "warn", "fail"
COLUMNS = ("id", "status", "what", "fix")
NAMED_MAX = 8
"""Nodes, owners or reasons that one check names; it counts the rest."""
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


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: `fix` is empty when all is well."""

    id: str
    status: str
    what: str
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        """The check as JSON has it."""
        return asdict(self)


def wrong(checks: Iterable[Check]) -> bool:
    """Whether anything needs a fix: doctor's exit code."""
    return any(check.status != OK for check in checks)


def examine(store: Store, since_us: int = 0, advice: Advice = FILES) -> list[Check]:
    """Every check over what the store holds; prices and teams are those of the last pricing.

    `advice` says whom the fixes are for. From `since_us`, the start of an hour, on: what is measured and held before is left out.
    """
    holds = store.rows("reports/doctor_holds", since_us=since_us)
    return [
        _analysed(store, advice),
        _rejects(store, advice),
        _fields(store, since_us),
        _unjudged(store),
        _unmeasured(store, advice),
        _unknown(store, advice),
        _owners(store, since_us, advice),
        _rates(store, advice),
        _estimated(holds, advice),
        _conflicts(holds),
        _gaps(holds),
        *_exporters(store, since_us),
        _profiles(store),
        _topology(store),
        _books(store, since_us, advice),
    ]


def clocks(wrong_clocks: Sequence[WrongClock]) -> Check:
    """Clocks that a running service found to differ from its own."""
    if not wrong_clocks:
        return Check("clocks", OK, "no node's clock is known to be wrong")
    named = (
        f"{c.cluster}/{c.name} ({abs(c.offset_us) / SECOND_US:.0f} s {'ahead' if c.offset_us > 0 else 'behind'})"
        for c in wrong_clocks
    )
    fix = "Let chrony or systemd-timesyncd set these clocks (chronyc tracking; timedatectl), and check this machine's own."
    return Check("clocks", WARN, f"{len(wrong_clocks)} clocks differ from this machine's: {_named(named)}", fix)


def missing_fields(row: dict[str, Any]) -> list[str]:
    """Names in COUNTERS of the readings that verdicts need and a row of reports/doctor_fields lacks."""
    return [name for name in NEEDED if row[name]]


def _analysed(store: Store, advice: Advice) -> Check:
    files, hours, devices, stored = store.sql(
        "select (select count(*) from import_file), (select count(distinct hour_us) from dirty_hour),"
        " (select count(*) from device), exists(from context) or exists(from claim) or exists(from node)"
    )[0]
    if not devices and (files or stored):
        if advice.live:
            return Check("analysis", WARN, "what has come is not analysed yet", advice.book())
        return Check("analysis", FAIL, "nothing has been analysed", advice.book())
    if not devices and advice.live:
        fix = "Name what there is in gpuwatch.toml and start the server with --config, or send to it: docs/sources.md."
        return Check("analysis", FAIL, "nothing has been received", fix)
    if not devices:
        fix = f"{advice.command('import bundle BUNDLE')}\n{advice.book()}"
        return Check("analysis", FAIL, "nothing has been imported", fix)
    if hours and not (advice.live and hours <= OPEN_HOURS):
        return Check("analysis", WARN, f"{hours} hours are newer than the books", advice.book())
    return Check("analysis", OK, f"{files} files imported, {devices} devices, books up to date")


def _rejects(store: Store, advice: Advice) -> Check:
    rows = store.rows("reports/doctor_rejects")
    if not rows:
        return Check("rejects", OK, "no input was refused")
    lines = [
        f"{r['path']}:{r['line']}: {r['reason']} ({r['times']} times){': ' + r['example'] if r['example'] else ''}"
        for r in rows[:NAMED_MAX]
    ]
    first = (
        "Correct these where they come from (files are imported again while the server is stopped):"
        if advice.live
        else "Correct these and import the files again:"
    )
    what = f"{sum(r['times'] for r in rows)} pieces of input refused for {len(rows)} reasons"
    return Check("rejects", WARN, what, "\n".join([first, *lines]))


def _fields(store: Store, since_us: int) -> Check:
    lacking = [r for r in store.rows("reports/doctor_fields", since_us=since_us) if missing_fields(r)]
    if not lacking:
        return Check("counters", OK, "every node with held GPUs gives the readings that verdicts need")
    missing = [name for name in COUNTERS if any(r[name] for r in lacking)]
    fields = ", ".join(COUNTERS[name].split(",")[0] for name in missing)
    devices = sum(r["devices"] for r in lacking)
    what = f"{devices} held devices give no {fields}: {_named(_place(r) for r in lacking)}"
    fix = ["Add to the counters file of dcgm-exporter (option -f) on these nodes:"]
    return Check("counters", FAIL, what, "\n".join([*fix, *(COUNTERS[name] for name in missing)]))


def _unjudged(store: Store) -> Check:
    rows = store.rows("reports/doctor_unjudged")
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
    return Check("verdicts", WARN, f"could not be judged: {_named(reasons, '; ')}", "\n".join(fix))


def _unmeasured(store: Store, advice: Advice) -> Check:
    rows = [r for r in store.rows("reports/doctor_devices") if r["unmeasured"]]
    if not rows:
        return Check("unmeasured", OK, "every GPU that a scheduler knows is measured")
    what = f"{sum(r['unmeasured'] for r in rows)} GPUs are known to a scheduler and were never measured: "
    then = "name it in targets of [[dcgm]] or let its sender push here" if advice.live else "import its metrics"
    fix = f"Run dcgm-exporter on these nodes for every GPU (option -d f), check that it is scraped, and {then}."
    return Check("unmeasured", FAIL, what + _named(f"{_place(r)} ({r['unmeasured']})" for r in rows), fix)


def _unknown(store: Store, advice: Advice) -> Check:
    rows = [r for r in store.rows("reports/doctor_devices") if r["unknown"]]
    if not rows:
        return Check("unscheduled", OK, "a scheduler knows every node that is measured")
    what = f"{sum(r['unknown'] for r in rows)} GPUs are measured on nodes that no scheduler record names: "
    clusters = sorted({r["cluster"] for r in rows})[:NAMED_MAX]
    if advice.live:
        lines = [
            "Name the scheduler in gpuwatch.toml, [[slurm]] or [[kubernetes]] (docs/sources.md), and start the server again:"
        ]
        lines += [f'cluster = "{cluster}"' for cluster in clusters]
    else:
        lines = ["Import the scheduler's records of the same time, of Slurm or of Kubernetes:"]
        for option in (f"--cluster {shlex.quote(cluster)}" for cluster in clusters):
            lines.append(
                f"scontrol show node -d > nodes.txt && {advice.command(f'import scontrol nodes.txt {option}')}"
            )
            lines.append(
                f"kubectl get nodes,pods -A -o json > k8s.json && {advice.command(f'import k8s-json k8s.json {option}')}"
            )
    return Check("unscheduled", WARN, what + _named(_place(r) for r in rows), "\n".join(lines))


def _owners(store: Store, since_us: int, advice: Advice) -> Check:
    rows = store.rows("reports/doctor_owners", since_us=since_us)
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
    rows = store.rows("reports/doctor_rates")
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
    what = f"{hours:.1f} device-hours are held by a job whose devices on the node are estimated: {_named(_place(r) for r in rows)}"
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
    what = f"{hours:.1f} device-hours are claimed by two jobs at once, charged to the newer: {_named(_place(r) for r in rows)}"
    fix = "Check that one scheduler owns these nodes and that their records use one time zone (import --timezone)."
    return Check("conflicts", WARN, what, fix)


def _gaps(holds: Sequence[dict[str, Any]]) -> Check:
    bad = [r for r in holds if r["unobserved_us"] > UNOBSERVED_SHARE_MAX * r["held_us"]]
    if not bad:
        return Check(
            "telemetry", OK, f"at least {100 * (1 - UNOBSERVED_SHARE_MAX):.0f} % of held time is measured on every node"
        )
    shares = (f"{_place(r)} ({100 * r['unobserved_us'] / r['held_us']:.0f} %)" for r in bad)
    fix = "Check that dcgm-exporter runs there, that its target is scraped, and that profiling is not paused (dcgmi profile --resume)."
    return Check("telemetry", WARN, f"held time that nobody measured: {_named(shares)}", fix)


def _exporters(store: Store, since_us: int) -> list[Check]:
    rows = store.rows("reports/doctor_exporters", since_us=since_us)
    twice, absent = [r for r in rows if r["exporters"]], [r for r in rows if not r["exporters"]]
    found = [Check("exporters", OK, "one exporter speaks for every GPU"), Check("labels", OK, "owner labels stay")]
    if twice:
        what = f"{sum(r['devices'] for r in twice)} GPUs are read twice, of which one reading counts: "
        fix = (
            "Keep one exporter and one scrape job for these nodes. Which ones there are: "
            "count by (instance, job) (DCGM_FI_DEV_FB_USED) in Prometheus, or "
            "kubectl get pods -A -o wide | grep dcgm-exporter"
        )
        found[0] = Check("exporters", WARN, what + _named(f"{_place(r)} ({r['devices']})" for r in twice), fix)
    if absent:
        what = f"pod or job labels of {sum(r['devices'] for r in absent)} GPUs come and go: "
        fix = (
            "dcgm-exporter loses them where it does not reach the kubelet in time. Check its log for pod-resources, and that "
            "/var/lib/kubelet/pod-resources is mounted. The owner is held meanwhile."
        )
        found[1] = Check("labels", WARN, what + _named(_place(r) for r in absent), fix)
    return found


def _profiles(store: Store) -> Check:
    wrong_names = [
        (row, meant)
        for row in store.rows("reports/doctor_profiles")
        if (meant := mig.misnamed(row["model"], row["profile"])) is not None
    ]
    if not wrong_names:
        return Check("profiles", OK, "every MIG profile is one of its GPU's")
    named = (
        f"{row['profile']} on {row['model']} ({row['slices']} slices on {_place(row)}{f', counted as {meant}' if meant else ''})"
        for row, meant in wrong_names
    )
    fix = (
        "Older exporters print a neighbour's name (1g.11gb for 1g.12gb): upgrade dcgm-exporter. What the driver has: "
        "nvidia-smi mig -lgip; nvidia-smi -L"
    )
    return Check("profiles", WARN, f"MIG profiles that their GPU does not have: {_named(named, '; ')}", fix)


def _topology(store: Store) -> Check:
    lacking, disputed = topology_store.missing(store), topology_store.conflicts(store)
    if not lacking and not disputed:
        return Check("topology", OK, "what links the GPUs of every node is known")
    said, fixes = [], []
    for what, words in (("links", "what links the GPUs of"), ("network", "the place in the network of")):
        if rows := [r for r in lacking if r["what"] == what]:
            said.append(f"{words} {len(rows)} nodes is not known ({_named(_place(r) for r in rows)})")
            fixes.append(rows[0]["fix"])
    if disputed:
        named = (
            f"{r['cluster']}/{r['child']} in {r['parent']} ({r['source']}) or {r['told']} ({r['told_source']})"
            for r in disputed
        )
        said.append(f"two sources place {len(disputed)} nodes differently, the first counts: {_named(named, '; ')}")
        fixes.append("Correct the source that is wrong: docs/topology.md has their order.")
    return Check("topology", WARN, "; ".join(said), "\n".join(fixes))


def _books(store: Store, since_us: int, advice: Advice) -> Check:
    clusters = store.sql("select cluster, min(start_us), max(end_us) from segment group by 1 order by 1")
    for cluster, start_us, end_us in clusters:
        try:
            ledger.check(store, cluster, max(start_us // HOUR_US * HOUR_US, since_us), -(-end_us // HOUR_US) * HOUR_US)
        except BooksDoNotClose as error:
            return Check("books", FAIL, str(error), advice.book())
    return Check("books", OK, "every GPU-microsecond is in exactly one bucket")


def _field(line: str) -> str:
    """`SM_ACTIVE` of a counters line, as reasons name it."""
    return line.split(",")[0].removeprefix("DCGM_FI_PROF_")


def _place(row: dict[str, Any]) -> str:
    return f"{row['cluster']}/{row['node']}"


def _named(values: Iterable[str], between: str = ", ") -> str:
    """The first NAMED_MAX of them, and how many more."""
    every = list(values)
    more = f" and {len(every) - NAMED_MAX} more" if len(every) > NAMED_MAX else ""
    return between.join(every[:NAMED_MAX]) + more
