"""The table [lake]: what is wrong with it is named at once, and secrets are shown nowhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.lake import extensions
from gpuwatch.lake.settings import LakeSettings, configured, needed
from tests.worlds.patience import PATIENCE_S

GOOD: dict[str, Any] = {"catalogue": "lake.ducklake", "data": "lake", "cell": "east"}


def test_without_a_table_there_is_no_lake() -> None:
    assert configured({}, {"GPUWATCH_LAKE_CELL": " "}) is None
    with pytest.raises(UsageError, match=r"no lake is configured: write \[lake\] with catalogue, data, cell"):
        needed({}, {})


def test_the_environment_comes_first() -> None:
    found = configured(
        {"lake": GOOD}, {"GPUWATCH_LAKE_CELL": "west", "GPUWATCH_LAKE_EVERY_S": "60", "GPUWATCH_LAKE_SAMPLES": "False"}
    )

    assert found == LakeSettings("lake.ducklake", "lake", "west", every_s=60, samples=False)
    assert "cell_west" == found.schema


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"cell": "East-1"}, r"\[lake\] cell = 'East-1' is not a name of at most 40 small letters, digits and _"),
        ({"cell": "a" * 41}, "is not a name of at most 40"),
        ({"cell": 3}, r"\[lake\] cell = 3 is not a name"),
        ({"data": ""}, "is not a directory or s3://BUCKET/PREFIX"),
        ({"data": "gs://bucket/x"}, "is not a directory or s3://"),
        ({"data": "s3://bucket/it's"}, "is not a directory or s3://"),
        ({"catalogue": ""}, r"\[lake\] catalogue = '' is not text"),
        ({"catalogue": "mysql://x/y"}, "catalogue is not the URL of a PostgreSQL database"),
        (
            {"catalogue": "postgresql://u:secret@h/d"},
            r"catalogue holds a password; put it into catalogue_password_file",
        ),
        ({"every_s": 5}, "is not a whole number of seconds from 10 to 86400"),
        ({"every_s": True}, "is not a whole number"),
        ({"pull_s": 0}, "is not a whole number of seconds from 1 to 86400"),
        ({"samples": "yes"}, "is not true or false"),
        ({"s3_endpoint": "minio:9000"}, "is not the URL of an S3 server"),
        ({"s3_endpoint": "http://key:secret@minio:9000"}, r"s3_endpoint = \(not shown: it holds an @\)"),
        ({"s3_access_key_file": "a"}, "s3_access_key_file and s3_secret_key_file: give both or none"),
        ({"bucket": "x"}, r"\[lake\] bucket: is unknown; known: catalogue, data, cell"),
        ({"raw_retention_days": 3}, r"\[lake\] raw_retention_days: it belongs in \[gpuwatch\]"),
    ],
)
def test_mistakes_are_named(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as found:
        configured({"lake": GOOD | table}, {})
    assert "secret" not in str(found.value).replace("s3_secret_key_file", "")


def test_everything_that_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match=r"\[lake\] catalogue is missing; \[lake\] data is missing"):
        configured({"lake": {"cell": "east"}}, {})
    with pytest.raises(UsageError, match=r"lake: write \[lake\] on a line of its own"):
        configured({"lake": "x"}, {})


def test_a_process_that_only_reads_needs_no_name() -> None:
    table = {"lake": {"catalogue": "lake.ducklake", "data": "lake"}}

    assert LakeSettings("lake.ducklake", "lake") == needed(table, {}, cell=False)
    with pytest.raises(UsageError, match=r"\[lake\] cell is missing: the name under which this process publishes"):
        needed(table, {})


def test_secrets_come_from_files_or_the_environment(tmp_path: Path) -> None:
    for name in ("password", "access", "secret"):
        (tmp_path / name).write_text(f"{name}-value\nmore\n")
    files = {"catalogue_password_file": "password", "s3_access_key_file": "access", "s3_secret_key_file": "secret"}
    found = needed(
        {"lake": GOOD | {option: str(tmp_path / name) for option, name in files.items()}}, {"PGPASSWORD": "other"}
    )
    assert ("password-value", ("access-value", "secret-value", "")) == (found.password(), found.keys())

    environ = {"PGPASSWORD": "pg", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c"}
    found = needed({"lake": GOOD}, environ)
    assert ("pg", ("a", "b", "c")) == (found.password(), found.keys())
    assert "AWS" not in repr(found) and "pg" not in repr(found)
    assert needed({"lake": GOOD}, {}).keys() is None

    (tmp_path / "password").write_text("\n")
    found = needed({"lake": GOOD | {"catalogue_password_file": str(tmp_path / "password")}}, {})
    with pytest.raises(UnreadableInput, match="catalogue_password_file: .*is empty"):
        found.password()
    found = needed({"lake": GOOD | {"catalogue_password_file": str(tmp_path / "none")}}, {})
    with pytest.raises(UnreadableInput, match="No such file"):
        found.password()


def test_a_missing_extension_is_named_with_the_fix() -> None:
    with pytest.raises(UsageError, match=r"extension nosuch, which is not installed: pip install 'gpuwatch\[lake\]'"):
        extensions.path_of("nosuch", "1.5.5")


def test_an_extension_for_another_duckdb_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "duckdb_extension_invented"
    (folder / "extensions" / "v1.5.5").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "extensions" / "v1.5.5" / "invented.duckdb_extension").touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    assert folder / "extensions" / "v1.5.5" / "invented.duckdb_extension" == extensions.path_of("invented", "1.5.5")
    with pytest.raises(UsageError, match=r"DuckDB 2.0.0 is installed, but its extension invented is for DuckDB 1.5.5"):
        extensions.path_of("invented", "2.0.0")


def test_without_a_lake_nothing_of_its_engine_is_imported() -> None:
    code = (
        "import sys; import gpuwatch.service.service; print([n for n in sys.modules if n.startswith('gpuwatch.lake.')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S)

    assert "['gpuwatch.lake.settings']" == found.stdout.strip()
