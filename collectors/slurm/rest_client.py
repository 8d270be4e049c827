"""One answer of slurmrestd over TCP or a socket file: bounded, kept beside memory, its errors told with the fix."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gpuwatch.collectors.shared.tls_files import context_of
from gpuwatch.core.errors import SourceUnreachable

if TYPE_CHECKING:
    import aiohttp  # takes 0.2 s: commands that only look for importers do without

MEMORY_BYTES = 8 << 20
"""A larger answer waits in a temporary file until it is read."""
MAX_COMPLAINT_BYTES = 64 << 10
MAX_TOKEN_BYTES = 64 << 10
CONNECT_S = 10.0
TOKEN_HEADER = "X-SLURM-USER-TOKEN"
EXPIRED = ("authentication", "expired", "jwt", "token", "credential")
"""Words of the errors that a wrong token brings: slurmctld refuses it, and slurmrestd answers 500."""


class NotThere(SourceUnreachable):
    """404: this server does not serve that path, or that version of it."""


@dataclass(frozen=True)
class Access:
    """Where slurmrestd is and who asks. Files are read again for each request: tokens are renewed in place."""

    url: str
    """http://host:6820, https://…, or unix:///path/slurmrestd.sock."""
    token_file: str = ""
    user: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    insecure_skip_verify: bool = False

    @property
    def socket(self) -> str:
        """Path of the socket file, "" for TCP."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix:") else ""


async def fetch(access: Access, path: str, query: Mapping[str, str], timeout_s: float, max_bytes: int) -> IO[bytes]:
    """The body of a GET, at its beginning. The caller closes it.

    Raises NotThere for 404, SourceUnreachable for everything else that is no answer.
    """
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_S, timeout_s))
    base, headers = "http://localhost" if access.socket else access.url, _headers(access)
    body: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES)  # noqa: SIM115 - the caller closes it
    try:
        # A redirect could carry the token to another host.
        async with (
            aiohttp.ClientSession(connector=_connector(access), read_bufsize=1 << 20) as session,
            session.get(base + path, params=query, headers=headers, timeout=timeout, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                complaint = await answer.content.read(MAX_COMPLAINT_BYTES)
                raise _refused(access, path, answer.status, _without(headers.get(TOKEN_HEADER), complaint))
            size = 0
            async for piece in answer.content.iter_any():
                size += len(piece)
                if size > max_bytes:
                    raise SourceUnreachable(
                        f"{path}: answers with more than {max_bytes} bytes; raise max_bytes in [[slurm]]"
                    )
                body.write(piece)
    except BaseException as error:
        body.close()
        if isinstance(error, SourceUnreachable):
            raise
        if isinstance(error, aiohttp.ClientError | TimeoutError | OSError):
            raise unreachable(access, path, error, timeout_s) from error
        raise
    body.seek(0)
    return body


def told_error(access: Access, path: str, reason: str) -> SourceUnreachable:
    """An error that Slurm told in its answer, with the fix."""
    reason = _without(_headers(access).get(TOKEN_HEADER), reason.encode()).decode(errors="replace")
    return SourceUnreachable(f"slurmrestd {path}: {reason}; {_fix(500, reason)}")


def unreachable(access: Access, path: str, error: Exception, timeout_s: float) -> SourceUnreachable:
    """Why no answer came, with the fix."""
    import aiohttp

    where, fix = access.socket or access.url, "check that slurmrestd runs and can be reached from here"
    why = str(error) or type(error).__name__
    if isinstance(error, TimeoutError):
        why, fix = f"no answer within {timeout_s:g} s", "see `scontrol ping`, or raise timeout_s in [[slurm]]"
    elif isinstance(error, aiohttp.ClientConnectorCertificateError):
        fix = "set ca_file in [[slurm]] to the CA of slurmrestd's certificate"
    elif isinstance(error, PermissionError) or isinstance(getattr(error, "os_error", None), PermissionError):
        why, fix = "permission denied", f"let this user write to the socket: chgrp and chmod g+rw {access.socket}"
    elif access.socket and not Path(access.socket).exists():
        why, fix = "there is no such socket", "start slurmrestd with it, or correct url in [[slurm]]"
    return SourceUnreachable(f"slurmrestd {where}{'' if access.socket else path}: {why}; {fix}")


def _refused(access: Access, path: str, status: int, body: bytes) -> SourceUnreachable:
    said = _message(body)
    where = access.socket or access.url
    if status == 404:
        return NotThere(f"slurmrestd {where}{path}: 404 {said}; {_fix(404, said)}".replace(": 404 ;", ": 404;"))
    return SourceUnreachable(f"slurmrestd {where}{path}: {status} {said}".rstrip() + f"; {_fix(status, said)}")


def _fix(status: int, said: str) -> str:
    lower = said.lower()
    if status in (401, 403) or any(word in lower for word in EXPIRED):
        return (
            "renew the token: `scontrol token username=<user> lifespan=<s>` into token_file in [[slurm]], and name that "
            "user there; over a socket file run slurmrestd with rest_auth/local"
        )
    if status == 404:
        return "load its plugins (slurmrestd -s openapi/slurmctld,openapi/slurmdbd) or correct url in [[slurm]]"
    if "dbd" in lower or "database" in lower or "accounting" in lower:
        return "check slurmdbd; a site without accounting sets accounting = false in [[slurm]]"
    return "check that slurmctld runs (`scontrol ping`) and see slurmrestd's log"


def _message(body: bytes) -> str:
    """What the errors of an answer say, else its first line."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        errors = value.get("errors")
        told = [item for item in errors if isinstance(item, dict)] if isinstance(errors, list) else []
        words = [str(item[key]) for item in told[:3] for key in ("description", "error") if item.get(key)]
        return ": ".join(dict.fromkeys(words))[:300]
    return next(iter(body.decode(errors="replace").strip().splitlines()), "")[:300]


def _without(token: str | None, said: bytes) -> bytes:
    """What a server said, without the token: some repeat what they refuse."""
    return said.replace(token.encode(), b"***") if token else said


def _headers(access: Access) -> dict[str, str]:
    """Headers of a request. Raises SourceUnreachable for a token that is none."""
    headers = {"Accept": "application/json"}
    if access.user:
        headers["X-SLURM-USER-NAME"] = access.user
    if access.token_file:
        try:
            with open(access.token_file, "rb") as file:
                token = file.read(MAX_TOKEN_BYTES).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SourceUnreachable(f"token_file {access.token_file}: cannot be read; check [[slurm]]") from error
        # `scontrol token` prints SLURM_JWT=…; either form may be in the file.
        headers[TOKEN_HEADER] = token.removeprefix("SLURM_JWT=")
        if not headers[TOKEN_HEADER].isprintable() or " " in headers[TOKEN_HEADER]:
            raise SourceUnreachable(
                f"token_file {access.token_file}: more than one word; keep only what `scontrol token` printed last"
            )
    return headers


def _connector(access: Access) -> aiohttp.BaseConnector:
    import aiohttp

    if access.socket:
        return aiohttp.UnixConnector(access.socket)
    return aiohttp.TCPConnector(ssl=_tls(access))


def _tls(access: Access) -> Any:
    if not access.url.startswith("https:"):
        return True
    insecure = access.insecure_skip_verify
    return context_of(access.ca_file, access.cert_file, access.key_file, insecure, "[[slurm]]")
