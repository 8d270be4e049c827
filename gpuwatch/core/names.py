"""Names that people give to things: only characters that can be seen, so that two names never look alike by hidden ones."""

from __future__ import annotations

import unicodedata

BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {chr(c) for c in range(0xFE00, 0xFE10)}
"""Letters and marks that show nothing, although Unicode counts them as printable."""


def hidden_character(text: str) -> str | None:
    """What the first character is that cannot be seen: control, bidirectional, zero-width or blank. None if there is none.

    The answer names it, e.g. `U+202E RIGHT-TO-LEFT OVERRIDE at position 3`, and never repeats the text.
    """
    for position, character in enumerate(text, 1):
        if not character.isprintable() or character in BLANK:
            name = unicodedata.name(character, "control character")
            return f"U+{ord(character):04X} {name} at position {position}"
    return None


def visible_name(text: str) -> str:
    """The name itself. Raises ValueError if it has a hidden character."""
    if (found := hidden_character(text)) is not None:
        raise ValueError(f"has the hidden character {found}; remove it")
    return text
