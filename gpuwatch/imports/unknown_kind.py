"""What to do in place of an import of a kind that there is not."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.core.errors import UsageError

INSTEAD = {
    "sinfo": "; use scontrol show node -d > scontrol_node.txt, then: gpuwatch import scontrol scontrol_node.txt",
    "squeue": "; use squeue --json > squeue.json, then: gpuwatch import slurm-json squeue.json",
    **{name: f"; {name} are set, not imported: gpuwatch {name} set FILE" for name in ("rates", "teams")},
}


def unknown_kind(kind: str, known: Sequence[str]) -> UsageError:
    """The error for a kind that no importer has."""
    how = INSTEAD.get(kind.removesuffix(".csv"), "")
    return UsageError(f"import: unknown kind {kind!r}{how}; known: {', '.join(known)}")
