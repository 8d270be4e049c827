"""The pictures of the tour: each page has one, and they stay small."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from bench import screenshots

TOUR = Path(__file__).parents[2] / "docs" / "get-started" / "tour.md"


def test_the_tour_shows_every_picture_once() -> None:
    shown = re.findall(r"!\[[^\]]{20,}\]\(tour/(\w+)\.png\)", TOUR.read_text("utf-8"))

    assert sorted(screenshots.PAGES) == sorted(shown)


def test_pictures_are_pngs_of_one_size_and_small() -> None:
    heads = {path.stem: path.read_bytes()[:24] for path in sorted(screenshots.OUT.iterdir())}

    assert sorted(screenshots.PAGES) == sorted(heads)
    assert {(screenshots.WIDTH, screenshots.HEIGHT)} == {struct.unpack(">II", head[16:24]) for head in heads.values()}
    screenshots.check(screenshots.OUT)
