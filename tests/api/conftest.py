"""Services for tests of the API: an empty one a test, a filled one a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.api_world import Api, fill, open_api


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """An empty service with its writer running."""
    opened = open_api(tmp_path / "data")
    yield opened
    opened.service.stop()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An empty service that tests of a module share: they change nothing, and make no token."""
    opened = open_api(tmp_path_factory.mktemp("bare"))
    yield opened
    opened.service.stop()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Two teams, analysed. Tests of a module share it: what they add they name for themselves."""
    opened = open_api(tmp_path_factory.mktemp("filled"))
    fill(opened.service)
    yield opened
    opened.service.stop()
