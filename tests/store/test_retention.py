"""Records that live sources repeat: dropped without any change of the books."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gpuwatch.core.model import CLAIM, NODE, PENDING, Records
from gpuwatch.ledger import attribution
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store
from gpuwatch.store.retention import compact

HOUR_US = 3_600_000_000
T0_US = 1_793_577_600_000_000
SCHEMAS = {"claim": CLAIM, "pending": PENDING, "node": NODE}


def store_of(**tables: list[dict[str, object]]) -> Store:
    store = Store.open(None)
    for name, rows in tables.items():
        full = [{column: row.get(column) for column in SCHEMAS[name].names} for row in rows]
        store.append(Records(name, pa.Table.from_pylist(full, schema=SCHEMAS[name])))
    return store


def claim(**columns: object) -> dict[str, object]:
    return {
        "cluster": "c1", "scheduler": "slurm", "kind": "scontrol", "job_id": "7", "run_key": "7@1", "node": "n1",
        "device_count": 2, "device_indexes": "0,1", "start_us": T0_US, "state": "RUNNING",
    } | columns  # fmt: skip


def node(hour: int, **columns: object) -> dict[str, object]:
    return {
        "cluster": "c1", "scheduler": "slurm", "node": "n1", "observed_us": T0_US + hour * HOUR_US, "state": "up",
        "devices": '{"": 8}', "gpu_model": "h100",
    } | columns  # fmt: skip


@pytest.mark.parametrize(
    ("tables", "kept"),
    [
        pytest.param({"claim": [claim(evidence_us=1), claim(evidence_us=2, end_us=5)]}, 2, id="an end is news"),
        pytest.param({"claim": [claim(evidence_us=1), claim(evidence_us=2, job_id="8")]}, 2, id="another job is news"),
        pytest.param({"claim": [claim(evidence_us=1), claim(evidence_us=2, cluster="c2")]}, 2, id="two clusters"),
        pytest.param({"claim": [claim(evidence_us=n) for n in range(5)]}, 1, id="a heartbeat leaves its last"),
        pytest.param({"node": [node(0), node(1)]}, 2, id="first and last word of a node stay"),
        pytest.param({"node": [node(0), node(1, state="drain"), node(2)]}, 3, id="a node that changed and came back"),
        pytest.param({"node": [node(n) for n in range(9)]}, 2, id="a node that stays as it is"),
        pytest.param({"node": [node(0), node(1), node(1, node="n2"), node(2)]}, 3, id="other nodes do not interrupt"),
        pytest.param(
            {"pending": [{"cluster": "c1", "job_id": "9", "evidence_us": n} for n in (3, 1, 2)]}, 2, id="a long wait"
        ),
        pytest.param({}, 0, id="nothing at all"),
    ],
)
def test_only_repeats_go(tables: dict[str, list[dict[str, object]]], kept: int) -> None:
    store = store_of(**tables)
    given = sum(map(len, tables.values()))

    assert given - kept == compact(store)
    assert 0 == compact(store)


def test_the_newest_evidence_is_the_one_that_stays() -> None:
    store = store_of(claim=[claim(evidence_us=n) for n in (4, 9, 6)])
    compact(store)

    assert [(9,)] == store.sql("select evidence_us from claim")


def test_books_do_not_notice() -> None:
    hours = range(1, 6)
    tables = {
        "claim": [claim(evidence_us=T0_US + n * HOUR_US) for n in hours]
        + [claim(job_id="8", run_key="8@1", device_indexes="2", device_count=1, end_us=T0_US + HOUR_US)],
        "node": [node(n) for n in hours] + [node(6, state="drain", since_us=T0_US + 6 * HOUR_US)],
    }
    asked = "select device_id, start_us, end_us, run_id, free_bucket from segment order by all"
    before, after = store_of(**tables), store_of(**tables)
    attribution.attribute(before, "c1", Settings())
    assert 7 == compact(after)
    attribution.attribute(after, "c1", Settings())

    assert before.sql(asked)
    assert before.sql(asked) == after.sql(asked)
