"""The output of `kubectl get ... -o json` as single Kubernetes objects."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Generator, Iterator
from typing import Any

from gpuwatch.collectors.shared.json_fields import Object
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

MAX_FILE_BYTES = 1 << 28
LIST_KIND_TAIL = 4096

_Element = tuple[int, Any, str | None]

_decode = json.JSONDecoder().raw_decode
_space = re.compile(r"[ \t\r\n]*")
_ndjson = re.compile(r"\s*\{[^\n]*\}[ \t\r]*\n\s*\{")
_list_kind = re.compile(r'"kind"\s*:\s*"(\w+)List"')


def read_json_text(path: str) -> str:
    """The text of a file, plain or gzip (detected by its first bytes), UTF-8 or UTF-16.

    Raises UnreadableInput if it is missing, empty, a truncated gzip stream, or unpacks to more than MAX_FILE_BYTES.
    """
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with gzip.open(file) if packed else file as stream:
                body = stream.read(MAX_FILE_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnreadableInput(f"{path}: broken gzip stream ({error}); write the file again") from error
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror or error}; name a file that can be read") from error
    if len(body) > MAX_FILE_BYTES:
        raise UnreadableInput(
            f"{path}: larger than {MAX_FILE_BYTES} bytes unpacked; split it, e.g. one namespace a file"
        )
    if not body.strip():
        raise UnreadableInput(f"{path}: is empty; expected the output of kubectl get ... -o json")
    return body.decode(json.detect_encoding(body), errors="replace")


def iter_objects(text: str, path: str, rejects: Rejects) -> Iterator[tuple[int, Object]]:
    """Yields (line, object) for every Kubernetes object in a text, Lists unpacked.

    Takes one object, a List, a typed list (`PodList`, whose items carry no kind), a JSON array, several of these
    one after another, and NDJSON. A broken NDJSON line is refused on its own. Raises UnreadableInput with line and
    column for other broken JSON.
    """
    if _ndjson.match(text):
        yield from _json_lines(text, path, rejects)
        return
    lines = _LineCounter(text)
    try:
        at = _skip(text, 0)
        while at < len(text):
            for start, value, kind in _document(text, at):
                if value is None:
                    at = start
                else:
                    yield from _flat(lines.at(start), value, kind, path, rejects)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise UnreadableInput(f"{path}: {where}: not JSON ({error.msg}); write the file again") from error
    except RecursionError as error:
        raise UnreadableInput(f"{path}: JSON nested too deeply for a Kubernetes object") from error


class _LineCounter:
    """Line numbers of ascending offsets, counted in one pass over the text."""

    def __init__(self, text: str) -> None:
        self.text, self.offset, self.line = text, 0, 1

    def at(self, offset: int) -> int:
        self.line += self.text.count("\n", self.offset, offset)
        self.offset = offset
        return self.line


def _skip(text: str, at: int) -> int:
    match = _space.match(text, at)
    return match.end() if match else at


def _document(text: str, at: int) -> Iterator[_Element]:
    """Yields (offset, value, kind from the list) of each object and finally (end of the document, None, None).

    A List is decoded item by item, so that its items are never all in memory and each keeps its line number.
    """
    if text[at] == "[":
        end = yield from _elements(text, at, None)
    elif text[at] == "{":
        end = yield from _members(text, at)
    else:
        value, end = _decode(text, at)
        yield at, value if value is not None else {}, None
    yield _skip(text, end), None, None


def _elements(text: str, at: int, kind: str | None) -> Generator[_Element, None, int]:
    at = _skip(text, at + 1)
    if text[at : at + 1] == "]":
        return at + 1
    while True:
        value, end = _decode(text, at)
        yield at, value if value is not None else {}, kind
        end = _skip(text, end)
        if text[end : end + 1] == "]":
            return end + 1
        at = _skip(text, _expect(text, end, ","))


def _members(text: str, start: int) -> Generator[_Element, None, int]:
    item: Object = {}
    at, listed = _skip(text, start + 1), False
    while text[at : at + 1] != "}":
        key, at = _decode(text, at)
        if not isinstance(key, str):
            raise json.JSONDecodeError("Expecting property name", text, at)
        at = _skip(text, _expect(text, _skip(text, at), ":"))
        if key == "items" and text[at : at + 1] == "[":
            listed = True
            at = yield from _elements(text, at, _kind_of_list(item, text))
        else:
            item[key], at = _decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != "}":
            at = _skip(text, _expect(text, at, ","))
    if not listed:
        yield start, item, None
    return at + 1


def _kind_of_list(head: Object, text: str) -> str | None:
    """Kind of the items of a typed list, from before the items or, with sorted keys, after them."""
    kind = head.get("kind")
    if isinstance(kind, str):
        return kind.removesuffix("List") or None
    tail = _list_kind.findall(text[-LIST_KIND_TAIL:])
    return tail[-1] if tail else None


def _expect(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise json.JSONDecodeError(f"Expecting {mark!r}", text, at)
    return at + 1


def _json_lines(text: str, path: str, rejects: Rejects) -> Iterator[tuple[int, Object]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            rejects.add("line is not JSON", path, number, line)
            continue
        yield from _flat(number, value, None, path, rejects)


def _flat(line: int, value: Any, kind: str | None, path: str, rejects: Rejects) -> Iterator[tuple[int, Object]]:
    """One object as itself; a List inside an array or an NDJSON line as its items."""
    if not isinstance(value, dict):
        rejects.add("item is not an object", path, line, str(value))
    elif isinstance(value.get("items"), list) and str(value.get("kind", "")).endswith("List"):
        inner = str(value["kind"]).removesuffix("List") or None
        for item in value["items"]:
            if isinstance(item, dict):
                yield line, item if item.get("kind") else {**item, "kind": inner}
            else:
                rejects.add("item is not an object", path, line, str(item))
    else:
        yield line, value if value.get("kind") or not kind else {**value, "kind": kind}
