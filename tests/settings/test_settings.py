"""Settings: defaults, sources, and every bad value named at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwatch.cli import app
from gpuwatch.core.config_file import MAX_FILE_BYTES
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.settings import Settings, load_settings, table, taken_over

RUNNER = CliRunner()
WHOLE = """
[gpuwatch]
idle_minutes = 20
[[dcgm]]
cluster = "east"
targets = ["n1:9400", "n2:9400"]
bearer_token_file = "{folder}/token"
[alerts]
allow_private = ["10.0.0.0/8"]
[[channel]]
name = "ops"
kind = "slack"
url_file = "{folder}/url"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "gpuwatch.toml"
    path.write_text(text)
    return path


def test_nothing_given_is_the_defaults() -> None:
    assert Settings() == load_settings(None, {"HOME": "/root"})
    assert ("2GB", 14, 395, 15, 10, 0.93, 0.8, 30.0, "dominant") == (
        Settings().memory_limit,
        Settings().raw_retention_days,
        Settings().minute_retention_days,
        Settings().idle_minutes,
        Settings().warm_up_minutes,
        Settings().tensor_roof,
        Settings().dram_roof,
        Settings().default_interval_s,
        Settings().mig_share_method,
    )


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, '[gpuwatch]\nidle_minutes = 20\nmemory_limit = "4 GiB"\n[collectors]\nx = 1\n')
    found = load_settings(path, {"GPUWATCH_IDLE_MINUTES": " 25 ", "GPUWATCH_TENSOR_ROOF": "0.9"}, ("collectors",))

    assert Settings(idle_minutes=25, memory_limit="4 GiB", tensor_roof=0.9) == found


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({"GPUWATCH_DATA": "/data", "GPUWATCH_SHARED": "/s"}, id="names that others read"),
        pytest.param({"GPUWATCH_SERVICE_HOST": "10.0.0.1", "GPUWATCH_PORT_8765_TCP": "tcp://"}, id="set by Kubernetes"),
        pytest.param({"GPUWATCH_THREADS": ""}, id="an empty variable is unset"),
        pytest.param({"THREADS": "x"}, id="another program's"),
    ],
)
def test_other_variables_are_left_alone(environ: dict[str, str]) -> None:
    assert Settings() == load_settings(None, environ)


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        pytest.param("idle_minutes = 0 is not a whole number from 2 to 30", "idle_minutes = 0", id="below"),
        pytest.param("threads = true", "threads = true", id="a truth value is no number"),
        pytest.param("threads = 2.0 is not a whole number", "threads = 2.0", id="a fraction"),
        pytest.param("tensor_roof = 93 is not a ratio above 0 and at most 1", "tensor_roof = 93", id="a percentage"),
        pytest.param("dram_roof = nan is not a ratio", "dram_roof = nan", id="not a number"),
        pytest.param("default_interval_s = 0 is not a number of seconds", "default_interval_s = 0", id="no interval"),
        pytest.param("memory_limit = '2' is not a size such as 2GB or 50%", 'memory_limit = "2"', id="no unit"),
        pytest.param("memory_limit = '150%' is not a size", 'memory_limit = "150%"', id="more than all memory"),
        pytest.param("temp_directory = '' is not the name of a directory", 'temp_directory = ""', id="no name"),
        pytest.param("mig_share_method = 'fair' is not one of dominant, compute, memory, sm",
                     'mig_share_method = "fair"', id="unknown method"),
        pytest.param("minute_retention_days is less than raw_retention_days", "minute_retention_days = 7",
                     id="minutes kept shorter than samples"),
        pytest.param("idle_minuts in .* is unknown; did you mean idle_minutes", "idle_minuts = 5", id="misspelt"),
    ],
)  # fmt: skip
def test_a_bad_value_names_itself(tmp_path: Path, problem: str, line: str) -> None:
    with pytest.raises(UsageError, match=problem.replace("true", "True")):
        load_settings(written(tmp_path, f"[gpuwatch]\n{line}\n"), {})


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        pytest.param(r"\[gpuwach\] in .* is unknown; did you mean gpuwatch", "[gpuwach]\n", id="a misspelt table"),
        pytest.param(r"threads in .* is outside \[gpuwatch\]", "threads = 2\n", id="a setting outside the table"),
        pytest.param("is not a table", "gpuwatch = 1\n", id="the table is a number"),
    ],
)
def test_a_wrong_place_is_named(tmp_path: Path, problem: str, text: str) -> None:
    with pytest.raises(UsageError, match=problem):
        load_settings(written(tmp_path, text), {})


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, "[gpuwatch]\nthreads = -1\nidel_minutes = 1\n")
    environ = {"GPUWATCH_WARM_UP_MINUTES": "ten", "GPUWATCH_MEMORY_LIMT": "2GB", "GPUWATCH_DRAM_ROOF": "2"}

    with pytest.raises(UsageError) as caught:
        load_settings(path, environ)

    named = ("threads", "idel_minutes", "GPUWATCH_WARM_UP_MINUTES", "GPUWATCH_MEMORY_LIMT", "dram_roof")
    assert [] == [name for name in named if name not in str(caught.value)]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="absent"),
        pytest.param(b"[gpuwatch\n", id="torn"),
        pytest.param(b"\xff\xfe", id="not UTF-8"),
        pytest.param(b"#" * (MAX_FILE_BYTES + 1), id="far too large"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "gpuwatch.toml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(UnreadableInput, match=r"gpuwatch\.toml: "):
        load_settings(path, {})


def test_every_setting_has_a_sentence() -> None:
    assert [] == [name for name, _, sentence in table() if not sentence.endswith(".")]


# One file for every command.


def test_a_command_that_only_needs_settings_leaves_sources_and_channels_alone(tmp_path: Path) -> None:
    path = written(
        tmp_path, '[gpuwatch]\nidle_minutes = 20\n[[dcgm]]\ntargets = ["n1:9400"]\n[[channel]]\nname = "x"\n'
    )

    assert Settings(idle_minutes=20) == load_settings(path, {})


def test_the_service_knows_every_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\[smoke\] in .* is unknown; known: dcgm, gpuwatch"):
        load_settings(written(tmp_path, "[smoke]\n"), {}, ("dcgm",))


def test_what_the_store_was_opened_with_waits_for_a_restart() -> None:
    running = Settings(threads=2, idle_minutes=15, raw_retention_days=14)
    found, now, later = taken_over(running, Settings(threads=4, idle_minutes=20, raw_retention_days=7))

    assert Settings(threads=2, idle_minutes=20, raw_retention_days=14) == found
    assert (["idle_minutes"], ["threads", "raw_retention_days"]) == (now, later)
    assert (running, [], []) == taken_over(running, running)


# serve --check


def checked(tmp_path: Path, text: str) -> tuple[int, str, str]:
    path = written(tmp_path, text.format(folder=tmp_path))
    done = RUNNER.invoke(app, ["serve", "--check", "--config", str(path), "--data", str(tmp_path / "data")])
    assert not (tmp_path / "data").exists(), "nothing is opened"
    return done.exit_code, done.stdout, done.stderr


def test_a_check_says_what_would_run_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret-token\n")
    (tmp_path / "url").write_text("https://hooks.slack.com/services/T0/B0/s3creturl\n")
    code, out, err = checked(tmp_path, WHOLE)

    assert (0, "") == (code, err)
    assert (
        "setting  idle_minutes = 20\n"
        "source   dcgm http://n1:9400/metrics  (cluster east, every 15 s)\n"
        "source   dcgm http://n2:9400/metrics  (cluster east, every 15 s)\n"
        "channel  ops  (slack, from medium)\n"
        "The configuration is valid: 2 sources, 1 channel.\n"
    ) == out
    assert "s3cret" not in out


def test_a_check_names_every_mistake_and_ends_with_2(tmp_path: Path) -> None:
    code, out, err = checked(tmp_path, WHOLE.replace("20", "-1") + "[smoke]\n")

    assert (2, "") == (code, out)
    named = ("idle_minutes", "token: ", "url", "[smoke]")
    assert [] == [word for word in named if word not in err], err
    assert 1 == err.count("\n")


def test_a_check_of_nothing_is_right(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["serve", "--check", "--data", str(tmp_path / "data")])

    assert (0, "The configuration is valid: 0 sources, 0 channels.\n") == (done.exit_code, done.stdout)
