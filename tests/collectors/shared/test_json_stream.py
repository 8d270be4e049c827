"""Large JSON an item at a time: places, blocks that cut anywhere, bad items alone, torn files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.shared import json_stream
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects


def read(tmp_path: Path, text: str | bytes) -> tuple[list[tuple[int, str | None, Any]], Rejects]:
    file, rejects = tmp_path / "a.json", Rejects()
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return [tuple(element) for element in json_stream.elements(str(file), rejects)], rejects


@pytest.fixture(params=[1, 2, 3, 7, 1 << 20])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(json_stream, "BLOCK_BYTES", request.param)
    return int(request.param)


def test_members_and_items_come_with_their_lines(tmp_path: Path, block: int) -> None:
    text = '{\n"meta": {"a": [1, "]}"]},\n"jobs": [\n{"id": 12, "s": "\\"{é"},\n{"id": 2}\n], "n": 123, "none": []\n}\n'
    found, rejects = read(tmp_path, text)

    assert [
        (2, "meta", {"a": [1, "]}"]}),
        (4, "jobs", {"id": 12, "s": '"{é'}),
        (5, "jobs", {"id": 2}),
        (6, "n", 123),
        (7, None, frozenset({"meta", "jobs", "n", "none"})),
    ] == found
    assert 0 == rejects.total


def test_documents_may_follow_one_another(tmp_path: Path, block: int) -> None:
    found, _ = read(tmp_path, '\ufeff{"jobs": [1]}\n[{"id": 2}, 34]\n{}')

    assert [
        (1, "jobs", 1),
        (1, None, frozenset({"jobs"})),
        (2, "", {"id": 2}),
        (2, "", 34),
        (2, None, frozenset()),
        (3, None, frozenset()),
    ] == found


def test_a_bad_item_is_refused_alone(tmp_path: Path, block: int) -> None:
    found, rejects = read(tmp_path, '{"jobs": [{"id": 1},\n{"id": nonsense, "x": {}},\n{"id": 3}]}')

    assert [{"id": 1}, {"id": 3}] == [value for _, key, value in found if key == "jobs"]
    assert {"item is not JSON, or nested too deeply": 1} == rejects.counts
    assert 2 == rejects.first["item is not JSON, or nested too deeply"][1]


def test_an_item_nested_too_deeply_is_refused_alone(tmp_path: Path) -> None:
    deep = "[" * 200_000 + "]" * 200_000
    found, rejects = read(tmp_path, f'{{"jobs": [{deep}, {{"id": 3}}]}}')

    assert [{"id": 3}] == [value for _, key, value in found if key == "jobs"]
    assert 1 == rejects.total


def test_a_huge_item_is_refused_alone(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "MAX_ITEM_CHARS", 40)
    huge = json.dumps({"text": "x" * 5000 + '\\"}', "more": [{}] * 50})
    found, rejects = read(tmp_path, f'{{"jobs": [{{"id": 1}}, {huge}, {{"id": 3}}]}}')

    kept = [value for _, key, value in found if key == "jobs"]
    assert kept[0] == {"id": 1} and kept[-1] == {"id": 3}
    assert ({"item is larger than 40 characters": 1} if block < 100 else {}) == rejects.counts


def test_a_file_that_breaks_off_keeps_what_came_before(tmp_path: Path, block: int) -> None:
    found, rejects = read(tmp_path, '{"jobs": [{"id": 1},\n{"id": 2')

    assert [(1, "jobs", {"id": 1})] == found
    assert {"the file breaks off: an item does not end": 1} == rejects.counts
    assert 2 == next(iter(rejects.first.values()))[1]


def test_a_torn_gzip_keeps_what_came_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "BLOCK_BYTES", 64)
    text = json.dumps({"jobs": [{"id": number, "x": hash(number * 7.5)} for number in range(2000)]})
    found, rejects = read(tmp_path, gzip.compress(text.encode())[:-200])

    assert {"id": 0, "x": hash(0.0)} == found[0][2]
    assert 1 == rejects.total and next(iter(rejects.counts)).startswith("the file breaks off: broken gzip stream")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="an empty file"),
        pytest.param(b"  \n ", id="only space"),
        pytest.param(b"error: cannot connect", id="an error message of the command"),
        pytest.param(b"\x00\x01\x02", id="a binary file"),
        pytest.param(b'{"a', id="a torn name"),
        pytest.param(b"17", id="a number"),
        pytest.param(b"\x1f\x8b\x08\x00broken", id="a broken gzip"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: bytes, block: int) -> None:
    with pytest.raises(UnreadableInput, match=r"a\.json"):
        read(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="nothing.json"):
        list(json_stream.elements(str(tmp_path / "nothing.json"), Rejects()))
