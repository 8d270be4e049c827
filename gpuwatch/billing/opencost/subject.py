"""What an OpenCost allocation is about, and the names that it is counted under."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from gpuwatch.core.errors import UsageError

UNALLOCATED = "__unallocated__"
ALIASES = {"department": "department", "environment": "env", "owner": "owner", "product": "app", "team": "team"}
"""OpenCost's names for labels, as it has them where nobody configures others; `team` is ours (see Subject.text)."""
DEFAULT = ("cluster", "node", "namespace", "pod", "container")
"""Default aggregation of rows."""
KINDS = ("deployment", "statefulset", "daemonset", "job")
NAMES = {
    "cluster": "cluster",
    "node": "node",
    "namespace": "namespace",
    "controllerkind": "controller_kind",
    "controller": "controller",
    "pod": "pod",
    "container": "container",
    "providerid": "provider_id",
    "service": "service",
    **{kind: kind for kind in KINDS},
    **{alias: alias for alias in ALIASES},
}
"""Names of `aggregate`, in lower case, by what they stand for here."""
SHOWN = tuple({"controllerkind": "controllerKind", "providerid": "providerID"}.get(name, name) for name in NAMES)
"""The same as OpenCost writes them."""
AGGREGATES_MAX = 20
LABELS_MAX = 10_000
"""Distinct sets of labels that are remembered while one question is answered."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


def sanitised(name: str) -> str:
    """A label's name as Prometheus and OpenCost write it: letters, digits and underscores."""
    return _UNSAFE.sub("_", name.strip())


@dataclass(frozen=True)
class Subject:
    """Who held devices, in OpenCost's words; None is what has no such word or was not asked for."""

    cluster: str | None = None
    node: str | None = None
    namespace: str | None = None
    controller_kind: str | None = None
    controller: str | None = None
    pod: str | None = None
    container: str | None = None
    team: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    label_map: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def map_of(self, name: str) -> Mapping[str, str]:
        """Labels; annotations are none that we know of."""
        return self.label_map if name == "label" else {}

    def text(self, name: str, key: str | None = None) -> str:
        """The word of a field, empty where there is none. `team` is the team that pays, `provider_id` the node."""
        if name in ("label", "annotation"):
            return self.map_of(name).get(key or "", "")
        if name == "provider_id":
            return self.node or ""
        if name in ALIASES and name != "team":
            return self.label_map.get(ALIASES[name], "")
        return getattr(self, name, None) or ""


WORDS = tuple(one.name for one in fields(Subject) if one.name not in ("labels", "label_map"))


@dataclass(frozen=True)
class Aggregate:
    """One name of `aggregate`: the field that it reads, and the name of the label where it is one."""

    field: str
    key: str | None = None

    def of(self, subject: Subject) -> str:
        """What a row's name has of it."""
        if self.field in KINDS:
            kind = subject.controller_kind or ""
            fits = kind == self.field or (self.field == "job" and kind.endswith("job"))
            found = subject.controller if fits else None
        elif self.field == "controller" and subject.controller and subject.controller_kind:
            found = f"{subject.controller_kind}:{subject.controller}"
        elif self.field == "service":
            found = None
        else:
            found = subject.text(self.field, self.key)
        return found or UNALLOCATED

    @property
    def needs(self) -> set[str]:
        """Words of a Subject that it takes."""
        if self.field in KINDS or self.field == "controller":
            return {"controller", "controller_kind", "namespace"}
        if self.field in ("pod", "container"):
            return {*WORDS, "label"}
        return {"node"} if self.field == "provider_id" else {self.field}


def parse_aggregate(text: str) -> tuple[Aggregate, ...]:
    """The parts of `namespace,label:app`; `all` has none, and empty text has DEFAULT. Raises UsageError for too many,
    and for a name that is not known: without it rows would be added up under an empty name.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["all"]:
        return ()
    if len(names) > AGGREGATES_MAX:
        raise UsageError(f"aggregate: more than {AGGREGATES_MAX} names")
    if not names:
        return tuple(Aggregate(name) for name in DEFAULT)
    found = []
    for name in names:
        kind, colon, key = name.partition(":")
        if colon and kind in ("label", "annotation"):
            found.append(Aggregate(kind, sanitised(key)))
        elif name.lower() in NAMES:
            found.append(Aggregate(NAMES[name.lower()]))
        else:
            raise UsageError(
                f"aggregate {name[:50]!r}: not known; use {', '.join(SHOWN)}, label:NAME, annotation:NAME, or all"
            )
    return tuple(found)


def name_of(subject: Subject, aggregates: Sequence[Aggregate]) -> str:
    """The name of the row that a subject is counted in: its parts joined by a slash."""
    return "/".join(aggregate.of(subject) for aggregate in aggregates)


def needed(aggregates: Iterable[Aggregate], *more: Iterable[str]) -> set[str]:
    """Words of a Subject that a question takes: `label` where it reads any label."""
    words = {name for aggregate in aggregates for name in aggregate.needs}
    words |= {name for names in more for name in names}
    if words & (set(ALIASES) - {"team"}):
        words.add("label")
    if "provider_id" in words:
        words.add("node")
    if words & {"controller", "controller_kind"}:
        words |= {"controller", "controller_kind"}
    return words & {*WORDS, "label"}


class Subjects:
    """Subjects of rows of SQL; labels of one text are read once."""

    def __init__(self) -> None:
        self._labels: dict[tuple[Any, ...], dict[str, str]] = {}

    def of(self, row: Mapping[str, Any]) -> Subject:
        labels = self._read(row)
        return Subject(**{name: row[name] for name in WORDS}, labels=tuple(sorted(labels.items())), label_map=labels)

    def _read(self, row: Mapping[str, Any]) -> dict[str, str]:
        key = tuple(row[name] for name in ("labels", "account", "user_name", "qos", "job_name"))
        if not any(key):
            return {}
        found = self._labels.get(key)
        if found is None:
            labels = json.loads(key[0]) if key[0] else {}
            found = {sanitised(str(name)): str(value) for name, value in labels.items() if value is not None}
            # Slurm's words stand where Kubernetes has labels.
            words = {"team": key[1], "owner": key[2], "qos": key[3], "job_name": key[4]}
            found |= {name: value for name, value in words.items() if value and name not in found}
            if len(self._labels) < LABELS_MAX:
                self._labels[key] = found
        return found
