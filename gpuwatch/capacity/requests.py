"""Requests for GPUs that waited within a window, and which GPU models each could have used."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from gpuwatch.rates.models import model_tokens
from gpuwatch.store.database import Store

_FIT = pa.schema([("gpu_type", pa.string()), ("model", pa.string())])


def prepare_requests(store: Store, start_us: int, end_us: int, reasons: Iterable[str], limit: int) -> None:
    """Creates the temporary table `report_request`: requests that waited in [start_us, end_us) for GPUs.

    A request that ever gave one of `reasons` is left out. At most `limit` rows.
    """
    store.run("capacity/report_request", start_us=start_us, end_us=end_us, reasons=list(reasons), limit=limit)


def request_owners(store: Store) -> pa.Table:
    """What the ownership rules need to know of each row of `report_request`."""
    return store.table("capacity/report_request_owner")


def models_of_requests(store: Store) -> pa.Table:
    """The models that each `gpu_type` of report_request may mean: rows of gpu_type and model."""
    pairs = store.sql(
        "select distinct gpu_type, model"
        " from (select distinct cluster, gpu_type from report_request where gpu_type is not null)"
        " join (select distinct cluster, model from device where model is not null) using (cluster)"
    )
    found = [{"gpu_type": word, "model": model} for word, model in pairs if _names(word, model)]
    return pa.Table.from_pylist(found, schema=_FIT)


def _names(gpu_type: str, model: str) -> bool:
    """Whether a scheduler's GPU type may mean this model: all its words are in the model's name."""
    words = model_tokens(gpu_type)
    return bool(words) and words <= model_tokens(model)
