"""Requests to the server that holds a data directory, used instead of opening its files."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import IOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from gpuwatch.api.codes import OF_REQUESTS
from gpuwatch.core.errors import SourceUnreachable, UnreadableInput, UsageError
from gpuwatch.output.progress import Step
from gpuwatch.state import actor as state_actor
from gpuwatch.store.lockfile import Note

if TYPE_CHECKING:
    from gpuwatch.imports.files import ImportReport

TIMEOUT_S = 300.0
PAGES_MAX = 100_000
PAGE_ITEMS = 1000
COPY_BYTES = 1 << 20
BUSY = 503
BUSY_S = 60.0
"""How long to retry while the server is busy with an analysis, at the interval it asks for."""
FOLDERS_SENT = 8
"""Trailing parts of a file's path sent to the server: the folder name identifies the delivery."""


def get(note: Note, route: str, parameters: Mapping[str, Any]) -> bytes:
    """The body of a GET response. Raises UsageError or SourceUnreachable with the server's message."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return _open(note, Request(f"{note.url}{route}?{urlencode(given, doseq=True)}"))


def every(note: Note, route: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A list with the items of all its pages."""
    first: dict[str, Any] = json.loads(get(note, route, {**parameters, "limit": PAGE_ITEMS}))
    following = first.get("next")
    for _ in range(PAGES_MAX):
        if following is None:
            break
        more = json.loads(get(note, route, {**parameters, "limit": PAGE_ITEMS, "cursor": following}))
        first["items"] += more["items"]
        following = more["next"]
    return first


def post(note: Note, route: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The response to a POST request."""
    request = Request(f"{note.url}{route}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    answer: dict[str, Any] = json.loads(_open(note, request) or b"{}")
    return answer


def delete(note: Note, route: str) -> dict[str, Any]:
    """The response to a DELETE request."""
    answer: dict[str, Any] = json.loads(_open(note, Request(f"{note.url}{route}", method="DELETE")) or b"{}")
    return answer


def send(
    note: Note,
    method: str,
    route: str,
    content: bytes,
    kind: str,
    parameters: Mapping[str, Any],
    if_match: str | None = None,
) -> dict[str, Any]:
    """The response to an uploaded file; `kind` is its content type, `if_match` the version of the list that it may replace."""
    given = {name: value for name, value in parameters.items() if value is not None}
    query = f"?{urlencode(given, doseq=True)}" if given else ""
    headers = {"Content-Type": kind} | ({} if if_match is None else {"If-Match": if_match})
    request = Request(f"{note.url}{route}{query}", content, headers, method=method)
    answer: dict[str, Any] = json.loads(_open(note, request) or b"{}")
    return answer


def send_file(note: Note, route: str, path: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The response to an upload streamed from disk. Raises UnreadableInput if the file cannot be read."""
    query = urlencode({name: value for name, value in parameters.items() if value is not None}, doseq=True)
    try:
        with path.open("rb") as file:
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(path.stat().st_size)}
            request = Request(f"{note.url}{route}?{query}", file, headers, method="POST")
            answer: dict[str, Any] = json.loads(_open(note, request))
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror or error}") from error
    return answer


def send_bills(note: Note, kind: str, paths: Sequence[Path], step: Step) -> ImportReport:
    """Uploads files and directories of bills. Raises UnreadableInput as a local import does, and SourceUnreachable if
    the server cannot be reached.
    """
    from gpuwatch.imports.files import ImportReport, parts_of

    files = [part.path for path in paths for part in parts_of(kind, path, None, "UTC")]
    siblings = sorted({file.name for file in files}) if len(files) > 1 else None
    report = ImportReport()
    for number, file in enumerate(files):
        step(number, len(files), file.name)
        try:
            _send_bill(note, kind, file, siblings, report)
        except UnreadableInput as error:
            report.unreadable.append(str(error))
    if report.unreadable and (not report.files + report.repeated or any(path.is_file() for path in paths)):
        raise UnreadableInput("; ".join(report.unreadable[:5]))
    return report


def _send_bill(note: Note, kind: str, file: Path, siblings: Sequence[str] | None, report: ImportReport) -> None:
    from gpuwatch.core.model import Rejects
    from gpuwatch.imports.uploads import FILE_BYTES_MAX

    if file.is_file() and file.stat().st_size > FILE_BYTES_MAX:
        raise UnreadableInput(
            f"{file}: larger than the upload limit of {FILE_BYTES_MAX} bytes; compress it with gzip, or stop the server, "
            "import it, and start the server again"
        )
    parts = [part for part in file.parts if part not in (file.anchor, "..")]
    name = "/".join(parts[-FOLDERS_SENT:])
    try:
        done = send_file(note, "/api/v1/bills", file, {"kind": kind, "name": name, "beside": siblings})
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


def save(note: Note, route: str, parameters: Mapping[str, Any], file: BinaryIO) -> list[str]:
    """Streams a response body to a file and returns the server's warnings."""
    request = Request(f"{note.url}{route}?{urlencode(parameters, doseq=True)}")
    with _answer(note, request) as answer:
        shutil.copyfileobj(answer, file, COPY_BYTES)
        warnings: list[str] = json.loads(answer.headers.get("X-Gpuwatch-Warnings", "[]"))
    return warnings


def _open(note: Note, request: Request) -> bytes:
    with _answer(note, request) as answer:
        content: bytes = answer.read()
        return content


@contextmanager
def _answer(note: Note, request: Request) -> Iterator[Any]:
    """The open response to a request. Raises UsageError or SourceUnreachable, also if reading it fails."""
    request.add_header("Authorization", f"Bearer {note.secret}")
    if (name := state_actor.user()) is not None:
        request.add_header(state_actor.HEADER, state_actor.encoded(name))
    try:
        with _opened(request) as answer:
            yield answer
    except HTTPError as error:
        text = _words(error.read())
        if error.code < 500:
            raise UsageError(text) from error
        raise SourceUnreachable(f"the server at {note.url} (process {note.pid}): {text}") from error
    except (URLError, OSError) as error:
        raise SourceUnreachable(
            f"the data directory is in use by process {note.pid}, which does not respond at {note.url}: {error}; "
            "stop it, or try again in a moment"
        ) from error


def _opened(request: Request) -> Any:
    """The response. A busy server has done nothing yet and names a time to retry. Raises HTTPError, URLError."""
    until_s = time.monotonic() + BUSY_S
    while True:
        if isinstance(request.data, IOBase):
            request.data.seek(0)  # the rejected request consumed the file
        try:
            return build_opener(ProxyHandler({})).open(request, timeout=TIMEOUT_S)
        except HTTPError as error:
            wait = error.headers.get("Retry-After", "")
            if error.code != BUSY or not wait.isdecimal() or time.monotonic() + int(wait) > until_s:
                raise
        time.sleep(int(wait))


def _words(body: bytes) -> str:
    try:
        failure = json.loads(body)["error"]
        hint = failure.get("hint") or ""
        # Leave out hints about HTTP requests, which do not apply to commands.
        helps = hint and hint not in OF_REQUESTS and not hint.startswith("GET /")
        return f"{failure['message']}; {hint}" if helps else str(failure["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")
