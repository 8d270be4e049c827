"""Names without hidden characters."""

from __future__ import annotations

import pytest

from gpuwatch.core.names import hidden_character, visible_name


@pytest.mark.parametrize("name", ["vision", "équipe 7", "Ü-Team", "団体", "a.b/c_d", "team (west)", "*"])
def test_names_that_can_be_seen_are_fine(name: str) -> None:
    assert (None, name) == (hidden_character(name), visible_name(name))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("a\x00b", "U+0000 control character at position 2", id="a control character"),
        pytest.param("a\n", "U+000A control character at position 2", id="a line end"),
        pytest.param("vis\u200bion", "U+200B ZERO WIDTH SPACE at position 4", id="zero width"),
        pytest.param("\u202evision", "U+202E RIGHT-TO-LEFT OVERRIDE at position 1", id="bidirectional"),
        pytest.param("\u2066a", "U+2066 LEFT-TO-RIGHT ISOLATE at position 1", id="an isolate"),
        pytest.param("a\ufeff", "U+FEFF ZERO WIDTH NO-BREAK SPACE at position 2", id="a byte order mark"),
        pytest.param("a\u00a0b", "U+00A0 NO-BREAK SPACE at position 2", id="a blank that is no space"),
        pytest.param("\u3164", "U+3164 HANGUL FILLER at position 1", id="a blank letter"),
        pytest.param("a\u2028", "U+2028 LINE SEPARATOR at position 2", id="a line separator"),
    ],
)
def test_a_hidden_character_is_named(name: str, expected: str) -> None:
    assert expected == hidden_character(name)
    with pytest.raises(ValueError, match="hidden character"):
        visible_name(name)
