"""Collected responses of a Ray head, and the jobs and nodes in them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.core.clock import local_us, to_us
from gpuwatch.core.model import Rejects

Item = dict[str, Any]

MAX_ITEMS = 500_000
"""The most items of one kind; the state API itself returns at most 10,000."""
MAX_METADATA = 100
MAX_TEXT = 300
MAX_US = 253_402_300_799_000_000
"""The last second of the year 9999."""


@dataclass(frozen=True)
class Job:
    """A submission, or a driver that connected without one."""

    key: str
    """Submission id, or the driver's job id without one."""
    driver: str | None
    status: str | None
    start_us: int | None
    end_us: int | None
    message: str | None
    metadata: dict[str, str]


@dataclass(frozen=True)
class Node:
    """A Ray node; on Kubernetes this is a pod, whose name is its host name."""

    node_id: str
    host: str
    alive: bool
    gpus: float
    model: str | None
    start_us: int | None
    end_us: int | None
    uuids: tuple[str, ...]
    """GPUs by index, if the node reports exactly as many as it offers; else empty."""


@dataclass
class Responses:
    """Responses of one head, in any order; `zone` applies to the times that the ray command prints."""

    zone: ZoneInfo
    items: dict[str, list[tuple[int, Item]]] = field(default_factory=dict)
    at_us: int | None = None
    session: str | None = None
    printed: dict[int, int] = field(default_factory=dict)
    """Times that were printed without an offset: as they were read, to as they stand there, as if they were UTC."""

    def add(self, item: Any, path: str, line: int, rejects: Rejects) -> None:
        """Adds an item of any list; its kind follows from its members. Anything else is rejected."""
        kind = kind_of(item)
        if kind is None:
            rejects.add("not an item of Ray's state API", path, line, str(item))
        elif kind == "ignored":
            rejects.add("ignored: not related to GPUs", path, line)
        elif len(items := self.items.setdefault(kind, [])) >= MAX_ITEMS:
            rejects.add(f"more than {MAX_ITEMS} items of one kind", path, line)
        else:
            items.append((line, item))
            if kind == "summary" and (now := self.moment(item.get("now"), 1_000_000)):
                self.at_us = max(self.at_us or 0, now)
            if kind == "version" and isinstance(item.get("session_name"), str):
                self.session = str(item["session_name"]).removeprefix("session_") or None

    def join(self, other: Responses, path: str, rejects: Rejects) -> None:
        """Adds the items of another file of the same head."""
        for kind, items in other.items.items():
            mine = self.items.setdefault(kind, [])
            room = MAX_ITEMS - len(mine)
            mine += items[:room]
            if len(items) > room:
                rejects.add(f"more than {MAX_ITEMS} items of one kind", path, items[room][0], count=len(items) - room)
        self.at_us = max((at for at in (self.at_us, other.at_us) if at is not None), default=None)
        self.session = other.session or self.session
        self.printed |= other.printed

    def as_printed(self, at_us: int | None) -> dict[str, Any]:
        """The columns `naive_us` and `naive_zone` of a time; none for an exact one."""
        naive = None if at_us is None else self.printed.get(at_us)
        return {} if naive is None else {"naive_us": naive, "naive_zone": self.zone.key}

    def of(self, kind: str) -> Iterator[Item]:
        """The items of one kind."""
        return (item for _, item in self.items.get(kind, ()))

    def moment(self, value: object, unit_us: float) -> int | None:
        """A time in units of `unit_us`, or as the ray command prints it, in microseconds; None for 0, -1 and absent."""
        if isinstance(value, str) and not value.isdigit():
            try:
                at = local_us(value, self.zone)
            except ValueError:
                return None
            shown = datetime.fromisoformat(value)
            if shown.year <= 1970:
                return None
            self.printed[at] = to_us(shown.replace(tzinfo=UTC))
            return at
        exact = int(value) if isinstance(value, str) else value
        if not isinstance(exact, (int, float)) or isinstance(exact, bool) or not isfinite(exact):
            return None
        at = round(exact * unit_us) if unit_us >= 1 else int(exact) // round(1 / unit_us)
        return at if 0 < at < MAX_US else None


def kind_of(item: Any) -> str | None:
    """The kind of an item: node, summary, job, group, actor, logical, task, version or ignored; None if not Ray's."""
    if not isinstance(item, dict):
        return None
    names = item.keys()
    signs = (
        ("actorId" in names and "requiredResources" in names, "logical"),
        ("task_id" in names and "func_or_class_name" in names, "task"),
        ("actor_id" in names and "class_name" in names, "actor"),
        ("placement_group_id" in names and "creator_job_id" in names, "group"),
        ("submission_id" in names and "status" in names, "job"),
        ("node_id" in names and "resources_total" in names, "node"),
        ("raylet" in names and "hostname" in names, "summary"),
        ("session_name" in names and "ray_version" in names, "version"),
        (bool({"worker_id", "object_id", "runtime_env", "targets"} & names), "ignored"),
    )
    return next((kind for true, kind in signs if true), None)


def jobs(responses: Responses) -> list[Job]:
    """Every job once; /api/jobs/ and the state API return the same items."""
    found: dict[str, Job] = {}
    for item in responses.of("job"):
        driver = text(item.get("job_id"))
        key = text(item.get("submission_id")) or driver
        if key:
            metadata = part(item, "metadata").items()
            found[key] = Job(
                key,
                driver,
                text(item.get("status")),
                responses.moment(item.get("start_time"), 1000),
                responses.moment(item.get("end_time"), 1000),
                (text(item.get("message")) or "")[:MAX_TEXT] or None,
                {str(k): v for k, v in sorted(metadata)[:MAX_METADATA] if isinstance(v, str)},
            )
    return list(found.values())


def nodes(responses: Responses) -> dict[str, Node]:
    """Nodes by id: GPU counts from the state API, host names and UUIDs from the dashboard's summary."""
    summaries: dict[str, tuple[str | None, tuple[str, ...]]] = {}
    offers: dict[str, Item] = {}
    for item in responses.of("summary"):
        raylet = part(item, "raylet")
        node_id = text(raylet.get("nodeId"))
        if node_id:
            host = text(raylet.get("nodeManagerHostname")) or text(item.get("hostname"))
            cards = sorted(parts(item, "gpus"), key=lambda card: number(card.get("index")))
            uuids = [text(card.get("uuid")) for card in cards]
            summaries[node_id] = host, tuple(uuid for uuid in uuids if uuid)
            total = raylet.get("resourcesTotal")
            ends = {"start_time_ms": raylet.get("startTimeMs"), "end_time_ms": raylet.get("endTimeMs")}
            offers[node_id] = {"state": raylet.get("state"), "resources_total": total, **ends}
    for item in responses.of("node"):
        offers[str(item["node_id"])] = item
    return {
        node_id: _node(responses, node_id, item, *summaries.get(node_id, (None, ())))
        for node_id, item in offers.items()
    }


def _node(responses: Responses, node_id: str, item: Item, host: str | None, uuids: tuple[str, ...]) -> Node:
    resources = part(item, "resources_total")
    gpus = number(resources.get("GPU"))
    models = [name.partition(":")[2] for name in resources if name.startswith("accelerator_type:")]
    return Node(
        node_id,
        host or text(item.get("node_name")) or text(item.get("node_ip")) or node_id,
        item.get("state") != "DEAD",
        gpus,
        models[0] if models and gpus else None,
        responses.moment(item.get("start_time_ms"), 1000),
        responses.moment(item.get("end_time_ms"), 1000),
        uuids if len(uuids) == gpus else (),
    )


def text(value: object) -> str | None:
    """A non-empty text, None for anything else."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value else None


def number(value: object) -> float:
    """A finite number that is not negative, 0 for anything else."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
    return max(0.0, float(value)) if known and isinstance(value, (int, float)) else 0.0


def part(item: Item, name: str) -> Item:
    """The object under a key, empty for anything else."""
    value = item.get(name)
    return value if isinstance(value, dict) else {}


def parts(item: Item, name: str) -> list[Item]:
    """The objects in the list under a key; other values are dropped."""
    value = item.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
