"""Decisions about MIG: how GPUs are offered, who partitions them, which pools mix kinds. Pure."""

from __future__ import annotations

from typing import Any

from gpuwatch.audit.decision import HALF, IMPORT, OBJECTS, Decision, Row, named, nothing, percent, scored, weighed
from gpuwatch.hardware.shares import model_key
from gpuwatch.rules.layers import HOURS


def partitioning(facts: Row) -> list[Decision]:
    return [_strategy(facts), _cutter(facts), _kinds(facts)]


def _capable(facts: Row) -> list[Row]:
    """GPUs that MIG can partition, or has partitioned."""
    return [row for row in facts["mig"] if row["cut_gpus"] or model_key(row["model"] or "") is not None]


def _strategy(facts: Row) -> Decision:
    """Whether a MIG strategy is set where GPUs can be partitioned."""
    id, title = "mig-strategy", "A MIG strategy is set where GPUs can be partitioned"
    fix = "Set mig.strategy of the GPU Operator (ClusterPolicy spec.mig.strategy: mixed where slices and whole GPUs meet, else single) and label whole-GPU pools as such."
    rows = _capable(facts)
    if not facts["mig"]:
        return scored(id, title, None, "No GPU is known.", f"{OBJECTS} ({IMPORT})")
    if not rows:
        return nothing(id, title, "MIG can partition no GPU here.")

    def declared(row: Row) -> float | None:
        if row["scheduler"] == "slurm":
            return 1.0 if row["set_by"] or not row["cut_gpus"] else None
        if row["strategy"] is None:
            return None
        if row["strategy"] in ("single", "mixed"):
            return 1.0
        return 0.0 if row["cut_gpus"] else HALF

    ratio, unknown = weighed(rows, declared, "gpus")
    if ratio is None:
        return scored(id, title, None, "No node object shows it.", f"kubectl get nodes -o json ({IMPORT})")
    lacking = [row["pool"] for row in rows if (found := declared(row)) is not None and found < 1]
    sentence = f"{percent(ratio)} of the GPUs that MIG can partition (whole ones without a strategy count half)."
    sentence += f" Strategy none or unset: {named(lacking)}." if lacking else ""
    left = f" Unknown for {unknown:.0f} more GPUs." if unknown else ""
    return scored(id, title, ratio, sentence + left, fix, HOURS)


def _cutter(facts: Row) -> Decision:
    """Whether a person or tool is responsible for existing slices."""
    id, title = "mig-owner", "Someone owns the MIG partitioning"
    fix = "Let mig-manager partition them (label nvidia.com/mig.config on the nodes), or Slurm's gres.conf; never by hand."
    rows = [row for row in facts["mig"] if row["cut_gpus"]]
    if not rows:
        return nothing(id, title, "No GPU is partitioned.")

    def owned(row: Row) -> float | None:
        if row["set_by"]:
            return 1.0
        return 0.0 if row["scheduler"] == "kubernetes" and row["strategy"] else None

    ratio, unknown = weighed(rows, owned, "cut_gpus")
    if ratio is None:
        return scored(id, title, None, "No node object shows it.", f"kubectl get nodes -o json ({IMPORT})")
    by = sorted({row["set_by"] for row in rows if row["set_by"]})
    lacking = [row["pool"] for row in rows if owned(row) == 0]
    sentence = f"Known for {percent(ratio)} of the partitioned GPUs" + (f": {named(by)}." if by else ".")
    sentence += f" By hand, or by a tool that leaves no label: {named(lacking)}." if lacking else ""
    return scored(id, title, ratio, sentence + (f" Unknown for {unknown:.0f}." if unknown else ""), fix)


def _kinds(facts: Row) -> Decision:
    """Whether a pool offers one kind of device, or requests say which."""
    id, title = "one-kind", "A pool offers slices or whole GPUs, or requests say which"
    fix = "Separate slices and whole GPUs into pools of their own, or set the strategy mixed there."
    pools: dict[tuple[Any, ...], list[Row]] = {}
    for row in facts["mig"]:
        pools.setdefault((row["cluster"], row["pool"], row["model"]), []).append(row)
    cut = {key: rows for key, rows in pools.items() if any(row["cut_gpus"] for row in rows)}
    if not cut:
        return nothing(id, title, "No GPU is partitioned.")
    mixed = {key for key, rows in cut.items() if _mixes_kinds(rows)}
    size = {key: sum(row["gpus"] for row in rows) for key, rows in cut.items()}
    ratio = 1 - sum(size[key] for key in mixed) / sum(size.values())
    sentence = f"{len(cut) - len(mixed)} of {len(cut)} pools with slices."
    sentence += f" Both kinds under one name: {named(key[1] for key in mixed)}." if mixed else ""
    return scored(id, title, ratio, sentence, fix)


def _mixes_kinds(rows: list[Row]) -> bool:
    """Whether a pool offers whole GPUs and slices under one name."""
    has_whole = any(row["cut_gpus"] < row["gpus"] for row in rows)
    return has_whole and any(row["scheduler"] != "slurm" and row["strategy"] not in ("mixed", None) for row in rows)
