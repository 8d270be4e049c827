"""Site detectors: SQL files in a directory, checked before any of them runs."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuwatch.core import sqlfile
from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.findings.custom_header import RESERVED, SEVERITIES, SiteRuleError, parse
from gpuwatch.findings.custom_sql_guard import check
from gpuwatch.findings.presets import RECLAIM
from gpuwatch.rules.rule import Mode, Rule, rules
from gpuwatch.store.connection import is_query_error
from gpuwatch.store.database import Store

FILES_MAX = 200
BYTES_MAX = 64 * 1024
SECONDS_MAX = 60.0
"""How long one site detector may evaluate one cluster; the rest of the pass waits for it."""
_ROW = {
    "chain": "VARCHAR",
    "subject_kind": "VARCHAR",
    "subject_id": "VARCHAR",
    "subject_name": "VARCHAR",
    "start_us": "BIGINT",
    "end_us": "BIGINT",
    "still": "BOOLEAN",
    "run_id": "BIGINT",
    "team": "VARCHAR",
    "confidence": "DOUBLE",
    "severity": "VARCHAR",
    "device_ids": "BIGINT[]",
    "nodes": "VARCHAR[]",
    "numbers": "MAP(VARCHAR, DOUBLE)",
    "words": "MAP(VARCHAR, VARCHAR)",
    "claims": "STRUCT(device_id BIGINT, run_id BIGINT, hour_us BIGINT, bucket VARCHAR, us BIGINT)[]",
}
"""Columns of a result row and their types."""
_LOOSE = frozenset({"BOOLEAN", "DOUBLE", "VARCHAR", "BIGINT"})
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UINTEGER", "UBIGINT", '"NULL"')


_KINDS = ("gpu", "slice", "job", "node", "pool", "team", "queue")
_TEXTS = ("subject_id", "subject_name", "team")
TEXT_MAX = 500
"""Characters of a name in a row."""
END_US_MAX = 253_402_300_800_000_000
"""The year 10000: no calendar has a later time."""


class RuleFailed(GpuwatchError):
    """A site detector failed at its data: its own message, for its author."""


class RuleTooLarge(RuleFailed):
    """A site detector needed more memory than the store may take; it was ended."""


class RuleTooSlow(RuleFailed):
    """A site detector took longer than it may; it was ended."""


@dataclass(frozen=True)
class Refusal:
    """A file that is not a rule: at which line, why, and what to write."""

    file: str
    line: int
    reason: str
    fix: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}; {self.fix}"


@dataclass(frozen=True)
class Loaded:
    """The rules of a directory by id, and the files that are not rules."""

    rules: Mapping[str, Rule] = field(default_factory=dict)
    refused: tuple[Refusal, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """The file of each rule."""


_loaded = Loaded()
_seen: tuple[object, ...] | None = None
_lock = threading.Lock()


def load(directory: str | Path | None, store: Store) -> Mapping[str, Rule]:
    """The rules of a directory by id; refused files are in `refused`. Files are read again only when they changed.

    Without a directory there are none. A directory that cannot be read is refused as a whole.
    """
    global _loaded, _seen
    with _lock:
        look = _look(directory)
        if look != _seen:
            _loaded = Loaded() if directory is None else read(Path(directory), store)
            _seen = look
        return _loaded.rules


def known() -> Mapping[str, Rule]:
    """The rules of the last load by id."""
    return _loaded.rules


def refused() -> tuple[Refusal, ...]:
    """The files that the last load refused."""
    return _loaded.refused


def file_of(rule_id: str) -> str | None:
    """The file of a site rule; None for others."""
    return _loaded.files.get(rule_id)


def read(directory: Path, store: Store) -> Loaded:
    """Every `*.sql` of a directory, in the order of names: good ones become rules, each other one is refused by itself."""
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix == ".sql" and not path.name.startswith("."))
    except OSError as error:
        return Loaded(refused=(Refusal(str(directory), 0, error.strerror or str(error), "correct detectors_dir"),))
    found: dict[str, Rule] = {}
    files: dict[str, str] = {}
    bad = [
        Refusal(path.name, 0, f"more than {FILES_MAX} files", "take some away")
        for path in paths[FILES_MAX : FILES_MAX + 1]
    ]
    for path in paths[:FILES_MAX]:
        try:
            rule, line = parse(_text(path))
            if rule.id in found:
                raise SiteRuleError(1, f"id {rule.id} is already that of {files[rule.id]}", "choose another id")
            if rule.id in rules() or rule.id == RECLAIM:
                raise SiteRuleError(1, f"id {rule.id} is one of gpuwatch's own", "choose another id")
            sql = _check(store, rule, line)
        except SiteRuleError as error:
            bad.append(Refusal(path.name, error.line, error.reason, error.fix))
            continue
        found[rule.id], files[rule.id] = replace(rule, sql=sql), path.name
    return Loaded(found, tuple(bad), files)


@contextmanager
def bounded(store: Store, rule: Rule, seconds: float = SECONDS_MAX) -> Iterator[None]:
    """Ends what a site rule runs on this connection within the block after `seconds`: RuleTooSlow. Other rules may go on."""
    if rule.sql is None:
        yield
        return
    late = threading.Event()
    over = threading.Event()

    def watch() -> None:
        """Interrupts until it gives up: between two queries there is nothing to interrupt."""
        wait = seconds
        while not over.wait(wait):
            late.set()
            store.interrupt()
            wait = 0.1

    watcher = threading.Thread(target=watch, name=f"bound {rule.id}", daemon=True)
    watcher.start()
    try:
        yield
    except BaseException as error:
        over.set()
        watcher.join()
        if late.is_set() and not isinstance(error, SystemExit | GeneratorExit):
            with suppress(
                Exception
            ):  # An interrupt may hit the rollback too; without it no transaction could start again.
                store.sql("rollback")
            raise RuleTooSlow(
                f"took longer than {seconds:g} s; narrow its hours with $from_us and $until_us"
            ) from error
        if "Out of Memory" in str(error):
            raise RuleTooLarge(
                "needs more than the memory_limit of the store; narrow its hours with $from_us and $until_us"
            ) from error
        if is_query_error(error):
            raise RuleFailed(f"{str(error).splitlines()[0]}; correct the SQL of this detector") from error
        raise
    finally:
        over.set()
        watcher.join()


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise SiteRuleError(0, "is no plain file", "put the text of the rule there")
        content = path.read_bytes() if path.stat().st_size <= BYTES_MAX else b"\xff"
        if len(content) > BYTES_MAX or content == b"\xff":
            raise SiteRuleError(0, f"more than {BYTES_MAX} bytes", "a rule is one select")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise SiteRuleError(0, error.strerror or str(error), "let the server read it") from error
    except UnicodeDecodeError as error:
        raise SiteRuleError(1, f"is not UTF-8 at byte {error.start}", "save it as UTF-8") from error


def _check(store: Store, rule: Rule, line: int) -> str:
    """1. Parsed and allowed. 2. Parameters known. 3. Bound to the store's tables: its columns are those of a result.

    Returns the select with its rows checked.
    """
    text = rule.sql or ""
    check(store, text, line)
    statements = sqlfile.split(text)
    if len(statements) != 1:
        fix = "write no ; within $$ $$ and /* */"
        raise SiteRuleError(line, f"{len(statements)} statements, as far as semicolons tell", fix)
    parameters: dict[str, object] = dict.fromkeys(RESERVED, 0) | {"cluster": ""} | dict(rule.parameters)
    for name in sorted(statements[0].names - parameters.keys()):
        raise SiteRuleError(line, f"${name} is no parameter", f"known: {', '.join(sorted(parameters))}")
    with store.cursor() as scratch:
        scratch.run("views/job_chain", cluster="", since_us=0, until_us=0)
        scratch.sql("pragma disable_optimizer")  # Which would compute what is constant, however large.
        try:
            rows = scratch.sql(f"describe {statements[0].text}", **statements[0].pick(parameters))
        except Exception as error:
            raise _unbound(error, text, line) from error
    _columns({row[0]: str(row[1]) for row in rows}, line)
    return _checked(statements[0].text, {row[0] for row in rows}, rule.mode)


def _unbound(error: Exception, text: str, line: int) -> SiteRuleError:
    """The binder's message, with the line and the column names it suggests."""
    first, *more = str(error).splitlines() or [type(error).__name__]
    at = re.search(r"^LINE (\d+):", str(error), re.MULTILINE)
    above = text[: len(text) - len(text.lstrip())].count("\n")
    meant = next((part.partition(": ")[2] for part in more if part.startswith("Candidate bindings: ")), None)
    fix = "see docs/act/site-detectors.md for tables and columns"
    if meant is not None:
        fix = f"did you mean one of {meant[:200]}? {fix}"
    return SiteRuleError(line if at is None else line + above + int(at[1]) - 1, first[:300], fix)


def _checked(text: str, names: Collection[str], mode: Mode) -> str:
    """The select, failing at a row that cannot become a finding: storing it would break every reader."""
    span = f"start_us is null or end_us is null or start_us < 0 or end_us < start_us or end_us > {END_US_MAX}"
    wrong = {"start_us to end_us is no time": span}
    if mode == "hours":
        wrong["start_us to end_us is more than an hour"] = f"end_us - start_us > {HOUR_US}"
    if "chain" not in names:
        wrong[f"subject_kind is none of {', '.join(_KINDS)}"] = f"coalesce(subject_kind not in {_KINDS}, true)"
        wrong["subject_id is empty"] = "coalesce(subject_id, '') = ''"
    for name in (name for name in _TEXTS if name in names):
        wrong[f"{name} has more than {TEXT_MAX} characters"] = f"coalesce(length({name}::varchar) > {TEXT_MAX}, false)"
    if "confidence" in names:
        ratio = "coalesce(try_cast(confidence as double) between 0 and 1, false)"
        wrong["confidence is not 0 to 1"] = f"confidence is not null and not {ratio}"
    if "severity" in names:
        wrong[f"severity is none of {', '.join(SEVERITIES)}"] = f"coalesce(severity not in {SEVERITIES}, false)"
    cases = "\n".join(f"    when {test} then error('a row is wrong: {what}')::boolean" for what, test in wrong.items())
    return f"with site_row as (\n{text}\n)\nselect * from site_row where case\n{cases}\n    else true\nend"


def _columns(given: Mapping[str, str], line: int) -> None:
    for name in given:
        if name not in _ROW:
            raise SiteRuleError(line, f"column {name[:60]} is not known", f"known: {', '.join(_ROW)}")
    subject = {"chain"} if "chain" in given else {"subject_kind", "subject_id"}
    for name in sorted((subject | {"start_us", "end_us"}) - given.keys()):
        raise SiteRuleError(line, f"column {name} is missing", "every row says what it is about, and from when to when")
    for name, kind in given.items():
        wanted = _ROW[name]
        if wanted == "BIGINT" and not kind.startswith(_WHOLE):
            raise SiteRuleError(line, f"column {name} is {kind}", "write a whole number: cast it ::bigint")
        if wanted not in _LOOSE and kind != '"NULL"' and wanted.partition("(")[0].rstrip("[]") not in kind:
            raise SiteRuleError(line, f"column {name} is {kind}", f"make it {wanted.lower()}")


def _look(directory: str | Path | None) -> tuple[object, ...]:
    """Names, sizes and times of the files: they differ after a file has changed."""
    if directory is None:
        return (None,)
    try:
        paths = sorted(path for path in Path(directory).iterdir() if path.suffix == ".sql")[: FILES_MAX + 1]
        return (str(directory), *((p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in paths))
    except OSError as error:
        return (str(directory), str(error))
