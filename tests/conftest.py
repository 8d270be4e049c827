"""Where the checkout and the shared real inputs lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The folder that holds pyproject.toml."""
    return CHECKOUT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real inputs, or a skip that says what is absent."""
    path = Path(os.environ.get("GPUWATCH_SHARED", CHECKOUT.parent / "shared"))
    if not path.is_dir():
        pytest.skip("no shared inputs beside the checkout: set GPUWATCH_SHARED")
    return path
