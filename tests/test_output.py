"""Tables, JSON and CSV of the same rows."""

from __future__ import annotations

import json

import pytest

from gpuwatch.errors import UsageError
from gpuwatch.output import Listing, choose, render, visible

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
    text = render(LISTING, "table", 100)

    assert "\x1b" not in text
    assert "a\\x1b[31m" in text
    assert "Held idle" in text


def test_json_keeps_values_as_they_are() -> None:
    assert {"items": [dict(LISTING.items[0])], "total": "1"} == json.loads(render(LISTING, "json", 100))


def test_csv_writes_nested_values_as_json() -> None:
    assert ["team,bucket,tags", 'a\x1b[31m,hoarded,"[""x""]"'] == render(LISTING, "csv", 100).splitlines()


def test_visible_leaves_letters_alone() -> None:
    assert "Jürgen\\n" == visible("Jürgen\n")
