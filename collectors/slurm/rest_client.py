"""Fetches a response of slurmrestd over TCP or a Unix socket, with bounds and error messages that name the fix."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gpuwatch.collectors.shared.credentials import tls_context
from gpuwatch.core.errors import SourceUnreachable

if TYPE_CHECKING:
    import aiohttp  # takes 0.2 s to import, which most commands do not need

MEMORY_BYTES = 8 << 20
"""A larger response is kept in a temporary file."""
MAX_ERROR_BYTES = 64 << 10
MAX_TOKEN_BYTES = 64 << 10
CONNECT_S = 10.0
TOKEN_HEADER = "X-SLURM-USER-TOKEN"
EXPIRED = ("authentication", "expired", "jwt", "token", "credential")
"""Words in the errors that an invalid token causes: slurmctld rejects it, and slurmrestd responds with 500."""


class PathNotFound(SourceUnreachable):
    """404: this server does not serve that path, or not in that version."""


@dataclass(frozen=True)
class Access:
    """Address of slurmrestd and credentials. Files are read for each request because tokens are renewed in place."""

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
        """Path of the Unix socket, "" for TCP."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix:") else ""


async def fetch(
    access: Access,
    path: str,
    query: Mapping[str, str],
    timeout_s: float,
    max_bytes: int,
    traces: Sequence[aiohttp.TraceConfig] = (),
) -> IO[bytes]:
    """Returns the body of a GET, positioned at its start. The caller closes it. `traces` follow the request.

    Raises PathNotFound for 404, SourceUnreachable for every other failure.
    """
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_S, timeout_s))
    base, headers = "http://localhost" if access.socket else access.url, _headers(access)
    body: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES)  # noqa: SIM115 - the caller closes it
    try:
        # A redirect could carry the token to another host.
        async with (
            aiohttp.ClientSession(
                connector=_connector(access), read_bufsize=1 << 20, trace_configs=list(traces)
            ) as session,
            session.get(base + path, params=query, headers=headers, timeout=timeout, allow_redirects=False) as response,
        ):
            if response.status != 200:
                error_body = await response.content.read(MAX_ERROR_BYTES)
                raise _http_error(access, path, response.status, _redact(headers.get(TOKEN_HEADER), error_body))
            size = 0
            async for chunk in response.content.iter_any():
                size += len(chunk)
                if size > max_bytes:
                    raise SourceUnreachable(
                        f"{path}: the response exceeds {max_bytes} bytes; raise max_bytes in [[slurm]]"
                    )
                body.write(chunk)
    except BaseException as error:
        body.close()
        if isinstance(error, SourceUnreachable):
            raise
        if isinstance(error, aiohttp.ClientError | TimeoutError | OSError):
            raise unreachable(access, path, error, timeout_s) from error
        raise
    body.seek(0)
    return body


def reported_error(access: Access, path: str, reason: str) -> SourceUnreachable:
    """An error that Slurm reported in its response, with the fix."""
    reason = _redact(_headers(access).get(TOKEN_HEADER), reason.encode()).decode(errors="replace")
    return SourceUnreachable(f"slurmrestd {path}: {reason}; {_fix(500, reason)}")


def unreachable(access: Access, path: str, error: Exception, timeout_s: float) -> SourceUnreachable:
    """Why there was no response, with the fix."""
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


def _http_error(access: Access, path: str, status: int, body: bytes) -> SourceUnreachable:
    message, where = _message(body), access.socket or access.url
    error = PathNotFound if status == 404 else SourceUnreachable
    return error(f"slurmrestd {where}{path}: {status} {message}".rstrip() + f"; {_fix(status, message)}")


def _fix(status: int, message: str) -> str:
    lower = message.lower()
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
    """The error descriptions in a response, else its first line."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        errors = value.get("errors")
        items = [item for item in errors if isinstance(item, dict)] if isinstance(errors, list) else []
        words = [str(item[key]) for item in items[:3] for key in ("description", "error") if item.get(key)]
        return ": ".join(dict.fromkeys(words))[:300]
    return next(iter(body.decode(errors="replace").strip().splitlines()), "")[:300]


def _redact(token: str | None, body: bytes) -> bytes:
    """Masks the token, which some servers repeat in their error messages."""
    return body.replace(token.encode(), b"***") if token else body


def _headers(access: Access) -> dict[str, str]:
    """Headers of a request. Raises SourceUnreachable for an invalid token file."""
    headers = {"Accept": "application/json"}
    if access.user:
        headers["X-SLURM-USER-NAME"] = access.user
    if access.token_file:
        try:
            with open(access.token_file, "rb") as file:
                token = file.read(MAX_TOKEN_BYTES).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SourceUnreachable(f"token_file {access.token_file}: cannot be read; check [[slurm]]") from error
        # `scontrol token` prints SLURM_JWT=…; the file may have the token with or without this prefix.
        headers[TOKEN_HEADER] = token.removeprefix("SLURM_JWT=")
        if not headers[TOKEN_HEADER].isprintable() or " " in headers[TOKEN_HEADER]:
            raise SourceUnreachable(
                f"token_file {access.token_file}: more than one word; keep only the last output of `scontrol token`"
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
    return tls_context(access.ca_file, access.cert_file, access.key_file, insecure, "[[slurm]]")
