"""Turns the mapped columns of any kind of bill into rows of BILL, and rejects invalid ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from gpuwatch.collectors.bills.cells import Cells, Wanted
from gpuwatch.collectors.bills.tables import batches
from gpuwatch.collectors.bills.values import by_value, decimals, joined, same
from gpuwatch.collectors.shared.instance_gpus import gpus_of
from gpuwatch.core.bill import BILL, BILL_FILE, MONEY
from gpuwatch.core.model import Records, Rejects, Rows, Source, hash64

PERIOD, DAYS, LINES = "period", "days", "lines"
"""What a file replaces: a billing period, the days of its rows, or nothing (it adds lines)."""
BY_PROVIDER = "by provider"
ADDING = ("gcp", "oci")
"""Providers whose exports add lines; those of the others replace older ones."""
READ_BYTES = 1 << 20
COSTS = ("billed_cost", "effective_cost", "list_cost", "contracted_cost", "quantity")

SourceColumns = Mapping[str, tuple[str, ...]]
"""The provider's names for columns of BILL, for messages about rejected rows."""
Draft = Callable[[Cells], list[tuple[Mapping[str, pa.Array], pa.Array]]]
"""Maps cells to (columns of BILL as text, or microseconds for times; record numbers). `gpu` is text that names GPUs,
`key` is text that identifies the line. If a record has several lines, each is in a list element of its own."""

_ASSEMBLY = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9]{8}T[0-9]{6}Z?|[0-9]{4}-[0-9]{2}-[0-9]{2}T.*", re.IGNORECASE
)
_PART = re.compile(r"(?:[-_.]?part[-_.]?|[-_.])[0-9]{1,12}$|0[0-9]{2,11}$", re.IGNORECASE)
_DATED = re.compile(
    r"(?<![0-9])20[0-9]{2}[-_.]?(?:0[1-9]|1[0-2])(?:[-_.]?(?:0[1-9]|[12][0-9]|3[01])(?:T?[0-9]{4,6}Z?)?)?$"
)
"""A date at the end of a name identifies a delivery; it is not the number of a part."""
_ENDINGS = (".gz", ".snappy", ".parquet", ".csv", ".json", ".jsonl", ".ndjson", ".snappy")


def lines(
    source: Source, rejects: Rejects, kind: str, scope: str, want: Wanted, draft: Draft, source_columns: SourceColumns
) -> Rows:
    """Yields the lines of a file, then the file itself, which makes them count. An invalid row is rejected.

    `scope` is what the file replaces; BY_PROVIDER means LINES if all lines are of providers in ADDING, else DAYS.
    """
    file_id = _content(source.path)
    records = 0
    adding = True
    for cells in batches(source.path, kind, want, rejects):
        for part, (columns, numbers) in enumerate(draft(cells)):
            rows = _rows(columns, numbers, part, file_id, source.path, rejects, _RejectText(cells, source_columns))
            records += rows.num_rows
            if rows.num_rows:
                adding = adding and set(rows.column("provider").unique().to_pylist()) <= set(ADDING)
                yield Records("bill", rows)
    if scope == BY_PROVIDER:
        scope = LINES if adding and records else DAYS
    file = {"file_id": file_id, "kind": kind, "name": base_name(source.path), "assembly": assembly(source)}
    yield Records("bill_file", pa.Table.from_pylist([file | {"scope": scope, "records": records}], schema=BILL_FILE))


def assembly(source: Source) -> str:
    """The delivery that a file is part of: the folder named after it, else the files that are imported together."""
    path = Path(source.path)
    for folder in reversed(path.parts[:-1]):
        if _ASSEMBLY.fullmatch(folder):
            return folder
    together = sorted({_stem(other) for other in source.beside or (source.path,)})
    return together[0] if len(together) == 1 else f"{together[0]} and others {hash64(*together):x}"


def base_name(path: str) -> str:
    """The name of a file without the endings of its format and compression."""
    name = Path(path).name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name


def _stem(path: str) -> str:
    """The name of a file with `#` in place of the number of a part."""
    name = base_name(path)
    return name if _DATED.search(name) else _PART.sub("#", name)


def _content(path: str) -> int:
    total = blake2b(digest_size=8)
    with Path(path).open("rb") as stream:
        while block := stream.read(READ_BYTES):
            total.update(block)
    return int.from_bytes(total.digest(), "big", signed=True)


@dataclass(frozen=True)
class _RejectText:
    """Describes rejected rows with the file's own column names and values."""

    cells: Cells
    source_columns: SourceColumns

    def name(self, *columns: str) -> str:
        """The file's names for columns of BILL."""
        return " and ".join(dict.fromkeys(self.cells.spelling(*self.source_columns.get(c, ())) or c for c in columns))

    def example(self, row: Mapping[str, object], columns: tuple[str, ...]) -> str:
        """The values of these columns in a row of BILL, and what identifies the row."""
        place = pc.index(self.cells.lines, pa.scalar(row["line"], self.cells.lines.type)).as_py()
        values = {self.name(c): self.cells.get(*self.source_columns.get(c, ()))[place].as_py() for c in columns}
        owner = [f"{name} {row[name]}" for name in ("account", "resource", "charge_type") if row[name] is not None]
        return ", ".join([*(f"{name}={value or ''}" for name, value in values.items()), *owner])


def _rows(
    columns: Mapping[str, pa.Array],
    numbers: pa.Array,
    part: int,
    file_id: int,
    path: str,
    rejects: Rejects,
    words: _RejectText,
) -> pa.Table:
    """The valid rows of a draft."""
    count = len(numbers)
    typed: dict[str, pa.Array] = {"line": numbers}
    wrong: list[tuple[str, tuple[str, ...], pa.Array]] = []
    for name in BILL.names:
        given = columns.get(name)
        if given is None:
            continue
        if name in COSTS and not pa.types.is_decimal(given.type):
            typed[name], bad = decimals(given)
            wrong.append((f"{words.name(name)} is not a decimal number below 10^15", (name,), bad))
        else:
            typed[name] = given
    start, end = typed["start_us"], typed["end_us"]
    times = words.name("start_us", "end_us")
    no_cost = _unknown(typed["billed_cost"], columns.get("billed_cost"))
    wrong += [
        (f"no billed cost in {words.name('billed_cost')}", ("billed_cost",), no_cost),
        (f"no currency in {words.name('currency')}", ("currency",), pc.is_null(typed["currency"])),
        (f"no time in {times}", ("start_us", "end_us"), pc.or_(pc.is_null(start), pc.is_null(end))),
        (
            f"the charge ends before it starts: {times}",
            ("start_us", "end_us"),
            pc.fill_null(pc.less(end, start), False),
        ),
    ]
    typed["line_key"] = _keys(columns["key"])
    typed |= _gpus(columns["gpu"], typed.get("instance_type"), typed.get("gpu_count"))
    typed |= {"file_id": pa.repeat(pa.scalar(file_id, pa.int64()), count)}
    typed |= {"part": pa.repeat(pa.scalar(part, pa.int32()), count)}
    table = pa.table([typed.get(f.name, pa.nulls(count, f.type)) for f in BILL], schema=BILL)
    good = pa.repeat(pa.scalar(True), count)
    for reason, about, mask in wrong:
        mask = pc.and_(mask, good)
        if refused := pc.sum(mask).as_py():
            first = table.filter(mask).slice(0, 1).to_pylist()[0]
            line = first["line"] + words.cells.above
            rejects.add(reason, path, line, words.example(first, about), count=refused)
            good = pc.and_(good, pc.invert(mask))
    return table if pc.all(good).as_py() is not False else table.filter(good)


def _unknown(amounts: pa.Array, given: pa.Array | None) -> pa.Array:
    """Rows without any amount; text that is not a number has its own message."""
    return pc.is_null(amounts) if given is None else pc.and_(pc.is_null(amounts), pc.is_null(given))


def _keys(texts: pa.Array) -> pa.Array:
    """Signed 64-bit hashes of texts."""
    return pa.array(
        [int.from_bytes(blake2b(t.encode(), digest_size=8).digest(), "big", signed=True) for t in texts.to_pylist()],
        pa.int64(),
    )


def _gpus(texts: pa.Array, instance_type: pa.Array | None, billed_count: pa.Array | None) -> dict[str, pa.Array]:
    """Instance type, number and model of GPUs; a number in the bill itself is preferred."""
    nothing = pa.nulls(len(texts), pa.string())
    coded = texts.dictionary_encode()
    found = [None if text is None else gpus_of(text) for text in coded.dictionary.to_pylist()]

    def column(values: list[object], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(coded.indices)

    kinds = column([None if g is None else g.instance_type for g in found], pa.string())
    counts = column([None if g is None else g.count for g in found], pa.int32())
    models = column([None if g is None else g.model for g in found], pa.string())
    if billed_count is not None:
        counts = pc.coalesce(billed_count, counts)
    return {
        "instance_type": pc.coalesce(instance_type if instance_type is not None else nothing, kinds),
        "gpu_count": counts,
        "gpu_model": models,
    }


def whole_number(column: pa.Array) -> pa.Array:
    """The numbers of GPUs in a column, NULL for anything but a positive whole number."""
    return by_value(column, lambda text: int(text) if re.fullmatch(r"[1-9][0-9]{0,3}", text) else None, pa.int32())


def key_of(*columns: pa.Array) -> pa.Array:
    """Text that identifies a line for which the provider has no id."""
    return joined(list(columns))


def zero(rows: int) -> pa.Array:
    """Amounts of 0."""
    return same("0", rows).cast(MONEY)


def amounts(column: pa.Array) -> pa.Array:
    """The amounts of a column; invalid cells, which are rejected elsewhere, become NULL."""
    return decimals(column)[0]
