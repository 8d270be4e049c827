"""What is missing or wrong in the inputs, each with the exact fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuwatch import cost, ledger
from gpuwatch.clock import rfc3339
from gpuwatch.errors import BooksDoNotClose
from gpuwatch.ingest import IGNORED
from gpuwatch.state import State
from gpuwatch.store import Store

UNOWNED_SHARE_MAX = 0.01
"""Held time without a team above this share of all held time is worth a rule."""
SILENT_SHARE_MAX = 0.05
"""Held time that a node did not measure above this share of it is worth a look."""

COUNTERS = {
    "sm_active": (
        "DCGM_FI_PROF_SM_ACTIVE, gauge, The ratio of cycles an SM has at least 1 warp assigned.",
        "DCGM_FI_PROF_SM_OCCUPANCY, gauge, The ratio of number of warps resident on an SM.",
    ),
    "gr_engine": ("DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Ratio of time the graphics engine is active.",),
    "tensor_active": ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, Ratio of cycles the tensor (HMMA) pipe is active.",),
    "dram_active": (
        "DCGM_FI_PROF_DRAM_ACTIVE, gauge, Ratio of cycles the device memory interface is active sending or receiving data.",
    ),
}
"""Lines of dcgm-exporter's counters file that switch the fields on."""
WITHOUT = {
    "sm_active": "SM_ACTIVE: false utilization is not judgeable, and busy time cannot be split into buckets",
    "gr_engine": "GR_ENGINE_ACTIVE: gaps are known from GPU_UTIL only, and not at all on MIG slices",
    "tensor_active": "PIPE_TENSOR_ACTIVE: tensor work cannot be told from waiting",
    "dram_active": "DRAM_ACTIVE: memory-bound work cannot be told from waiting",
}


@dataclass(frozen=True)
class Check:
    """One thing looked at: `status` is ok, warn or fail; `fix` is what to paste or do."""

    id: str
    status: str
    what: str
    fix: str


def examine(store: Store, state: State) -> list[Check]:
    """Every check; those that found nothing are one line `ok` each."""
    clusters = [row[0] for row in store.sql("select distinct cluster from device order by 1")]
    for cluster in clusters:
        cost.price(store, state, cluster)
    looks: tuple[tuple[str, Callable[[Store], Iterator[Check]]], ...] = (
        ("data", _data),
        ("books", _books),
        ("rejected-input", _rejects),
        ("absent-fields", _absent_fields),
        ("unmeasured-gpus", _unmeasured),
        ("unknown-to-scheduler", _unscheduled),
        ("unobserved-time", _unobserved),
        ("unallocated-time", _unowned),
        ("missing-rates", _unpriced),
        ("estimated-placement", _estimated),
        ("conflicting-owners", _conflicts),
    )
    checks: list[Check] = []
    for name, look in looks:
        found = list(look(store))
        checks += found or [Check(name, "ok", "nothing to say", "")]
    return checks


def _data(store: Store) -> Iterator[Check]:
    if not store.sql("select count(*) from device")[0][0]:
        yield Check("data", "fail", "no device is known", "gpuwatch import bundle DIR, then gpuwatch analyze")
    waiting = store.sql("select count(*) from dirty_hour")[0][0]
    if waiting:
        yield Check("data", "warn", f"{waiting} hours are newer than the ledger", "gpuwatch analyze")


def _books(store: Store) -> Iterator[Check]:
    if store.sql("select count(*) from dirty_hour")[0][0]:
        return
    for cluster, start, end in store.sql("select cluster, min(start_us), max(end_us) from segment group by cluster"):
        try:
            ledger.check(store, cluster, start, end)
        except BooksDoNotClose as error:
            yield Check("books", "fail", str(error), "gpuwatch analyze --since 1970-01-01")


def _rejects(store: Store) -> Iterator[Check]:
    for reason, count, path, line, example in store.sql(
        """select reason, sum(count)::bigint, arg_min(path, line), min(line), arg_min(example, line)
        from reject group by reason order by 2 desc limit 20"""
    ):
        if not reason.startswith(IGNORED):
            what = f"{count} times: {reason}; first {path}:{line}: {example}"
            yield Check("rejected-input", "warn", what, "mend the source, then import the file again")


def _absent_fields(store: Store) -> Iterator[Check]:
    for row in store.rows("reports/doctor_absent_field"):
        for field, lines in COUNTERS.items():
            if row[field]:
                what = f"cluster {row['cluster']}, node {row['node']} ({row['devices']} devices) lacks {WITHOUT[field]}"
                yield Check("absent-fields", "warn", what, "add to dcgm-exporter's counters file: " + " | ".join(lines))


def _unmeasured(store: Store) -> Iterator[Check]:
    for cluster, node, count in store.sql(
        """select cluster, node, count(*) from device d
        where not measured and not exists (
            select 1 from device s where s.parent_id = d.device_id and s.device_id <> d.device_id
        )
        group by cluster, node order by 1, 2 limit 100"""
    ):
        what = f"cluster {cluster}, node {node}: {count} devices the scheduler knows and nobody measured"
        fix = f"run dcgm-exporter on {node} without a device filter (-d f), and scrape it"
        yield Check("unmeasured-gpus", "warn", what, fix)


def _unscheduled(store: Store) -> Iterator[Check]:
    for cluster, node, count in store.sql(
        """select cluster, node, count(*) from device d
        where measured and node is not null
            and exists (select 1 from node n where n.cluster = d.cluster)
            and not exists (select 1 from node n where n.cluster = d.cluster and n.node = d.node)
        group by cluster, node order by 1, 2 limit 100"""
    ):
        what = f"cluster {cluster}, node {node}: {count} measured devices on a node no scheduler record names"
        yield Check(
            "unknown-to-scheduler", "warn", what, "set NODE_NAME for dcgm-exporter to the scheduler's node name"
        )


def _unobserved(store: Store) -> Iterator[Check]:
    for cluster, node, silent, held in store.sql(
        """select d.cluster, d.node, sum(l.unobserved_us) / 3600e6,
            sum(l.unobserved_us + hoarded_us + gap_us + communication_us + stalled_us + below_roof_us
                + memory_roof_us + compute_us) / 3600e6 as held
        from ledger_hour l join device d on d.device_id = l.device_id and d.cluster = l.cluster
        where l.run_id is not null and d.measured
        group by d.cluster, d.node having held > 0 order by 3 desc limit 100"""
    ):
        if silent / held > SILENT_SHARE_MAX:
            what = f"cluster {cluster}, node {node}: {silent:.1f} of {held:.1f} held device-hours are not measured"
            yield Check("unobserved-time", "warn", what, "look for scrape gaps and absent fields (above) of that node")


def _unowned(store: Store) -> Iterator[Check]:
    held = store.sql(
        "select sum((end_us - start_us) / 3600e6 * share_num / share_den) from segment where run_id is not null"
    )[0][0]
    rows = store.rows("reports/doctor_unowned")
    if not held or sum(row["gpu_hours"] for row in rows) / held <= UNOWNED_SHARE_MAX:
        return
    for row in rows:
        kind, match = next(
            (
                (k, row[c])
                for k, c in (
                    ("namespace", "namespace"),
                    ("account", "account"),
                    ("queue", "queue"),
                    ("user", "user_name"),
                )
                if row[c]
            ),
            ("namespace", "?"),
        )
        what = f"{row['gpu_hours']:.1f} GPU-hours of {kind} {match} belong to no team"
        yield Check("unallocated-time", "warn", what, f"add to teams.csv: {kind},{match},TEAM")


def _unpriced(store: Store) -> Iterator[Check]:
    for row in store.rows("reports/doctor_unpriced"):
        what = f"{row['gpu_hours']:.1f} GPU-hours of {row['model']} {row['profile'] or ''} in {row['cluster']} have no rate"
        fix = f"add to rates.csv: {row['model']},on_demand,USD_PER_GPU_HOUR,{rfc3339(row['first_us'])},"
        yield Check("missing-rates", "fail", what, fix)


def _estimated(store: Store) -> Iterator[Check]:
    for cluster, node, hours in store.sql(
        """select s.cluster, d.node, sum((s.end_us - s.start_us) / 3600e6)
        from segment s join device d on d.device_id = s.device_id and d.cluster = s.cluster
        where s.estimated and d.measured group by 1, 2 order by 3 desc limit 20"""
    ):
        what = f"cluster {cluster}, node {node}: which device a job had is estimated for {hours:.1f} device-hours"
        fix = "give dcgm-exporter --hpc-job-mapping-dir, or import `scontrol show job -d` while jobs run"
        yield Check("estimated-placement", "warn", what, fix)


def _conflicts(store: Store) -> Iterator[Check]:
    for cluster, node, hours in store.sql(
        """select s.cluster, d.node, sum((s.end_us - s.start_us) / 3600e6)
        from segment s join device d on d.device_id = s.device_id and d.cluster = s.cluster
        where s.conflict group by 1, 2 order by 3 desc limit 20"""
    ):
        what = (
            f"cluster {cluster}, node {node}: two owners claim a device for {hours:.2f} device-hours; the newer has it"
        )
        yield Check("conflicting-owners", "warn", what, "check clocks and end times of the schedulers on that node")
