"""What tests of several detectors share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.detectors import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """An empty fleet."""
    made = World(tmp_path)
    yield made
    made.store.close()
