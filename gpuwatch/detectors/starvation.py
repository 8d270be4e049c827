"""Queues whose jobs wait although their own quota is not in use."""

from __future__ import annotations

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import EvaluationScope, Evidence, Rule, Threshold, count, lasting, register, waits
from gpuwatch.store.database import Store


def _prepare(store: Store, scope: EvaluationScope) -> None:
    """Makes queue_span and wait_span: what queues had and what waited in them, as long as each word on it stood."""
    store.run("views/wait_span", **scope.sql_parameters())
    store.run("views/queue_span", **scope.sql_parameters())


def _summary(e: Evidence) -> str:
    waiting = (
        f"{count(e['waiting_jobs'], 'job')} for {count(e['waiting_devices'], 'GPU')}, "
        f"the longest for {lasting(e['longest_wait_minutes'], 'minutes')}"
    )
    if e["case"] == "idle reservation":
        return (
            f"Of {count(e['quota_devices'], 'GPU')} of quota no more than {e['used_devices']:g} used in 7 days, while "
            f"others wait, among them {e['borrower']}: {waiting}."
        )
    return (
        f"Waiting below quota ({e['used_devices']:g} of {e['quota_devices']:g} in use): {waiting}, while {e['borrower']} and "
        f"others borrow {count(e['borrowed_devices'], 'GPU')}."
    )


def _headline(e: Evidence) -> str:
    waiting = f"{count(e['waiting_jobs'], 'job')} {waits(e['waiting_jobs'])} for {count(e['waiting_devices'], 'GPU')}"
    if e["case"] == "idle reservation":
        return f"{{reserves|reserved}} {count(e['quota_devices'], 'GPU')} that it {{does|did}} not use while {waiting}"
    return f"{{is|was}} below its quota while {waiting}, which {e['borrower']} and others {{borrow|borrowed}}"


def _remedy(e: Evidence) -> str:
    if e["case"] == "idle reservation":
        return "Give the unused quota back, or let the cohort borrow it (Kueue: lendingLimit, cohort)."
    if e.get("reclaim") == "Any":
        return (
            "The queue may take back what is its own already (reclaimWithinCohort: Any), so something else keeps its jobs waiting: read "
            "the conditions of the Workload (kubectl describe), and give borrowers a limit (borrowingLimit)."
        )
    now = f" (it is {e['reclaim']})" if e.get("reclaim") else ""
    return (
        f"Let the queue take back what is its own: reclaimWithinCohort{now}, cohort fair sharing, Volcano's reclaim "
        "action; or give borrowers a limit."
    )


STARVATION = register(
    Rule(
        id="starvation",
        title="Jobs that wait below their quota",
        why="A quota is a promise: when others use it while its owner waits, teams reserve more than they need.",
        bucket=None,
        layer="scheduling",
        effort=DAYS,
        needs=("queues", "workloads"),
        thresholds=(
            Threshold("starved_us_min", 30 * MINUTE_US, "half an hour below quota, others borrowing all the time"),
            Threshold("high_us", HOUR_US, "after an hour the severity is high"),
            Threshold("unseen_us", 30 * MINUTE_US, "how far back the first report on a queue after a silence counts"),
            Threshold("fresh_us", 2 * HOUR_US, "queues and workloads are recorded again every hour"),
            Threshold("week_us", 7 * DAY_US, "a quota is idle when it was for 7 days"),
            Threshold("used_max", 0.5, "less than half of the quota, in every report of these days"),
            Threshold("coverage_min", 0.9, "hours of these days in which the queue was seen"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        look_back_us=2 * HOUR_US,
        measures={
            "waiting_jobs": "max",
            "waiting_devices": "max",
            "longest_wait_minutes": "max",
            "quota_devices": "last",
            "used_devices": "max",
            "borrowed_devices": "max",
            "unmet_gpu_hours": "sum",
        },
        prepare=_prepare,
    )
)
