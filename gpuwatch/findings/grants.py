"""Which claim gets which ledger time: each microsecond of a bucket is granted once, by rank of the rules."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from math import lcm

import pyarrow as pa

from gpuwatch.billing.prices import price_findings
from gpuwatch.rules.rule import rules
from gpuwatch.store.database import Store

RANK = ("blind-spot", "gang-partial", "idle-hoarding", "false-utilization", "topology-blind-placement")
"""The rules whose claims are served first; the others follow in the order of their names."""
_WASTED = pa.schema([("key", pa.string()), ("units", pa.string()), ("den", pa.int64())])


def regrant(store: Store, cluster: str) -> None:
    """Grants the ledger time of the hours in claim_hour again, then updates what the findings concerned waste and cost."""
    note_short_conditions(store, cluster)
    store.run("findings/wanted", cluster=cluster)
    store.run("findings/grant", rank=list(RANK))
    store.run("findings/regrant", cluster=cluster)
    sum_waste(store, cluster)


def note_short_conditions(store: Store, cluster: str) -> None:
    """Notes in short_condition which conditions with claims in claim_hour are too short to be findings: they claim nothing."""
    lasting = [rule.id for rule in rules().values() if rule.least_us]
    store.run("views/finding_claim")
    store.run("findings/short_condition", cluster=cluster, lasting=lasting)


def sum_waste(store: Store, cluster: str) -> None:
    """Sums the granted time of the findings in regranted_finding exactly, and stores what it costs."""
    parts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in store.rows("findings/wasted", cluster=cluster):
        parts[row["key"]].append((0, 1) if row["den"] is None else (int(row["units"]), row["den"]))
    rows = []
    for key, own in parts.items():
        total = sum((Fraction(units, den) for units, den in own), Fraction(0))
        den = lcm(*(den for _, den in own))
        rows.append({"key": key, "units": str(int(total * den)), "den": den})
    with store.view("wasted_row", pa.Table.from_pylist(rows, schema=_WASTED)):
        store.run("findings/set_wasted")
    price_findings(store, cluster)
