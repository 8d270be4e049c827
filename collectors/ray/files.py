"""Import kind `ray-json`: answers of a Ray head's state API and dashboard, and `ray list ... --detail --format json`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from gpuwatch.collectors.ray.rows import Row, picture, rows
from gpuwatch.collectors.ray.state import Told
from gpuwatch.collectors.shared.json_stream import Piece, pieces
from gpuwatch.core.clock import zone
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import TABLES, Records, Rejects, Rows, Source
from gpuwatch.core.registry import importer

BATCH_ROWS = 50_000
MAX_FILES = 1000
SUFFIXES = (".json", ".json.gz")


@importer(
    "ray-json", "Ray: a directory of (or one) saved answers of api/v0, api/jobs, nodes, or ray list --format json"
)
def read(source: Source, rejects: Rejects) -> Rows:
    """Reads the answers of one head, taken together since jobs, nodes and actors lie in different ones.

    Nothing is yielded before all has been read. Raises UnreadableInput where nothing is an answer of Ray.
    """
    told = Told(zone(source.timezone))
    broken: list[str] = []
    for path in files(Path(source.path)):
        try:
            take(told, path, rejects)
        except UnreadableInput as error:
            broken.append(str(error))
            rejects.add("file cannot be read", path, 0, str(error))
    if not told.items:
        raise UnreadableInput("; ".join(broken[:3]) or f"{source.path}: no answer of Ray's state API in it")
    seen = picture(told, source.path, rejects)
    yield from batches(rows(seen, source.path, rejects), source.cluster)


def files(path: Path) -> list[str]:
    """The path itself, or the JSON files below a directory. Raises UnreadableInput."""
    if not path.is_dir():
        return [str(path)]
    found = sorted(str(p) for p in path.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES))
    if not found or len(found) > MAX_FILES:
        raise UnreadableInput(f"{path}: has {len(found)} JSON files; name a directory of 1 to {MAX_FILES} answers")
    return found


def take(told: Told, path: str, rejects: Rejects) -> None:
    """Adds the items of one file, in whatever wrapping. Raises UnreadableInput."""
    loose: dict[str, object] = {}
    for piece in pieces(path, rejects):
        if piece.key == "":
            told.add(piece.value, path, piece.line, rejects)
        elif piece.key == "data":
            for item in inside(piece, path, rejects):
                told.add(item, path, piece.line, rejects)
        elif piece.key is not None:
            loose[piece.key] = piece.value
    if {"session_name", "ray_version"} <= loose.keys():
        told.add(loose, path, 1, rejects)


def inside(piece: Piece, path: str, rejects: Rejects) -> Iterator[object]:
    """Items of the member `data` of an answer; what Ray left out for its limit is told."""
    data = piece.value if isinstance(piece.value, dict) else {}
    for name in ("result", "summary", "actors"):
        found = data.get(name)
        if isinstance(found, dict) and isinstance(found.get("result"), list):
            if cut := left_out(found):
                rejects.add("answer was cut at Ray's limit: what lies beyond it is unknown", path, piece.line, cut)
            found = found["result"]
        if isinstance(found, list):
            yield from found
        elif isinstance(found, dict) and name == "actors":
            yield from (item for item in found.values() if item is not None)


def left_out(answer: dict[str, object]) -> str | None:
    """How much of an answer of the state API its limits left out, in words; None where all is there."""
    listed = answer.get("result")
    have = len(listed) if isinstance(listed, list) else 0
    matched, total, kept = (answer.get(name) for name in ("num_filtered", "total", "num_after_truncation"))
    if isinstance(matched, int) and matched > have:
        return f"{have} of {matched}"
    if isinstance(total, int) and isinstance(kept, int) and total > kept:
        return f"{kept} of {total}"
    return None


def batches(found: Iterator[Row] | list[Row], cluster: str) -> Iterator[Records]:
    """Rows as Arrow tables of their schemas, at most BATCH_ROWS rows each, all of one cluster."""
    tables: dict[str, list[dict[str, object]]] = {}
    for table, row in found:
        tables.setdefault(table, []).append(row)
    for table, listed in tables.items():
        schema = TABLES[table]
        for at in range(0, len(listed), BATCH_ROWS):
            part = listed[at : at + BATCH_ROWS]
            columns: dict[str, list[object]] = {name: [row.get(name) for row in part] for name in schema.names}
            columns["cluster"] = [cluster] * len(part)
            yield Records(table, pa.Table.from_pydict(columns, schema=schema))
