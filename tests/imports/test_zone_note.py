"""What an import says about local times that it read as UTC."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.core.clock import HOUR_US
from gpuwatch.imports.zone_note import zone_note

NOW_US = 1_793_613_600_000_000
FILES = [Path("b/slurm/sacct.txt"), Path("b/slurm/scontrol_node.txt")]


@pytest.mark.parametrize(
    ("last_us", "now_us"),
    [
        pytest.param(None, NOW_US, id="a file without times of jobs"),
        pytest.param(NOW_US, NOW_US, id="nothing of the future"),
        pytest.param(NOW_US + HOUR_US // 60, NOW_US, id="a minute, as clocks differ"),
        pytest.param(NOW_US + 15 * HOUR_US, NOW_US, id="more than any zone"),
        pytest.param(NOW_US, 0, id="the time is unknown"),
    ],
)
def test_no_future_is_named(last_us: int | None, now_us: int) -> None:
    assert "future" not in zone_note(FILES, None, last_us, now_us)


def test_a_bundle_says_what_to_write_and_where() -> None:
    assert (
        "b/slurm/sacct.txt and 1 more: its times have no offset and were read as UTC; the last is 1 h 30 min in the future, as local "
        'times of a zone east of UTC are; if they are local times, write timezone = "Europe/Berlin" into b/bundle.toml, or read again with '
        "--timezone Europe/Berlin (or yours): it replaces this reading"
    ) == zone_note(FILES, Path("b"), NOW_US + 3 * HOUR_US // 2, NOW_US)


def test_a_file_names_only_the_option() -> None:
    assert "bundle.toml" not in zone_note(FILES[:1], None, NOW_US, NOW_US)
