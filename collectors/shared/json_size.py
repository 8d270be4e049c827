"""Estimates how much memory a JSON text takes once it is parsed, without parsing it."""

from __future__ import annotations

import numpy as np

MAX_PARSED_BYTES = 128 * 1024 * 1024
"""Limit of the estimate for one text. It is reached by about 5,000 Kubernetes pods, or by 8 MiB of empty lists."""
OBJECT_BYTES, LIST_BYTES, VALUE_BYTES, KEY_BYTES = 150, 64, 64, 60
"""Memory of one of each in CPython, as measured."""


def parsed_bytes(text: bytes) -> int:
    """About how many bytes a parsed text takes, with the text itself as characters. Punctuation inside texts counts too."""
    return (
        len(text) * _character_bytes(text)
        + text.count(b"{") * OBJECT_BYTES
        + text.count(b"[") * LIST_BYTES
        + text.count(b",") * VALUE_BYTES
        + text.count(b":") * KEY_BYTES
    )


def _character_bytes(text: bytes) -> int:
    """Bytes that Python uses for every character of a text in UTF-8, by its widest one."""
    if text.isascii():
        return 1
    widest = int(np.frombuffer(text, np.uint8).max())
    return 4 if widest >= 0xF0 else 2
