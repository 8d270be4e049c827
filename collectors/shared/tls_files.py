"""How to trust a server and to be trusted, from files that are read for each connection pool."""

from __future__ import annotations

import ssl
from pathlib import Path

from gpuwatch.core.errors import SourceUnreachable


def context_of(ca_file: str, cert_file: str, key_file: str, insecure: bool, where: str) -> ssl.SSLContext:
    """The context of PEM files, "" where there is none. Raises SourceUnreachable that names them and `where` they are set."""
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
        if cert_file:
            context.load_cert_chain(cert_file, key_file or None)
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(Path(p).name for p in (ca_file, cert_file, key_file) if p)
        raise SourceUnreachable(f"{named}: cannot be used for TLS ({error}); check {where}") from error
    if insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
