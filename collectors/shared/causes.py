"""Why an HTTP request failed, in words, from the exceptions of aiohttp."""

from __future__ import annotations

import ssl
from enum import Enum


class Cause(Enum):
    """Kinds of failure; each needs another fix."""

    SILENCE = "silence"
    NAME = "name"
    CERTIFICATE = "certificate"
    TLS = "tls"
    CONNECTION = "connection"
    CUT = "cut"
    HTTP = "http"


def cause_of(error: Exception) -> tuple[Cause, str]:
    """The kind of a failure and what happened. The special errors come before those they derive from."""
    import aiohttp  # takes 0.2 s: commands that only look for importers do without

    match error:
        case TimeoutError():
            return Cause.SILENCE, "no answer in time"
        case aiohttp.ClientConnectorDNSError():
            return Cause.NAME, "the host name is not known"
        case aiohttp.ClientConnectorCertificateError():
            return Cause.CERTIFICATE, f"the certificate is not accepted ({_reason(error.certificate_error)})"
        case aiohttp.ClientSSLError():
            return Cause.TLS, f"the TLS handshake failed ({_reason(error.os_error)})"
        case aiohttp.ClientConnectorError():
            return Cause.CONNECTION, _reason(error.os_error)
        case aiohttp.ClientPayloadError():
            return Cause.CUT, "the connection broke off within an answer"
        case aiohttp.ServerDisconnectedError() | ConnectionError():
            return Cause.CUT, "the connection was closed without an answer"
        case aiohttp.ClientResponseError():
            return Cause.HTTP, "the answer is not valid HTTP"
        case _:
            return Cause.CONNECTION, str(error) or "no connection"


def _reason(error: BaseException) -> str:
    """The system's words for a failed connection, without numbers and names of classes."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message).lower()
    if isinstance(error, ssl.SSLError):
        return str(error.reason or "no reason given").lower().replace("_", " ")
    words = error.strerror if isinstance(error, OSError) else ""
    return (words or "no connection").lower()
