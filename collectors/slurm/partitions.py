"""Rows of Slurm's partitions, QOS and reservations, from its text and its JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.shared.json_fields import Malformed, Object, compact_json, mapping, string
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.json_values import moment_us, number_of, states_of, texts, tres_text
from gpuwatch.collectors.slurm.text import Gpus, devices_by_profile, expand_hostlist, instant, integer, known, tres_gpus
from gpuwatch.core.model import Source

QOS_COLUMNS = (
    "Name,Priority,Preempt,PreemptMode,Flags,GrpTRES,MaxTRESPerJob,MaxTRESPerUser,MaxTRESPerAccount,GrpJobs,"
    "MaxJobsPerUser,UsageFactor"
)
"""The columns requested from sacctmgr, which prints shorter names for them in its header."""
_HEADER = ("name", "priority", "preempt", "preemptmode", "flags", "grptres", "maxtres", "maxtrespu", "maxtrespa")


def partition_row(fields: dict[str, str], source: Source) -> Row:
    """The `queue` row of a record of `scontrol show partition`."""
    return _partition(
        source,
        name=fields["PartitionName"].split()[0],
        state=known(fields.get("State")),
        nodes=known(fields.get("Nodes")),
        tres=fields.get("TRES", ""),
        tier=integer(fields.get("PriorityTier")),
        preempt=known(fields.get("PreemptMode")),
        qos=known(fields.get("QoS")),
        accounts=known(fields.get("AllowAccounts")),
        job_factor=integer(fields.get("PriorityJobFactor")),
    )


def partition_from_json(item: Object, source: Source) -> Row:
    """The `queue` row of a partition in JSON: flat values in v0.0.38, nested objects since. Raises Malformed."""
    nested = isinstance(item.get("nodes"), dict)
    nodes = mapping(item, "nodes") if nested else {"configured": item.get("nodes")}
    tres = mapping(item, "tres") if nested else {"configured": item.get("tres")}
    priority = mapping(item, "priority") if nested else {}
    state = mapping(item, "partition").get("state") if nested else item.get("state")
    return _partition(
        source,
        name=_required_name(item),
        state="+".join(states_of(state)) or None,
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
                priority=integer(fields.get("priority")),
                group=fields.get("grptres", ""),
                limits={key: tres_gpus(value or "") for key, value in limits.items()},
                preempts=[word for word in fields.get("preempt", "").split(",") if word],
                mode=known(fields.get("preemptmode")),
                flags=known(fields.get("flags")),
            )
        )
    return rows


def qos_from_json(item: Object, source: Source) -> Row:
    """The `queue` row of a QOS of slurmrestd's /slurmdb. Raises Malformed."""
    tres, preempt = mapping(mapping(mapping(item, "limits"), "max"), "tres"), mapping(item, "preempt")
    limits = mapping(tres, "per")
    return _qos(
        source,
        _required_name(item),
        priority=number_of(item.get("priority")),
        group=tres_text(tres, "total"),
        limits={f"per_{key}": tres_gpus(tres_text(limits, key)) for key in ("job", "user", "account")},
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


def reservation_from_json(item: Object, source: Source) -> Row:
    """The `reservation` row of a reservation in JSON, whose state follows from its times.

    Raises ValueError.
    """
    start_us, end_us, now_us = moment_us(item, "start_time"), moment_us(item, "end_time"), source.observed_us
    state = None
    if now_us is not None and start_us is not None and end_us is not None:
        state = "ACTIVE" if start_us <= now_us < end_us else "INACTIVE"
    return _reservation(
        source,
        name=_required_name(item),
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
    quota = compact_json(devices_by_profile(gpus)) if gpus else None
    types = sorted({group.gpu_type for group in gpus if group.gpu_type})
    detail = {"nodes": nodes, "qos": qos, "accounts": accounts, "job_factor": job_factor, "gpu_types": types or None}
    return "queue", _queue(source, "partition", name) | {
        "_nodes": nodes,
        "state": state,
        "priority": tier,
        "quota": quota,
        "quota_max": quota,
        "preemption": compact_json({"mode": preempt}) if preempt else None,
        "detail": compact_json({key: value for key, value in detail.items() if value is not None}),
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
    """The row of a QOS, which guarantees nothing: GrpTRES limits what all its jobs may hold together."""
    most = tres_gpus(group)
    detail: dict[str, Any] = {f"max_{key}": devices_by_profile(gpus) for key, gpus in limits.items() if gpus}
    preemption = {"mode": mode, "preempts": sorted(preempts) or None}
    return "queue", _queue(source, "qos", name) | {
        "priority": priority,
        "quota_max": compact_json(devices_by_profile(most)) if most else None,
        "preemption": compact_json({key: value for key, value in preemption.items() if value is not None}),
        "detail": compact_json(detail | ({"flags": flags} if flags else {})),
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
    types = {group.gpu_type for group in gpus}
    return "reservation", {
        "_nodes": nodes,
        "cluster": source.cluster,
        "scheduler": "slurm",
        "name": name,
        "observed_us": source.observed_us,
        "start_us": start_us,
        "end_us": end_us,
        "nodes": ",".join(expand_hostlist(nodes or "")) or None,
        "device_count": sum(group.number for group in gpus) if gpus else None,
        "gpu_type": types.pop() if len(types) == 1 else None,
        "accounts": accounts,
        "users": users,
        "queue": partition,
        "state": state,
        "flags": flags,
    }


def _required_name(item: Object) -> str:
    name = string(item, "name")
    if name is None or not name.strip():
        raise Malformed("name is missing")
    return name
