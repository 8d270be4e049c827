"""Data quality: for each source what arrives, what is refused or missing, and the exact fix."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US, rfc3339
from gpuwatch.output.fix_hints import LOCAL, Advice
from gpuwatch.quality import doctor
from gpuwatch.quality.clocks import WrongClock
from gpuwatch.quality.fixes import source_fix
from gpuwatch.quality.own_clock_check import server_clock
from gpuwatch.quality.status import SourceStatus
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.state.tokens import Tokens
from gpuwatch.store import remembered
from gpuwatch.store.database import Store

SPAN_US = 7 * DAY_US
"""The last part of the ledger that shares and checks cover."""
LATE_US_MIN = 5 * MINUTE_US
"""No source or node is late before this time."""
LATE_INTERVALS = 3
REJECTS_MAX = 20
"""Reasons listed for a source, the most frequent first; all are counted."""
NODES_MAX = 200
"""Nodes with problems that are listed, the longest silent first."""
RATIO_PLACES = 6
METRIC_KINDS = ("dcgm", "prometheus", "remote-write", "otlp", "openmetrics", "backfill")
"""Source kinds that deliver the fields detectors need."""

Row = dict[str, Any]


def quality(
    store: Store,
    state: State | None,
    sources: Sequence[SourceStatus],
    now_us: int,
    url: str = LOCAL,
    clocks: Sequence[WrongClock] = (),
    settings: Settings | None = None,
    doubt: str | None = None,
) -> dict[str, Any]:
    """Live sources, imports and nodes with problems, doctor's checks and two shares: the answer of GET /quality.

    `sources`, `clocks`, `settings` and `doubt` (why its own clock is not trusted) come from the running service. Shares and checks cover the last SPAN_US
    of the ledger; a share is None if nothing was held. `missing_fields` of a source are those that no node of its cluster
    delivers; of a node, its own. Prices and teams are those of the last pricing; `state` shows whether `url` needs a token.
    """
    since_us = _since(store)
    advice = Advice(url=url, token=state is not None and Tokens(state).exist())
    lacking = {
        (row["cluster"], row["node"]): [_field(name) for name in doctor.missing_fields(row)]
        for row in remembered.rows(store, "quality/doctor_fields", since_us=since_us)
    }
    everywhere: dict[str, set[str]] = {}
    for (cluster, _), names in lacking.items():
        everywhere[cluster] = everywhere.get(cluster, set(names)) & set(names)
    nodes = _nodes(store, lacking, now_us)
    items = [_live(source, everywhere, now_us) for source in sources]
    items += _imports(store, everywhere, now_us)
    share = remembered.rows(store, "quality/share", since_us=since_us)[0]
    checks = [*doctor.examine(store, since_us, advice, sources, state), doctor.clocks(clocks)]
    if settings is not None:
        checks.append(server_clock(store, settings, now_us, doubt))
    return {
        "items": items + nodes[:NODES_MAX],
        "more_nodes": max(len(nodes) - NODES_MAX, 0),
        "checks": [check.as_dict() for check in checks],
        "unattributed_ratio": _ratio(share["unattributed"], share["held"]),
        "unobserved_ratio": _ratio(share["unobserved"], share["held"]),
    }


def _since(store: Store) -> int:
    """The start of the last SPAN_US of the ledger."""
    newest = remembered.sql(store, "select max(hour_us) from ledger_hour")[0][0]
    return 0 if newest is None else int(newest) + HOUR_US - SPAN_US


def _live(source: SourceStatus, everywhere: dict[str, set[str]], now_us: int) -> Row:
    counts = source.rejects.faults
    rejects = [
        {"reason": reason, "count": count, "example": _example(*source.rejects.first.get(reason, ("", 0, "")))}
        for reason, count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    ]
    seen_us = source.last_success_us
    state = source.state(now_us)
    if state == "late" and seen_us is not None and now_us - seen_us <= LATE_US_MIN:
        state = "ok"  # a pushing sender has no interval that we know
    missing = sorted(everywhere.get(source.cluster, ())) if source.kind in METRIC_KINDS else []
    silent = source_fix(source) if state != "ok" else None
    return {
        "source": source.name,
        "kind": source.kind,
        "cluster": source.cluster,
        "state": state,
        "last_seen": None if seen_us is None else rfc3339(seen_us),
        "lag_s": _lag(seen_us, now_us),
        "samples": source.samples,
        "rejected": sum(counts.values()),
        "rejects": rejects[:REJECTS_MAX],
        "missing_fields": missing,
        "error": source.error,
        "fix": _fix(silent, _correction(rejects, "at its source"), _counters(missing)),
    }


def _imports(store: Store, everywhere: dict[str, set[str]], now_us: int) -> list[Row]:
    """Imported files by kind and cluster: never late, and failing if nothing could be used."""
    refused: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in remembered.rows(store, "quality/reject"):
        refused[row["kind"], row["cluster"]].append(
            {
                "reason": row["reason"],
                "count": row["times"],
                "example": _example(row["path"], row["line"], row["example"]),
            }
        )
    items = []
    for row in remembered.rows(store, "quality/import"):
        rejects = refused[row["kind"], row["cluster"]]
        missing = sorted(everywhere.get(row["cluster"], ())) if row["kind"] in METRIC_KINDS else []
        empty = bool(rejects) and not row["records"]
        items.append(
            {
                "source": f"import {row['kind']}",
                "kind": row["kind"],
                "cluster": row["cluster"],
                "state": "failing" if empty else "ok",
                "last_seen": rfc3339(row["imported_us"]),
                "lag_s": _lag(row["imported_us"], now_us),
                "samples": row["records"],
                "rejected": sum(reject["count"] for reject in rejects),
                "rejects": rejects[:REJECTS_MAX],
                "missing_fields": missing,
                "error": f"nothing in {row['path']} could be used" if empty else None,
                "fix": _fix(
                    _correction(rejects, "and import the files again while the server is stopped"), _counters(missing)
                ),
                "files": row["files"],
            }
        )
    return items


def _nodes(store: Store, lacking: dict[tuple[str, str], list[str]], now_us: int) -> list[Row]:
    """Nodes that are silent while their cluster is not, or that lack fields; the longest silent first."""
    items = []
    for row in remembered.rows(store, "quality/node"):
        missing = lacking.get((row["cluster"], row["node"]), [])
        patience_us = max(LATE_US_MIN, LATE_INTERVALS * row["interval_us"])
        late = row["newest_us"] < row["cluster_newest_us"] - patience_us
        if not late and not missing:
            continue
        silent = (
            f"Check that dcgm-exporter runs on {row['node']} and that its target is scraped; if the node is "
            "no longer needed, drain it in the scheduler"
        )
        items.append(
            {
                "source": f"node {row['node']}",
                "kind": "node",
                "cluster": row["cluster"],
                "state": "late" if late else "ok",
                "last_seen": rfc3339(row["newest_us"]),
                "lag_s": _lag(row["newest_us"], now_us),
                "samples": None,
                "rejected": 0,
                "rejects": [],
                "missing_fields": missing,
                "error": None,
                "fix": _fix(silent if late else None, _counters(missing)),
                "gpus": row["gpus"],
            }
        )
    return sorted(items, key=lambda item: (item["state"] != "late", item["last_seen"], item["cluster"], item["source"]))


def _field(name: str) -> str:
    """The DCGM name of a field in doctor.COUNTERS."""
    return doctor.COUNTERS[name].split(",")[0]


def _counters(fields: Sequence[str]) -> str | None:
    lines = [line for line in doctor.COUNTERS.values() if line.split(",")[0] in fields]
    return "\n".join(["Add to the counters file of dcgm-exporter (option -f):", *lines]) if lines else None


def _correction(rejects: Sequence[Row], where: str) -> str | None:
    if not rejects:
        return None
    first = rejects[0]
    return f"Correct {where}: {first['reason']}" + (f" ({first['example']})" if first["example"] else "")


def _fix(*parts: str | None) -> str | None:
    return "\n".join(part for part in parts if part) or None


def _example(path: str, line: int, text: str | None) -> str | None:
    place = f"{path}:{line}" if path and line else path
    return ": ".join(part for part in (place, text) if part) or None


def _lag(seen_us: int | None, now_us: int) -> float | None:
    return None if seen_us is None else round(max(now_us - seen_us, 0) / SECOND_US, 3)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return round((part or 0.0) / whole, RATIO_PLACES) if whole else None
