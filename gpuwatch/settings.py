"""Settings: one table with name, default and description."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from gpuwatch.core import config_file, database_url, option_names
from gpuwatch.core import value_rules as rules
from gpuwatch.core.database_url import has_password
from gpuwatch.core.errors import UsageError
from gpuwatch.core.value_rules import ValueRule
from gpuwatch.hardware.shares import SHARE_METHODS, ShareMethod

SECTION = "gpuwatch"
"""The table in gpuwatch.toml with the settings."""

ENV_PREFIX = "GPUWATCH_"

NEAR = 0.8
"""An unknown environment variable at least this similar to a setting is treated as a typo."""

SHARING_SPLITS = ("bound", "process")
"""How to split a GPU that several pods are bound to."""

OWNERSHIP_DEFAULTS = ("inferred", "none")
"""What happens to held time whose team no ownership rule decides."""


def _about(rule: ValueRule, sentence: str, restart: bool = False) -> dict[str, Any]:
    return {"rule": rule, "sentence": sentence, "restart": restart}


@dataclass(frozen=True)
class Settings:
    """All settings. Raises one UsageError that lists every bad value."""

    memory_limit: str = field(
        default="2GB", metadata=_about(rules.size(), "Maximum memory of the telemetry store.", restart=True)
    )
    threads: int = field(
        default=0,
        metadata=_about(rules.whole(0, 64), "Threads of the telemetry store; 0: one per core.", restart=True),
    )
    temp_directory: str | None = field(
        default=None,
        metadata=_about(
            rules.path(),
            "Where large queries spill to disk; unset: a folder in the data directory.",
            restart=True,
        ),
    )
    raw_retention_days: int = field(
        default=14, metadata=_about(rules.whole(1, 36_500), "Days to keep raw samples.", restart=True)
    )
    minute_retention_days: int = field(
        default=395, metadata=_about(rules.whole(1, 36_500), "Days to keep the minute data that detectors use.")
    )
    idle_minutes: int = field(
        default=15,
        metadata=_about(rules.whole(2, 30), "Minutes without activity after which an allocated GPU counts as hoarded."),
    )
    warm_up_minutes: int = field(
        default=10, metadata=_about(rules.whole(0, 1440), "First minutes of a run that are not evaluated.")
    )
    tensor_roof: float = field(
        default=0.93, metadata=_about(rules.ratio(), "Tensor-pipe activity that counts as peak compute.")
    )
    dram_roof: float = field(
        default=0.8,
        metadata=_about(rules.ratio(), "Memory-interface activity that counts as peak memory bandwidth."),
    )
    roofs: str = field(
        default="",
        metadata=_about(
            rules.peaks(), "Peaks for individual models, such as H100: dram 0.9; empty: the same for all models."
        ),
    )
    default_interval_s: float = field(
        default=30.0,
        metadata=_about(
            rules.seconds(3600), "Sampling interval assumed for a device with too few samples to measure it."
        ),
    )
    analyze_interval_s: float = field(
        default=60.0, metadata=_about(rules.seconds(3600), "Seconds between analysis passes while serving.")
    )
    public_url: str | None = field(
        default=None,
        metadata=_about(
            rules.url(),
            "Public URL of the pages, for links in messages; unset: the address it listens on. Once set, every request needs a token.",
        ),
    )
    report_directory: str | None = field(
        default=None,
        metadata=_about(
            rules.path(),
            "Directory for weekly reports while serving; unset: reports are only made for channels that send them.",
        ),
    )
    report_paper: str = field(
        default="a4", metadata=_about(rules.one_of(("a4", "letter")), "Paper size of PDF reports: a4 or letter.")
    )
    mig_share_method: ShareMethod = field(
        default="dominant",
        metadata=_about(
            rules.one_of(SHARE_METHODS),
            "What determines a MIG slice's share: dominant (the larger of compute and memory), compute, memory or sm.",
        ),
    )
    sharing_split: str = field(
        default="bound",
        metadata=_about(
            rules.one_of(SHARING_SPLITS),
            "How pods that share a GPU split its cost: equally (bound), or by what their processes used (process).",
        ),
    )

    ownership_default: str | None = field(
        default=None,
        metadata=_about(
            rules.one_of((None, *OWNERSHIP_DEFAULTS)),
            "Held time whose team no ownership rule decides: inferred (its Slurm account or Kubernetes namespace names the "
            "team) or none (it has no team); unset: as it was set last, at first inferred.",
        ),
    )
    questions_per_token: int = field(
        default=4,
        metadata=_about(rules.whole(1, 64), "Queries that one token may run at a time; more wait for their turn."),
    )
    backtests_per_token: int = field(
        default=2,
        metadata=_about(rules.whole(1, 64), "Back-tests that one token may run at a time; more wait for their turn."),
    )
    detectors_dir: str | None = field(
        default=None, metadata=_about(rules.path(), "Directory with SQL files of custom detectors; unset: none.")
    )
    state_url: str | None = field(
        default=None,
        repr=False,
        metadata=_about(
            rules.database(),
            "PostgreSQL database of the state (tokens, prices, policies, alerts); unset: state.sqlite in the data directory.",
            restart=True,
        ),
    )
    state_password_file: str | None = field(
        default=None,
        metadata=_about(
            rules.path("file"),
            "File with the password for state_url; unset: in the URL or in PGPASSWORD.",
            restart=True,
        ),
    )

    def __post_init__(self) -> None:
        problems = [
            f"{f.name} = {_shown(getattr(self, f.name)) if f.repr else '(not shown)'} is not {_rule(f).words}"
            for f in fields(self)
            if not _rule(f).test(getattr(self, f.name))
        ]
        if not problems and self.state_password_file and (self.state_url is None or has_password(self.state_url)):
            other = "state_url is not set" if self.state_url is None else "state_url has a password too: remove one"
            problems = [f"state_password_file is set, but {other}"]
        if not problems and self.minute_retention_days < self.raw_retention_days:
            problems = ["minute_retention_days is less than raw_retention_days: minutes must outlive raw samples"]
        if problems:
            raise UsageError(f"settings: {'; '.join(problems)}")


def table() -> list[tuple[str, Any, str]]:
    """(name, default, description) of every setting, in the order of the documentation."""
    return [(f.name, f.default, f.metadata["sentence"]) for f in fields(Settings)]


def shown(settings: Settings, name: str) -> object:
    """The value of a setting, without a password."""
    value = getattr(settings, name)
    return database_url.shown(value) if name == "state_url" and value is not None else value


def in_directory(settings: Settings) -> Settings:
    """The settings with the state as a file in the data directory."""
    return replace(settings, state_url=None, state_password_file=None)


def taken_over(running: Settings, wanted: Settings) -> tuple[Settings, list[str], list[str]]:
    """The settings a running service can apply now, their names, and the names that need a restart."""
    changed = [f for f in fields(Settings) if getattr(running, f.name) != getattr(wanted, f.name)]
    later = [f.name for f in changed if f.metadata["restart"]]
    now = [f.name for f in changed if not f.metadata["restart"]]
    return replace(wanted, **{name: getattr(running, name) for name in later}), now, later


def load_settings(
    path: Path | None, environ: Mapping[str, str], other_tables: Collection[str] | None = None
) -> Settings:
    """Settings from the [gpuwatch] table of a TOML file, overridden by GPUWATCH_<NAME> in `environ`.

    `other_tables` are tables that other code reads; None: other tables are not checked. Raises
    UnreadableInput for a file that cannot be read or is not TOML, and UsageError with every unknown name (and the
    nearest known one) and every bad value.
    """
    return settings_of(config_file.read_file(path), path, environ, other_tables)


def settings_of(
    content: Mapping[str, Any],
    path: Path | None,
    environ: Mapping[str, str],
    other_tables: Collection[str] | None = None,
) -> Settings:
    """Same as load_settings, for a file that is already read; `path` is used in messages."""
    problems: list[str] = []
    values = _from_file(content, path, other_tables, problems)
    values |= _from_environment(environ, problems)
    try:
        settings = Settings(**values)
    except UsageError as error:
        problems.append(str(error).removeprefix("settings: "))
    if problems:
        raise UsageError(f"settings: {'; '.join(problems)}")
    return settings


def _from_file(
    content: Mapping[str, Any], path: Path | None, other_tables: Collection[str] | None, problems: list[str]
) -> dict[str, Any]:
    section = content.get(SECTION, {})
    if not isinstance(section, dict):
        problems.append(f"{path}: {SECTION} is not a table; write [{SECTION}] on a line of its own")
        section = {}
    content, section = _with_ownership(content, section)
    for name, value in content.items():
        if name in _names() and not isinstance(value, dict):
            problems.append(f"{name} in {path} is outside [{SECTION}]; move it there")
        elif name != SECTION and name not in (other_tables or ()):
            near = _nearest(name, (SECTION, *(other_tables or ())))
            if other_tables is not None or "did you mean" in near:
                problems.append(f"[{name}] in {path} is unknown{near}")
    for name in section.keys() - _names():
        home = option_names.belongs(name, f"[{SECTION}]")
        problems.append(f"{name} in {path} is unknown{_nearest(name, _names()) if home is None else f'; {home}'}")
    return {name: value for name, value in section.items() if name in _names()}


def _with_ownership(
    content: Mapping[str, Any], section: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The file with `ownership.default`, a table of its own or in [gpuwatch], as the setting ownership_default."""
    for table in (content, section):
        inner = table.get("ownership")
        if isinstance(inner, dict) and inner.keys() == {"default"}:
            section = {"ownership_default": inner["default"], **section}
    rest = [{name: value for name, value in table.items() if name != "ownership"} for table in (content, section)]
    return (rest[0], rest[1]) if "ownership_default" in section else (content, section)


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    """Only near misses are errors: Kubernetes sets GPUWATCH_SERVICE_HOST and others for a service named gpuwatch."""
    known = {f.name: _rule(f) for f in fields(Settings)}
    values: dict[str, Any] = {}
    for variable, text in sorted(environ.items()):
        name = variable.removeprefix(ENV_PREFIX).lower()
        if not variable.startswith(ENV_PREFIX) or not text.strip():  # an empty variable counts as unset
            continue
        if name in known:
            try:
                values[name] = known[name].read(text.strip())
            except ValueError:
                problems.append(f"{variable} = {text!r} is not {known[name].words}")
        elif near := difflib.get_close_matches(name, known, 1, NEAR):
            meant = ENV_PREFIX + near[0].upper()
            problems.append(f"environment variable {variable} is unknown; did you mean {meant}?")
    return values


def _rule(setting: Field[Any]) -> ValueRule:
    return cast(ValueRule, setting.metadata["rule"])


def _shown(value: object) -> str:
    """A bad value as text. Hides values with an @, because a URL may contain a password."""
    return "(not shown: it holds an @)" if "@" in str(value) else repr(value)


def _names() -> frozenset[str]:
    return frozenset(f.name for f in fields(Settings))


option_names.note(f"[{SECTION}]", _names())


def _nearest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(known))}"
