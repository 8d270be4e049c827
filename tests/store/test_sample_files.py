"""Samples as Parquet files: every value is the stored one to the bit, a file is whole or absent, and other tools read it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from gpuwatch.core.errors import StoreError, UnreadableInput, UsageError
from gpuwatch.core.fields import columns
from gpuwatch.core.model import CONTEXT, Records, context_key, device_key
from gpuwatch.imports.files import seal_all
from gpuwatch.store import sample_files
from gpuwatch.store.database import Store
from gpuwatch.store.sample_files import SampleFile, export

DAY_US = 86_400_000_000
T0_US = 1_793_577_600_000_000  # 2026-11-02, midnight
GUIDE = Path(__file__).parents[2] / "docs" / "reference" / "samples.md"


def context(cluster: str, gpu: str) -> dict[str, Any]:
    row = dict.fromkeys(CONTEXT.names) | {
        "device_id": device_key(cluster, gpu), "cluster": cluster, "gpu": gpu, "gi": -1, "node": "n1", "job": "7",
    }  # fmt: skip
    return row | {"context_id": context_key(row)}


def put(store: Store, cluster: str, gpu: str, at_us: Sequence[int], **values: Sequence[float | None]) -> None:
    """Samples of a GPU, sealed."""
    labels = context(cluster, gpu)
    store.append(Records("context", pa.Table.from_pylist([labels], schema=CONTEXT)))
    count = len(at_us)
    keys = {name: pa.array([labels[name]] * count, pa.int64()) for name in ("device_id", "context_id")}
    kinds = {"DOUBLE": pa.float64(), "BIGINT": pa.int64()}
    read = {name: pa.array(given, kinds[columns()[name].type]) for name, given in values.items()}
    store.append(Records("sample", pa.table(keys | {"observed_us": pa.array(at_us, pa.int64())} | read)))
    seal_all(store)


def put_two_days(store: Store, cluster: str = "c1") -> None:
    put(
        store,
        cluster,
        "GPU-b",
        [T0_US + 60_000_000, T0_US],
        gr_engine_ratio=[0.123456, 0.0],
        power_watts=[312.5, 70.001],
    )
    put(store, cluster, "GPU-a", [T0_US, T0_US + DAY_US], gr_engine_ratio=[1.0, None], energy_mj=[2**62, 5])


def exported(store: Store, target: Path, **options: bool) -> list[SampleFile]:
    return list(export(store, target, **options))


def types(path: Path) -> dict[str, str]:
    return {
        row[0]: row[1]
        for row in duckdb.sql(f"describe from read_parquet('{path}', hive_partitioning = false)").fetchall()
    }


def bits(store: Store, source: str, names: Sequence[str]) -> list[tuple[object, ...]]:
    """Rows with doubles as the text of their bits: -0.0 is not 0.0."""
    listed = ", ".join(f"{n}::double" if columns()[n].type == "DOUBLE" else n for n in names)
    rows = store.sql(f"select device_id, context_id, observed_us, {listed} from {source} order by 1, 3, 2")
    return [tuple(v.hex() if isinstance(v, float) else v for v in row) for row in rows]


# What is in the files.


ODD = {
    "a third": 1 / 3, "seven decimals": 0.1234567, "minus zero": -0.0, "a sum": 0.1 + 0.2, "infinite": math.inf,
    "not a number": math.nan, "large": 1e300, "tiny": 5e-324, "ten digits": 1234.0,
}  # fmt: skip


@pytest.mark.parametrize("odd", [pytest.param(value, id=name) for name, value in ODD.items()])
def test_a_value_that_no_decimal_is_keeps_its_column_as_doubles(tmp_path: Path, odd: float) -> None:
    with Store.open(None) as store:
        put(store, "c1", "GPU-a", [T0_US, T0_US + 1], gr_engine_ratio=[0.5, odd], sm_active_ratio=[0.5, 0.000001])
        (file,) = exported(store, tmp_path)

        names = ["gr_engine_ratio", "sm_active_ratio"]
        assert bits(store, "sample", names) == bits(store, f"'{file.path}'", names)
    assert ("DOUBLE", "DECIMAL(9,6)") == tuple(types(file.path)[name] for name in names)


def test_every_value_is_the_stored_one_to_the_bit(tmp_path: Path) -> None:
    ratios = [n / 1_000_000 for n in range(0, 1_000_001, 37)] + [n / 100 for n in range(101)]
    times = [T0_US + n * 1_000_000 for n in range(len(ratios))]
    with Store.open(None) as store:
        put(
            store, "c1", "GPU-a", times,
            gr_engine_ratio=ratios, power_watts=[round(r * 999_999, 3) for r in ratios],
            pcie_tx_bytes_per_s=[float(round(r * 1e13)) for r in ratios], gpu_temp_celsius=[-r // 0.01 for r in ratios],
            energy_mj=[2**62 + n for n in range(len(ratios))], sm_clock_mhz=[None, *[1980.0] * (len(ratios) - 1)],
        )  # fmt: skip
        files = {
            name: exported(store, tmp_path / name, doubles=name == "doubles")[0].path
            for name in ("decimals", "doubles")
        }
        names = [
            "gr_engine_ratio",
            "power_watts",
            "pcie_tx_bytes_per_s",
            "gpu_temp_celsius",
            "energy_mj",
            "sm_clock_mhz",
        ]
        stored = bits(store, "sample", names)
        assert len(ratios) == len(stored)
        for path in files.values():
            assert stored == bits(store, f"'{path}'", names)
    kept = types(files["decimals"])
    assert ["DECIMAL(9,6)", "DECIMAL(9,3)", "DECIMAL(18,0)", "DOUBLE", "BIGINT", "DECIMAL(9,0)"] == [
        kept[n] for n in names
    ]
    assert {"BIGINT", "DOUBLE", "TIMESTAMP WITH TIME ZONE"} == set(types(files["doubles"]).values())


def test_a_file_has_a_cluster_and_day_sorted_by_device_and_time_with_all_columns(tmp_path: Path) -> None:
    odd = "a/b c=é'"
    with Store.open(None) as store:
        put_two_days(store)
        put_two_days(store, odd)
        files = exported(store, tmp_path)
        found = duckdb.sql(
            f"select cluster, day::varchar, count(*) from read_parquet('{tmp_path}/samples/**/*.parquet', "
            "hive_partitioning = true) group by all order by all"
        )
        labels = duckdb.sql(
            f"select cluster, count(*) from '{tmp_path}/contexts/*/*.parquet' group by 1 order by 1"
        ).fetchall()
        assert [
            (c, d, n) for c in sorted(["c1", odd]) for d, n in (("2026-11-02", 3), ("2026-11-03", 1))
        ] == found.fetchall()
        assert sorted([("c1", 2), (odd, 2)]) == labels

        first = next(file for file in files if file.cluster == "c1")
        rows = duckdb.sql(f"select device_id, observed_us, epoch_us(observed_at) from '{first.path}'").fetchall()
        assert sorted(rows) == rows
        assert all(at == again for _, at, again in rows)
    assert ["device_id", "context_id", "observed_us", "observed_at"] == list(types(first.path))[:4]
    assert {*columns()} == {*list(types(first.path))[4:]}


# What is written when.


def test_only_days_that_changed_are_written_again(tmp_path: Path) -> None:
    with Store.open(None) as store:
        put_two_days(store)
        assert [True, True] == [file.written for file in exported(store, tmp_path)]
        assert [False, False] == [file.written for file in exported(store, tmp_path)]

        put(store, "c1", "GPU-a", [T0_US + DAY_US], gr_engine_ratio=[0.25])  # fills a gap of a known sample
        again = exported(store, tmp_path)
        assert [False, True] == [file.written for file in again]
        assert [(0.25,)] == duckdb.sql(f"select gr_engine_ratio::double from '{again[1].path}'").fetchall()
        assert [True, True] == [file.written for file in exported(store, tmp_path, doubles=True)]


def test_a_day_past_retention_keeps_its_file(tmp_path: Path) -> None:
    with Store.open(None) as store:
        put_two_days(store)
        first, _ = exported(store, tmp_path)
        store.sql("delete from sealed_day where day_us = $day", day=T0_US)
        store.sql("delete from sample where observed_us > $t and observed_us < $d", t=T0_US, d=T0_US + DAY_US)

        assert [T0_US + DAY_US] == [row["day_us"] for row in store.rows("store/samples/days")]
        assert [False] == [file.written for file in exported(store, tmp_path)]
    assert [(3,)] == duckdb.sql(f"select count(*) from '{first.path}'").fetchall()


@pytest.mark.parametrize("content", [b"", b"PAR1 no more", b"a" * 5000], ids=["empty", "cut", "foreign"])
def test_a_damaged_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    with Store.open(None) as store:
        put_two_days(store)
        first, _ = exported(store, tmp_path)
        whole = first.path.read_bytes()
        first.path.write_bytes(content)

        assert [True, False] == [file.written for file in exported(store, tmp_path)]
    assert whole == first.path.read_bytes()


def test_an_interruption_before_a_file_has_its_name_leaves_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(None) as store:
        put_two_days(store)
        _, second = exported(store, tmp_path)
        former = second.path.read_bytes()
        put(store, "c1", "GPU-a", [T0_US + DAY_US + 1], gr_engine_ratio=[0.25])

        on_disk: list[str] = []
        monkeypatch.setattr(sample_files, "_to_disk", lambda path: on_disk.append(path.name))
        replace = os.replace

        def cut(source: Path, to: Path) -> None:
            if to == second.path:
                assert source.name == on_disk[-1], "it has its name before it is on the disk"
                raise KeyboardInterrupt
            replace(source, to)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(os, "replace", cut)
            exported(store, tmp_path)
        assert former == second.path.read_bytes()

        assert [False, True] == [file.written for file in exported(store, tmp_path)]
    assert [] == list(tmp_path.rglob("*.partial"))


def test_targets_that_cannot_be_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with Store.open(tmp_path / "data") as store:
        put_two_days(store)
        with pytest.raises(UsageError, match=r"is inside the data directory .*data; use a directory outside it"):
            exported(store, tmp_path / "data" / "samples")
        with pytest.raises(UnreadableInput, match=r"file: Not a directory; use another directory"):
            exported(store, tmp_path / "file")
        monkeypatch.setattr(sample_files, "_to_disk", lambda path: store.sql("select * from read_parquet('/none')"))
        with pytest.raises(StoreError, match=r"out: IO Error: No files found .* use another directory"):
            exported(store, tmp_path / "out")


def test_no_samples_are_no_files(tmp_path: Path) -> None:
    with Store.open(None) as store:
        assert [] == exported(store, tmp_path)
    assert [] == list(tmp_path.iterdir())


# Other programs.


def test_the_recipes_of_the_guide_run(tmp_path: Path) -> None:
    with Store.open(None) as store:
        put_two_days(store)
        exported(store, tmp_path / "gpu-samples")
    recipes = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert 2 == len(recipes)
    for recipe in recipes:
        names: dict[str, Any] = {}
        exec(recipe.replace("gpu-samples", str(tmp_path / "gpu-samples")), names)  # noqa: S102 - our own docs
        power = {str(day): watts for day, watts in names["power"].items()}
        assert {"2026-11-02": pytest.approx((312.5 + 70.001) / 2)} == {
            d: w for d, w in power.items() if not math.isnan(w)
        }
