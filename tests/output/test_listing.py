"""Tables, JSON and CSV of the same rows."""

from __future__ import annotations

import json

import pytest

from gpuwatch.core.errors import UsageError
from gpuwatch.output.listing import Listing, choose, visible
from gpuwatch.output.terminal import as_text

LISTING = Listing(
    ("team", "bucket", "tags"), [{"team": "a\x1b[31m", "bucket": "hoarded", "tags": ["x"]}], {"total": "1"}
)


@pytest.mark.parametrize(
    ("asked", "terminal", "expected"),
    [
        pytest.param(None, True, "table", id="a terminal gets a table"),
        pytest.param(None, False, "json", id="a pipe gets JSON"),
        pytest.param("csv", True, "csv", id="what is asked for wins"),
    ],
)
def test_the_format_follows_the_reader(asked: str | None, terminal: bool, expected: str) -> None:
    assert expected == choose(asked, terminal)


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(UsageError, match="yaml"):
        choose("yaml", True)


def test_a_table_shows_control_characters_and_bucket_words() -> None:
    text = as_text(LISTING, "table", 100)

    assert "\x1b" not in text
    assert "a\\x1b[31m" in text
    assert "Held idle" in text


def test_json_keeps_values_as_they_are() -> None:
    assert {"items": [dict(LISTING.items[0])], "total": "1"} == json.loads(as_text(LISTING, "json", 100))


def test_csv_writes_nested_values_as_json() -> None:
    assert ["team,bucket,tags", 'a\x1b[31m,hoarded,"[""x""]"'] == as_text(LISTING, "csv", 100).splitlines()


def test_visible_leaves_letters_alone() -> None:
    assert "Jürgen\\n" == visible("Jürgen\n")


STORY = "a long story that may well be told in several lines"
WIDE = Listing(
    ("id", "digest", "amount", "by", "why"),
    [
        {
            "id": "ri-2026-a100",
            "digest": "d" * 64,
            "amount": "1234567.123456",
            "by": "ann",
            "why": STORY,
        }
    ],
    spare=("by", "why"),
)


def test_a_table_breaks_no_number_id_or_digest() -> None:
    for width in (40, 80, 100, 120, 200):
        lines = as_text(WIDE, "table", width).splitlines()
        assert any("ri-2026-a100" in line and "d" * 64 in line and "1234567.123456" in line for line in lines), width


def test_a_table_that_fits_leaves_nothing_out_and_breaks_between_words() -> None:
    text = as_text(WIDE, "table", 130)
    assert "Not shown" not in text
    assert all(len(line) <= 130 for line in text.splitlines())
    assert set(STORY.split(" ")) <= set(text.split())


def test_a_narrow_table_leaves_out_what_matters_least_and_says_so() -> None:
    assert "Columns not shown: by, why; --format json has all." == as_text(WIDE, "table", 100).splitlines()[-1]
    assert "several" in as_text(WIDE, "csv", 100)


def test_a_table_has_durations_and_times_as_people_say_them_and_json_the_exact_ones() -> None:
    row = {
        "wait_seconds": 5400.5,
        "idle_minutes": None,
        "longest_run_hours": 50,
        "gpu_hours": 50,
        "started_at": "2026-11-21T02:08:29.123456Z",
        "window": {"start": "2026-11-01T00:00:00Z", "end": "2026-11-08T00:00:00Z"},
        "digest": "2026-11-21T02:08:29Z and more",
    }
    listing = Listing(tuple(row), [row])
    table = " ".join(as_text(listing, "table", 300).split())

    for words in ("wait", "1 h 30 min", "longest run", "2 days 2 h", "GPU-hours", "50", "2026-11-21 02:08 UTC"):
        assert words in table
    assert "2026-11-01 00:00 UTC to 2026-11-08 00:00 UTC" in table
    assert "2026-11-21T02:08:29Z and more" in table
    assert "wait seconds" not in table
    assert [row] == json.loads(as_text(listing, "json", 300))["items"]
