"""A set of report files in one ZIP file, the same bytes for the same files; and back."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.report.files import ReportFile

MEDIA_TYPE = "application/zip"
FILES_MAX = 100_000
BYTES_MAX = 4_000_000_000
"""A set that is larger unpacked is refused."""
DATE = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(r"\d{4}-W\d{2}/[a-z0-9-]+(?:\.[a-z0-9]+){1,2}")


def zipped(files: Sequence[ReportFile]) -> bytes:
    """The files as a ZIP file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.writestr(zipfile.ZipInfo(file.name, DATE), file.content, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def unzipped(content: bytes) -> list[ReportFile]:
    """The files of a ZIP file of `zipped`. Raises UnreadableInput for what is none: no other name leads anywhere."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            wrong = [entry.filename for entry in entries if not _NAME.fullmatch(entry.filename)]
            if wrong or len(entries) > FILES_MAX or sum(entry.file_size for entry in entries) > BYTES_MAX:
                raise UnreadableInput("report: the answer of the server is no set of report files; is it a newer one?")
            return [ReportFile(entry.filename, archive.read(entry)) for entry in entries]
    except zipfile.BadZipFile as error:
        raise UnreadableInput(
            "report: the answer of the server is no set of report files; is it a newer one?"
        ) from error
