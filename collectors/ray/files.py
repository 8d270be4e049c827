"""Import kind `ray-json`: responses of a Ray head's state API and dashboard, or of `ray list --detail --format json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuwatch.collectors.ray.heads import File, by_head
from gpuwatch.collectors.ray.rows import head_state, rows
from gpuwatch.collectors.ray.state import Responses
from gpuwatch.collectors.shared.json_stream import Element, elements
from gpuwatch.collectors.shared.records import Row, batches
from gpuwatch.core.clock import zone
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

MAX_FILES = 1000
SUFFIXES = (".json", ".json.gz")


@importer(
    "ray-json",
    "Ray: a saved response (or a directory of them) of api/v0, api/jobs, nodes, or ray list --format json",
    naive_times=True,
)
def read_ray_files(source: Source, rejects: Rejects) -> Rows:
    """Reads all responses of one head together, because jobs, nodes and actors are in different ones.

    Rows are yielded once everything has been read. Raises UnreadableInput if no file has a response of Ray, or one may
    be from several heads.
    """
    found: list[File] = []
    broken: list[str] = []
    for path in files(Path(source.path)):
        file = File(path, Responses(zone(source.timezone)))
        try:
            add_file(file.responses, path, rejects)
        except UnreadableInput as error:
            broken.append(str(error))
            rejects.add("file cannot be read", path, 0, str(error))
        if file.responses.items:
            found.append(file)
    if not found:
        raise UnreadableInput("; ".join(broken[:3]) or f"{source.path}: contains no response of Ray's state API")
    for responses in by_head(found, source.path, rejects):
        head = head_state(responses, source.path, rejects)
        found_rows = _with_printed(rows(head, source.path, rejects), responses)
        yield from batches(with_cluster(found_rows, source.cluster))
        rejects.naive_times |= bool(responses.printed)


_FIRST = {"claim": "start_us", "pending": "submit_us"}
"""The time by which a reading of a record in another zone is recognized."""


def _with_printed(found: Iterable[Row], responses: Responses) -> Iterator[Row]:
    """The rows with their first time as it was printed, where it was printed without an offset."""
    for table, row in found:
        yield table, row | responses.as_printed(row.get(_FIRST.get(table, "")))


def files(path: Path) -> list[str]:
    """The path itself, or the JSON files below a directory. Raises UnreadableInput."""
    if not path.is_dir():
        return [str(path)]
    found = sorted(str(p) for p in path.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES))
    if not found or len(found) > MAX_FILES:
        raise UnreadableInput(f"{path}: has {len(found)} JSON files; pass a directory with 1 to {MAX_FILES} of them")
    return found


def add_file(responses: Responses, path: str, rejects: Rejects) -> None:
    """Adds the items of a file: a list, a response, or an object with the version. Raises UnreadableInput."""
    members: dict[str, object] = {}
    for piece in elements(path, rejects):
        if piece.key == "":
            responses.add(piece.value, path, piece.line, rejects)
        elif piece.key == "data":
            for item in items_of(piece, path, rejects):
                responses.add(item, path, piece.line, rejects)
        elif piece.key is not None:
            members[piece.key] = piece.value
    if {"session_name", "ray_version"} <= members.keys():
        responses.add(members, path, 1, rejects)


def items_of(piece: Element, path: str, rejects: Rejects) -> Iterator[object]:
    """Items in the member `data` of a response; rejects note what Ray omitted because of its limit."""
    data = piece.value if isinstance(piece.value, dict) else {}
    for name in ("result", "summary", "actors"):
        found = data.get(name)
        if isinstance(found, dict) and isinstance(found.get("result"), list):
            if part := truncation(found):
                rejects.add("response was truncated at Ray's limit: the rest is unknown", path, piece.line, part)
            found = found["result"]
        if isinstance(found, list):
            yield from found
        elif isinstance(found, dict) and name == "actors":
            yield from (item for item in found.values() if item is not None)


def truncation(response: dict[str, object]) -> str | None:
    """Which part of a response of the state API is included, None if it is complete."""
    listed = response.get("result")
    have = len(listed) if isinstance(listed, list) else 0
    matched, total, kept = (response.get(name) for name in ("num_filtered", "total", "num_after_truncation"))
    if isinstance(matched, int) and matched > have:
        return f"{have} of {matched}"
    if isinstance(total, int) and isinstance(kept, int) and total > kept:
        return f"{kept} of {total}"
    return None


def with_cluster(found: Iterable[Row], cluster: str) -> Iterator[Row]:
    """The rows with the cluster filled in."""
    return ((table, row | {"cluster": cluster}) for table, row in found)
