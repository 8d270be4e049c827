"""What changed since the last finished analysis of a cluster: a pass without changes costs a few queries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from gpuwatch.settings import Settings
from gpuwatch.store.database import Store

VERSION = "attribution 1"
"""Of the derivation of segments from records. Another version analyses every cluster again."""
_OWN = ("dirty_hour", "analyzed")


@dataclass(frozen=True)
class Inputs:
    """The records of a cluster now, and whether they are those of the last finished analysis."""

    digest: str
    changed: bool


def read_inputs(store: Store, cluster: str, settings: Settings, methods: Sequence[tuple[int, str]]) -> Inputs:
    """Compares the records of a cluster, and the settings by which they are attributed, with those of the last analysis."""
    rows = {row["kind"]: row["digest"] for row in store.rows("analysis/inputs", cluster=cluster)}
    records = sorted((kind, digest) for kind, digest in rows.items() if kind not in _OWN)
    by = [VERSION, settings.default_interval_s, settings.mig_share_method, settings.sharing_split, list(methods)]
    digest = blake2b(json.dumps([by, records]).encode(), digest_size=16).hexdigest()
    return Inputs(digest, rows["dirty_hour"] != "0" or rows.get("analyzed") != digest)


def note_inputs(store: Store, cluster: str, inputs: Inputs) -> None:
    """Notes that the analysis of these inputs is finished."""
    with store.transaction():
        store.run("analysis/note_inputs", cluster=cluster, inputs=inputs.digest)
