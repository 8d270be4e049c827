"""Converts a record of the gpuwatch event format to a row, with every value checked. Pure."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from gpuwatch.collectors.shared.records import Columns
from gpuwatch.core.clock import DAY_US, MINUTE_US, parse_rfc3339
from gpuwatch.core.model import TABLES

AHEAD_US_MAX = 10 * MINUTE_US
"""How far a time may be ahead of this machine's clock: the newest evidence extends every running job."""
AGE_US_MAX = 1100 * DAY_US
"""Maximum age of a time: import older history from files."""
MAX_TEXT = 4000
MAX_JSON = 65_536
MAX_DEVICES = 1_000_000

TYPES = ("claim", "node", "pending", "event")
NEEDED = {
    "claim": ("scheduler", "job_id", "node", "device_count"),
    "node": ("scheduler", "node", "observed"),
    "pending": ("scheduler", "job_id", "submit", "device_count"),
    "event": ("reason", "last"),
}
WORDS = {"scheduler": ("slurm", "kubernetes"), "state of a node": ("up", "drain", "down")}
_ALIASES = {"user": "user_name"}
_OWN = ("id", "type", "cluster")
_LISTS = ("device_indexes", "gpus")
_OBJECTS = ("labels", "devices")
NOT_GIVEN = (
    *("cluster", "kind", "event_id", "taints", "node_rule", "naive_us", "naive_zone"),
    *("cpu_milli", "memory_bytes", "cpu_milli_used", "memory_bytes_used"),
)
"""Columns that no record gives: taints, rules, CPUs and memory come from the schedulers' own records, naive times from files."""


def record_row(item: Columns, now_us: int) -> tuple[str, Columns]:
    """The store table of a record and its row, without `cluster`.

    Accepts every column of model.py by name, a time `x_us` also as `x` in RFC 3339, and `user` for `user_name`. Raises
    ValueError naming the field.
    """
    table, event_id = item["type"], item.get("id")
    if not isinstance(event_id, str) or not event_id or len(event_id) > MAX_TEXT:
        raise ValueError("id is missing or not text")
    event_id = _whole(event_id)
    schema = TABLES[table]
    row: Columns = {}
    for name, value in item.items():
        if name not in _OWN and value is not None:
            column = _column(name, schema)
            if column in row:
                raise ValueError(f"{name} is given twice")
            row[column] = _value(name, column, value, schema.field(column).type, now_us)
    for name in NEEDED[table]:
        if row.get(name) is None and row.get(f"{name}_us") is None:
            raise ValueError(f"{name} is missing")
    if row.get("scheduler", "slurm") not in WORDS["scheduler"]:
        raise ValueError(f"scheduler is not one of {', '.join(WORDS['scheduler'])}")
    return table, _FINISH[table](row, event_id)


def check_times(row: Columns, now_us: int) -> None:
    """Raises ValueError for times in the future or too long ago, and for an end before the start."""
    for name in ("submit_us", "start_us", "end_us", "evidence_us", "observed_us", "first_us", "last_us"):
        at_us = row.get(name)
        if at_us is not None and at_us > now_us + AHEAD_US_MAX:
            raise ValueError(f"{name.removesuffix('_us')} is in the future: check the sender's clock")
        if at_us is not None and at_us < now_us - AGE_US_MAX:
            raise ValueError(f"{name.removesuffix('_us')} is too old: import history from files")
    start_us, end_us = row.get("start_us"), row.get("end_us")
    if start_us is not None and end_us is not None and end_us < start_us:
        raise ValueError("end precedes start")


def _column(name: str, schema: pa.Schema) -> str:
    known = set(schema.names) - set(NOT_GIVEN)
    column = _ALIASES.get(name, name)
    if column not in known and f"{column}_us" in known and column != "suspended":
        column = f"{column}_us"
    if column not in known:
        raise ValueError(f"{name[:50]} is not a field of this type")
    return column


def _value(name: str, column: str, value: Any, kind: pa.DataType, now_us: int) -> str | int | float:
    if pa.types.is_string(kind):
        return _text(name, column, value)
    if pa.types.is_floating(kind):
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= MAX_DEVICES:
            raise ValueError(f"{name} is not a number above 0")
        return float(value)
    if isinstance(value, str) and column.endswith("_us"):
        try:
            return parse_rfc3339(value)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{name} is not an RFC 3339 time") from error
    most = now_us + AHEAD_US_MAX if column.endswith("_us") else MAX_DEVICES
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{name} is not a whole number within its range")
    return value


def _text(name: str, column: str, value: Any) -> str:
    if column in _OBJECTS and isinstance(value, dict):
        value = json.dumps(value, sort_keys=True, separators=(",", ":"))
    if column in _LISTS and isinstance(value, list) and all(isinstance(part, (str, int)) for part in value):
        value = ",".join(str(part) for part in value)
    most = MAX_JSON if column in (*_OBJECTS, *_LISTS) else MAX_TEXT
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"{name} is not text of up to {most} characters")
    if column in _OBJECTS:
        _object(name, column, value)
    return _whole(value)


def _whole(text: str) -> str:
    """Replaces unpaired surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def _object(name: str, column: str, text: str) -> None:
    """Raises ValueError unless the text is a JSON object, of counts by profile for `devices`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    members = value.values() if isinstance(value, dict) else [None]
    if column == "devices":
        fits = all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MAX_DEVICES for n in members)
    else:
        fits = isinstance(value, dict)
    if not fits:
        raise ValueError(f"{name} is not an object" + (" of counts by MIG profile" if column == "devices" else ""))


def _claim(row: Columns, _: str) -> Columns:
    start_us = row.get("start_us")
    if row["device_count"] < 1:
        raise ValueError("device_count is not positive")
    # A repeated run must get the same key, so the key comes from the run, never from the event.
    by_start = f"{row['job_id']}@{start_us}" if start_us is not None else None
    key = row.get("run_key") or row.get("pod_uid") or by_start
    if key is None:
        raise ValueError("run_key, pod_uid or start is missing: one of them must identify the run")
    times = [us for us in (start_us, row.get("end_us"), row.get("evidence_us")) if us is not None]
    if not times:
        raise ValueError("start, end or evidence is missing")
    return row | {"kind": "events", "run_key": key, "evidence_us": max(times)}


def _node(row: Columns, _: str) -> Columns:
    if row.get("state") not in (None, *WORDS["state of a node"]):
        raise ValueError(f"state is not one of {', '.join(WORDS['state of a node'])}")
    return row


def _pending(row: Columns, _: str) -> Columns:
    return {"evidence_us": row["submit_us"]} | row


def _event(row: Columns, event_id: str) -> Columns:
    return {"count": 1, "first_us": row["last_us"]} | row | {"event_id": event_id}


_FINISH = {"claim": _claim, "node": _node, "pending": _pending, "event": _event}
