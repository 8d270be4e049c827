"""The GPUs of a pool whose slices are parts of GPUs."""

from __future__ import annotations

from gpuwatch.advisor.inputs import pools_at_end
from gpuwatch.core.clock import HOUR_US, Window
from gpuwatch.ledger.totals import Scale
from gpuwatch.store.database import Store


def test_slices_of_seven_and_a_half_gpus_are_eight_whatever_their_order() -> None:
    """As sums of floats, 105 times a fourteenth is a little less or more than 7.5: two scans of the same data differed."""
    with Store.open(None, threads=1) as store:
        store.sql(
            "insert into device (cluster, device_id, gpu, gi, node, pool, model)"
            " select 'c1', range, 'n1/1g.10gb/' || range, -1, 'n1', 'mig', 'A100' from range(105)"
        )
        store.sql("insert into capacity select 'c1', range, 0, $hour, 1, 14 from range(105)", hour=HOUR_US)
        (pool,) = pools_at_end(store, Window(0, HOUR_US), Scale(14, 2))

    assert (8, 8) == (pool["gpus"], pool["gpus_a_node"])
