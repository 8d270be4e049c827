"""Links within a node, from the matrix that `nvidia-smi topo -m` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

from gpuwatch.collectors.shared.json_fields import compact_json
from gpuwatch.collectors.shared.records import Row, batches
from gpuwatch.collectors.shared.text_files import MAX_FILE_BYTES, Lines, numbered_lines
from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

MAX_DEVICES = 1024

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LEVEL = re.compile(r"X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS")
_NUMBERED = re.compile(r"(?:GPU|NIC)\d+")
_LEGEND = re.compile(r"\s*(NIC\d+)\s*:\s*(\S+)\s*")
_OBSERVED = re.compile(r"\s*#\s*observed[:\s]\s*(\S+)\s*")
_AFFINITIES = {"CPU Affinity": "cpu_affinity", "NUMA Affinity": "numa_affinity", "GPU NUMA ID": "gpu_numa_id"}
"""Columns after the devices, and their keys in `detail`."""

_OLD_NAMES = {"SOC": "SYS"}


@dataclass
class Matrix:
    """A parsed matrix: level by (row, column), and text by device and key."""

    devices: list[str]
    columns: list[str]
    levels: dict[tuple[str, str], str] = field(default_factory=dict)
    details: dict[str, dict[str, str]] = field(default_factory=dict)
    observed_us: int | None = None
    """When it was printed, if the text has a date."""


@importer("topo", "links of a node: `nvidia-smi topo -m`, one file per node, named after it", (".txt", ".txt.gz"))
def read_topo(source: Source, rejects: Rejects) -> Rows:
    """Links of the node that the file is named after."""
    yield from batches(parse_topo(numbered_lines(source.path, rejects, MAX_FILE_BYTES), source, rejects))


def parse_topo(lines: Lines, source: Source, rejects: Rejects) -> Iterator[Row]:
    """Yields `link` rows: one per unordered pair of devices, and one per device with itself at level X.

    The latter's `detail` is JSON with cpu_affinity, numa_affinity, gpu_numa_id and, for a network card, nic (its
    real name). A line `# observed 2026-11-21T02:08:29Z` sets the time of the matrix. A pair may be present in one
    direction only; if the two directions differ, it is rejected, like a row that is truncated or missing. Raises
    UnreadableInput for text without such a matrix.
    """
    matrix = _matrix(lines, source.path, rejects)
    node = node_name(source.path)
    observed_us = source.observed_us if matrix.observed_us is None else matrix.observed_us
    shared = {"cluster": source.cluster, "observed_us": observed_us, "node": node}
    if missing := [device for device in matrix.devices if (device, device) not in matrix.levels]:
        rejects.add("device in the header without a complete row", source.path, 0, ", ".join(missing), len(missing))
    for i, a in enumerate(matrix.devices):
        yield "link", shared | {"a": a, "b": a, "level": "X", "detail": compact_json(matrix.details.get(a, {}))}
        for b in matrix.devices[i + 1 :]:
            there, back = matrix.levels.get((a, b)), matrix.levels.get((b, a))
            if there and back and there != back:
                rejects.add("matrix is not symmetric", source.path, 0, f"{a}-{b} {there}, {b}-{a} {back}")
            elif level := there or back:
                yield "link", shared | {"a": a, "b": b, "level": level, "detail": "{}"}


def node_name(path: str) -> str:
    """The node of a file: its name without .gz and .txt."""
    return PurePath(path).name.removesuffix(".gz").removesuffix(".txt")


def date_of(line: str, path: str, number: int, rejects: Rejects) -> int | None:
    """The time in a comment `# observed 2026-11-21T02:08:29Z` in µs; None for other lines and invalid dates."""
    match = _OBSERVED.fullmatch(line)
    if match is None:
        return None
    try:
        return parse_rfc3339(match[1])
    except (ValueError, OverflowError):
        rejects.add("date of a topology is not an RFC 3339 time", path, number, line)
        return None


def _matrix(lines: Lines, path: str, rejects: Rejects) -> Matrix:
    matrix: Matrix | None = None
    dated: int | None = None
    for number, raw in lines:
        line = _ESCAPE.sub("", raw).rstrip()
        name = next(iter(line.split()), "")
        if line.startswith("#"):
            dated = date_of(line, path, number, rejects) or dated
        elif legend := _LEGEND.fullmatch(line):
            if matrix and legend[1] in matrix.devices:
                matrix.details.setdefault(legend[1], {})["nic"] = legend[2]
        elif _is_header(line):
            if matrix:
                rejects.add("second matrix in one file", path, number, line)
                break
            matrix = _header(line, path)
        elif matrix and name in matrix.devices:
            _add_row(matrix, name, line, path, number, rejects)
        elif matrix and _NUMBERED.fullmatch(name):
            rejects.add("row of a device that is not in the header", path, number, line)
    if matrix is None:
        raise UnreadableInput(f"{path}: no matrix of `nvidia-smi topo -m`; run it on the node and save its output")
    matrix.observed_us = dated
    return matrix


def _is_header(line: str) -> bool:
    """Whether a line starts with devices and is not a row: `GPU0 GPU1 ...`, or `GPU0 CPU Affinity ...`."""
    words = line.split()
    if not words or not _NUMBERED.fullmatch(words[0]):
        return False
    return len(words) > 1 and (bool(_NUMBERED.fullmatch(words[1])) or words[1] == "CPU" or not _is_level(words[1]))


def _header(line: str, path: str) -> Matrix:
    found = sorted((line.find(title), key) for title, key in _AFFINITIES.items() if title in line)
    devices = line[: found[0][0]].split() if found else line.split()
    if len(devices) > MAX_DEVICES or len(set(devices)) != len(devices):
        raise UnreadableInput(f"{path}: header with a duplicate device, or with more than {MAX_DEVICES}")
    own = {device: {"nic": device} for device in devices if not _NUMBERED.fullmatch(device)}
    return Matrix(devices, [key for _, key in found], details=own)


def _add_row(matrix: Matrix, name: str, line: str, path: str, number: int, rejects: Rejects) -> None:
    """Adds a row: its levels, then its affinities by position (only between tabs a column may be blank)."""
    cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
    cells = cells[cells.index(name) + 1 :] if name in cells else cells
    width = len(matrix.devices)
    levels = [_OLD_NAMES.get(cell, cell) for cell in cells[:width]]
    if (name, name) in matrix.levels:
        rejects.add("duplicate row of a device", path, number, line)
        return
    if len(levels) < width or not all(_LEVEL.fullmatch(level) for level in levels):
        rejects.add("row is truncated or has an unknown level", path, number, line)
    for device, level in zip(matrix.devices, levels, strict=False):
        if _LEVEL.fullmatch(level) and (level == "X") == (device == name):
            matrix.levels[name, device] = level
    detail = matrix.details.setdefault(name, {})
    for key, text in zip(matrix.columns, cells[width:], strict=False):
        if text and text != "N/A":
            detail[key] = text


def _is_level(word: str) -> bool:
    return bool(_LEVEL.fullmatch(_OLD_NAMES.get(word, word)))
