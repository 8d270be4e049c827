"""Secrets and certificates of a connection, from files that may be replaced at any time."""

from __future__ import annotations

import ssl
from pathlib import Path

MAX_SECRET_BYTES = 64 * 1024


class _Watched:
    """Files that are read again when one of them changes."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths
        self._seen: object = None

    def changed(self) -> bool:
        """Whether a file is new or changed since the last call; raises OSError when one is missing."""
        stats = [Path(path).stat() for path in self._paths]
        seen = [(stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats]
        changed, self._seen = seen != self._seen, seen
        return changed


class Secret:
    """A secret as given, or from a file. Its text is in no repr and no message."""

    def __init__(self, text: str = "", file: str = "") -> None:
        self._text = text
        self._file = file
        self._watched = _Watched(file) if file else None

    def __repr__(self) -> str:
        return "Secret(file)" if self._file else "Secret()"

    def read(self) -> str:
        """The secret; a changed file is read again. Raises ValueError that names the file when it has none."""
        if self._watched is None:
            return self._text
        try:
            if self._watched.changed():
                with open(self._file, encoding="utf-8") as file:
                    self._text = file.read(MAX_SECRET_BYTES).strip()
        except (OSError, UnicodeDecodeError) as error:
            self._text = ""
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise ValueError(f"{self._file}: {reason}") from None
        if not self._text or not self._text.isprintable():
            raise ValueError(f"{self._file}: holds no secret of one line")
        return self._text


class Tls:
    """How to trust and to be trusted; the files are read again when they change."""

    def __init__(self, ca: str = "", cert: str = "", key: str = "", insecure: bool = False) -> None:
        self._ca, self._cert, self._key, self._insecure = ca, cert, key, insecure
        self._watched = _Watched(*(path for path in (ca, cert, key) if path))
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """The context for a connection. Raises ValueError that says which file is wrong."""
        try:
            if self._watched.changed() or self._context is None:
                self._context = None  # stays so while the files are wrong
                self._context = self._made()
        except OSError as error:
            self._context = None
            what = error.filename or "ca_file, cert_file or key_file"
            raise ValueError(f"{what}: {error.strerror or error}") from None
        return self._context

    def _made(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._ca or None)
        except ssl.SSLError:
            raise ValueError(f"{self._ca}: holds no PEM certificate") from None
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self._cert:
            try:
                context.load_cert_chain(self._cert, self._key or None, password="")
            except ssl.SSLError:
                raise ValueError(f"{self._cert}: no PEM certificate with its unencrypted key") from None
        return context
