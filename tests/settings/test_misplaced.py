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
        pytest.param(
            '[[channel]]\nname = "x"\nurl = "https://example.com/x"\nanalyze_interval_s = 60\nallow_private = []\n',
            "[[channel]] 1: channel x: analyze_interval_s is not known; it belongs in [gpuwatch]; "
            "allow_private is not known; it belongs in [alerts]",
            id="general ones in a channel",
        ),
        pytest.param(
            "[alerts]\nallow_private = []\nseverity_min = 'low'\npublic_url = 'x'\nfile_sd = []\nnothing = 1\n",
            "[alerts] severity_min: it belongs in [[channel]]; [alerts] public_url: it belongs in [gpuwatch]; "
            "[alerts] file_sd: it belongs in [[dcgm]]; [alerts] has one setting: allow_private",
            id="those of other tables in alerts",
        ),
        pytest.param(
            "[gpuwatch]\nallow_private = []\nrepeat_hours = 1\n",
            "allow_private in {path} is unknown; it belongs in [alerts]",
            id="one of alerts",
        ),
        pytest.param(
            '[[ray]]\nurl = "http://127.0.0.1:8265"\nsigning_secret_file = "x"\n',
            "[[ray]] 1 signing_secret_file: is not an option of this table; it belongs in [[channel]]",
            id="of a channel in a source",
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
