"""The records of a cloud bill: its lines and its files."""

from __future__ import annotations

import pyarrow as pa

MONEY = pa.decimal128(38, 18)
"""An amount of a bill: exact to 18 places."""

BILL = pa.schema(
    [
        ("file_id", pa.int64()),  # hash of the file's content
        ("line", pa.int64()),  # record of the file, the first after the header is 1
        ("part", pa.int32()),  # number of the charge in a record with several (credits of a GCP row), else 0
        ("line_key", pa.int64()),  # hash of the line's natural key
        ("provider", pa.string()),  # aws | azure | gcp | oci, or the name in a FOCUS file
        ("account", pa.string()),  # that pays: payer, billing account, tenancy
        ("sub_account", pa.string()),  # that used it: usage account, subscription, project, compartment
        ("invoice", pa.string()),
        ("billing_start_us", pa.int64()),
        ("billing_end_us", pa.int64()),
        ("start_us", pa.int64()),  # the charge is for [start_us, end_us)
        ("end_us", pa.int64()),
        ("resource", pa.string()),
        ("resource_name", pa.string()),
        ("service", pa.string()),
        ("sku", pa.string()),
        ("instance_type", pa.string()),
        ("description", pa.string()),
        ("region", pa.string()),
        ("category", pa.string()),  # Usage | Purchase | Tax | Credit | Adjustment, as in FOCUS
        ("charge_type", pa.string()),  # the provider's name
        ("pricing", pa.string()),  # Standard | Committed | Dynamic | Other
        ("commitment", pa.string()),
        ("commitment_status", pa.string()),  # Used | Unused
        ("billed_cost", MONEY),  # as on the invoice
        ("effective_cost", MONEY),  # with purchases spread over the usage they cover, NULL unknown
        ("list_cost", MONEY),
        ("contracted_cost", MONEY),
        ("currency", pa.string()),
        ("quantity", MONEY),
        ("unit", pa.string()),  # "Hours" for hours of an instance or a GPU, else the provider's name
        ("tags", pa.string()),  # JSON object
        ("gpu_count", pa.int32()),  # GPUs per unit of quantity, NULL unknown
        ("gpu_model", pa.string()),
    ]
)
"""A line of a cloud bill."""

BILL_FILE = pa.schema(
    [
        ("file_id", pa.int64()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("assembly", pa.string()),  # files of the same assembly complement each other, another assembly replaces them
        ("scope", pa.string()),  # what it replaces: period (all of it), days (its own), lines (nothing: it adds lines)
        ("records", pa.int64()),
    ]
)
"""A file of a bill, written after all its lines."""
