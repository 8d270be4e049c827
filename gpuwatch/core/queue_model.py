"""The records of queues: queues with their quota, queued workloads, and reservations. As model.py describes its records."""

from __future__ import annotations

import pyarrow as pa

QUEUE = pa.schema(
    [
        ("cluster", pa.string()),
        ("scheduler", pa.string()),  # kueue | volcano | yunikorn | slurm | kubernetes
        ("kind", pa.string()),  # cluster_queue | local_queue | cohort | queue | partition | qos | resource_quota | ...
        ("name", pa.string()),  # "root.a.b" of a tree of queues
        ("namespace", pa.string()),
        ("parent", pa.string()),  # the queue, cohort or cluster queue above it
        ("flavor", pa.string()),  # Kueue resource flavor of the row, NULL: all
        ("observed_us", pa.int64()),  # when the record was written, NULL unknown
        ("state", pa.string()),  # the scheduler's name: Open, Hold, Active, RUNNING, ...
        ("priority", pa.int64()),  # for a QOS or priority class
        ("weight", pa.float64()),  # fair share
        ("quota", pa.string()),  # JSON {"": 8, "1g.10gb": 7}: guaranteed devices by MIG profile, "" = whole GPUs
        ("quota_max", pa.string()),  # JSON: the most it may use, including borrowed devices
        ("lend_max", pa.string()),  # JSON: the most it lends
        ("used", pa.string()),  # JSON: devices in use
        ("borrowed", pa.string()),  # JSON: those that are borrowed
        ("pending_count", pa.int32()),  # waiting workloads
        ("running_count", pa.int32()),
        ("preemption", pa.string()),  # JSON: its rules in the scheduler's own terms
        ("detail", pa.string()),  # JSON: other values
    ]
)
"""A scheduler's record of a queue, quota or priority at one instant."""

WORKLOAD = pa.schema(
    [
        ("cluster", pa.string()),
        ("scheduler", pa.string()),  # kueue | volcano | yunikorn | coscheduling | ray | slurm | kubernetes
        ("kind", pa.string()),  # Workload, PodGroup, Job, Application, RayJob, ...
        ("uid", pa.string()),  # unique in (cluster, scheduler, kind)
        ("name", pa.string()),
        ("namespace", pa.string()),
        ("job_id", pa.string()),  # claim.job_id of its runs, NULL unknown
        ("queue", pa.string()),
        ("cluster_queue", pa.string()),  # the queue that admitted it, if it is another one
        ("priority_class", pa.string()),
        ("priority", pa.int64()),
        ("pod_count", pa.int32()),  # gang size
        ("min_count", pa.int32()),  # members without which it does not start
        ("device_count", pa.int32()),  # total GPUs or slices
        ("profile", pa.string()),
        ("gpu_type", pa.string()),  # model or resource flavor
        ("submit_us", pa.int64()),
        ("reserved_us", pa.int64()),  # when its quota was reserved
        ("admitted_us", pa.int64()),
        ("start_us", pa.int64()),  # when all its members ran
        ("evicted_us", pa.int64()),  # the last eviction
        ("end_us", pa.int64()),
        ("evictions", pa.int32()),  # NULL unknown
        ("preemptions", pa.int32()),  # evictions for another workload
        ("state", pa.string()),  # pending | inadmissible | reserved | admitted | running | evicted | finished
        ("reason", pa.string()),  # the scheduler's reason: Preempted, QuotaReserved, NotEnoughResources, ...
        ("message", pa.string()),
        ("user_name", pa.string()),
        ("placement", pa.string()),  # JSON list of {"node"|"domain": ..., "count": n, "levels": [...]}, NULL unknown
        ("labels", pa.string()),  # JSON
        ("detail", pa.string()),  # JSON: other values
        ("observed_us", pa.int64()),  # when the record was written, NULL unknown
    ]
)
"""A scheduler's record of a gang, queued workload or application at one instant."""

RESERVATION = pa.schema(
    [
        ("cluster", pa.string()),
        ("scheduler", pa.string()),
        ("name", pa.string()),
        ("observed_us", pa.int64()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("nodes", pa.string()),  # comma-separated
        ("device_count", pa.int32()),
        ("gpu_type", pa.string()),
        ("accounts", pa.string()),  # comma-separated
        ("users", pa.string()),  # comma-separated
        ("queue", pa.string()),
        ("state", pa.string()),
        ("flags", pa.string()),  # comma-separated, the scheduler's names: MAINT, IGNORE_JOBS, ...
    ]
)
"""Nodes that a scheduler reserves for users or accounts during [start_us, end_us)."""
