"""Report files: their names, writing them whole or not at all, a set of them as one ZIP file, and when the next are due."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import mkstemp

from gpuwatch.core.clock import DAY_US, HOUR_US, from_us
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.report.format_registry import report_formats
from gpuwatch.state import State

SETTING = "report:weekly"
"""The last week whose report was written, e.g. 2026-W46."""
SETTLE_US = 6 * HOUR_US
"""Time after the end of a week for late data, which still changes its last hours."""
SLUG_MAX = 40
MAILED_MAX_BYTES = 20_000_000
"""Larger files are not attached to e-mails."""
ZIP_TYPE = "application/zip"
ZIP_FILES_MAX = 100_000
ZIP_BYTES_MAX = 4_000_000_000
"""A set that is larger unpacked is refused."""
ZIP_DATE = (1980, 1, 1, 0, 0, 0)
_ZIPPED = re.compile(r"\d{4}-(?:W\d{2}|\d{2})/[a-z0-9-]+(?:\.[a-z0-9]+){1,2}")
_STEM = re.compile(r"\d{4}-(?:W\d{2}|\d{2})/(?:fleet|team-[a-z0-9-]+)")
_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclass(frozen=True)
class ReportFile:
    """A file to write: `name` is relative, with forward slashes, and safe on every file system."""

    name: str
    content: bytes


def slug(team: str) -> str:
    """The team's part of a file name. Two teams never share one, not where file names ignore case either.

    A plain short name is its own; any other gets a hash of itself after two dashes, which no plain name has.
    """
    if len(team) <= SLUG_MAX and _PLAIN.fullmatch(team):
        return team
    readable = re.sub(r"[^a-z0-9]+", "-", team.lower()).strip("-")[:SLUG_MAX].strip("-") or "x"
    digest = blake2b(team.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{readable}--{digest}"


def write(files: Sequence[ReportFile], out: Path, private: bool = False) -> list[Path]:
    """Writes files below `out`, each whole or not at all; returns their paths. Only their owner reads `private` ones,
    which are those inside the data directory.

    1. All go to temporary files beside their places. 2. Each is renamed. What an earlier run left under the same name
    is replaced. Raises UnreadableInput where `out` cannot be written; then nothing was renamed, or some were and all
    that stand are whole.
    """
    pending: list[tuple[str, Path]] = []
    try:
        for file in files:
            target = out / file.name
            _make_folder(target.parent, 0o700 if private else 0o755)
            handle, temporary = mkstemp(prefix=".report-", dir=target.parent)
            pending.append((temporary, target))
            with os.fdopen(handle, "wb") as stream:
                stream.write(file.content)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o600 if private else 0o640)
        written = []
        while pending:
            temporary, target = pending[0]
            os.replace(temporary, target)
            pending.pop(0)
            written.append(target)
    except OSError as error:
        fix = "make room or choose another directory"
        raise UnreadableInput(f"--out {out}: {error.strerror or error}; {fix}") from error
    finally:
        for temporary, _ in pending:
            Path(temporary).unlink(missing_ok=True)
    return written


def _make_folder(folder: Path, mode: int) -> None:
    """Creates a folder and the missing ones above it with a mode, whatever the umask."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        os.chmod(one, mode)


def mailed_files(directory: Path | None, stem: str) -> dict[str, bytes]:
    """The files of a report that its e-mail carries, by suffix; missing and very large ones are left out."""
    found: dict[str, bytes] = {}
    if directory is None or not _STEM.fullmatch(stem):
        return found
    for suffix in (form.suffix for form in report_formats().values() if form.mailed):
        path = directory / f"{stem}.{suffix}"
        try:
            if path.stat().st_size <= MAILED_MAX_BYTES:
                found[suffix] = path.read_bytes()
        except OSError:
            continue  # deleted, or on another disk: the message links to the report
    return found


def due(state: State, now_us: int) -> str | None:
    """The week that ended last, SETTLE_US ago at least, where its report was not written yet; None where it was."""
    week = last_week(now_us - SETTLE_US)
    written = state.setting(SETTING)
    return week if written is None or written < week else None


def done(state: State, week: str, now_us: int) -> None:
    """Remembers that the report of a week is written: it is not due again."""
    state.set_setting(SETTING, week, "report", now_us)


def last_week(now_us: int) -> str:
    """The ISO week before the one of this instant, e.g. 2026-W46."""
    year, week, _ = from_us(now_us - 7 * DAY_US).isocalendar()
    return f"{year}-W{week:02d}"


def zipped(files: Sequence[ReportFile]) -> bytes:
    """The files as a ZIP file: the same bytes for the same files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.writestr(zipfile.ZipInfo(file.name, ZIP_DATE), file.content, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def unzipped(content: bytes) -> list[ReportFile]:
    """The files of a ZIP file of `zipped`. Raises UnreadableInput for what is none: no other name leads anywhere."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            wrong = [entry.filename for entry in entries if not _ZIPPED.fullmatch(entry.filename)]
            if wrong or len(entries) > ZIP_FILES_MAX or sum(entry.file_size for entry in entries) > ZIP_BYTES_MAX:
                raise UnreadableInput("report: the answer of the server is no set of report files; is it a newer one?")
            return [ReportFile(entry.filename, archive.read(entry)) for entry in entries]
    except zipfile.BadZipFile as error:
        raise UnreadableInput(
            "report: the answer of the server is no set of report files; is it a newer one?"
        ) from error
