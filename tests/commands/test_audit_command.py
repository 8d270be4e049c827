"""gpuwatch audit: one source, files whole, exit codes, nothing left behind, and nothing fetched by the page."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from gpuwatch.audit import facts as audit_facts
from gpuwatch.cli import app, run
from gpuwatch.simulate import simulate

RUNNER = CliRunner()
NAMES = {"scorecard.html", "scorecard.pdf", "scorecard.json"}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("audit") / "bundle"
    simulate(out, gpus=8, days=0.5, seed=1, step_s=120, scenes="none")
    return out


@pytest.fixture(scope="module")
def data(bundle: Path) -> Path:
    """A data directory with the bundle, not analysed."""
    place = bundle.parent / "data"
    assert 0 == audit_free("import", "bundle", bundle, "--data", place).exit_code
    return place


def audit_free(*arguments: str | Path) -> Result:
    return RUNNER.invoke(app, [str(a) for a in arguments])


def audit(*arguments: str | Path) -> Result:
    return audit_free("audit", *arguments)


def document_of(result: Result) -> Any:
    assert 0 == result.exit_code, result.output
    return json.loads(result.stdout)


@pytest.fixture
def aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories are made."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--bundle", ".", "--data", "d"], "--bundle and --data: use only one", id="two sources"),
        pytest.param(["--data", "d", "--since", "7d"], "--since: only with --prometheus", id="since of no Prometheus"),
        pytest.param(["--bundle", ".", "--fail-on", "huge"], "--fail-on huge: use one of info", id="no severity"),
        pytest.param(["--bundle", ".", "--paper", "a5"], "--paper a5: use a4 or letter", id="no paper"),
        pytest.param(["--bundle", "nowhere"], "--bundle nowhere: no such directory", id="no bundle"),
        pytest.param(["--bundle", "."], "nothing to import", id="a bundle of nothing"),
        pytest.param(["--bundle", ".", "--format", "xml"], "xml", id="no format"),
    ],
)
def test_a_wrong_question_is_named_and_ends_with_2(
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = audit(*arguments, "--out", tmp_path / "out")

    assert 2 == result.exit_code
    assert expected in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_is_refused_before_any_work(bundle: Path, tmp_path: Path, aside: Path) -> None:
    (tmp_path / "file").write_text("")
    result = audit("--bundle", bundle, "--out", tmp_path / "file" / "deep" / "out")

    assert 2 == result.exit_code
    assert f"{tmp_path / 'file'} is a file; name a directory" in result.stderr
    assert [] == list(aside.iterdir())


def test_a_directory_without_data_ends_with_3(tmp_path: Path) -> None:
    result = audit("--data", tmp_path / "none", "--out", tmp_path / "out")

    assert 3 == result.exit_code
    assert not (tmp_path / "none").exists()


def test_a_bundle_without_gpus_is_not_graded(tmp_path: Path, aside: Path) -> None:
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices" / "rates.csv").write_text(
        "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to\n*,on_demand,2.5,2020-01-01T00:00:00Z,\n"
    )
    found = document_of(audit("--bundle", tmp_path / "prices", "--out", tmp_path / "out"))

    assert ["not graded"] * 4 == [row["grade"] for row in found["items"]]
    assert found["waste"]["cost"] is None
    assert NAMES == {path.name for path in (tmp_path / "out").iterdir()}


def test_a_bundle_is_judged_aside(bundle: Path, tmp_path: Path, aside: Path) -> None:
    """The files are written, the bundle is as it was, and no data directory stays."""
    before = sorted(path.name for path in bundle.rglob("*"))
    found = document_of(audit("--bundle", bundle, "--out", tmp_path / "out"))

    assert [] == list(aside.iterdir())
    assert before == sorted(path.name for path in bundle.rglob("*"))
    assert ["placement", "partitioning", "scheduling", "fabric"] == [row["layer"] for row in found["items"]]
    card = json.loads((tmp_path / "out" / "scorecard.json").read_text("utf-8"))
    assert found["waste"]["cost"] == card["waste"]["cost"]
    assert (tmp_path / "out" / "scorecard.pdf").read_bytes().startswith(b"%PDF")
    html = (tmp_path / "out" / "scorecard.html").read_text("utf-8")
    assert [] == re.findall(r"<script|<link|<img|<iframe|src=|href=|url\((?!#)|@import", html)
    assert "source: the bundle bundle" in html.lower()


def test_ctrl_c_leaves_nothing_behind(
    bundle: Path, tmp_path: Path, aside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(audit_facts, "read_facts", interrupted)

    assert 130 == run(["audit", "--bundle", str(bundle), "--out", str(tmp_path / "out")])
    assert [] == list(aside.iterdir())
    assert not (tmp_path / "out").exists()


def test_a_prometheus_that_does_not_answer_ends_with_3(tmp_path: Path, aside: Path) -> None:
    result = audit("--prometheus", "http://127.0.0.1:1", "--out", tmp_path / "out")

    assert 3 == result.exit_code
    assert [] == list(aside.iterdir())


def test_a_data_directory_is_analysed_first_and_can_fail(data: Path, tmp_path: Path) -> None:
    """Twice the same card; --fail-on is answered after the files are written."""
    first = document_of(audit("--data", data, "--out", tmp_path / "a"))
    again = document_of(audit("--data", data, "--out", tmp_path / "b"))
    assert first["waste"] == again["waste"]
    assert (tmp_path / "a/scorecard.pdf").read_bytes() == (tmp_path / "b/scorecard.pdf").read_bytes()

    gravest = [row["worst"] for row in first["items"] if row["worst"]]
    assert gravest, "the demo fleet hoards"
    no = audit("--data", data, "--out", tmp_path / "c", "--fail-on", "info")

    assert 1 == no.exit_code
    assert "--fail-on info" in no.stderr
    assert NAMES == {path.name for path in (tmp_path / "c").iterdir()}
    if "critical" not in gravest:
        assert 0 == audit("--data", data, "--out", tmp_path / "d", "--fail-on", "critical").exit_code


def test_the_terminal_says_what_the_first_page_says(data: Path, tmp_path: Path) -> None:
    result = audit("--data", data, "--out", tmp_path / "out", "--format", "table")

    assert 0 == result.exit_code
    assert "This fleet wastes" in result.stdout
    assert "USD" in result.stdout
    assert "1. " in result.stdout
    assert "scorecard.html" in result.stdout
