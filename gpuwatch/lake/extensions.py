"""DuckDB's extensions for the lake, as installed with gpuwatch[lake]. Nothing is downloaded when they are loaded."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from gpuwatch.core.errors import UsageError
from gpuwatch.lake.settings import LakeSettings

VERSION = "1.5.5"
"""The DuckDB that the extensions of gpuwatch[lake] fit."""
INSTALL = "pip install 'gpuwatch[lake]'"


def path_of(extension: str, duckdb_version: str) -> Path:
    """The file of an extension that fits the installed DuckDB. Raises UsageError if it is absent, or fits another one."""
    package = f"duckdb_extension_{extension}"
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            f"the lake needs DuckDB's extension {extension}, which is not installed: {INSTALL} (it installs DuckDB {VERSION})"
        )
    folder = Path(next(iter(spec.submodule_search_locations))) / "extensions"
    path = folder / f"v{duckdb_version}" / f"{extension}.duckdb_extension"
    if not path.is_file():
        found = ", ".join(sorted(each.name.removeprefix("v") for each in folder.glob("v*"))) or "no version"
        raise UsageError(
            f"DuckDB {duckdb_version} is installed, but its extension {extension} is for DuckDB {found}: {INSTALL} installs "
            f"DuckDB {VERSION}, which fits. Without a lake, gpuwatch needs neither"
        )
    return path


def needed(settings: LakeSettings, duckdb_version: str) -> list[Path]:
    """The files of the extensions for a lake. Raises UsageError if one is absent or does not fit the installed DuckDB."""
    wanted = ["ducklake"]
    wanted += ["httpfs"] if settings.in_bucket else []
    wanted += ["postgres_scanner"] if settings.on_server else []
    wanted += ["sqlite_scanner"] if not settings.on_server and settings.catalogue.endswith(".sqlite") else []
    return [path_of(name, duckdb_version) for name in wanted]
