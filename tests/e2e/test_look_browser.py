"""Pictures of a page for its author: each width and scheme, drawn by the page itself."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: no browser to try pages in")

from bench.look import look
from gpuwatch.dashboards.app import mount
from tests.dashboards import fake_api
from tests.e2e.dashboard import served


@pytest.mark.skipif(not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), reason="no chromium")
def test_a_page_is_pictured_at_two_widths_in_light_and_dark(tmp_path: Path) -> None:
    app = fake_api.create("ok")
    mount(app)
    with served(app) as base:
        files = look(base, "/jobs?window=24h", tmp_path)

    assert [f"jobs-window-24h-{name}.png" for name in ("1440-light", "1440-dark", "390-light", "390-dark")] == [
        file.name for file in files
    ]
    assert [1440, 1440, 390, 390] == [struct.unpack(">I", file.read_bytes()[16:20])[0] for file in files]
    assert 4 == len({file.read_bytes() for file in files})
