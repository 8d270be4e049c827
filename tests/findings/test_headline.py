"""The first sentence of each rule's findings, and the names of jobs and GPUs in sentences."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuwatch.findings.headline import headline
from gpuwatch.findings.naming import Names, names_of
from gpuwatch.rules.rule import rules
from gpuwatch.store.database import Store

UUID = "GPU-e6020db5-0479-4ecf-b103-3454e1f876ca"
SLURM = ("job", "502002", "lattice-qcd", "physics")
POD = ("job", "chat-prod/rerank-api", "rerank-api", "serving")
GPU = ("gpu", UUID, UUID, "__platform__")
POOL = ("pool", "h100-a", "h100-a", "__platform__")


def row(about: tuple[str, str, str, str], ended: bool = False, **changed: Any) -> dict[str, Any]:
    """A row of findings/finding.sql."""
    kind, identity, name, team = about
    found = {"key": "f1", "cluster": "c1", "subject_kind": kind, "subject_id": identity, "name": name, "team": team}
    return found | {"nodes": ["n1"], "gpu_index": 3, "state": "open", "ended_us": 1 if ended else None} | changed


CASES: dict[str, list[tuple[tuple[str, str, str, str], dict[str, Any], str]]] = {
    "blind-spot": [
        (
            SLURM,
            {"blind_devices": 2},
            "lattice-qcd (job 502002) of team physics on n1 holds 2 devices that nothing measures",
        ),
        (GPU, {"place": "gpu"}, "GPU 3 on n1 is in use and never measured"),
        (POOL, {"place": "pool", "devices": 1}, "Pool h100-a has 1 GPU in use and never measured"),
    ],
    "checkpoint-stall": [
        (
            SLURM,
            {"devices": 4, "period_minutes": 40, "duty_ratio": 0.13},
            "lattice-qcd (job 502002) of team physics on n1 stops 4 GPUs every 40 min, 13 % of the time, as for checkpoints",
        )
    ],
    "degraded-gpu": [
        (GPU, {"signs": "XID 79 (fallen off the bus)", "xid": 79, "silent_hours": 4}, "GPU 3 on n1 failed (XID 79)"),
        (GPU, {"signs": "row remap pending", "silent_hours": 0}, "GPU 3 on n1 reports row remap pending"),
    ],
    "driver-drift": [
        (
            POOL,
            {"versions": "550 on 2 nodes, 535 on 1 node"},
            "Pool h100-a has several drivers: 550 on 2 nodes, 535 on 1 node",
        )
    ],
    "fabric-congestion": [
        (
            ("pool", "leaf-20", "leaf switch leaf-20", "__platform__"),
            {"fallen_gangs": 2, "gangs": 3, "fall_ratio": 0.4},
            "Leaf switch leaf-20 slows 2 of 3 gangs: they exchange 40 % less than in the week before",
        )
    ],
    "failed-work": [
        (
            SLURM,
            {"lost_gpu_hours": 45.25, "lost_cost": "128.97", "currency": "USD", "failures": 1, "reason": "time limit"},
            "lattice-qcd (job 502002) of team physics on n1 lost 45.2 GPU-hours ($129) in 1 failed run (time limit)",
        )
    ],
    "false-utilization": [
        (
            SLURM,
            {"hollow_devices": 4, "sm_active_ratio": 0.17},
            "lattice-qcd (job 502002) of team physics on n1 keeps 4 devices busy with only 17 % of the SMs at work",
        )
    ],
    "fragmentation": [
        (
            POOL,
            {"free_gpus": 7.6, "starved_minutes": 207, "waiting_job": "504013", "shape": "4"},
            "Pool h100-a has on average 7.6 free GPUs too scattered for job 504013, which waits for 4",
        ),
        (
            POOL,
            {"free_gpus": 8, "fragmentation_ratio": 0.6},
            "Pool h100-a has 8 free GPUs, 60 % of them too scattered for the usual requests",
        ),
    ],
    "gang-partial": [
        (
            POD,
            {"running_pods": 5, "pods_min": 8, "held_devices": 5},
            "Job chat-prod/rerank-api of team serving on n1 runs 5 of 8 members, so 5 devices wait for the rest",
        )
    ],
    "idle-hoarding": [
        (SLURM, {"idle_devices": 1, "devices": 1}, "lattice-qcd (job 502002) of team physics on n1 holds 1 idle GPU"),
        (
            SLURM,
            {"idle_devices": 2, "devices": 4},
            "lattice-qcd (job 502002) of team physics on n1 holds 2 idle GPUs of 4",
        ),
    ],
    "memory-leak": [
        (
            GPU,
            {"shape": "orphan", "fb_used_gib": 20.8, "last_job": "508001 clip-align"},
            "GPU 3 on n1 has 20.8 GiB of its memory in use that job 508001 clip-align left behind, with no job on it",
        ),
        (
            SLURM,
            {"shape": "growth", "growth_ratio_per_hour": 0.02, "leaking_devices": 1},
            "lattice-qcd (job 502002) of team physics on n1 leaks memory: 2.0 % more an hour on 1 device",
        ),
    ],
    "mig-mismatch": [
        (
            ("slice", f"{UUID}/GI-2", "moderation-api", "serving"),
            {"verdict": "oversized", "profile": "3g.40gb", "fit": "2g.20gb"},
            "moderation-api of team serving on n1 uses a 3g.40gb slice where a 2g.20gb is enough",
        ),
        (
            ("slice", f"{UUID}/GI-2", f"{UUID}/GI-2", "__unallocated__"),
            {"verdict": "undersized", "profile": "1g.10gb", "full_ratio": 0.99},
            "A workload on n1 needs more than its 1g.10gb slice: a job ended at 99 % of its memory",
        ),
    ],
    "mig-mixed-pool": [
        (POOL, {"mig_gpus": 2, "whole_gpus": 1}, "Pool h100-a mixes 2 GPUs in MIG mode and 1 whole GPU")
    ],
    "mig-speculative": [
        (
            GPU,
            {"idle_instances": 1, "profiles": "3g.40gb", "waiting_jobs": 3, "wanted": "1g.10gb"},
            "GPU 3 on n1 keeps 1 unused MIG instance (3g.40gb) while 3 jobs wait for 1g.10gb",
        )
    ],
    "mig-training": [
        (
            POD,
            {"slices": 4, "spread": "2 GPUs"},
            "Job chat-prod/rerank-api of team serving on n1 trains across 4 MIG slices of 2 GPUs",
        )
    ],
    "node-out-of-service": [
        (
            ("node", "gpu11", "gpu11", "__platform__"),
            {"state": "drain", "gpus": 8, "gpu_hours": 1200, "hours": 150, "reason": "Xid 79"},
            "Node gpu11 is drained with 8 GPUs (Xid 79)",
        ),
        (
            ("node", "gpu11", "gpu11", "__platform__"),
            {"state": "down", "gpus": 1, "gpu_hours": 30, "hours": 30, "reason": None},
            "Node gpu11 is down with 1 GPU",
        ),
    ],
    "noisy-neighbour": [
        (
            POD,
            {"quiet_ratio": 0.62, "loud_ratio": 0.39, "neighbour": "ml/train"},
            "Job chat-prod/rerank-api of team serving on n1 falls from 62 % to 39 % of a shared GPU while ml/train is busy",
        )
    ],
    "own-vs-cloud": [
        (
            POOL,
            {"saved_a_month": "4205.32", "currency": "USD", "cheaper": "cloud", "utilisation_ratio": 0.2},
            "Pool h100-a would cost $4,205 a month less in the cloud at 20 % use",
        )
    ],
    "partial-island": [
        (
            ("node", "n1", "n1", "__platform__"),
            {"waiting_job": "504013"},
            "Node n1 has an NVLink island in use in part while job 504013 waits for a whole one",
        )
    ],
    "preemption-thrash": [
        (
            POD,
            {"case": "thrash", "preemptions": 4},
            "Job chat-prod/rerank-api of team serving on n1 was preempted 4 times in 24 hours",
        ),
        (
            ("queue", "batch", "batch", "__platform__"),
            {"case": "inversion", "waiting_jobs": 2},
            "Queue batch has 2 jobs of higher priority waiting behind lower ones",
        ),
        (POOL, {"case": "pool", "preemptions": 9}, "Pool h100-a has 9 preemptions in 24 hours"),
    ],
    "right-sizing": [
        (
            POD,
            {"fits": "NVIDIA L40S", "now": "NVIDIA H100", "saving_per_hour": "1.99", "currency": "EUR"},
            "Job chat-prod/rerank-api of team serving on n1 holds H100 where L40S is enough: €1.99 an hour less",
        )
    ],
    "scheduler-conflict": [
        (
            POOL,
            {"writers": "kubernetes (93 %), volcano (7 %)"},
            "Pool h100-a gets work from several schedulers at once: kubernetes (93 %), volcano (7 %)",
        )
    ],
    "small-batch": [
        (
            SLURM,
            {"small_devices": 1, "sm_active_ratio": 0.32},
            "lattice-qcd (job 502002) of team physics on n1 runs batches too small for 1 GPU: 32 % of the SMs are at work",
        )
    ],
    "spot-suitability": [
        (
            SLURM,
            {"saving": "17.21", "currency": "USD"},
            "lattice-qcd (job 502002) of team physics on n1 could save $17.21 in 30 days on spot capacity",
        )
    ],
    "starvation": [
        (
            ("queue", "research", "research", "__platform__"),
            {"case": "starved", "waiting_jobs": 1, "waiting_devices": 3, "borrower": "nlp"},
            "Queue research is below its quota while 1 job waits for 3 GPUs, which nlp and others borrow",
        ),
        (
            ("queue", "research", "research", "__platform__"),
            {"case": "idle reservation", "waiting_jobs": 2, "waiting_devices": 3, "quota_devices": 4},
            "Queue research reserves 4 GPUs that it does not use while 2 jobs wait for 3 GPUs",
        ),
    ],
    "straggler": [
        (
            SLURM,
            {"loss_ratio": 0.32, "gpu": "GPU 5", "node": "n1"},
            "lattice-qcd (job 502002) of team physics on n1 waits 32 % of the time for one slow GPU (GPU 5 on n1)",
        )
    ],
    "topology-blind-placement": [
        (
            SLURM,
            {"spans": "Spans 2 nodes", "best": "one NVLink domain"},
            "lattice-qcd (job 502002) of team physics on n1 spans 2 nodes while one NVLink domain was free",
        )
    ],
}


def test_every_rule_has_a_headline() -> None:
    assert sorted(rules()) == sorted(CASES)


@pytest.mark.parametrize(
    ("rule", "about", "evidence", "expected"), [(rule, *case) for rule, cases in CASES.items() for case in cases]
)
def test_the_sentence_of_a_rule(
    rule: str, about: tuple[str, str, str, str], evidence: dict[str, Any], expected: str
) -> None:
    assert expected == headline(rules()[rule], evidence, row(about))


@pytest.mark.parametrize(
    ("rule", "evidence", "changed", "expected"),
    [
        pytest.param(None, {}, {}, "", id="no rule"),
        pytest.param("idle-hoarding", {}, {}, "", id="evidence of an earlier version"),
        pytest.param(
            "idle-hoarding",
            {"idle_devices": 1, "devices": 1},
            {"ended_us": 1, "team": "__unallocated__", "nodes": []},
            "lattice-qcd (job 502002) held 1 idle GPU",
            id="over, no team, no node",
        ),
        pytest.param(
            "idle-hoarding",
            {"idle_devices": 8, "devices": 8},
            {"name": None, "nodes": ["n1", "n2", "n3"]},
            "Job 502002 of team physics on n1 and 2 more nodes holds 8 idle GPUs",
            id="no name, several nodes",
        ),
    ],
)
def test_what_is_unknown_is_left_out(
    rule: str | None, evidence: dict[str, Any], changed: dict[str, Any], expected: str
) -> None:
    assert expected == headline(rules()[rule] if rule else None, evidence, row(SLURM, **changed))


def test_a_broken_gpu_names_the_job_that_it_met() -> None:
    evidence = {"signs": "XID 79 (fallen off the bus)", "silent_hours": 1}
    result = headline(rules()["degraded-gpu"], evidence, row(GPU, ended=True), ("llama-pretrain", "nlp"))

    assert "GPU 3 on n1 failed (XID 79) while llama-pretrain of team nlp was running" == result


JOBS = {("c1", "504002"): ("score-batch", "scratch"), ("c1", "504003"): ("md-run", "physics")}


@pytest.mark.parametrize(
    ("team", "name", "value", "expected"),
    [
        pytest.param("__platform__", "jobs", "504002, 504003", "504002 score-batch, 504003 md-run", id="a list"),
        pytest.param(
            "__platform__",
            "moves",
            "504003 (1 GPU on n1), 504009 and 4 more",
            "504003 md-run (1 GPU on n1), 504009 and 4 more",
            id="with remarks, one unknown",
        ),
        pytest.param(
            "physics", "jobs", "504002, 504003", "504002, 504003 md-run", id="other teams' jobs have no names"
        ),
        pytest.param("__platform__", "profiles", "504002", "504002", id="a word that names no job"),
        pytest.param("__platform__", "gpu", UUID, "GPU 5", id="a GPU"),
        pytest.param("__platform__", "best_gpus", f"{UUID} GPU-0000", "GPU 5 GPU-0000", id="GPUs in a list"),
    ],
)
def test_sentences_name_jobs_and_gpus(team: str, name: str, value: str, expected: str) -> None:
    names = Names(JOBS, {("c1", UUID): 5})

    assert {name: expected, "n": 504002} == names.evidence(row(POOL, team=team), {name: value, "n": 504002})


def test_names_come_from_the_latest_run_the_device_and_the_job_on_it() -> None:
    """Another cluster's job of the same id, and the job that ended an hour before, are not it."""
    with Store.open(None, threads=1) as store:
        store.sql(
            "insert into run (run_id, cluster, scheduler, job_id, name, start_us) values (1, 'c1', 'slurm', '7', 'old', 1),"
            " (2, 'c1', 'slurm', '7', 'new', 2), (3, 'c2', 'slurm', '7', 'other', 9), (4, 'c1', 'slurm', '8', null, 1)"
        )
        store.sql("insert into run_team (run_id, cluster, team, inferred) values (2, 'c1', 'nlp', false)")
        store.sql(
            "insert into device (device_id, cluster, gpu, gi, gpu_index, last_us) values (5, 'c1', $u, -1, 3, 9)",
            u=UUID,
        )
        hour_us = 3_600_000_000
        store.sql(
            "insert into segment (cluster, device_id, start_us, end_us, run_id) values"
            f" ('c1', 5, 0, {hour_us}, 1), ('c1', 5, {hour_us}, {3 * hour_us}, 2)"
        )
        store.sql(
            "insert into finding (key, cluster, subject_kind, started_us, device_ids)"
            f" values ('f1', 'c1', 'gpu', {2 * hour_us}, [5])"
        )
        found = row(GPU) | {"evidence": json.dumps({"jobs": "7, 8", "gpu": UUID})}
        names = names_of(store, [found])

        assert {("c1", "7"): ("new", "nlp")} == names.jobs
        assert {("c1", UUID): 3} == names.gpus
        assert ("new", "nlp") == names.met(found)
        assert names.met(found | {"team": "nlp"}) is None
