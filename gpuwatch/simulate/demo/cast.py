"""Plausible names for the demo: nodes, pools, jobs and queues as a company would call them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from gpuwatch.simulate.fleet import Device, Fleet, Node
from gpuwatch.simulate.owners import team_of
from gpuwatch.simulate.runs import Run
from gpuwatch.simulate.staging import Json

NODE = "gpu-node-{:04d}"
FIRST_NODE = 17
NODE_STEP = 3
JOBS = {
    "nlp": ("llama3-pretrain", "mixtral-sft", "t5-distill", "tokenizer-ablation"),
    "vision": ("vit-pretrain", "detector-finetune", "segment-train", "clip-align"),
    "physics": ("lattice-qcd", "md-protein", "plasma-pic", "climate-emulator"),
    "research": ("moe-study", "scaling-sweep", "rlhf-trial", "retrieval-study"),
    "recsys": ("ranker-train", "two-tower", "ctr-finetune", "embedding-refresh"),
    "search": ("rerank-train", "query-encoder", "semantic-index", "spell-model"),
    "serving": ("chat-api", "summary-api", "vision-api", "speech-api"),
    "robotics": ("policy-train", "sim-rollout", "grasp-net", "slam-train"),
}
SERVICES = ("chat-api", "rerank-api", "vision-api", "embed-api", "speech-api", "moderation-api")
NOTEBOOKS = ("notebook", "jupyter", "workbench")
SLURM = {"pretrain": 0, "train": 0, "llm-sft": 1, "finetune": 1, "lab": 2, "batch": 3, "resnet-ddp": 2, "md-run": 1}
"""Jobs of Slurm scenes and of the background that get one of their team's names."""
QUEUES = {
    "poor": "research-batch",
    "rich": "nlp-batch",
    "none": "physics-shared",
    "all": "vision-shared",
    "flavor": "on-demand",
    "cohort": "shared",
}
NAMESPACES = {"gangs": "nlp-train", "queues": "shared-batch"}
_PLAIN = frozenset({str, int, float, bool, type(None)})
_KEPT = frozenset({"courses", "patches", "model", "share"})
_TAG = re.compile(r"s\d\d-")


def rename(tokens: dict[str, str]) -> Callable[[Any], Any]:
    """A function that replaces whole names in every text of a record, of a table, or of a tree of JSON."""
    if not tokens:
        return lambda value: value
    ordered = sorted(tokens, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, ordered))})(?![a-z0-9])")
    known: dict[str, str] = {}
    devices: dict[int, tuple[Device, Device]] = {}

    def text(value: str) -> str:
        if value not in known:
            known[value] = pattern.sub(lambda match: tokens[match[0]], value)
        return known[value]

    def apply(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if type(value) in _PLAIN:
            return value
        if isinstance(value, Device):
            if id(value) not in devices:
                devices[id(value)] = value, replace(value, node=text(value.node))
            return devices[id(value)][1]
        if is_dataclass(value) and not isinstance(value, type):
            named = [field.name for field in fields(value) if field.name not in _KEPT]
            return replace(value, **{name: apply(getattr(value, name)) for name in named})
        if isinstance(value, dict):
            return {apply(key): apply(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(apply(each) for each in value)
        return value

    return apply


class Cast:
    """Gives out names; none twice."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def act(self, runs: Sequence[Run], objects: Iterable[Json], nodes: Sequence[Node]) -> tuple[list[Run], list[Json]]:
        """One scene's runs and objects with names for its jobs, queues and namespaces.

        A queue that has a pool's name keeps it: `house_names` renames both.
        """
        pools = {node.pool for node in nodes}
        tokens = dict(NAMESPACES)
        for run in runs:
            if run.scheduler == "kubernetes" and run.name not in tokens:
                tokens[run.name] = self._workload(run)
            for queue in (run.owner.queue, run.owner.namespace, *dict(run.owner.labels).values()):
                if _TAG.match(queue) and queue not in pools:
                    tokens.setdefault(queue, self._queue(queue))
        for each in objects:
            self._name(each, tokens)
        change = rename(tokens)
        return [slurm_named(change(run)) for run in runs], [change(each) for each in objects]

    def _name(self, each: Json, tokens: dict[str, str]) -> None:
        """Adds names for an object, its cohort and the job that owns it."""
        metadata, spec = (part if isinstance(part := each.get(name), dict) else {} for name in ("metadata", "spec"))
        for tagged in (str(metadata.get("name")), str(spec.get("cohort"))):
            if _TAG.match(tagged) and tagged not in tokens:
                tokens[tagged] = self._queue(tagged)
        for owner in metadata.get("ownerReferences", ()):
            kind, name = str(owner["kind"]).lower(), str(owner["name"])
            if _TAG.match(name) and name not in tokens:
                tokens[name] = self._next(JOBS["research"])
            # Kueue names the Workload of a Job "job-NAME-HASH".
            tokens.setdefault(f"{kind}-{name}", f"{kind}-{tokens.get(name, name)}")

    def _workload(self, run: Run) -> str:
        known = JOBS.get(team_of(run.owner), JOBS["research"])
        kinds = {"ReplicaSet": SERVICES, "StatefulSet": NOTEBOOKS}
        return self._next(kinds.get(run.controller, known))

    def _next(self, listed: Sequence[str]) -> str:
        """One of these names, another each time."""
        return self._unique(listed[len(self._used) % len(listed)])

    def _queue(self, tagged: str) -> str:
        rest = _TAG.sub("", tagged)
        return self._unique(QUEUES.get(rest, rest))

    def _unique(self, name: str) -> str:
        count = self._used[name] = self._used.get(name, 0) + 1
        return name if count == 1 else f"{name}-{count}"


def slurm_named(run: Run) -> Run:
    """A Slurm job with a name of its team; names that are plausible already stay."""
    listed = JOBS.get(team_of(run.owner))
    if run.scheduler != "slurm" or listed is None or run.name not in SLURM:
        return run
    return replace(run, name=listed[(SLURM[run.name] + run.number // 7) % len(listed)])


def house_names(fleet: Fleet) -> dict[str, str]:
    """New names of the nodes, pools and leaf switches of the fleet."""
    tokens: dict[str, str] = {}
    pools: dict[str, int] = {}
    for number, node in enumerate(sorted(fleet.nodes, key=lambda node: (node.scheduler, node.pool))):
        tokens[node.name] = NODE.format(FIRST_NODE + NODE_STEP * number)
        if _TAG.match(node.pool) and node.pool not in tokens:
            tokens[node.pool] = _pool(node, pools)
        if node.leaf:
            tokens[node.leaf] = node.leaf.lstrip("s")
    return tokens


def _pool(node: Node, pools: dict[str, int]) -> str:
    kind = "slurm" if node.scheduler == "slurm" else "mig" if node.is_mig else "k8s"
    base = f"{node.model.short}-{kind}"
    count = pools[base] = pools.get(base, 0) + 1
    return f"{base}-{chr(96 + count)}" if count <= 26 else f"{base}-{count}"
