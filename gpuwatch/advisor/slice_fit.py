"""The MIG profiles that a slice could have been instead: their memory, SMs and shares, as rules read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

from gpuwatch.hardware import shares as hardware_shares

if TYPE_CHECKING:
    from gpuwatch.rules.rule import EvaluationScope
    from gpuwatch.store.database import Store

_SIZE = pa.schema([("model", pa.string()), ("profile", pa.string()), ("memory_bytes", pa.int64())])
_FIT = pa.schema(
    [
        ("model", pa.string()),
        ("profile", pa.string()),
        ("fit", pa.string()),
        ("memory_bytes", pa.int64()),
        ("sm_part", pa.float64()),
        ("share_num", pa.int64()),
        ("share_den", pa.int64()),
    ]
)


def prepare(store: Store, scope: EvaluationScope) -> None:
    """Makes mig_size (profiles of the models that are cut) and mig_fit: a row a model, a profile that its GPUs have and a
    profile with a smaller share; sm_part and share_num / share_den are by those of the larger one.
    """
    from gpuwatch.advisor.jobs import slices_of

    cut = store.sql(
        """select distinct d.model, p.profile
        from device_price p
        join device d on d.device_id = p.device_id and d.cluster = p.cluster
        where p.cluster = $cluster and p.profile is not null and d.model is not null""",
        cluster=scope.cluster,
    )
    sizes: list[dict[str, object]] = []
    for model in sorted({model for model, _ in cut}):
        sizes += [{"model": model, "profile": name, "memory_bytes": size} for name, _, size, _ in slices_of(model)]
    fits = [row for model, profile in sorted(cut) for row in _smaller(model, profile, slices_of(model))]
    with store.view("fit_row", pa.Table.from_pylist(fits, schema=_FIT)):
        store.sql("create or replace temp table mig_fit as select * from fit_row")
    with store.view("size_row", pa.Table.from_pylist(sizes, schema=_SIZE)):
        store.sql("create or replace temp table mig_size as select * from size_row")


def _smaller(
    model: str, profile: str, known: Sequence[tuple[str, Fraction, int, Fraction]]
) -> Iterator[dict[str, object]]:
    """Rows of mig_fit of one profile; none where the model's profiles, or this one, are not known."""
    share = hardware_shares.share(model, profile)
    if share is None or share.estimated:
        return
    name = (hardware_shares.profile_name(profile) or "").removesuffix("+me")
    whole = Fraction(share.units) / hardware_shares.SHARE_UNITS
    # A slice of the whole GPU has all of its SMs.
    sms = next((compute for other, _, _, compute in known if other == name), Fraction(1))
    for other, part, size, compute in known:
        if part < whole:
            ratio = part / whole
            yield {
                "model": model,
                "profile": profile,
                "fit": other,
                "memory_bytes": size,
                "sm_part": float(compute / sms),
                "share_num": ratio.numerator,
                "share_den": ratio.denominator,
            }
