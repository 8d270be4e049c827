"""The files of a bundle directory by import kind, and what is missing."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuwatch.core.clock import zone
from gpuwatch.core.errors import UnreadableInput, UsageError

DEFAULT_CLUSTER = "default"
MAX_FILES = 100_000
MAX_TOML_BYTES = 1 << 20
MAX_SCRAPE_INTERVAL_S = 86_400

RAY = "ray-json"
"""The responses of a head are in several files that are read together, so the folder of all heads is one part."""

KUBERNETES = "k8s-json"
SLURM_FILE = "slurm-json"
ROOT_JSON = re.compile(r"[^/]+\.json")
KUBECTL = re.compile(
    rb'\s*\{\s*"apiVersion"(?=.*"kind"\s*:\s*"(Pod|Node|Event|Namespace|Job|Workload|List|PodList|NodeList|EventList)")',
    re.DOTALL,
)
"""How the output of kubectl begins: a file of the bundle's root that begins so is read like those of k8s/."""
SLURM_JSON = re.compile(
    rb'\s*\{(?=.*"(jobs|nodes)"\s*:\s*[\[{])(?=.*("tres_alloc_str"|"tres_req_str"|"job_state"|"association"|"slurmd_version"|"[Ss]lurm"))',
    re.DOTALL,
)
"""Likewise for Slurm's JSON, as squeue --json and sacct --json print it."""
KUBECTL_BYTES = 1 << 16
KUBECTL_FILES_MAX = 1000
"""JSON files of the root that are opened to see what they are."""

LAYOUT: tuple[tuple[str, str], ...] = (
    (r"k8s/[^/]+\.(json|ndjson)(\.gz)?", KUBERNETES),
    (r"(slurm/)?sacct\.txt(\.gz)?", "sacct"),
    (r"slurm/[^/]+\.json(\.gz)?", "slurm-json"),
    (r"(slurm/)?scontrol_nodes?\.txt(\.gz)?", "scontrol"),
    (r"(slurm/)?scontrol_jobs?\.txt(\.gz)?", "scontrol"),
    (r"slurm/topology\.(conf|yaml|yml)|topology\.conf", "slurm-topology"),
    (r"yunikorn/[^/]+\.json(\.gz)?", "yunikorn-json"),
    (r"ray/([^/]+/)*[^/]+\.json(\.gz)?", RAY),
    (r"topo/[^/]+\.txt(\.gz)?", "topo"),
    (r"(metrics/([^/]+/)*)?[^/]+\.prom(\.gz|\.zst)?", "openmetrics"),
)
"""Path inside the bundle and its import kind, in the order in which parts are read."""

SLURM = re.compile(r"slurm/|sacct\.|scontrol_")
"""How the files of Slurm begin, in their folder or beside it."""

SILENT = frozenset({"bundle.toml", "rates.csv", "teams.csv", "truth.json"})

WITHOUT: tuple[tuple[str, str], ...] = (
    (
        r"(metrics/)?.*\.prom.*",
        "metrics/*.prom: what jobs did with their GPUs is not measured, so idle GPUs are not found",
    ),
    (
        r"(k8s|slurm|ray|yunikorn)/.*|[^/]+\.(json|txt)(\.gz)?",
        "k8s/*.json, slurm/sacct.txt: no scheduler records; GPU holders are known from labels only",
    ),
    (r"topo/.*", "topo/<node>.txt: whether jobs are well placed on NVLink and PCIe is not known"),
)
WITHOUT_SLURM: tuple[tuple[str, str], ...] = (
    (r"(slurm/)?sacct\.txt.*|slurm/.*\.json.*", "slurm/sacct.txt: finished Slurm jobs cannot be charged"),
    (
        r"(slurm/)?scontrol_jobs?\.txt.*|slurm/.*\.json.*",
        "slurm/scontrol_job.txt: the GPUs of a Slurm job on its node are estimated",
    ),
    (
        r"(slurm/)?scontrol_nodes?\.txt.*|slurm/.*\.json.*",
        "slurm/scontrol_node.txt: drained and down Slurm nodes are unknown",
    ),
    (
        r"slurm/topology\..*|topology\.conf",
        "slurm/topology.conf: whether jobs are well placed across switches is not known",
    ),
)


@dataclass(frozen=True)
class BundlePlan:
    """How to read a bundle. Every file is optional; `missing` lists those that are absent."""

    cluster: str
    scrape_interval_us: int | None
    timezone: str | None
    """Of naive times; None: bundle.toml names none."""
    parts: tuple[tuple[str, Path], ...]
    """(import kind, file or folder) in the order to read them, the same on every machine."""
    rates: Path | None
    teams: Path | None
    missing: tuple[str, ...]
    """Absent files, each with the consequence."""
    unknown: tuple[str, ...]
    """Files and keys of bundle.toml that are not understood."""


def plan(path: Path) -> BundlePlan:
    """Lists what to import from the bundle directory `path`; reads only bundle.toml.

    JSON files beside it are opened to see whether they are kubectl's or Slurm's. Raises UnreadableInput if `path` is not a directory or has more than MAX_FILES files, UsageError for a wrong
    bundle.toml, naming file and key.
    """
    if not path.is_dir():
        raise UnreadableInput(
            f"{path}: not a directory; a bundle is a directory with bundle.toml, metrics/, slurm/, k8s/"
        )
    names = _names(path)
    settings = _settings(path / "bundle.toml")
    taken = {name: order for name in names if (order := _order(name)) is not None}
    loose = [name for name in names if ROOT_JSON.fullmatch(name) and name not in SILENT]
    for name in loose[:KUBECTL_FILES_MAX]:
        if (kind := _json_kind(path / name)) is not None:
            taken[name] = next(at for at, (_, of) in enumerate(LAYOUT) if of == kind)
    parts = dict.fromkeys(
        (LAYOUT[taken[name]][1], path / _part(name, LAYOUT[taken[name]][1]))
        for name in sorted(taken, key=lambda n: (taken[n], n))
    )
    strange = tuple(name for name in names if name not in taken and name not in SILENT)
    strange += tuple(f"bundle.toml: key {key!r}" for key in sorted(settings) if key not in _CHECKS)
    interval = settings.get("scrape_interval_s")
    return BundlePlan(
        cluster=settings.get("cluster", DEFAULT_CLUSTER),
        scrape_interval_us=None if interval is None else round(interval * 1_000_000),
        timezone=settings.get("timezone"),
        parts=tuple(parts),
        rates=path / "rates.csv" if "rates.csv" in names else None,
        teams=path / "teams.csv" if "teams.csv" in names else None,
        missing=tuple(_missing(names, list(taken), settings)),
        unknown=strange,
    )


def _names(path: Path) -> list[str]:
    names = []
    for file in path.rglob("*"):
        relative = file.relative_to(path)
        if any(part.startswith(".") for part in relative.parts) or not file.is_file():
            continue
        names.append(relative.as_posix())
        if len(names) > MAX_FILES:
            raise UnreadableInput(f"{path}: more than {MAX_FILES} files; name the bundle itself, not a folder above it")
    return sorted(names)


def _order(name: str) -> int | None:
    return next((at for at, (pattern, _) in enumerate(LAYOUT) if re.fullmatch(pattern, name)), None)


def _json_kind(file: Path) -> str | None:
    """The kind of a JSON file by how it begins; None for anything else."""
    try:
        with file.open("rb") as stream:
            head = stream.read(KUBECTL_BYTES)
    except OSError:
        return None
    if KUBECTL.match(head):
        return KUBERNETES
    return SLURM_FILE if SLURM_JSON.match(head) else None


def _part(name: str, kind: str) -> str:
    """The unit of reading: the file, or the folder ray/ of all heads."""
    return "ray" if kind == RAY else name


def _missing(names: list[str], taken: list[str], settings: dict[str, Any]) -> list[str]:
    missing = []
    if "bundle.toml" not in names:
        missing.append(f"bundle.toml: the cluster is called {DEFAULT_CLUSTER!r}")
    elif "cluster" not in settings:
        missing.append(f"bundle.toml: key cluster: the cluster is called {DEFAULT_CLUSTER!r}")
    wanted = WITHOUT + (WITHOUT_SLURM if any(SLURM.match(name) for name in taken) else ())
    missing += [text for pattern, text in wanted if not any(re.fullmatch(pattern, name) for name in taken)]
    if "rates.csv" not in names:
        missing.append("rates.csv: GPU-hours have no price; costs are shown as missing until gpuwatch rates set FILE")
    if "teams.csv" not in names:
        missing.append("teams.csv: accounts and namespaces name the teams (inferred) until gpuwatch teams set FILE")
    return missing


def _settings(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        with file.open("rb") as stream:
            settings = tomllib.loads(stream.read(MAX_TOML_BYTES).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from error
    except OSError as error:
        raise UnreadableInput(f"{file}: {error.strerror or error}; make it readable") from error
    for key, check in _CHECKS.items():
        if key in settings:
            check(settings[key], f"{file}: key {key}")
    return settings


def _check_cluster(value: object, where: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f'{where}: {value!r} is not a name; write cluster = "c1"')


def _check_interval(value: object, where: str) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < float(str(value)) <= MAX_SCRAPE_INTERVAL_S:
        raise UsageError(f"{where}: {value!r} is not a number of seconds above 0; write scrape_interval_s = 15")


def _check_timezone(value: object, where: str) -> None:
    if not isinstance(value, str):
        raise UsageError(f'{where}: {value!r} is not an IANA name; write timezone = "Europe/Berlin"')
    try:
        zone(value)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


_CHECKS = {"cluster": _check_cluster, "scrape_interval_s": _check_interval, "timezone": _check_timezone}
