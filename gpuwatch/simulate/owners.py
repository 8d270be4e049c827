"""Owners: users and namespaces that request GPUs, and the rules that assign them to teams."""

from __future__ import annotations

import numpy as np

from gpuwatch.simulate.runs import Owner

UNALLOCATED = "__unallocated__"
TEAM_LABEL = "gpuwatch.io/team"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PART_LABEL = "app.kubernetes.io/part-of"

TEAM_RULES: tuple[tuple[str, str, str], ...] = (
    ("queue", "vision-lq", "vision"),
    ("namespace", "chat-prod", "serving"),
    ("namespace", "ml-train", "nlp"),
    ("namespace", "notebooks", "research"),
    ("account", "nlp", "nlp"),
    ("account", "vision", "vision"),
    ("account", "physics", "physics"),
    ("user", "frank", "robotics"),
    (f"label:{PART_LABEL}", "recsys", "recsys"),
)
"""Rows of teams.csv: match_kind, match, team. No rule matches namespace `sandbox` and account `scratch`."""

_RULE_ORDER = ("label", "queue", "namespace", "account", "user")

USER_IDS = {
    name: 2001 + number for number, name in enumerate(("alice", "bob", "carol", "dan", "erin", "frank", "heidi"))
}

SLURM_OWNERS: tuple[Owner, ...] = (
    Owner("alice", "nlp"),
    Owner("bob", "nlp"),
    Owner("carol", "vision"),
    Owner("dan", "vision"),
    Owner("erin", "physics"),
    Owner("frank", "shared"),
    Owner("heidi", "scratch"),
)

_TRAINING: tuple[Owner, ...] = (
    Owner(namespace="ml-train"),
    Owner(namespace="ml-train", queue="vision-lq", labels=((QUEUE_LABEL, "vision-lq"),)),
    Owner(namespace="recsys-dev", labels=((PART_LABEL, "recsys"),)),
    Owner(namespace="sandbox"),
    Owner(namespace="ml-train", labels=((TEAM_LABEL, "research"),)),
)
_SERVING: tuple[Owner, ...] = (
    Owner(namespace="chat-prod"),
    Owner(namespace="chat-prod", labels=((TEAM_LABEL, "search"),)),
    Owner(namespace="recsys-dev", labels=((PART_LABEL, "recsys"),)),
)
_NOTEBOOKS: tuple[Owner, ...] = (Owner(namespace="notebooks"), Owner(namespace="sandbox"))


def pick_owner(scheduler: str, kind: str, rng: np.random.Generator) -> Owner:
    """An owner of this kind of work (serving, notebook, or any other) on a scheduler."""
    if scheduler == "slurm":
        choices = SLURM_OWNERS
    else:
        choices = {"serving": _SERVING, "notebook": _NOTEBOOKS}.get(kind, _TRAINING)
    return choices[int(rng.integers(len(choices)))]


def team_of(owner: Owner) -> str:
    """The team: explicit label, then the rules by label, queue, namespace, account and user, in file order; else the one that
    the account or the namespace names.
    """
    labels = dict(owner.labels)
    if TEAM_LABEL in labels:
        return labels[TEAM_LABEL]
    values = {"queue": owner.queue, "namespace": owner.namespace, "account": owner.account, "user": owner.user}
    for order in _RULE_ORDER:
        for kind, match, team in TEAM_RULES:
            head, _, key = kind.partition(":")
            if head == order and match == (labels.get(key) if key else values[head]):
                return team
    return owner.account or owner.namespace or UNALLOCATED
