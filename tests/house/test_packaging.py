"""What is built is whole: every folder and SQL file is in it, and it runs without the checkout."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.worlds.patience import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "gpuwatch": "gpuwatch",
    "collectors": "gpuwatch/collectors",
    "dashboards": "gpuwatch/dashboards",
    "sql": "gpuwatch/sql",
}
SOURCE_FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
SKIPPED = shutil.ignore_patterns("__pycache__", ".*")


def shipped() -> dict[str, str]:
    """Path in the checkout -> path as installed, of every file in the folders that ship."""
    return {
        str(path.relative_to(ROOT)): f"{target}/{path.relative_to(ROOT / folder)}"
        for folder, target in FOLDERS.items()
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy to build in: setuptools writes beside the sources, and tests in parallel must not see it."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCE_FILES:
        shutil.copy(ROOT / name, copy / name)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=SKIPPED)
    return copy


@pytest.fixture(scope="module")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that was built from it."""
    for module in ("build", "setuptools"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: make test installs it")
    out = tmp_path_factory.mktemp("built")
    run = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip

    assert 0 == run.returncode, run.stdout[-2000:] + run.stderr[-2000:]
    return out


@pytest.fixture(scope="module")
def wheel_names(built: Path) -> set[str]:
    """Names in the wheel."""
    (wheel,) = built.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_has_every_file_that_ships(wheel_names: set[str]) -> None:
    """A folder, SQL file or marker that is only in the checkout works here and nowhere else."""
    assert [] == sorted(set(shipped().values()) - wheel_names)


def test_the_wheel_has_nothing_else(wheel_names: set[str]) -> None:
    """No tests, no top-level `collectors` that shadows another package's."""
    extra = {name for name in wheel_names - set(shipped().values()) if ".dist-info/" not in name}

    assert set() == extra


def test_the_wheel_carries_its_licence(wheel_names: set[str]) -> None:
    """And the text is the whole one."""
    places = [name.partition(".dist-info/")[2] for name in wheel_names if name.endswith("LICENSE")]

    assert ["licenses/LICENSE"] == places
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
    assert "END OF TERMS AND CONDITIONS" in (ROOT / "LICENSE").read_text("utf-8")


def test_the_sdist_has_every_file_that_ships(built: Path) -> None:
    """The wheel above was built from it; this names the file when it was not."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}

    assert [] == sorted({*shipped(), *SOURCE_FILES} - names)


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as unpacked by pip, without its dependencies."""
    target = tmp_path_factory.mktemp("installed")
    (wheel,) = built.glob("*.whl")
    run = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip

    assert 0 == run.returncode, run.stderr[-2000:]
    return target


def away(installed: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs code with the installed wheel and this environment's libraries, in a folder that is not the checkout.

    `-S` leaves out site-packages' .pth files, and with them the editable install of this checkout; the folder itself
    is put on the path by name, behind the wheel.
    """
    libraries = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GPUWATCH"))}
    return subprocess.run(
        [sys.executable, "-S", "-c", code, *arguments],
        env=environment | {"PYTHONPATH": os.pathsep.join([str(installed), *libraries]), "COLUMNS": "200"},
        cwd=installed.parent, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip


def test_the_installed_wheel_finds_its_parts(installed: Path) -> None:
    """Collectors, SQL and migrations come from the wheel, none from the checkout."""
    code = """
import gpuwatch, gpuwatch.collectors, gpuwatch.dashboards, gpuwatch.sql, gpuwatch.state_migrations
from gpuwatch.core import registry, sqlfile
for part in (gpuwatch, gpuwatch.collectors, gpuwatch.dashboards, gpuwatch.sql, gpuwatch.state_migrations):
    print(part.__file__)
print(len(registry.importers()) > 0, len(sqlfile.names_in("schema")) > 0)
"""
    run = away(installed, code)
    *places, counts = run.stdout.splitlines() or [""]

    assert 0 == run.returncode, run.stderr[-2000:]
    assert [] == [place for place in places if not Path(place).is_relative_to(installed)]
    assert "True True" == counts


def test_the_installed_command_answers(installed: Path) -> None:
    """`python -m gpuwatch --help`, with the module from the wheel."""
    if not (ROOT / "gpuwatch/cli.py").exists() and not (ROOT / "gpuwatch/cli").is_dir():
        pytest.skip("gpuwatch.cli is not there: no command to ask")
    code = (
        "import runpy, sys; sys.argv = ['gpuwatch', *sys.argv[1:]]; runpy.run_module('gpuwatch', run_name='__main__')"
    )
    run = away(installed, code, "--help")

    assert 0 == run.returncode, run.stderr[-2000:]
    assert "Usage" in run.stdout
