"""Counting fields on the wire: what is over a limit is found before a parser builds anything."""

from __future__ import annotations

import pytest

from bench.remote_write import field
from gpuwatch.collectors.push import wire_count
from gpuwatch.collectors.push.wire_count import TooManyFields, check

EMPTY = b"\x0a\x00"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(EMPTY * 3, id="as many as allowed"),
        pytest.param(b"\x1a\x00" * 9, id="another field"),
        pytest.param(field(2, EMPTY * 9), id="a field within another"),
        pytest.param(field(2, bytes(300)) + EMPTY * 3, id="a length of two bytes"),
        pytest.param(b"\x10\xff\xff\x01" + b"\x19" + EMPTY * 4 + b"\x1d" + EMPTY * 2 + EMPTY * 3, id="numbers that look like it"),
        pytest.param(b"\x0a", id="torn after a tag"),
        pytest.param(b"\x0a\xff", id="torn within a length"),
        pytest.param(b"\x0a" + b"\xff" * 12, id="a length without end"),
        pytest.param(b"", id="nothing"),
    ],
)  # fmt: skip
def test_a_message_within_its_limits_passes(message: bytes) -> None:
    check(message, {1: 3}, uncounted=0)


@pytest.mark.parametrize(
    ("message", "number"),
    [
        pytest.param(EMPTY * 4, 1, id="one too many"),
        pytest.param((EMPTY + b"\x7a\x00") * 4, 1, id="unknown fields between"),
        pytest.param((b"\x0b" + b"\x0c") * 2, 1, id="groups"),
        pytest.param(b"\x82\x80\x01\x00" + EMPTY * 4, 1, id="a tag of three bytes before"),
        pytest.param(b"\x8a\x00\x00" * 4, 1, id="tags longer than they need to be"),
        pytest.param(EMPTY * 4 + b"\x0a\xff", 1, id="torn behind them"),
        pytest.param(b"\x7a\x00" * 7, 0, id="too many fields of any kind"),
    ],
)
def test_a_message_over_a_limit_is_named(message: bytes, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_count, "MAX_FIELDS", 8 if number else 6)
    with pytest.raises(TooManyFields) as refused:
        check(message, {1: 3}, uncounted=0)

    assert number == refused.value.number


def test_packed_numbers_count_by_their_bytes() -> None:
    check(field(1, bytes(3)), {1: 3}, uncounted=0, packed=1)
    with pytest.raises(TooManyFields):
        check(field(1, bytes(2)) * 2, {1: 3}, uncounted=0, packed=1)


def test_a_small_message_is_not_counted() -> None:
    check(EMPTY * 4, {1: 3}, uncounted=8)
