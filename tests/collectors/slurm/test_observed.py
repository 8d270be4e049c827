"""The line `# observed` before scontrol's text: the time of the text."""

from __future__ import annotations

import pytest

from gpuwatch.collectors.slurm.scontrol import parse_scontrol
from gpuwatch.core.model import Rejects, Source

NODE = "NodeName=gpu01 State=IDLE Gres=gpu:h100:8"


@pytest.mark.parametrize(
    ("first", "observed_us", "reason"),
    [
        pytest.param([], None, None, id="no line"),
        pytest.param(["# observed 1970-01-01T00:00:02Z"], 2_000_000, None, id="a time"),
        pytest.param(["# observed soon"], None, "RFC 3339", id="a time that is none is refused"),
        pytest.param(["# anything else"], None, "text before the first record", id="another comment"),
    ],
)
def test_the_time_of_the_text(first: list[str], observed_us: int | None, reason: str | None) -> None:
    rejects = Rejects()
    lines = list(enumerate([*first, NODE], 1))

    ((table, row),) = parse_scontrol(lines, Source("f", "c1", "UTC", None), rejects)

    assert ("node", observed_us) == (table, row["observed_us"])
    assert [reason is not None] == [bool(rejects.total)]
    assert all(reason in found for found in rejects.counts if reason)
