"""Sends bill files to the server that holds the data directory, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuwatch.commands import remote
from gpuwatch.commands.shared import Step
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.imports.files import ImportReport, parts_of
from gpuwatch.imports.uploads import FILE_BYTES_MAX
from gpuwatch.store.lockfile import Note

FOLDERS_SENT = 8
"""Trailing parts of a file's path sent to the server: the folder name identifies the delivery."""


def send_bills(note: Note, kind: str, paths: Sequence[Path], step: Step) -> ImportReport:
    """Uploads files and directories of bills. Raises UnreadableInput as a local import does, and SourceUnreachable if
    the server cannot be reached.
    """
    files = [part.path for path in paths for part in parts_of(kind, path, None, "UTC")]
    siblings = sorted({file.name for file in files}) if len(files) > 1 else None
    report = ImportReport()
    for number, file in enumerate(files):
        step(number, len(files), file.name)
        try:
            _send(note, kind, file, siblings, report)
        except UnreadableInput as error:
            report.unreadable.append(str(error))
    if report.unreadable and (not report.files + report.repeated or any(path.is_file() for path in paths)):
        raise UnreadableInput("; ".join(report.unreadable[:5]))
    return report


def _send(note: Note, kind: str, file: Path, siblings: Sequence[str] | None, report: ImportReport) -> None:
    if file.is_file() and file.stat().st_size > FILE_BYTES_MAX:
        raise UnreadableInput(
            f"{file}: larger than the upload limit of {FILE_BYTES_MAX} bytes; compress it with gzip, or stop the server, "
            "import it, and start the server again"
        )
    parts = [part for part in file.parts if part not in (file.anchor, "..")]
    name = "/".join(parts[-FOLDERS_SENT:])
    try:
        done = remote.send_file(note, "/api/v1/bills", file, {"kind": kind, "name": name, "beside": siblings})
    except UsageError as error:
        raise UnreadableInput(str(error).replace(name, str(file))) from error
    report.files += done["files"]
    report.repeated += done["repeated"]
    report.records += done["records"]
    rejects = Rejects()
    for one in done["examples"]:
        rejects.add(one["reason"], str(file), one["line"], one["example"], one["count"])
    if rejects.total:
        report.rejects.append(rejects)
