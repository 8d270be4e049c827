"""Lists the packages on disk: gpuwatch/ and the folders that install below it."""

from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
MOUNTED = ("collectors", "dashboards", "sql")


def packages() -> list[str]:
    """Import names of every folder with an `__init__.py`, as installed."""
    own = find_packages(str(ROOT), include=["gpuwatch", "gpuwatch.*"])
    mounted = find_packages(str(ROOT), include=[pattern for name in MOUNTED for pattern in (name, f"{name}.*")])
    return own + [f"gpuwatch.{name}" for name in mounted]


setup(packages=packages())
