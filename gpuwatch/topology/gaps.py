"""What a topology lacks or sources disagree about, with the fixes."""

from __future__ import annotations

import shlex
from typing import Any

from gpuwatch.output.fix_hints import LOCAL, Advice
from gpuwatch.store import remembered
from gpuwatch.store.database import Store

SERVED = Advice(url=LOCAL)
"""Fixes for callers of a server, such as API clients."""


def conflicts(store: Store, cluster: str | None = None) -> list[dict[str, Any]]:
    """Nodes that two sources group differently: child, parent_kind, parent and source as in the graph; `told` and
    `told_source` are the parent and source of the other. Empty if sources agree, whatever names they use.
    """
    return remembered.rows(store, "topology/conflict", cluster=cluster)


def missing(store: Store, cluster: str | None = None, advice: Advice = SERVED) -> list[dict[str, Any]]:
    """Nodes with GPUs whose links or network location no source reports now, each with the fix to paste.

    Rows: cluster, node, gpus, what ("links", "network"), fix. A single GPU needs no links, a single node no network.
    `advice` says who will apply the fixes.
    """
    rows = []
    for row in remembered.rows(store, "topology/missing", cluster=cluster):
        name, where = row["node"], row["cluster"]
        if row["lacks_links"]:
            fix = links_fix(where, name, advice)
            rows.append({"cluster": where, "node": name, "gpus": row["gpus"], "what": "links", "fix": fix})
        if row["lacks_network"]:
            fix = network_fix(where, name, row["kubernetes"], advice)
            rows.append({"cluster": where, "node": name, "gpus": row["gpus"], "what": "network", "fix": fix})
    return rows


def links_fix(cluster: str, node: str, advice: Advice) -> str:
    """How to report the links between the GPUs of a node."""
    file = shlex.quote(f"{node}.txt")
    lines = [
        f"On {node}: (date -u +'# observed %FT%TZ'; nvidia-smi topo -m) > {file}",
        *_imported(f"topo {file}", cluster, advice),
    ]
    if advice.live:
        agent = f"Run gpuwatch agent --host 0.0.0.0 on {node} in place of dcgm-exporter and name it in targets of [[dcgm]], or:"
        lines.insert(0, agent)
    return "\n".join(lines)


def network_fix(cluster: str, node: str, kubernetes: bool, advice: Advice) -> str:
    """How to report the network location of a node."""
    if kubernetes:
        label = (
            f"Label it with its switch, e.g. by Topograph, or: kubectl label node {node} "
            "fabric.topograph.run/tier-0=LEAF fabric.topograph.run/tier-1=SPINE"
        )
        lines = [label]
        if not advice.live:
            lines.append("kubectl get nodes,pods -A -o json > k8s.json")
            lines += _imported("k8s-json k8s.json", cluster, advice)
        return "\n".join(lines)
    lines = ["(date -u +'# observed %FT%TZ'; scontrol show topology) > topology.conf"]
    if advice.live:
        lines.insert(0, "[[slurm]] does not ask for it; where [[kubernetes]] has the node, its labels tell, or:")
    return "\n".join([*lines, *_imported("slurm-topology topology.conf", cluster, advice)])


def _imported(arguments: str, cluster: str, advice: Advice) -> list[str]:
    """Lines that import a file, on the data directory of `advice`: no import is possible while a server runs."""
    command = advice.command(f"import {arguments} --cluster {shlex.quote(cluster)}")
    if not advice.live:
        return [command, advice.analysis()]
    return ["While the server is stopped, with its data directory for DIR:", f"{command} --data DIR"]
