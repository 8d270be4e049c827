"""Import kind `bill-oci`: cost reports of Oracle Cloud Infrastructure."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from gpuwatch.collectors.bills.cells import Cells, wanted
from gpuwatch.collectors.bills.lines import LINES, key_of, lines
from gpuwatch.collectors.bills.months import month_end, month_start
from gpuwatch.collectors.bills.tables import SUFFIXES
from gpuwatch.collectors.bills.values import by_gpu, ends, joined, one_of, same, tags_of_columns, times, units
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

KIND = "bill-oci"
NEEDED = (
    ("lineItem/intervalUsageStart",),
    ("lineItem/intervalUsageEnd",),
    ("cost/myCost",),
    ("cost/currencyCode",),
    ("product/service",),
)
OTHERS = (
    *("lineItem/referenceNo", "lineItem/tenantId", "lineItem/isCorrection", "product/compartmentId"),
    *("product/compartmentName", "product/region", "product/resourceId", "product/Description", "cost/productSku"),
    *("usage/billedQuantity", "cost/billingUnitReadable", "cost/skuUnitDescription", "cost/overageFlag"),
)
SOURCE_COLUMNS = {
    "billed_cost": ("cost/myCost",),
    "effective_cost": ("cost/myCost",),
    "quantity": ("usage/billedQuantity",),
    "currency": ("cost/currencyCode",),
    "start_us": ("lineItem/intervalUsageStart",),
    "end_us": ("lineItem/intervalUsageEnd",),
}
_WANT = wanted(OTHERS, NEEDED, tags="tags")


@importer(KIND, "Oracle Cloud cost report: CSV, .gz too", SUFFIXES)
def read_oci_bill(source: Source, rejects: Rejects) -> Rows:
    """Yields the lines of an OCI cost report. Reports add lines to each other; a correction is a separate line.

    Reports have no list prices. OCI bills GPU shapes by the GPU-hour. Raises UnreadableInput.
    """
    yield from lines(source, rejects, KIND, LINES, _WANT, draft_columns, SOURCE_COLUMNS)


def draft_columns(cells: Cells) -> list[tuple[Mapping[str, pa.Array], pa.Array]]:
    """The columns of BILL in a cost report."""
    corrected = one_of(cells.get("lineItem/isCorrection"), ("true",))
    start, resource = times(cells.get("lineItem/intervalUsageStart")), cells.get("product/resourceId")
    sku, cost = cells.get("cost/productSku"), cells.get("cost/myCost")
    unit = cells.get("cost/skuUnitDescription", "cost/billingUnitReadable")
    columns = {
        "provider": same("oci", cells.rows),
        "account": cells.get("lineItem/tenantId"),
        "sub_account": cells.get("product/compartmentId"),
        "billing_start_us": month_start(start),
        "billing_end_us": month_end(start),
        "start_us": start,
        "end_us": ends(cells.get("lineItem/intervalUsageEnd"), inclusive_dates=False),
        "resource": resource,
        "service": cells.get("product/service"),
        "sku": sku,
        "description": cells.get("product/Description"),
        "region": cells.get("product/region"),
        "category": pc.if_else(corrected, "Adjustment", "Usage"),
        "charge_type": pc.if_else(corrected, "correction", "usage"),
        "pricing": same("Standard", cells.rows),
        "billed_cost": cost,
        "effective_cost": cost,
        "currency": cells.get("cost/currencyCode"),
        "quantity": cells.get("usage/billedQuantity"),
        "unit": units(unit),
        "tags": tags_of_columns(cells.tags, cells.rows),
        "gpu_count": by_gpu(unit),
        "gpu": joined([cells.get("product/Description")]),
        "key": pc.coalesce(
            pc.binary_join_element_wise(cells.get("lineItem/tenantId"), cells.get("lineItem/referenceNo"), " "),
            key_of(cells.get("lineItem/intervalUsageStart"), resource, sku, cost),
        ),
    }
    return [(columns, cells.lines)]
