"""A report as blocks of text, tables and bars: what the page and the PDF both draw. Pure records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

TOTAL, SIZE = "total", "size"
"""Kinds of bars other than buckets: the total, and the relative size of a row."""


@dataclass(frozen=True)
class Headline:
    """A number with its label, exact value and change (empty: nothing to compare with)."""

    label: str
    value: str
    exact: str
    change: str


@dataclass(frozen=True)
class Bar:
    """A bar of a cell: `kind` is a bucket, TOTAL or SIZE; start and length are parts of the cell (0..1)."""

    kind: str
    start: Fraction
    length: Fraction
    words: str = ""


@dataclass(frozen=True)
class Cell:
    """What a table shows in one place: a text, after a square in a bucket's colour, or a bar."""

    text: str = ""
    swatch: str | None = None
    bar: Bar | None = None


@dataclass(frozen=True)
class Column:
    """A column: numbers are right-aligned; `wide` ones are hidden on a phone. `part` is its relative width on paper."""

    head: str
    number: bool = False
    wide: bool = False
    chart: bool = False
    label: bool = False
    part: float = 1.0


@dataclass(frozen=True)
class Row:
    """A row of a table: `kind` is "", sum (the total of the rows above) or other (the sum of the rows left out)."""

    cells: tuple[Cell, ...]
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """A table; `name` is its style: fall (the waterfall), pay, mig, plain, meanings."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    name: str = "plain"


@dataclass(frozen=True)
class Text:
    """A paragraph; `kind` is "", soft (secondary) or lead (the opening sentence)."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Numbers:
    """The headline numbers."""

    items: tuple[Headline, ...]


@dataclass(frozen=True)
class Card:
    """A finding: its severity, what it is, what it lost, what happened, whose and when, and what to do."""

    severity: str
    title: str
    lost: str
    summary: str
    about: str
    remedy: str = ""


@dataclass(frozen=True)
class Notice:
    """Things to do."""

    title: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Terms:
    """Words and what they mean here."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Pillar:
    """A column of a chart: `height` and its lower `part` are parts of the chart's height. `pale`: not all of it is known."""

    label: str
    value: str
    height: Fraction
    part: Fraction
    pale: bool = False


@dataclass(frozen=True)
class Chart:
    """Columns side by side, with a sentence for those who do not see them."""

    pillars: tuple[Pillar, ...]
    words: str


Block = Text | Heading | Numbers | Table | Card | Notice | Terms | Chart


@dataclass(frozen=True)
class Section:
    """A part with a title that is a sentence. `name` is empty, quality or how; `how` begins on a page of its own."""

    title: str
    blocks: tuple[Block, ...]
    name: str = ""


@dataclass(frozen=True)
class Document:
    """A report: its title, its window, the blocks before the first section, and the sections."""

    title: str
    window: str
    head: tuple[Block, ...]
    sections: tuple[Section, ...]
    keywords: tuple[str, ...] = field(default=())


def row(cells: Sequence[Cell | str], kind: str = "") -> Row:
    """A row of cells; a plain text is a cell of it."""
    return Row(tuple(Cell(c) if isinstance(c, str) else c for c in cells), kind)
