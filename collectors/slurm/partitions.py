"""Slurm's partitions, QOS and reservations as rows, from its text and from its JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, string
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.json_values import moment_us, number_of, texts, tres_text, words
from gpuwatch.collectors.slurm.text import Gpus, expand_hostlist, instant, known, number_word, tres_gpus
from gpuwatch.collectors.slurm.workload import by_profile, text
from gpuwatch.core.model import Source

Devices = Mapping[str, Mapping[str, int]]
"""Devices of each node by MIG profile."""

MAX_COUNT = 2**31 - 1
"""Sums over many jobs or nodes stop here: their columns hold no more."""

QOS_COLUMNS = (
    "Name,Priority,Preempt,PreemptMode,Flags,GrpTRES,MaxTRESPerJob,MaxTRESPerUser,MaxTRESPerAccount,GrpJobs,"
    "MaxJobsPerUser,UsageFactor"
)
"""What sacctmgr is asked for: its header has its own, shorter words for them."""
_HEADER = ("name", "priority", "preempt", "preemptmode", "flags", "grptres", "maxtres", "maxtrespu", "maxtrespa")


def partition_row(fields: dict[str, str], source: Source) -> Row:
    """The `queue` row of a record of `scontrol show partition`."""
    return _partition(
        source,
        name=fields["PartitionName"].split()[0],
        state=known(fields.get("State")),
        nodes=known(fields.get("Nodes")),
        tres=fields.get("TRES", ""),
        tier=number_word(fields.get("PriorityTier")),
        preempt=known(fields.get("PreemptMode")),
        qos=known(fields.get("QoS")),
        accounts=known(fields.get("AllowAccounts")),
        job_factor=number_word(fields.get("PriorityJobFactor")),
    )


def partition_of(item: Object, source: Source) -> Row:
    """The `queue` row of a partition in JSON: flat words in v0.0.38, objects since. Raises Malformed."""
    nested = isinstance(item.get("nodes"), dict)
    nodes = mapping(item, "nodes") if nested else {"configured": item.get("nodes")}
    tres = mapping(item, "tres") if nested else {"configured": item.get("tres")}
    priority = mapping(item, "priority") if nested else {}
    state = mapping(item, "partition").get("state") if nested else item.get("state")
    return _partition(
        source,
        name=_named(item),
        state="+".join(words(state)) or None,
        nodes=known(string(nodes, "configured")),
        tres=string(tres, "configured") or "",
        tier=number_of(priority.get("tier") if nested else item.get("priority_tier")),
        preempt="+".join(texts(item, "preemption_mode")).upper() or None,
        qos=known(string(mapping(item, "qos"), "assigned") if nested else string(item, "qos")),
        accounts=known(string(mapping(item, "accounts"), "allowed") if nested else string(item, "allowed_accounts")),
        job_factor=number_of(priority.get("job_factor") if nested else item.get("priority_job_factor")),
    )


def qos_rows(lines: Iterable[tuple[int, str]], source: Source) -> list[Row]:
    """`queue` rows of `sacctmgr --parsable2 show qos` with its header. Raises ValueError without one."""
    numbered = iter(lines)
    header = next(numbered, (0, ""))[1].lower().split("|")
    if missing := [name for name in _HEADER[:6] if name not in header]:
        raise ValueError(f"sacctmgr show qos: columns {', '.join(missing)} are missing")
    rows = []
    for _, line in numbered:
        fields = dict(zip(header, line.split("|"), strict=False))
        if not (name := fields.get("name", "").strip()):
            continue
        limits = {
            "per_job": fields.get("maxtres"),
            "per_user": fields.get("maxtrespu"),
            "per_account": fields.get("maxtrespa"),
        }
        rows.append(
            _qos(
                source,
                name,
                priority=number_word(fields.get("priority")),
                group=fields.get("grptres", ""),
                limits={key: tres_gpus(value or "") for key, value in limits.items()},
                preempts=[word for word in fields.get("preempt", "").split(",") if word],
                mode=known(fields.get("preemptmode")),
                flags=known(fields.get("flags")),
            )
        )
    return rows


def qos_of(item: Object, source: Source) -> Row:
    """The `queue` row of a QOS of slurmrestd's /slurmdb. Raises Malformed."""
    most, preempt = mapping(mapping(item, "limits"), "max"), mapping(item, "preempt")
    tres, each = mapping(most, "tres"), mapping(mapping(most, "tres"), "per")
    return _qos(
        source,
        _named(item),
        priority=number_of(item.get("priority")),
        group=tres_text(tres, "total"),
        limits={f"per_{key}": tres_gpus(tres_text(each, key)) for key in ("job", "user", "account")},
        preempts=texts(preempt, "list"),
        mode="+".join(texts(preempt, "mode")).lower() or None,
        flags=",".join(texts(item, "flags")) or None,
    )


def reservation_row(fields: dict[str, str], source: Source, tz: ZoneInfo) -> Row:
    """The `reservation` row of a record of `scontrol show reservation`. Raises ValueError."""
    return _reservation(
        source,
        name=fields["ReservationName"].split()[0],
        start_us=instant(fields.get("StartTime"), tz),
        end_us=instant(fields.get("EndTime"), tz),
        nodes=known(fields.get("Nodes")),
        tres=fields.get("TRES", ""),
        accounts=known(fields.get("Accounts")),
        users=known(fields.get("Users")),
        partition=known(fields.get("PartitionName")),
        state=known((fields.get("State", "").split() or [""])[0]),
        flags=known(fields.get("Flags")),
    )


def reservation_of(item: Object, source: Source) -> Row:
    """The `reservation` row of a reservation in JSON, which has no state: its times and the clock say it.

    Raises ValueError.
    """
    start_us, end_us, now_us = moment_us(item, "start_time"), moment_us(item, "end_time"), source.observed_us
    state = None
    if now_us is not None and start_us is not None and end_us is not None:
        state = "ACTIVE" if start_us <= now_us < end_us else "INACTIVE"
    return _reservation(
        source,
        name=_named(item),
        start_us=start_us,
        end_us=end_us,
        nodes=known(string(item, "node_list")),
        tres=string(item, "tres") or "",
        accounts=known(string(item, "accounts")),
        users=known(string(item, "users")),
        partition=known(string(item, "partition")),
        state=state,
        flags=",".join(texts(item, "flags")) or None,
    )


# What only the whole tells -----------------------------------------------------------------------------------------


@dataclass
class Usage:
    """What jobs hold and want in one partition or QOS."""

    used: dict[str, int] = field(default_factory=dict)
    running: int = 0
    waiting: int = 0


def usage(rows: Iterable[Row]) -> dict[tuple[str, str], Usage]:
    """Devices held and jobs that run and wait, by ("partition"|"qos", name); rows are those of all jobs at one moment."""
    found: dict[tuple[str, str], Usage] = {}
    for table, row in rows:
        if table == "claim" and row["end_us"] is None:
            for key in (("partition", row["queue"] or ""), ("qos", row["qos"] or "")):
                used = found.setdefault(key, Usage()).used
                used[row["profile"] or ""] = used.get(row["profile"] or "", 0) + row["device_count"]
        elif table == "workload" and row["state"] != "finished":
            partitions = (row["queue"] or "").split(",")  # it waits for the first of them that has room
            for key in [*(("partition", name) for name in partitions), ("qos", row["priority_class"] or "")]:
                at = found.setdefault(key, Usage())
                if row["state"] in ("running", "admitted"):
                    at.running += 1
                else:
                    at.waiting += json.loads(row["detail"]).get("array_tasks", 1)
    return found


def completed(rows: Iterable[Row], devices: Devices, used: Mapping[tuple[str, str], Usage] | None) -> Iterator[Row]:
    """Queues and reservations with what their own records leave out.

    Devices are those of their nodes where their TRES names none (a site that does not account for GPUs). A partition
    without any GPU is left out.
    """
    for table, row in rows:
        if table not in ("queue", "reservation"):
            yield table, row
            continue
        nodes = row.get("_nodes")
        row = {name: value for name, value in row.items() if name != "_nodes"}
        if table == "queue" and row["kind"] == "partition" and row["quota"] is None:
            total = _total(nodes, devices)
            if not total:
                continue
            row["quota"] = row["quota_max"] = text(total)
        if table == "queue" and used is not None:
            at = used.get((row["kind"], row["name"]), Usage())
            row |= {"used": text(at.used), "running_count": at.running, "pending_count": min(at.waiting, MAX_COUNT)}
        if table == "reservation" and row["device_count"] is None and nodes and devices:
            row["device_count"] = min(sum(_total(nodes, devices).values()), MAX_COUNT)
        yield table, row


def _total(nodes: str | None, devices: Devices) -> dict[str, int]:
    total: dict[str, int] = {}
    for node in _hosts(nodes):
        for profile, count in devices.get(node, {}).items():
            total[profile] = total.get(profile, 0) + count
    return {profile: count for profile, count in total.items() if count}


# ------------------------------------------------------------------------------------------------------------------


def _partition(
    source: Source,
    name: str,
    state: str | None,
    nodes: str | None,
    tres: str,
    tier: int | None,
    preempt: str | None,
    qos: str | None,
    accounts: str | None,
    job_factor: int | None,
) -> Row:
    gpus = tres_gpus(tres)
    quota = text(by_profile(gpus)) if gpus else None
    types = sorted({held.gpu_type for held in gpus if held.gpu_type})
    detail = {"nodes": nodes, "qos": qos, "accounts": accounts, "job_factor": job_factor, "gpu_types": types or None}
    return "queue", _queue(source, "partition", name) | {
        "_nodes": nodes,
        "state": state,
        "priority": tier,
        "quota": quota,
        "quota_max": quota,
        "preemption": text({"mode": preempt}) if preempt else None,
        "detail": text({key: value for key, value in detail.items() if value is not None}),
    }


def _qos(
    source: Source,
    name: str,
    priority: int | None,
    group: str,
    limits: Mapping[str, tuple[Gpus, ...]],
    preempts: list[str],
    mode: str | None,
    flags: str | None,
) -> Row:
    """A QOS guarantees nothing: GrpTRES is the most that all its jobs may hold together."""
    most = tres_gpus(group)
    detail: dict[str, Any] = {f"max_{key}": by_profile(gpus) for key, gpus in limits.items() if gpus}
    preemption = {"mode": mode, "preempts": sorted(preempts) or None}
    return "queue", _queue(source, "qos", name) | {
        "priority": priority,
        "quota_max": text(by_profile(most)) if most else None,
        "preemption": text({key: value for key, value in preemption.items() if value is not None}),
        "detail": text(detail | ({"flags": flags} if flags else {})),
    }


def _queue(source: Source, kind: str, name: str) -> dict[str, Any]:
    shared = {"cluster": source.cluster, "scheduler": "slurm", "observed_us": source.observed_us}
    return shared | {"kind": kind, "name": name}


def _reservation(
    source: Source,
    name: str,
    start_us: int | None,
    end_us: int | None,
    nodes: str | None,
    tres: str,
    accounts: str | None,
    users: str | None,
    partition: str | None,
    state: str | None,
    flags: str | None,
) -> Row:
    gpus = tres_gpus(tres)
    types = {held.gpu_type for held in gpus}
    return "reservation", {
        "_nodes": nodes,
        "cluster": source.cluster,
        "scheduler": "slurm",
        "name": name,
        "observed_us": source.observed_us,
        "start_us": start_us,
        "end_us": end_us,
        "nodes": ",".join(_hosts(nodes)) or None,
        "device_count": sum(held.number for held in gpus) if gpus else None,
        "gpu_type": types.pop() if len(types) == 1 else None,
        "accounts": accounts,
        "users": users,
        "queue": partition,
        "state": state,
        "flags": flags,
    }


def _hosts(nodes: str | None) -> tuple[str, ...]:
    """Host names of a list; `ALL` and names of node sets stay as they are."""
    return expand_hostlist(nodes) if nodes else ()


def _named(item: Object) -> str:
    name = string(item, "name")
    if name is None or not name.strip():
        raise Malformed("name is missing")
    return name
