"""Fonts of the PDF: one of the machine's with many scripts where it has one, and others for what that lacks."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

FOLDERS = (
    "/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts", "/Library/Fonts",
    "/System/Library/Fonts", "C:/Windows/Fonts",
)  # fmt: skip
FILES_MAX = 20_000
"""Font files that are looked at."""
PAIRS = (
    ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf"),
    ("NotoSans-Regular.ttf", "NotoSans-Bold.ttf"),
    ("LiberationSans-Regular.ttf", "LiberationSans-Bold.ttf"),
    ("Arial.ttf", "Arial Bold.ttf"),
    ("arial.ttf", "arialbd.ttf"),
)
"""(regular, bold) in the order in which they are preferred; Vera, which the PDF library brings, is the last."""
BUNDLED = ("Vera.ttf", "VeraBd.ttf")
MORE = (
    "DejaVuSans.ttf", "DroidSansFallbackFull.ttf", "DroidSansFallback.ttf", "Arial Unicode.ttf", "ArialUnicode.ttf",
    "NotoSansSC-Regular.ttf", "NotoSansDevanagari-Regular.ttf", "NotoSansThai-Regular.ttf",
    "NotoSansArabic-Regular.ttf", "NotoSansHebrew-Regular.ttf",
)  # fmt: skip
"""Fonts that may have what the first lacks."""
CID = (
    ("\u3040", "\u30ff", "HeiseiKakuGo-W5"),
    ("\uac00", "\ud7a3", "HYGothic-Medium"),
    ("\u2e80", "\u9fff", "STSong-Light"),
    ("\uf900", "\ufaff", "STSong-Light"),
    ("\uff00", "\uffef", "STSong-Light"),
)
"""First and last character, and the Asian font that viewers bring: nothing of it is in the file."""
REGULAR, BOLD = "gpuwatch", "gpuwatch-bold"
SPARE = {"▲": "+", "▼": "-", "−": "-", "₹": "INR ", "₩": "KRW ", "…": "...", "“": '"', "”": '"', "·": "-"}
"""Our own signs where no font has them."""
_RIGHT_TO_LEFT = ("R", "AL")


@dataclass
class Fonts:
    """Writes text as markup with the font of each part, and remembers what no font has."""

    regular: frozenset[int]
    bold: frozenset[int]
    more: tuple[tuple[str, frozenset[int]], ...]
    lacking: set[str] = field(default_factory=set)
    borrowed: set[str] = field(default_factory=set)
    turned: bool = False

    def markup(self, text: str, bold: bool = False) -> str:
        """Text as the PDF library's paragraph markup, escaped; characters that no font has are shown as codes."""
        main = BOLD if bold else REGULAR
        parts = []
        for name, run in groupby(self._placed(self._ordered(text), main), key=lambda pair: pair[0]):
            shown = escape("".join(character for _, character in run), quote=False)
            parts.append(shown if name == main else f'<font name="{name}">{shown}</font>')
        return "".join(parts)

    def plain(self, text: str) -> str:
        """Text of the main font alone, for where there is no markup: the running header and footer."""
        return "".join(c if ord(c) in self.regular else SPARE.get(c, "?") for c in text)

    def notes(self) -> list[str]:
        """What a reader should know of names that are not drawn as they are written."""
        found = []
        if self.lacking:
            codes = " ".join(sorted(f"U+{ord(c):04X}" for c in self.lacking)[:10])
            found.append(f"No font here has some characters of names ({codes}); they are shown as codes.")
        if self.borrowed:
            found.append("Some names use an Asian font of your PDF viewer; nothing of it is in this file.")
        if self.turned:
            found.append("Names in scripts that run from right to left are drawn letter by letter, without joining.")
        if found:
            found.append("The page (HTML) and the tables beside this file have every name as it is written.")
        return found

    def _ordered(self, text: str) -> str:
        """Runs of right-to-left letters turned round, because the library draws from left to right."""
        if not any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in text):
            return text
        self.turned = True
        runs = groupby(text, key=lambda c: unicodedata.bidirectional(c) in (*_RIGHT_TO_LEFT, "NSM"))
        return "".join("".join(reversed(list(run))) if right else "".join(run) for right, run in runs)

    def _placed(self, text: str, main: str) -> Iterator[tuple[str, str]]:
        """(font, character) of a text."""
        known = self.bold if main == BOLD else self.regular
        for character in text:
            code = ord(character)
            if code in known or character in "\u00a0\u202f":
                yield main, character if code in known else " "
                continue
            found = next((name for name, codes in self._others(main) if code in codes), None) or _asian(character)
            if found is not None:
                if found.startswith(("Heisei", "HY", "ST")):
                    self.borrowed.add(found)
                yield found, character
                continue
            spare = SPARE.get(character)
            if spare is None:
                self.lacking.add(character)
            for each in spare or f"[U+{code:04X}]":
                yield main, each

    def _others(self, main: str) -> Iterable[tuple[str, frozenset[int]]]:
        return ((REGULAR, self.regular), *self.more) if main == BOLD else self.more


def fonts() -> Fonts:
    """The fonts of this machine, registered with the PDF library; each call starts with no characters used."""
    regular, bold, more = _registered()
    return Fonts(regular, bold, more)


@cache
def _registered() -> tuple[frozenset[int], frozenset[int], tuple[tuple[str, frozenset[int]], ...]]:
    from reportlab.pdfbase import pdfmetrics  # type: ignore[import-untyped]
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont  # type: ignore[import-untyped]

    found = _files()
    pairs = [(found[a], found[b]) for a, b in PAIRS if a in found and b in found]
    first = next((codes for pair in [*pairs, BUNDLED] if (codes := _pair(*pair)) is not None), None)
    if first is None:
        raise RuntimeError("the PDF library has lost its own fonts; install reportlab again")
    more = []
    for number, file in enumerate(file for file in MORE if file in found):
        known = _register(f"gpuwatch-{number}", found[file])
        if known is not None:
            more.append((f"gpuwatch-{number}", known))
    for name in dict.fromkeys(name for _, _, name in CID):
        pdfmetrics.registerFont(UnicodeCIDFont(name))
    return *first, tuple(more)


def _pair(regular: str, bold: str) -> tuple[frozenset[int], frozenset[int]] | None:
    one, other = _register(REGULAR, regular), _register(BOLD, bold)
    return None if one is None or other is None else (one, other)


def _register(name: str, file: str) -> frozenset[int] | None:
    """The characters of a font file; None where the library cannot read it."""
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFError, TTFont  # type: ignore[import-untyped]

    try:
        font: Any = TTFont(name, file)
    except (TTFError, OSError, ValueError):
        return None
    pdfmetrics.registerFont(font)
    return frozenset(font.face.charToGlyph)


def _files() -> dict[str, str]:
    """Paths of the font files that we know by name, the first of each."""
    wanted = {name for pair in PAIRS for name in pair} | set(MORE)
    found: dict[str, str] = {}
    seen = 0
    for folder in FOLDERS:
        for at, _, names in os.walk(Path(folder).expanduser()):
            seen += len(names)
            if seen > FILES_MAX:
                return found
            for name in wanted & set(names):
                found.setdefault(name, str(Path(at) / name))
    return found


def _asian(character: str) -> str | None:
    """The viewer's font of a Chinese, Japanese or Korean character."""
    return next((name for first, last, name in CID if first <= character <= last), None)
