"""A right setting in the wrong section of gpuwatch.toml is answered with the section it belongs in."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.core.errors import UsageError
from gpuwatch.service import config


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        pytest.param(
            "[gpuwatch]\nfile_sd = []\n", "file_sd in {path} is unknown; it belongs in [[dcgm]]", id="of a source"
        ),
        pytest.param(
            '[[dcgm]]\ntargets = ["http://127.0.0.1:9400/metrics"]\nanalyze_interval_s = 60\n',
            "[[dcgm]] table 1: analyze_interval_s: is not an option of this table; it belongs in [gpuwatch]",
            id="a general one in a source",
        ),
        pytest.param(
            '[[ray]]\nurl = "http://127.0.0.1:8265"\nfile_sd = []\n',
            "[[ray]] 1 file_sd: is not an option of this table; it belongs in [[dcgm]]",
            id="of another source",
        ),
        pytest.param("[gpuwatch]\nanalyse_interval_s = 60\n", "did you mean analyze_interval_s?", id="a misspelt one"),
    ],
)
def test_the_message_names_the_section(tmp_path: Path, text: str, answer: str) -> None:
    path = tmp_path / "gpuwatch.toml"
    path.write_text(text)

    with pytest.raises(UsageError) as refused:
        config.load(path, {})

    assert answer.format(path=path) in str(refused.value)
