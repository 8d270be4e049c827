"""Teams of time that no ownership rule decides: named by the Slurm account or the Kubernetes namespace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from gpuwatch.policy.ownership import (
    LABEL_KIND,
    RESERVED_PREFIX,
    TEAM_LABEL,
    UNALLOCATED,
    WORDS,
    TeamRule,
    deciding,
    parse_labels,
)

VERSION = 1
"""Of `decide`: with another version, the teams of all runs are decided again."""
INFER, NONE = "inferred", "none"
"""Values of the setting ownership_default."""

SYSTEM_ACCOUNTS = frozenset(("root",))
"""Slurm accounts of the administrators: their name says nothing about a team."""
SYSTEM_NAMESPACES = frozenset(
    ("gpu-operator", "nvidia-gpu-operator", "nvidia-network-operator", "nvidia-device-plugin", "node-feature-discovery")
)
SYSTEM_NAMESPACE_STARTS = ("kube-", "openshift-")
"""Kubernetes namespaces of the cluster itself, by name or by its beginning."""


@dataclass(frozen=True)
class Ownership:
    """All that decides the team of a run: the rules, and what happens to time that they do not decide."""

    rules: Sequence[TeamRule] = ()
    infer: bool = True
    """Whether the account or namespace names the team where no rule decides."""
    namespace_teams: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Teams that namespaces have in their label gpuwatch.io/team, by cluster and namespace."""

    def under(self, rules: Sequence[TeamRule]) -> Ownership:
        """The same with other rules."""
        return replace(self, rules=rules)


@dataclass(frozen=True)
class Decision:
    """The team of a run and why. `other` is its team under the other value of ownership_default, None if it is the same."""

    team: str
    why: str
    inferred: bool = False
    other: str | None = None
    place: int | None = None
    """The place of the rule that decides, from 0."""


_Words = Mapping[str, str | None]


def decide(ownership: Ownership, words: _Words, own: _Words | None = None) -> Decision:
    """The team of a run: what its rules decide, else the inferred one.

    `words` has WORDS and cluster; `own` those that a nested run sets itself, which come before what it inherits. Its `outer`
    is the same of the run around it as JSON: Ray in a Slurm job in a pod belongs to the job's team before the pod's.
    """
    layers = [*_from_inside(own), words]
    ruled = [_ruled(ownership.rules, layer) for layer in layers]
    found = next((one for one in ruled if one[0] != UNALLOCATED), ruled[-1])
    if found[0] != UNALLOCATED:
        return Decision(*found[:2], place=found[2])
    cluster = words.get("cluster") or ""
    named = next(filter(None, (_named(ownership, cluster, layer) for layer in layers)), None)
    if named is None:
        return Decision(*found[:2])
    if not ownership.infer:
        return Decision(*found[:2], other=named[0])
    return Decision(*named, inferred=True, other=UNALLOCATED)


def _from_inside(own: _Words | None) -> Iterator[_Words]:
    """What a nested run sets itself, then what the run around it does, and so on."""
    while own:
        yield own
        outer = own.get("outer")
        own = json.loads(outer) if outer else None


def resolve_many(ownership: Ownership, owners: pa.Table) -> pa.Table:
    """`owners` with columns `team`, `team_why`, `inferred` and `other_team` (see Decision) appended.

    Columns read, all text, absent ones count as NULL: cluster, labels (a JSON object; anything else counts as no labels),
    queue, namespace, account, user_name; and own, a JSON object of those that a nested run sets itself. Meant for the
    distinct owners of a window, which are few.
    """
    names = ("cluster", *WORDS, "own")
    absent: list[str | None] = [None] * owners.num_rows
    columns = [owners[name].to_pylist() if name in owners.column_names else absent for name in names]
    # Jobs have labels of their own: those that no rule names decide nothing.
    kinds = [rule.match_kind for rule in ownership.rules]
    keys = [TEAM_LABEL, *(kind.removeprefix(LABEL_KIND) for kind in kinds if kind.startswith(LABEL_KIND))]
    place = names.index("labels")
    known: dict[tuple[object, ...], Decision] = {}
    decided: list[Decision] = []
    for owner in zip(*columns, strict=True):
        labels = parse_labels(owner[place])
        decisive = *map(labels.get, keys), *owner[:place], *owner[place + 1 :]
        if decisive not in known:
            words = dict(zip(names, owner, strict=True))
            known[decisive] = decide(ownership, words, json.loads(words["own"]) if words["own"] else None)
        decided.append(known[decisive])
    added = {
        "team": pa.array([one.team for one in decided], pa.string()),
        "team_why": pa.array([one.why for one in decided], pa.string()),
        "inferred": pa.array([one.inferred for one in decided], pa.bool_()),
        "other_team": pa.array([one.other for one in decided], pa.string()),
    }
    for name, column in added.items():
        owners = owners.append_column(name, column)
    return owners


def _ruled(rules: Sequence[TeamRule], words: _Words) -> tuple[str, str, int | None]:
    """(team, why, place of the rule) by the rules alone."""
    labels, queue, namespace, account, user = (words.get(name) for name in WORDS)
    return deciding(rules, parse_labels(labels), queue, namespace, account, user)


def _named(ownership: Ownership, cluster: str, words: _Words) -> tuple[str, str] | None:
    """(team, why) by the names alone: the namespace's label, then the account, then the namespace; None without a name."""
    namespace, account = words.get("namespace") or "", words.get("account") or ""
    labelled = ownership.namespace_teams.get((cluster, namespace), "") if namespace else ""
    if _is_name(labelled):
        return labelled, f"inferred from label {TEAM_LABEL} of namespace {namespace}"
    if _is_name(account) and account not in SYSTEM_ACCOUNTS:
        return account, f"inferred from account {account}"
    if _is_name(namespace) and not _is_system(namespace):
        return namespace, f"inferred from namespace {namespace}"
    return None


def _is_name(text: str) -> bool:
    return bool(text.strip()) and not text.startswith(RESERVED_PREFIX)


def _is_system(namespace: str) -> bool:
    return namespace in SYSTEM_NAMESPACES or namespace.startswith(SYSTEM_NAMESPACE_STARTS)
