"""Plain English in identifiers and text: words that stand for anything are refused."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from pathlib import Path

from tests.house.source_tree import FOLDERS, ROOT, SOURCES

REFUSED = {"told", "said", "spoken", "reckon", "reckoned", "reckons", "anew", "dear", "dearest"}
"""They name a variable "what somebody told", whatever it holds: rows, labels, a response, a message."""
PUBLIC = {"said", "told", "told_source"}
"""Keys of the API: sentences of the scorecard, and the place that a disputed topology source gives."""
TEXT_MAX = 35
"""Refused words left in code, queries and documentation, public keys and released migrations included."""

_PARTS = re.compile(r"_|(?<=[a-z])(?=[A-Z])")
_ANYWHERE = re.compile("|".join(REFUSED), re.IGNORECASE)
_WORD = re.compile(r"\b(told|said|spoken|reckon|anew|dear|dearest)\b", re.IGNORECASE)


def refused_names(path: Path) -> set[str]:
    """Identifiers of a module with a refused word in them."""
    text = path.read_text("utf-8")
    if not _ANYWHERE.search(text):
        return set()
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    return {name for name in names if REFUSED & {part.lower() for part in _PARTS.split(name)}}


def test_refused_words_are_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("told = 1\nas_said = NotTold = 2\nuntold = dearth = 'said'\n", "utf-8")

    assert {"told", "as_said", "NotTold"} == refused_names(module)


def test_identifiers_say_what_they_hold() -> None:
    found = {str(path.relative_to(ROOT)): refused_names(path) - PUBLIC for path in SOURCES.values()}

    wrong = {path: names for path, names in found.items() if names}

    assert {} == wrong, "name these after what they hold: rows, labels, a response, a message"


def test_text_is_plain() -> None:
    """Words, not identifiers only: comments, docstrings, messages, queries and pages."""
    files = [path for folder in (*FOLDERS, "sql", "docs") for path in (ROOT / folder).rglob("*") if path.is_file()]
    texts = {path: path.read_bytes() for path in [*files, ROOT / "README.md"] if path.suffix in {".py", ".sql", ".md"}}
    counts = Counter({str(path.relative_to(ROOT)): len(_WORD.findall(text.decode())) for path, text in texts.items()})

    lines = "\n".join(f"{path}: {count}" for path, count in sorted(counts.items()) if count)

    assert TEXT_MAX >= counts.total(), (
        f"{_WORD.pattern}: one more than before; write another word. `git diff` shows where:\n{lines}"
    )
