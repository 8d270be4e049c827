"""Import kind `trace-gentd26`: GPU duty cycle and memory of the pods in Alibaba's GenTD26 trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import (
    CONTEXT,
    POINT,
    SERIES,
    WHOLE_GPU,
    Points,
    Records,
    Rejects,
    Rows,
    Source,
    context_key,
    device_key,
)
from gpuwatch.core.registry import importer

BLOCK_BYTES = 4 << 20
PROBE_BYTES = 64 << 10
MAX_PODS = 1_000_000
NAMESPACE = "gentd26"
VALUE, TIME, POD = "value", "timestamp_anon", "container_ip"
_NUMBER = r"^-?[0-9]{1,18}(\.[0-9]{1,17})?$"
_SECONDS = r"^[0-9]{1,12}(\.[0-9]*)?$"


@dataclass(frozen=True)
class Measure:
    """A published file: its value times `scale` is the column `field`, valid in 0..`top`."""

    stem: str
    field: str
    scale: float
    top: float


MEASURES = (
    Measure("pod_gpu_duty_cycle_anon.csv", "gpu_util_ratio", 0.01, 100.0),
    Measure("pod_gpu_memory_used_bytes_anon.csv", "fb_used_bytes", 1.0, float(2**50)),
)
OTHER_FILES = ("qps.csv", "queue_rt_raw_anon.csv")


@importer("trace-gentd26", "GenTD26 trace: the directory of pod_gpu_*_anon.csv(.gz), or one of these files")
def read(source: Source, rejects: Rejects) -> Rows:
    """Yields a context per pod (with GPU `gentd26-<pod>`, because the trace has no GPU names) and its readings.

    Columns are matched by name, because their order differs between the files. An invalid row is rejected with
    its line. Raises UnreadableInput if there is no such file or a header lacks a column.
    """
    found = _files(Path(source.path), rejects)
    pods = _Pods(source.cluster)
    for number, (measure, file) in enumerate(found):
        yield from _read_file(measure, file, number * MAX_PODS, pods, rejects)


def _files(path: Path, rejects: Rejects) -> list[tuple[Measure, Path]]:
    if not path.is_dir():
        name = path.name.removesuffix(".gz")
        if name in OTHER_FILES:
            rejects.add(f"ignored: {name} has no GPU readings", str(path), 1)
            return []
        chosen = [m for m in MEASURES if m.stem == name]
        if not chosen or not path.is_file():
            raise UnreadableInput(f"{path}: not a file of the trace; pass {' or '.join(m.stem for m in MEASURES)}(.gz)")
        return [(chosen[0], path)]
    found = []
    for measure in MEASURES:
        file = next((f for f in (path / f"{measure.stem}.gz", path / measure.stem) if f.is_file()), None)
        if file:
            found.append((measure, file))
        else:
            rejects.add(f"missing: {measure.stem}(.gz), no {measure.field}", str(path), 0)
    if not found:
        raise UnreadableInput(f"{path}: neither {' nor '.join(m.stem for m in MEASURES)}(.gz) is here")
    return found


@dataclass
class _Pods:
    """Contexts of the pods so far."""

    cluster: str
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)

    def contexts(self, names: list[str]) -> pa.Table:
        """Context rows of new pods."""
        fresh = [name for name in names if name not in self.keys]
        rows = [self._context(name) for name in fresh]
        return pa.Table.from_pylist(rows, schema=CONTEXT)

    def _context(self, pod: str) -> dict[str, object]:
        row: dict[str, object] = dict.fromkeys(CONTEXT.names)
        row |= {"cluster": self.cluster, "gpu": f"gentd26-{pod}", "gi": WHOLE_GPU, "namespace": NAMESPACE, "pod": pod}
        device = device_key(self.cluster, f"gentd26-{pod}")
        context = context_key(row)
        self.keys[pod] = device, context
        return row | {"device_id": device, "context_id": context}


def _read_file(measure: Measure, file: Path, first_series: int, pods: _Pods, rejects: Rejects) -> Rows:
    series: dict[str, int] = {}
    for batch in _batches(file, rejects):
        names_used = batch.column("pod").unique().to_pylist()
        contexts = pods.contexts(names_used)
        if contexts.num_rows:
            yield Records("context", contexts)
        for name in names_used:
            series.setdefault(name, first_series + len(series))
        if len(series) > MAX_PODS:
            raise UnreadableInput(f"{file}: more than {MAX_PODS} pods; split the file")
        yield _points(batch, names_used, series, measure, pods, file, rejects)


def _points(
    batch: pa.Table,
    names: list[str],
    series: dict[str, int],
    measure: Measure,
    pods: _Pods,
    file: Path,
    rejects: Rejects,
) -> Points:
    inside = pc.and_(pc.greater_equal(batch["value"], 0.0), pc.less_equal(batch["value"], measure.top))
    _refuse(batch, inside, f"value is outside 0..{measure.top:g}", file, rejects)
    good = batch.filter(inside)
    places = pc.index_in(good["pod"], value_set=pa.array(names, pa.string()))
    numbers = pa.array([series[name] for name in names], pa.int32())
    keys = [pods.keys[name] for name in names]
    series_rows = pa.table(
        [numbers, [k[0] for k in keys], [k[1] for k in keys], [measure.field] * len(names)],
        schema=SERIES,
    )
    values = pc.divide(good["value"], 100.0) if measure.scale != 1.0 else good["value"]
    return Points(series_rows, pa.table([pc.take(numbers, places), good["observed_us"], values], schema=POINT))


def _batches(file: Path, rejects: Rejects) -> Iterator[pa.Table]:
    """Yields (line, pod, observed_us, value) tables of the valid rows."""
    skipped: list[int] = []
    line = 2
    try:
        with _stream(file) as head:
            if b"\0" in head.read(PROBE_BYTES):
                raise UnreadableInput(f"{file}: binary, not the CSV of this trace")
        reader = _open(file, skipped, rejects)
        missing = {VALUE, TIME, POD} - set(reader.schema.names)
        if missing:
            raise UnreadableInput(
                f"{file}: line 1: no column {', '.join(sorted(missing))}; is this the published file?"
            )
        used = 0
        for raw in reader:
            lines, line, used = _lines(raw.num_rows, line, skipped, used)
            yield _typed(pa.Table.from_batches([raw]), lines, file, rejects)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        if line == 2:
            raise UnreadableInput(f"{file}: not the CSV of this trace: {_one_line(error)}") from error
        rejects.add("file breaks off", str(file), line, _one_line(error))


def _stream(file: Path) -> pa.NativeFile:
    return pa.input_stream(str(file), compression="gzip" if file.suffix == ".gz" else None)


def _open(file: Path, skipped: list[int], rejects: Rejects) -> pacsv.CSVStreamingReader:
    def refuse(row: pacsv.InvalidRow) -> str:
        number = row.number or 0
        skipped.append(number)
        rejects.add(
            f"row has {row.actual_columns} columns, not {row.expected_columns}", str(file), number, row.text or ""
        )
        return "skip"

    # With one thread only, the reader reports the number of a row that it cannot split.
    return pacsv.open_csv(
        _stream(file),
        read_options=pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
        parse_options=pacsv.ParseOptions(invalid_row_handler=refuse, ignore_empty_lines=False),
        convert_options=pacsv.ConvertOptions(
            column_types={name: pa.string() for name in (VALUE, TIME, POD)}, strings_can_be_null=False
        ),
    )


def _lines(rows: int, line: int, skipped: list[int], used: int) -> tuple[pa.Array, int, int]:
    """Line numbers of the next `rows` rows, without the lines that were skipped."""
    numbers = np.arange(line, line + rows, dtype=np.int64)
    while used < len(skipped) and rows and skipped[used] <= numbers[-1]:
        numbers[numbers >= skipped[used]] += 1
        used += 1
    return pa.array(numbers), int(numbers[-1]) + 1 if rows else line, used


def _typed(raw: pa.Table, lines: pa.Array, file: Path, rejects: Rejects) -> pa.Table:
    table = pa.table({"line": lines, "pod": raw[POD], "time": raw[TIME], "value": raw[VALUE]})
    checks: tuple[tuple[str, Callable[[pa.Table], pa.ChunkedArray]], ...] = (
        ("no pod id", lambda t: pc.greater(pc.utf8_length(t["pod"]), 0)),
        ("timestamp is not a number of seconds", lambda t: pc.match_substring_regex(t["time"], _SECONDS)),
        ("value is not a number", lambda t: pc.match_substring_regex(t["value"], _NUMBER)),
    )
    for reason, check in checks:
        mask = check(table)
        _refuse(table, mask, reason, file, rejects)
        table = table.filter(mask)
    return pa.table(
        {
            "line": table["line"],
            "pod": table["pod"],
            "observed_us": _microseconds(table["time"]),
            "value": table["value"].cast(pa.float64()),
        }
    )


def _microseconds(seconds: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimal text of seconds as whole microseconds, digit by digit, because a float is not exact."""
    parts = pc.extract_regex(seconds, r"^(?P<whole>[0-9]+)\.?(?P<part>[0-9]{0,6})")
    whole = pc.struct_field(parts, "whole").cast(pa.int64())
    part = pc.utf8_rpad(pc.struct_field(parts, "part"), width=6, padding="0").cast(pa.int64())
    return pc.add(pc.multiply(whole, 1_000_000), part)


def _refuse(table: pa.Table, good: pa.ChunkedArray, reason: str, file: Path, rejects: Rejects) -> None:
    bad = table.filter(pc.invert(good))
    if bad.num_rows:
        first = bad.slice(0, 1).to_pylist()[0]
        text = ",".join(str(value) for name, value in first.items() if name != "line")
        rejects.add(reason, str(file), first["line"], text, count=bad.num_rows)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
