"""What is decided of MIG: how GPUs are offered, who cuts them, which pools mix kinds. Pure."""

from __future__ import annotations

from typing import Any

from gpuwatch.audit.decision import HALF, IMPORT, OBJECTS, Decision, Row, named, nothing, percent, scored, weighed
from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.rules.layers import HOURS


def partitioning(facts: Row) -> list[Decision]:
    return [_strategy(facts), _cutter(facts), _kinds(facts)]


def _capable(facts: Row) -> list[Row]:
    """GPUs that can be cut into MIG slices, or are."""
    return [row for row in facts["mig"] if row["cut_gpus"] or hardware_shares.model_key(row["model"] or "") is not None]


def _strategy(facts: Row) -> Decision:
    """Whether somebody said how GPUs that can be cut are offered."""
    id, title = "mig-strategy", "How GPUs that MIG can cut are offered is said"
    fix = "Set mig.strategy of the GPU Operator (ClusterPolicy spec.mig.strategy: mixed where slices and whole GPUs meet, else single) and label whole-GPU pools as such."
    rows = _capable(facts)
    if not facts["mig"]:
        return scored(id, title, None, "No GPU is known.", f"{OBJECTS} ({IMPORT})")
    if not rows:
        return nothing(id, title, "No GPU here can be cut by MIG.")

    def said_of(row: Row) -> float | None:
        if row["scheduler"] == "slurm":
            return 1.0 if row["set_by"] or not row["cut_gpus"] else None
        if row["strategy"] is None:
            return None
        if row["strategy"] in ("single", "mixed"):
            return 1.0
        return 0.0 if row["cut_gpus"] else HALF

    ratio, unknown = weighed(rows, said_of, "gpus")
    if ratio is None:
        return scored(id, title, None, "No node object says it.", f"kubectl get nodes -o json ({IMPORT})")
    lacking = [row["pool"] for row in rows if (found := said_of(row)) is not None and found < 1]
    said = f"{percent(ratio)} of the GPUs that MIG can cut (whole ones without a strategy count half)."
    said += f" Strategy none or unset: {named(lacking)}." if lacking else ""
    left = f" Of {unknown:.0f} more GPUs nobody says." if unknown else ""
    return scored(id, title, ratio, said + left, fix, HOURS)


def _cutter(facts: Row) -> Decision:
    """Whether somebody answers for the slices that there are."""
    id, title = "mig-owner", "Who cuts GPUs into slices is known"
    fix = (
        "Let mig-manager cut them (label nvidia.com/mig.config on the nodes), or Slurm's gres.conf, and nobody by hand."
    )
    rows = [row for row in facts["mig"] if row["cut_gpus"]]
    if not rows:
        return nothing(id, title, "No GPU is cut into slices.")

    def owned(row: Row) -> float | None:
        if row["set_by"]:
            return 1.0
        return 0.0 if row["scheduler"] == "kubernetes" and row["strategy"] else None

    ratio, unknown = weighed(rows, owned, "cut_gpus")
    if ratio is None:
        return scored(id, title, None, "No node object says it.", f"kubectl get nodes -o json ({IMPORT})")
    by = sorted({row["set_by"] for row in rows if row["set_by"]})
    lacking = [row["pool"] for row in rows if owned(row) == 0]
    said = f"Of {percent(ratio)} of the cut GPUs" + (f": {named(by)}." if by else ".")
    said += f" By hand, or by something that leaves no label: {named(lacking)}." if lacking else ""
    return scored(id, title, ratio, said + (f" Of {unknown:.0f} nobody says." if unknown else ""), fix)


def _kinds(facts: Row) -> Decision:
    """Whether a pool offers one kind, or says which is meant."""
    id, title = "one-kind", "A pool offers slices or whole GPUs, or requests say which"
    fix = "Separate slices and whole GPUs into pools of their own, or set the strategy mixed there."
    pools: dict[tuple[Any, ...], list[Row]] = {}
    for row in facts["mig"]:
        pools.setdefault((row["cluster"], row["pool"], row["model"]), []).append(row)
    cut = {key: rows for key, rows in pools.items() if any(row["cut_gpus"] for row in rows)}
    if not cut:
        return nothing(id, title, "No GPU is cut into slices.")
    mixed = {
        key
        for key, rows in cut.items()
        if any(row["cut_gpus"] < row["gpus"] for row in rows)
        and any(row["scheduler"] != "slurm" and row["strategy"] not in ("mixed", None) for row in rows)
    }
    size = {key: sum(row["gpus"] for row in rows) for key, rows in cut.items()}
    ratio = 1 - sum(size[key] for key in mixed) / sum(size.values())
    said = f"{len(cut) - len(mixed)} of {len(cut)} pools with slices."
    said += f" Both kinds under one name: {named(key[1] for key in mixed)}." if mixed else ""
    return scored(id, title, ratio, said, fix)
