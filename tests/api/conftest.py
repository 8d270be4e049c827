"""Services for tests of the API: empty or with two teams' week, shared by a module or one a test.

Both are made once and copied: opening a copy is several times faster than migrating and analysing anew.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.api import Api, fill, open_api


@pytest.fixture(scope="session")
def empty_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that was opened once."""
    directory = tmp_path_factory.mktemp("template") / "empty"
    open_api(directory).service.stop()
    return directory


@pytest.fixture(scope="session")
def filled_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of two teams, analysed."""
    directory = tmp_path_factory.mktemp("template") / "filled"
    made = open_api(directory)
    fill(made.service)
    made.service.stop()
    return directory


def opened(template: Path, directory: Path) -> Iterator[Api]:
    """A service on a copy of a data directory, until the test is over."""
    shutil.copytree(template, directory)
    found = open_api(directory)
    yield found
    found.service.stop()


@pytest.fixture
def api(empty_data: Path, tmp_path: Path) -> Iterator[Api]:
    """An empty service, the test's own."""
    yield from opened(empty_data, tmp_path / "data")


@pytest.fixture
def books(filled_data: Path, tmp_path: Path) -> Iterator[Api]:
    """Two teams' week, the test's own: what is closed or said of it lasts."""
    yield from opened(filled_data, tmp_path / "data")


@pytest.fixture(scope="module")
def bare(empty_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An empty service that tests of a module share: they change nothing, and make no token."""
    yield from opened(empty_data, tmp_path_factory.mktemp("bare") / "data")


@pytest.fixture(scope="module")
def filled(filled_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Two teams' week that tests of a module share: what they change they undo."""
    yield from opened(filled_data, tmp_path_factory.mktemp("filled") / "data")
