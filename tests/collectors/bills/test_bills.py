"""Bills of clouds: each format as its provider writes it, exact to the last digit."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpuwatch.collectors.bills.lines import assembly, base_name
from gpuwatch.collectors.bills.values import decimals, end_moment, moment, tags_of, units
from gpuwatch.collectors.shared.instance_gpus import gpus_of
from gpuwatch.core.clock import DAY_US, HOUR_US, to_us
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import TABLES, Records, Rejects, Source
from gpuwatch.core.registry import find_importer
from gpuwatch.imports.files import ImportReport, import_paths
from gpuwatch.state import State
from gpuwatch.store.database import Store

NOV = to_us(datetime(2026, 11, 1, tzinfo=UTC))
DEC = to_us(datetime(2026, 12, 1, tzinfo=UTC))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """CSV of rows; the columns are those of all of them."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def read(kind: str, path: Path, *beside: Path) -> tuple[list[dict[str, Any]], Rejects]:
    rejects = Rejects()
    rows: list[dict[str, Any]] = []
    for batch in find_importer(kind).read(Source(str(path), "c", beside=tuple(map(str, beside))), rejects):
        assert isinstance(batch, Records) and batch.rows.schema == TABLES[batch.table]
        if batch.table == "bill":
            rows += batch.rows.to_pylist()
    return rows, rejects


def written(tmp_path: Path, rows: Sequence[dict[str, Any]] | str, name: str = "bill.csv") -> Path:
    path = tmp_path / name
    text = rows if isinstance(rows, str) else table(rows)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, "utf-8")
    return path


def cur(kind: str = "Usage", cost: str = "55.04", **words: str) -> dict[str, str]:
    """A line of a CUR 1.0: an hour of a p5.48xlarge."""
    return {
        "identity/LineItemId": "abc",
        "identity/TimeInterval": "2026-11-02T05:00:00Z/2026-11-02T06:00:00Z",
        "bill/PayerAccountId": "111122223333",
        "bill/BillingPeriodStartDate": "2026-11-01T00:00:00.000Z",
        "bill/BillingPeriodEndDate": "2026-12-01T00:00:00.000Z",
        "lineItem/UsageAccountId": "444455556666",
        "lineItem/LineItemType": kind,
        "lineItem/UsageStartDate": "2026-11-02T05:00:00.000Z",
        "lineItem/UsageEndDate": "2026-11-02T06:00:00.000Z",
        "lineItem/ProductCode": "AmazonEC2",
        "lineItem/UsageType": "USE1-BoxUsage:p5.48xlarge",
        "lineItem/ResourceId": "i-0abc",
        "lineItem/UsageAmount": "1.0",
        "lineItem/CurrencyCode": "USD",
        "lineItem/UnblendedCost": cost,
        "pricing/unit": "Hrs",
        "pricing/term": "OnDemand",
        "pricing/publicOnDemandCost": "98.32",
        "product/instanceType": "p5.48xlarge",
        **words,
    }


def focus(cost: str = "1.5", **words: str) -> dict[str, str]:
    """A line of FOCUS, a day."""
    return {
        "BilledCost": cost,
        "EffectiveCost": cost,
        "BillingAccountId": "acct",
        "BillingCurrency": "USD",
        "BillingPeriodStart": "2026-11-01 00:00:00",
        "BillingPeriodEnd": "2026-12-01 00:00:00",
        "ChargeCategory": "Usage",
        "ChargePeriodStart": "2026-11-02 00:00:00",
        "ChargePeriodEnd": "2026-11-03 00:00:00",
        "ProviderName": "AWS",
        "SubAccountId": "sub",
        **words,
    }


# Formats -----------------------------------------------------------------------------------------------------------


def test_a_cur_line_in_full(tmp_path: Path) -> None:
    ((row,), rejects) = read("bill-aws-cur", written(tmp_path, [cur(**{"resourceTags/user:Team": "ml", "resourceTags/user:X": ""})]))  # fmt: skip
    by_name = {name: value for name, value in row.items() if value is not None and name not in ("file_id", "line_key")}

    assert {} == rejects.counts
    assert {
        "line": 1,
        "part": 0,
        "provider": "aws",
        "account": "111122223333",
        "sub_account": "444455556666",
        "billing_start_us": NOV,
        "billing_end_us": DEC,
        "start_us": NOV + DAY_US + 5 * HOUR_US,
        "end_us": NOV + DAY_US + 6 * HOUR_US,
        "resource": "i-0abc",
        "service": "AmazonEC2",
        "instance_type": "p5.48xlarge",
        "category": "Usage",
        "charge_type": "Usage",
        "pricing": "Standard",
        "billed_cost": Decimal("55.04"),
        "effective_cost": Decimal("55.04"),
        "list_cost": Decimal("98.32"),
        "contracted_cost": Decimal("55.04"),
        "currency": "USD",
        "quantity": Decimal(1),
        "unit": "Hours",
        "tags": '{"user:Team": "ml"}',
        "gpu_count": 8,
        "gpu_model": "H100",
    } == by_name


COVERED = [
    pytest.param("SavingsPlanCoveredUsage", {"savingsPlan/SavingsPlanEffectiveCost": "30"}, "30", "Usage", "Used", id="a covered hour costs its part of the plan"),
    pytest.param("DiscountedUsage", {"reservation/EffectiveCost": "25.5"}, "25.5", "Usage", "Used", id="a reserved hour costs its part of the reservation"),
    pytest.param("SavingsPlanRecurringFee", {"savingsPlan/TotalCommitmentToDate": "10", "savingsPlan/UsedCommitment": "7.5"}, "2.5", "Purchase", "Unused", id="a fee costs what was not used"),
    pytest.param("RIFee", {"reservation/UnusedAmortizedUpfrontFeeForBillingPeriod": "1", "reservation/UnusedRecurringFee": "2"}, "3", "Purchase", "Unused", id="so does that of a reservation"),
    pytest.param("SavingsPlanNegation", {}, "0", "Adjustment", None, id="a negation costs nothing"),
    pytest.param("SavingsPlanUpfrontFee", {}, "0", "Purchase", None, id="an upfront fee is spread over its hours"),
    pytest.param("Refund", {}, "5", "Adjustment", None, id="a refund is an adjustment"),
    pytest.param("Tax", {}, "5", "Tax", None, id="a tax is a tax"),
    pytest.param("EdpDiscount", {}, "5", "Adjustment", None, id="a discount of the agreement is an adjustment"),
    pytest.param("DiscountedUsage", {}, None, "Usage", "Used", id="what the report does not tell is unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "words", "effective", "category", "status"), COVERED)
def test_amortised_costs_of_aws(
    tmp_path: Path, kind: str, words: dict[str, str], effective: str | None, category: str, status: str | None
) -> None:
    ((row,), _) = read("bill-aws-cur", written(tmp_path, [cur(kind, "5", **words)]))

    assert (None if effective is None else Decimal(effective)) == row["effective_cost"]
    assert (category, status, Decimal(5)) == (row["category"], row["commitment_status"], row["billed_cost"])


def test_cur_2_says_the_same_in_parquet(tmp_path: Path) -> None:
    """Lower-case names, floats, timestamps, and maps of products and tags."""
    path = tmp_path / "cur-00001.snappy.parquet"
    start = datetime(2026, 11, 2, 5)
    columns = {
        "identity_line_item_id": pa.array(["abc"]),
        "bill_payer_account_id": ["1"],
        "bill_billing_period_start_date": pa.array([datetime(2026, 11, 1)], pa.timestamp("ms")),
        "line_item_line_item_type": ["Usage"],
        "line_item_usage_start_date": pa.array([start], pa.timestamp("ms")),
        "line_item_usage_end_date": pa.array([start.replace(hour=6)], pa.timestamp("ms", "UTC")),
        "line_item_usage_type": ["SpotUsage:g6.12xlarge"],
        "line_item_resource_id": ["i-1"],
        "line_item_usage_amount": [1.0],
        "line_item_unblended_cost": [1e-7],
        "line_item_currency_code": ["USD"],
        "pricing_public_on_demand_cost": pa.array([Decimal("4.60")], pa.decimal128(20, 2)),
        "product": pa.array([[("instance_type", "g6.12xlarge"), ("region", "us-east-1")]], pa.map_(pa.string(), pa.string())),
        "resource_tags": pa.array([[("user_team", "ml")]], pa.map_(pa.string(), pa.string())),
    }  # fmt: skip
    pq.write_table(pa.table(columns), path)
    packed = tmp_path / "cur.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for file in (path, packed):
        ((row,), _) = read("bill-aws-cur", file)

        assert (Decimal("0.0000001"), Decimal("4.60")) == (row["billed_cost"], row["list_cost"])
        assert (4, "L4", "Dynamic", "Hours") == (row["gpu_count"], row["gpu_model"], row["pricing"], row["unit"])
        assert ('{"user_team": "ml"}', "us-east-1", "g6.12xlarge") == (row["tags"], row["region"], row["instance_type"])
        assert (NOV, None, NOV + DAY_US + 5 * HOUR_US) == (
            row["billing_start_us"],
            row["billing_end_us"],
            row["start_us"],
        )


def azure(cost: str = "98.32", **words: str) -> dict[str, str]:
    """A line of an Azure export: a day of an ND96isr_H100_v5."""
    return {
        "Date": "11/02/2026",
        "BillingPeriodStartDate": "11/01/2026",
        "BillingPeriodEndDate": "11/30/2026",
        "BillingAccountId": "b",
        "SubscriptionId": "s",
        "ResourceId": "/subscriptions/s/x/virtualMachines/gpu-1",
        "MeterCategory": "Virtual Machines",
        "MeterName": "ND96isr H100 v5",
        "ChargeType": "Usage",
        "PricingModel": "OnDemand",
        "UnitOfMeasure": "1 Hour",
        "Quantity": "24",
        "CostInBillingCurrency": cost,
        "BillingCurrencyCode": "EUR",
        "Tags": '"team": "ml","env": "prod"',
        "AdditionalInfo": '{"ServiceType": "Standard_ND96isr_H100_v5"}',
        **words,
    }


def test_azure_days_and_inclusive_ends(tmp_path: Path) -> None:
    ((row,), _) = read("bill-azure", written(tmp_path, [azure()]))

    assert (NOV + DAY_US, NOV + 2 * DAY_US, NOV, DEC) == tuple(row[f"{n}_us"] for n in ("start", "end", "billing_start", "billing_end"))  # fmt: skip
    assert (8, "H100", "Hours", "EUR") == (row["gpu_count"], row["gpu_model"], row["unit"], row["currency"])
    assert {"team": "ml", "env": "prod"} == json.loads(row["tags"])
    assert "Standard_ND96isr_H100_v5" == row["instance_type"]


AZURE = [
    pytest.param(azure("12"), "12", "12", None, id="what nothing covers costs what is billed"),
    pytest.param(azure("0", PricingModel="Reservation", ReservationId="r"), "0", None, "Used", id="actual: a covered hour tells no cost"),
    pytest.param(azure("9", PricingModel="Reservation", ReservationId="r"), "0", "9", "Used", id="amortized: a covered hour"),
    pytest.param(azure("700", ChargeType="Purchase", ReservationId="r"), "700", "0", None, id="a purchase is billed once"),
    pytest.param(azure("4", ChargeType="UnusedReservation", ReservationId="r"), "0", "4", "Unused", id="amortized: what was not used"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "billed", "effective", "status"), AZURE)
def test_azure_actual_and_amortized(
    tmp_path: Path, line: dict[str, str], billed: str, effective: str | None, status: str | None
) -> None:
    ((row,), _) = read("bill-azure", written(tmp_path, [line]))

    assert (Decimal(billed), status) == (row["billed_cost"], row["commitment_status"])
    assert (None if effective is None else Decimal(effective)) == row["effective_cost"]


def gcp(cost: Any = "10.5", **words: Any) -> dict[str, Any]:
    """A row of Google Cloud's export: an hour of one GPU."""
    return {
        "billing_account_id": "0",
        "service": {"id": "6F81", "description": "Compute Engine"},
        "sku": {"id": "ABCD", "description": "Nvidia H100 80GB GPU running in Iowa"},
        "usage_start_time": "2026-11-02 05:00:00 UTC",
        "usage_end_time": "2026-11-02 06:00:00 UTC",
        "project": {"id": "p"},
        "labels": [{"key": "team", "value": "ml"}],
        "resource": {"name": "vm-1", "global_name": "//compute.googleapis.com/projects/p/zones/z/instances/1"},
        "cost": cost,
        "currency": "USD",
        "usage": {"amount": 3600, "unit": "seconds", "amount_in_pricing_units": "1", "pricing_unit": "hour"},
        "credits": [],
        "invoice": {"month": "202611"},
        "cost_type": "regular",
        **words,
    }


def test_gcp_credits_lower_a_price_or_are_given(tmp_path: Path) -> None:
    credits = [
        {"name": "CUD", "amount": "-2.5", "type": "COMMITTED_USAGE_DISCOUNT"},
        {"name": "free", "amount": -1, "type": "PROMOTION"},
    ]
    text = "\n".join(json.dumps(row) for row in (gcp(credits=credits), gcp("1e-9", cost_type="tax")))
    (rows, rejects) = read("bill-gcp", written(tmp_path, text, "export.jsonl.gz"))
    listed = [(r["line"], r["part"], r["category"], r["billed_cost"], r["gpu_count"]) for r in rows]

    assert {} == rejects.counts
    assert [
        (1, 0, "Usage", Decimal(8), 1),
        (2, 0, "Tax", Decimal("1e-9"), 1),
        (1, 1, "Credit", Decimal(-1), None),
    ] == listed
    assert ("Committed", "H100", '{"team": "ml"}', NOV) == tuple(rows[0][n] for n in ("pricing", "gpu_model", "tags", "billing_start_us"))  # fmt: skip


def test_gcp_flat_csv(tmp_path: Path) -> None:
    row = {
        "service_description": "Compute Engine",
        "sku_description": "A2 Instance Core running in Americas",
        "usage_start_time": "2026-11-02T05:00:00Z",
        "usage_end_time": "2026-11-02T06:00:00Z",
        "cost": "0.3",
        "currency": "USD",
        "credits": '[{"type": "DISCOUNT", "amount": "-0.1"}]',
    }
    ((found,), _) = read("bill-gcp", written(tmp_path, [row]))

    assert (Decimal("0.2"), 0, "A100-40GB") == (found["billed_cost"], found["gpu_count"], found["gpu_model"])


def test_oci_lines_and_tags(tmp_path: Path) -> None:
    row = {
        "lineItem/referenceNo": "r1",
        "lineItem/tenantId": "t",
        "lineItem/intervalUsageStart": "2026-11-13T10:00Z",
        "lineItem/intervalUsageEnd": "2026-11-13T11:00:00Z",
        "product/service": "COMPUTE",
        "product/compartmentId": "c",
        "product/resourceId": "ocid1.instance.oc1..x",
        "product/Description": "Compute - GPU - H100",
        "usage/billedQuantity": "8.000000000000000000",
        "cost/myCost": "80.000000000000000001",
        "cost/currencyCode": "USD",
        "cost/skuUnitDescription": "GPU Per Hour",
        "lineItem/isCorrection": "false",
        "tags/Ops.Team": "ml",
    }
    (rows, _) = read("bill-oci", written(tmp_path, [row, row | {"lineItem/isCorrection": "true", "cost/myCost": "-1"}]))

    assert ["Usage", "Adjustment"] == [r["category"] for r in rows]
    assert (Decimal("80.000000000000000001"), 1, "H100", "Hours", '{"Ops.Team": "ml"}') == tuple(
        rows[0][n] for n in ("billed_cost", "gpu_count", "gpu_model", "unit", "tags")
    )


HYPERPOD = [
    pytest.param("USE1-Cluster:ml.p5.48xlarge", "Hrs", (8, "H100"), id="a node of a HyperPod cluster"),
    pytest.param("USE1-Train:ml.p4d.24xlarge", "Hrs", (8, "A100-40GB"), id="a training job"),
    pytest.param("USE1-Host:ml.g5.12xlarge", "Hrs", (4, "A10G"), id="an endpoint"),
    pytest.param("USE1-Cluster:VolumeUsage.gp2", "GB-Mo", (None, None), id="a disk of a HyperPod cluster"),
]


@pytest.mark.parametrize(("usage", "unit", "gpus"), HYPERPOD)
def test_machines_of_sagemaker(tmp_path: Path, usage: str, unit: str, gpus: tuple[int | None, str | None]) -> None:
    more = {"lineItem/UsageType": usage, "pricing/unit": unit, "product/instanceType": "", "product/gpu": ""}
    ((row,), _) = read("bill-aws-cur", written(tmp_path, [cur(**more)]))

    assert gpus == (row["gpu_count"], row["gpu_model"])


@pytest.mark.parametrize(("unit", "count"), [("Hours", 8), ("GPU Hours", 1), ("GPU-Hours", 1), ("GPU Per Hour", 1)])
def test_hours_of_a_gpu_are_no_hours_of_its_machine(tmp_path: Path, unit: str, count: int) -> None:
    row = focus(
        ProviderName="Oracle",
        PricingUnit=unit,
        PricingQuantity="16",
        SkuPriceDetails='{"InstanceType": "BM.GPU.H100.8"}',
    )
    ((found,), _) = read("bill-focus", written(tmp_path, [row]))

    assert (count, "H100", "Hours") == (found["gpu_count"], found["gpu_model"], found["unit"])


def test_focus_of_any_version(tmp_path: Path) -> None:
    old = focus(
        ListCost="2",
        ContractedCost="NULL",
        PricingUnit="Hours",
        ChargeDescription="$98.32 per On Demand p5.48xlarge Hour",
    )
    new = {**focus(), "ServiceProviderName": "Microsoft", "SkuPriceDetails": '{"GpuCount": 4, "InstanceType": "Standard_NC96ads_A100_v4"}', "PricingUnit": "Hours"}  # fmt: skip
    del new["ProviderName"]
    ((one,), _) = read("bill-focus", written(tmp_path, [old]))
    ((two,), _) = read("bill-focus", written(tmp_path, [new], "new.csv"))

    assert ("aws", 8, "H100", None) == (one["provider"], one["gpu_count"], one["gpu_model"], one["contracted_cost"])
    assert ("azure", 4, "A100-80GB") == (two["provider"], two["gpu_count"], two["gpu_model"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param({"ResourceType": "Storage", "SkuId": "DZH318Z0BQ4L/00G1"}, (None, None), id="a key is no machine"),
        pytest.param({"SkuId": "Standard_NC96ads_A100_v4", "PricingUnit": "GB"}, (None, None), id="traffic of one"),
        pytest.param({"SkuId": "Standard_NC96ads_A100_v4"}, (4, "A100-80GB"), id="SkuId, and no unit"),
        pytest.param({"SkuId": "p5.48xlarge", "PricingUnit": "Hours"}, (8, "H100"), id="SkuId, by the hour"),
        pytest.param({"SkuMeter": "NC24ads A100 v4", "PricingUnit": "1 Hour"}, (1, "A100-80GB"), id="SkuMeter"),
        pytest.param({"x_SkuMeterName": "ND96isr H100 v5", "PricingUnit": "Hours"}, (8, "H100"), id="x_SkuMeterName"),
        pytest.param({"SkuPriceDetails": '{"MachineType": "a3-highgpu-8g"}', "PricingUnit": "Hours"}, (8, "H100"), id="SkuPriceDetails"),
        pytest.param({"x_SkuDetails": '{"ServiceType": "Standard_ND96isr_H200_v5"}', "PricingUnit": "Hours"}, (8, "H200"), id="x_SkuDetails"),
        pytest.param({"ResourceType": "BM.GPU.H100.8", "PricingUnit": "Hours"}, (8, "H100"), id="ResourceType"),
    ],
)  # fmt: skip
def test_the_machine_of_a_focus_line(
    tmp_path: Path, words: dict[str, str], expected: tuple[int | None, str | None]
) -> None:
    """Wherever it is named."""
    ((found,), _) = read("bill-focus", written(tmp_path, [focus(**words)]))

    assert expected == (found["gpu_count"], found["gpu_model"])


@pytest.mark.parametrize(
    ("kind", "row", "reason"),
    [
        pytest.param("bill-aws-cur", cur(cost="x"), "lineItem/UnblendedCost=x", id="AWS"),
        pytest.param("bill-focus", {"billed_cost": "x"}, "billed_cost=x", id="another spelling of FOCUS"),
    ],
)
def test_a_bad_cell_is_reported_as_the_file_spells_its_column(
    tmp_path: Path, kind: str, row: dict[str, str], reason: str
) -> None:
    if kind == "bill-focus":
        row = {name: text for name, text in focus().items() if name != "BilledCost"} | row
    (found, rejects) = read(kind, written(tmp_path, [row]))
    ((_, line, example),) = rejects.first.values()

    assert ([], 2, reason) == (found, line, example.split(", ")[0])


# What is missing, wrong or hostile ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bill-aws-cur", "bill-azure", "bill-gcp", "bill-oci", "bill-focus"])
@pytest.mark.parametrize("name", ["bill.csv", "bill.csv.gz", "bill.jsonl"])
def test_other_columns_are_refused_with_those_of_the_kind(tmp_path: Path, kind: str, name: str) -> None:
    path = written(tmp_path, '{"a": 1}\n' if name.endswith("jsonl") else "a,b\n1,2\n", name)
    with pytest.raises(UnreadableInput, match=f"no column .*; {kind} has .*[Cc]urrency"):
        read(kind, path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "empty", id="an empty file"),
        pytest.param(b"BilledCost;BillingCurrency\n1,5;EUR\n", "separated by semicolons", id="saved by a spreadsheet"),
        pytest.param(b"PK\x03\x04abc", "unpack", id="a ZIP archive"),
        pytest.param(b' [{"BilledCost": "1"}]', "needs one object per line", id="a JSON list"),
        pytest.param(b"\0\1\2\3" * 100, "neither CSV nor Parquet", id="a binary file"),
        pytest.param(
            gzip.compress(table([focus()] * 2000).encode())[:-300], "nothing is imported", id="gzip that breaks off"
        ),
        pytest.param(b"PAR1 and no more", "nothing is imported", id="Parquet that is none"),
        pytest.param(
            (table([focus()]) + '2,"' + "z" * (9 << 20) + '"\n').encode(), "nothing is imported", id="a field of 9 MiB"
        ),
    ],
)
def test_an_unreadable_file_is_named_and_nothing_of_it_counts(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bill.csv"
    path.write_bytes(content)
    store, state = Store.open(None, threads=1), State.open("sqlite://")
    with pytest.raises(UnreadableInput, match=f"bill.csv: .*{words}"):
        import_paths(store, state, "bill-focus", [path], cluster=None, now_us=1)

    assert [(0, 0)] == store.sql("select (select count(*) from bill), (select count(*) from bill_file)")


def test_bad_rows_are_counted_with_the_line_of_the_first(tmp_path: Path) -> None:
    """The header is line 1; columns are named as the file spells them."""
    good = focus(Tags="é")
    rows = [good, focus("x"), focus("1e30"), focus("NaN"), focus(""), focus(BillingCurrency="NULL"), focus(ChargePeriodStart="soon"), focus(ChargePeriodEnd="2026-11-01 00:00:00"), good]  # fmt: skip
    text = table(rows) + "1,2,3\n" + table([good]).splitlines()[1] + "\n"
    path = tmp_path / "bill.csv"
    path.write_bytes(text.encode() + table([good]).splitlines()[1].replace("é", "\xff").encode("latin-1"))
    (found, rejects) = read("bill-focus", path)

    assert [1, 9, 11] == [row["line"] for row in found]
    assert {
        "BilledCost is not a decimal number below 10^15": (3, 3, "BilledCost=x, account acct, charge_type Usage"),
        "no billed cost in BilledCost": (1, 6, "BilledCost=, account acct, charge_type Usage"),
        "no currency in BillingCurrency": (1, 7, "BillingCurrency=, account acct, charge_type Usage"),
        "no time in ChargePeriodStart and ChargePeriodEnd": (
            1,
            8,
            "ChargePeriodStart=soon, ChargePeriodEnd=2026-11-03 00:00:00, account acct, charge_type Usage",
        ),
        "the charge ends before it starts: ChargePeriodStart and ChargePeriodEnd": (
            1,
            9,
            "ChargePeriodStart=2026-11-02 00:00:00, ChargePeriodEnd=2026-11-01 00:00:00, account acct, charge_type Usage",
        ),
        "row has 3 columns, not 11": (1, 11, "1,2,3"),
        "row is not UTF-8": (1, 13, ""),
    } == {
        reason.replace("not 12", "not 11"): (count, *rejects.first[reason][1:])
        for reason, count in rejects.counts.items()
    }


@pytest.mark.parametrize("name", ["bill.csv", "bill.jsonl"])
def test_half_a_character_in_json_is_no_end_of_the_import(tmp_path: Path, name: str) -> None:
    row = focus(Tags='{"\\ud800": "\\udfff"}', SkuPriceDetails='{"InstanceType": "\\ud800"}')
    text = table([row]) if name == "bill.csv" else json.dumps(row | {"ResourceId": "\ud800"})
    (found,) = read("bill-focus", written(tmp_path, text, name))[0]

    assert ('{"?": "?"}', "?") == (found["tags"], found["instance_type"])


def test_null_is_missing_and_a_newline_in_quotes_is_text(tmp_path: Path) -> None:
    rows = [focus(Tags="NULL", ResourceId="", ChargeDescription='two\nlines, "quoted"'), focus(Tags='{"a": "b"}')]
    (found, _) = read("bill-focus", written(tmp_path, "\ufeff" + table(rows)))

    assert [(None, None), ('{"a": "b"}', None)] == [(row["tags"], row["resource"]) for row in found]
    assert 'two\nlines, "quoted"' == found[0]["description"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0.012264277499950943", "0.012264277499950943", id="18 places"),
        pytest.param("6.266090E-12", "0.000000000006266090", id="an exponent"),
        pytest.param("-0.5", "-0.5", id="a negative amount"),
        pytest.param("1.23456789012345678e-08", "1.2345678901E-8", id="digits of a float past 18 places"),
        pytest.param("1,5", None, id="a comma"),
        pytest.param("$5", None, id="a sign of a currency"),
        pytest.param("9" * 15, "9" * 15, id="the most that fits"),
        pytest.param("9" * 16, None, id="more than fits"),
    ],
)
def test_amounts_are_exact(text: str, expected: str | None) -> None:
    amounts, bad = decimals(pa.array([text, None, "1"]))

    assert [None if expected is None else Decimal(expected), None, Decimal(1)] == amounts.to_pylist()
    assert [expected is None, False, False] == bad.to_pylist()


@pytest.mark.parametrize(
    ("text", "inclusive", "expected"),
    [
        pytest.param("2026-11-30T23:59:59Z", False, DEC, id="a second before midnight is midnight"),
        pytest.param("2026-11-30 23:59:59.999", False, DEC, id="so is a millisecond"),
        pytest.param("2026-12-01", False, DEC, id="a date is its midnight"),
        pytest.param("11/30/2026", True, DEC, id="an inclusive date is the next midnight"),
        pytest.param("2026-12-01T01:00:00+01:00", False, DEC, id="a zone counts"),
        pytest.param("2026-11-30T23:59:58Z", False, DEC - 2_000_000, id="two seconds are two seconds"),
        pytest.param("never", False, None, id="text that is no time"),
    ],
)
def test_ends_are_half_open(text: str, inclusive: bool, expected: int | None) -> None:
    assert expected == end_moment(text, inclusive)


def test_times_without_a_zone_are_utc() -> None:
    texts = ("2026-11-01", "2026-11-01 00:00:00", "2026-11-01T00:00Z", "2026-11-01 00:00:00 UTC", "11/1/2026")

    assert {NOV} == {moment(text) for text in texts}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("m5.large", None, id="a machine without GPUs"),
        pytest.param("NV6ads A10 v5", None, id="a part of a GPU"),
        pytest.param("D3 v2/DS3 v2", None, id="a size with a similar name"),
        pytest.param("xp5.48xlarge", None, id="a name that ends alike"),
        pytest.param("Nvidia A100 license", None, id="a model without a GPU"),
        pytest.param("p4d.24xlarge", (8, "A100-40GB"), id="AWS"),
        pytest.param("SpotUsage:p6-b200.48xlarge", (8, "B200"), id="AWS usage type"),
        pytest.param("ml.g5.12xlarge", (4, "A10G"), id="SageMaker"),
        pytest.param("Standard_ND96amsr_A100_v4", (8, "A100-80GB"), id="Azure size"),
        pytest.param("NC24ads A100 v4 Spot", (1, "A100-80GB"), id="Azure meter"),
        pytest.param("NC64as T4 v3", (4, "T4"), id="Azure T4"),
        pytest.param("a3-ultragpu-8g", (8, "H200"), id="Google machine type"),
        pytest.param("g2-standard-24", (2, "L4"), id="Google L4"),
        pytest.param("Nvidia Tesla A100 GPU running in Americas", (1, "A100-40GB"), id="Google SKU"),
        pytest.param(
            "Nvidia Tesla A100 80GB GPU attached to Spot Preemptible VMs", (1, "A100-80GB"), id="Google 80 GB"
        ),
        pytest.param("G2 Instance Ram running in Iowa", (0, "L4"), id="memory of a Google machine"),
        pytest.param("BM.GPU.H100.8", (8, "H100"), id="OCI shape"),
        pytest.param("VM.GPU3.4", (4, "V100"), id="OCI shape of old"),
        pytest.param("Compute - GPU - L40S", (1, "L40S"), id="OCI SKU"),
    ],
)
def test_gpus_of_what_is_billed(text: str, expected: tuple[int, str] | None) -> None:
    found = gpus_of(text)

    assert expected == (None if found is None else (found.count, found.model))


def test_units_and_tags_of_all_spellings() -> None:
    assert ["Hours"] * 6 + ["GB Hours", "1 GB"] == units(
        pa.array(["Hrs", "1 Hour", "hour", "GPU Per Hour", "GPU-Hours", "Hours", "GB Hours", "1 GB"])
    ).to_pylist()
    assert ['{"a": "b"}', '{"a": "b"}', '{"a": "b"}', '{"": "x"}', None, None] == tags_of(
        pa.array(['{"a": "b"}', '"a": "b"', '[{"key": "a", "value": "b"}]', "x", "{}", None])
    ).to_pylist()


# Restatements ------------------------------------------------------------------------------------------------------


class Books:
    """A store and the bills imported into it, one after the other."""

    def __init__(self, tmp_path: Path) -> None:
        self.store, self.state, self.path = Store.open(None, threads=1), State.open("sqlite://"), tmp_path
        self.clock = 0

    def load(self, kind: str, **files: Sequence[dict[str, Any]]) -> ImportReport:
        self.clock += 1
        paths = []
        for name, rows in files.items():
            path = self.path / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(table(rows), "utf-8")
            paths.append(path)
        return import_paths(self.store, self.state, kind, paths, cluster=None, now_us=self.clock)

    def costs(self) -> list[str]:
        rows = self.store.sql(
            "select billed_cost from bill where file_id in (select file_id from bill_file) order by 1"
        )
        return [f"{cost.normalize():f}" for (cost,) in rows]


def test_the_same_file_again_changes_nothing(tmp_path: Path) -> None:
    books = Books(tmp_path)
    first = [books.load("bill-aws-cur", a=[cur(cost="1"), cur(cost="2")]), books.costs()]
    again = books.load("bill-aws-cur", a=[cur(cost="1"), cur(cost="2")])
    other = books.load("bill-aws-cur", copy=[cur(cost="1"), cur(cost="2")])

    assert (["1", "2"], ["1", "2"], 1, 1) == (first[1], books.costs(), again.repeated, other.files)
    assert (2, 0) == (first[0].records, again.records)  # type: ignore[union-attr]


def test_a_newer_assembly_replaces_the_billing_period_and_no_other(tmp_path: Path) -> None:
    books = Books(tmp_path)
    october = {"bill/BillingPeriodStartDate": "2026-10-01T00:00:00.000Z"}
    books.load("bill-aws-cur", october=[cur(cost="7", **october)])
    books.load("bill-aws-cur", november=[cur(cost="1"), cur(cost="2")])
    books.load("bill-aws-cur", november_restated=[cur(cost="1.5")])
    books.load("bill-aws-cur", other_payer=[cur(cost="9", **{"bill/PayerAccountId": "2"})])

    assert ["1.5", "7", "9"] == books.costs()


def of(resource: str, cost: str) -> dict[str, str]:
    """A line of another machine."""
    return cur(cost=cost, **{"lineItem/ResourceId": resource})


def test_parts_of_one_bill_stand_side_by_side(tmp_path: Path) -> None:
    books = Books(tmp_path)
    books.load("bill-aws-cur", **{"report-00001.csv": [cur(cost="1")]})
    books.load("bill-aws-cur", **{"report-00002.csv": [of("i-2", "2")]})
    together = books.costs()
    books.load("bill-aws-cur", **{"x.csv": [cur(cost="3")], "y.csv": [of("i-4", "4")]})
    replaced = books.costs()
    books.load("bill-aws-cur", **{"20261115T010101Z__r-00001.csv": [cur(cost="5")]})
    books.load("bill-aws-cur", **{"20261115T010101Z__other.csv": [of("i-6", "6")]})

    assert (["1", "2"], ["3", "4"], ["5", "6"]) == (together, replaced, books.costs())


@pytest.mark.parametrize("kind", ["bill-aws-cur", "bill-azure", "bill-focus", "bill-gcp", "bill-oci"])
def test_the_manifest_beside_an_export_is_no_bill(kind: str) -> None:
    suffixes = find_importer(kind).suffixes

    assert (kind == "bill-gcp") is "cur-Manifest.json".endswith(suffixes)
    assert all(f"part-0{ending}".endswith(suffixes) for ending in (".csv", ".csv.gz", ".snappy.parquet", ".jsonl.gz"))


def test_a_file_of_the_same_name_replaces_its_older_content(tmp_path: Path) -> None:
    books = Books(tmp_path)
    books.load("bill-aws-cur", **{"report-00001.csv": [cur(cost="1")], "report-00002.csv": [of("i-2", "2")]})
    books.load("bill-aws-cur", **{"report-00002.csv": [of("i-2", "2.5")]})

    assert ["1", "2.5"] == books.costs()


@pytest.mark.parametrize(
    "names",
    [
        ("cost-20261105", "cost-20261110"),
        ("cost_2026-11-05", "cost_2026-11-10"),
        ("cost_202611051010", "cost_202611101010"),
        ("2026-11-05", "2026-11-10"),
        ("bill", "bill2"),
        ("bill", "bill-2"),
        ("month to date-1", "month to date-2"),
    ],
    ids=" then ".join,
)
@pytest.mark.parametrize("cost", ["10", "11"], ids=["the same costs", "other costs"])
def test_a_later_state_of_a_bill_is_no_other_part_of_it(tmp_path: Path, names: tuple[str, str], cost: str) -> None:
    def days(count: int, cost: str) -> list[dict[str, str]]:
        return [
            focus(cost, ResourceId="i-1", ChargePeriodStart=f"2026-11-{day:02}T00:00:00Z", ChargePeriodEnd=f"2026-11-{day + 1:02}T00:00:00Z")
            for day in range(1, count + 1)
        ]  # fmt: skip

    books = Books(tmp_path)
    books.load("bill-focus", **{f"{names[0]}.csv": days(2, "10")})
    books.load("bill-focus", **{f"{names[1]}.csv": days(3, cost)})

    assert [cost] * 3 == books.costs()


def test_a_later_state_among_files_that_are_named_together_holds(tmp_path: Path) -> None:
    books = Books(tmp_path)
    books.load("bill-aws-cur", early=[of("i-1", "1"), of("i-2", "2")], late=[of("i-1", "1.5"), of("i-2", "2"), cur()])

    assert ["1.5", "2", "55.04"] == books.costs()


def test_a_bill_of_several_providers_is_reported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwatch.collectors.bills.json_lines.JSON_ROWS", 1)
    books = Books(tmp_path)
    for name, cost in (("early", "2"), ("late", "3")):
        lines = [focus("1", ProviderName="Google Cloud"), focus(cost, ProviderName="AWS")]
        path = written(tmp_path, "\n".join(map(json.dumps, lines)), f"{name}.jsonl")
        import_paths(books.store, books.state, "bill-focus", [path], cluster=None, now_us=1)

    assert ["1", "3"] == books.costs()


def test_days_of_a_subscription_are_reported_again(tmp_path: Path) -> None:
    books = Books(tmp_path)
    books.load("bill-azure", to_date=[azure("1"), azure("2", Date="11/03/2026"), azure("5", SubscriptionId="other")])
    books.load("bill-azure", third=[azure("2.5", Date="11/03/2026")])

    assert ["1", "2.5", "5"] == books.costs()


def test_reports_that_add_bring_a_line_once(tmp_path: Path) -> None:
    def usage(reference: str, cost: str) -> dict[str, str]:
        return {
            "lineItem/referenceNo": reference,
            "lineItem/tenantId": "t",
            "lineItem/intervalUsageStart": "2026-11-13T10:00Z",
            "lineItem/intervalUsageEnd": "2026-11-13T11:00Z",
            "product/service": "COMPUTE",
            "cost/myCost": cost,
            "cost/currencyCode": "USD",
        }

    books = Books(tmp_path)
    books.load("bill-oci", monday=[usage("1", "1"), usage("2", "2")])
    books.load("bill-oci", tuesday=[usage("2", "2"), usage("3", "3")])

    assert ["1", "2", "3"] == books.costs()


def test_names_of_deliveries() -> None:
    uuid = "5a1c1c8e-0000-4000-8000-000000000001"

    assert uuid == assembly(Source(f"/b/{uuid}/report-00001.csv.gz", "c"))
    assert ["report#", "report#"] == [assembly(Source(f"/b/report-0000{n}.csv", "c")) for n in (1, 2)]
    assert "report-00001" == base_name("/x/report-00001.snappy.parquet")


# Captured exports --------------------------------------------------------------------------------------------------

SAMPLES = [
    ("bill-aws-cur", "aws_cur_sample.csv", {"billed_cost": "lineItem/UnblendedCost", "list_cost": "pricing/publicOnDemandCost", "quantity": "lineItem/UsageAmount"}),
    ("bill-azure", "azure_ea_sample.csv", {"billed_cost": "CostInBillingCurrency", "quantity": "Quantity"}),
    ("bill-oci", "oci_cost_report_sample.csv", {"billed_cost": "cost/myCost", "quantity": "usage/billedQuantity"}),
    ("bill-focus", "focus_1.0_sample.csv", {"billed_cost": "BilledCost", "effective_cost": "EffectiveCost", "list_cost": "ListCost", "contracted_cost": "ContractedCost", "quantity": "PricingQuantity"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "columns"), SAMPLES, ids=[kind for kind, _, _ in SAMPLES])
def test_captured_exports_to_the_last_digit(shared: Path, kind: str, name: str, columns: dict[str, str]) -> None:
    path = shared / "wire" / "finops" / name
    (found, rejects) = read(kind, path)
    with path.open(newline="", encoding="utf-8-sig") as stream:
        rows = list(csv.DictReader(stream))

    assert ({}, len(rows)) == (rejects.counts, len(found))
    for ours, theirs in columns.items():
        values = [row[theirs] for row in rows]
        assert [Decimal(v) if v not in ("", "NULL") else None for v in values] == [row[ours] for row in found]


def test_gcp_parquet_with_records_within_records(tmp_path: Path) -> None:
    path = tmp_path / "export.parquet"
    row = gcp(10.25, credits=[{"type": "DISCOUNT", "amount": -0.25, "name": "d"}])
    row |= {
        "usage_start_time": datetime(2026, 11, 2, 5, tzinfo=UTC),
        "usage_end_time": datetime(2026, 11, 2, 6, tzinfo=UTC),
    }
    pq.write_table(pa.Table.from_pylist([row]), path)
    ((found,), rejects) = read("bill-gcp", path)

    assert ({}, Decimal(10), Decimal("10.25")) == (rejects.counts, found["billed_cost"], found["contracted_cost"])
    assert ("Compute Engine", "p", "vm-1", '{"team": "ml"}', 1, "Hours") == tuple(
        found[n] for n in ("service", "sub_account", "resource_name", "tags", "gpu_count", "unit")
    )
