"""Real inputs end to end: recorded scrapes, Slurm texts and a published trace against small readings of their own."""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing import chargeback
from gpuwatch.core.clock import MINUTE_US, SECOND_US, Window
from gpuwatch.core.fields import columns
from gpuwatch.imports.files import ImportReport, import_paths
from gpuwatch.ledger import attribution
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.idle_held import idle_held_runs

SETTINGS = Settings()
SCRAPES = (
    "a100_exporter_2.x_short",
    "a100_mig_1g.5gb",
    "l40s_x1_upcloud",
    "l40s_x2_viettel",
    "l4_x1_kops",
    "t4_x1_ericsson",
    "t4_x1_rafay",
)
MIB = 2**20
UNITS = {
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_util_ratio", 0.01),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("mem_copy_util_ratio", 0.01),
    "DCGM_FI_DEV_GPU_TEMP": ("gpu_temp_celsius", 1),
    "DCGM_FI_DEV_POWER_USAGE": ("power_watts", 1),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock_mhz", 1),
    "DCGM_FI_DEV_MEM_CLOCK": ("mem_clock_mhz", 1),
    "DCGM_FI_DEV_FB_USED": ("fb_used_bytes", MIB),
    "DCGM_FI_DEV_FB_FREE": ("fb_free_bytes", MIB),
    "DCGM_FI_DEV_XID_ERRORS": ("xid_code", 1),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gr_engine_ratio", 1),
    "DCGM_FI_PROF_SM_ACTIVE": ("sm_active_ratio", 1),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor_active_ratio", 1),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("dram_active_ratio", 1),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("pcie_tx_bytes_per_s", 1),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("pcie_rx_bytes_per_s", 1),
}
"""The usual fields of a default exporter: column and factor, written down here a second time."""


@pytest.fixture
def books(tmp_path: Path) -> Iterator[tuple[Store, State]]:
    directory = tmp_path / "data"
    with Store.open(directory, threads=2) as store, State.open(directory) as state:
        yield store, state


def load(books: tuple[Store, State], kind: str, *paths: Path) -> ImportReport:
    return import_paths(*books, kind, paths, cluster="c1", now_us=0)


def naive_scrape(file: Path) -> dict[tuple[str, int, str], float]:
    """(GPU, instance, column) -> value of the usual fields, by regular expression."""
    found: dict[tuple[str, int, str], float] = {}
    for name, labels, value in re.findall(r"^(DCGM_\w+)\{(.*)\} (\S+)$", file.read_text(), re.MULTILINE):
        record = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        uuid = record.get("UUID", record.get("uuid", ""))
        # A blank sentinel of DCGM (above 2^47 for every field here) is no value.
        if name in UNITS and uuid and float(value) < 2**47:
            column, factor = UNITS[name]
            found[uuid, int(record.get("GPU_I_ID") or -1), column] = float(value) * factor
    return found


@pytest.mark.parametrize("name", SCRAPES)
def test_a_recorded_scrape_becomes_exactly_its_values(books: tuple[Store, State], shared: Path, name: str) -> None:
    file = shared / "wire/dcgm" / f"{name}.prom"
    expected = naive_scrape(file)
    load(books, "openmetrics", file)
    store = books[0]
    usual = sorted({column for column, _ in UNITS.values()} & set(columns()))
    got: dict[tuple[str, int, str], float] = {}
    for column in usual:
        rows = store.sql(
            f"""select c.gpu, c.gi, s.{column}
            from sample s join context c using (context_id)
            where s.{column} is not null"""
        )
        assert len(rows) == len({(gpu, gi) for gpu, gi, _ in rows}), f"{column}: a device has two rows"
        got |= {(gpu, gi, column): value for gpu, gi, value in rows}

    assert expected, "the small reading found nothing: it would agree with an empty store"
    assert expected == pytest.approx(got, rel=1e-12)


def test_every_scrape_is_one_row_a_label_set(books: tuple[Store, State], shared: Path) -> None:
    load(books, "openmetrics", *(shared / "wire/dcgm" / f"{name}.prom" for name in SCRAPES))
    store = books[0]
    rows, contexts, keys = store.sql(
        """select count(*), (select count(*) from context), count(distinct (device_id, context_id, observed_us))
        from sample"""
    )[0]

    assert rows == keys
    assert contexts == rows, "a scrape has one instant: as many rows as label sets"


# Slurm ------------------------------------------------------------------------------------------------------------

SHARES = {"1g.10gb": Fraction(1, 7), "3g.40gb": Fraction(1, 2)}
"""Larger share of an 80 GB A100: 1 of 7 slices; 4 of 8 memory slices."""
ACCOUNTS = ("nlp", "vision")


def naive_sacct(file: Path) -> dict[str, tuple[str, Fraction]]:
    """Job -> (account, share-weighted GPU-seconds), from Start, End and AllocTRES; running jobs up to ElapsedRaw."""
    jobs: dict[str, tuple[str, Fraction]] = {}
    with file.open(newline="") as text:
        for row in csv.DictReader(text, delimiter="|"):
            tres = dict(part.split("=") for part in row["AllocTRES"].split(",") if "=" in part)
            typed = {k.removeprefix("gres/gpu:"): int(v) for k, v in tres.items() if k.startswith("gres/gpu:")}
            gpus = sum((n * SHARES.get(kind, Fraction(1)) for kind, n in typed.items()), Fraction(0))
            if gpus and row["End"] != "Unknown":
                start, end = (datetime.fromisoformat(row[k]).replace(tzinfo=UTC) for k in ("Start", "End"))
                seconds = int((end - start).total_seconds())
            else:
                seconds = int(row["ElapsedRaw"])
            if gpus * seconds:
                jobs[row["JobID"]] = row["Account"], gpus * seconds
    return jobs


SLURM_PARTS = [
    pytest.param(("sacct",), id="sacct alone"),
    pytest.param(("sacct", "job", "node"), id="sacct first then scontrol"),
    pytest.param(("node", "job", "sacct"), id="scontrol first then sacct"),
]


@pytest.mark.parametrize("parts", SLURM_PARTS)
def test_recorded_slurm_jobs_have_the_gpu_seconds_of_sacct(
    books: tuple[Store, State], shared: Path, parts: tuple[str, ...]
) -> None:
    folder = shared / "wire/slurm/recorded_22.05"
    files = {
        "sacct": ("sacct", "sacct_P_X.txt"),
        "job": ("scontrol", "scontrol_show_job_d.txt"),
        "node": ("scontrol", "scontrol_show_node_d.txt"),
    }
    # The GPU type of a MIG slice is told by its node only.
    if parts == ("sacct",):
        expected = {job: entry for job, entry in naive_sacct(folder / "sacct_P_X.txt").items() if job not in ("3", "4")}
    else:
        expected = naive_sacct(folder / "sacct_P_X.txt")
    for part in parts:
        kind, name = files[part]
        load(books, kind, folder / name)
    store, state = books
    attribution.attribute(store, "c1", SETTINGS)
    got: dict[str, Fraction] = defaultdict(Fraction)
    for job, num, den, length in store.sql(
        """select r.job_id, s.share_num, s.share_den, sum(s.end_us - s.start_us)::bigint
        from segment s join run r using (run_id) group by all"""
    ):
        if job in expected:
            got[job] += Fraction(num * length, den * SECOND_US)

    assert {job: seconds for job, (_, seconds) in expected.items()} == dict(got)

    low, high = store.sql("select min(start_us), max(end_us) from segment")[0]
    chargeback.price_all(store, state)
    bill = chargeback.chargeback(store, state, Window(low, high), ["account"])
    # Without rates, an account has a row for each price that is missing.
    totals: dict[str | None, Decimal] = defaultdict(Decimal)
    for charge in bill.items:
        if charge.kind == "allocated":
            totals[charge.group["account"]] += charge.gpu_seconds
    if parts != ("sacct",):
        for account in ACCOUNTS:
            exact = sum((s for a, s in expected.values() if a == account), Fraction(0))
            # Published amounts are rounded to a microsecond.
            assert abs(exact - Fraction(totals[account])) <= Fraction(1, SECOND_US)
        assert set(ACCOUNTS) == set(totals)


def test_running_jobs_are_held_up_to_the_last_evidence_of_their_source(
    books: tuple[Store, State], shared: Path
) -> None:
    folder = shared / "wire/slurm/recorded_22.05"
    load(books, "sacct", folder / "sacct_P_X.txt")
    store = books[0]
    attribution.attribute(store, "c1", SETTINGS)
    started = int(datetime(2026, 11, 21, 2, 8, 29, tzinfo=UTC).timestamp()) * SECOND_US
    record = dict(store.sql("select job_id, end_us from run where not ended"))

    assert {job: started + 48 * SECOND_US for job in ("1", "2", "3", "12")} == record


# GenTD26 ----------------------------------------------------------------------------------------------------------


def test_gentd26_idle_held_runs_are_those_published(books: tuple[Store, State], shared: Path) -> None:
    trace = shared / "data/gentd26_public"
    expected = json.loads((trace / "expected.json").read_text())
    load(books, "trace-gentd26", trace)
    for minutes in (15, 60):
        runs = idle_held_runs(books[0], "c1", run_us_min=minutes * MINUTE_US)
        published = [
            (f"gentd26-{pod}", start * SECOND_US, end * SECOND_US, count)
            for pod, entry in sorted(expected["pods"].items())
            for start, end, count in entry[f"idle_held_runs_ge_{minutes}min"]
        ]
        total = expected["totals"][f"ge_{minutes}min"]

        assert published == [(r.gpu, r.start_us, r.end_us, r.samples) for r in runs]
        assert total["runs"] == len(runs)
        assert total["pods"] == len({r.gpu for r in runs})
        assert total["seconds"] * SECOND_US == sum(r.end_us - r.start_us for r in runs)
        assert total["longest_s"] * SECOND_US == max(r.end_us - r.start_us for r in runs)


def test_gentd26_with_duty_and_memory_only_gives_doubtful_findings(books: tuple[Store, State], shared: Path) -> None:
    store, state = books
    trace = shared / "data/gentd26_public"
    load(books, "trace-gentd26", trace)
    report = analyze(store, state, SETTINGS, now_us=0)
    found = store.sql(
        "select detector, max(confidence), sum(wasted_units::double / wasted_den) from finding group by 1"
    )
    held = store.sql("select sum(end_us - start_us)::double from segment where run_id is not null")[0][0]

    assert [] == report.failed_rules
    # GPU_UTIL alone cannot tell use from presence: nothing is said of utilization, and idleness with half the weight.
    assert ["idle-hoarding"] == [row[0] for row in found]
    assert found[0][1] <= 0.4
    assert found[0][2] < held
