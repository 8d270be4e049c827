"""Secrets and certificates of a connection, and the options that set them. Files may be replaced at any time."""

from __future__ import annotations

import ssl
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.core.errors import SourceUnreachable

MAX_SECRET_BYTES = 64 * 1024


class _Watched:
    """Files that are read again when any of them changes."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths
        self._seen: object = None

    def changed(self) -> bool:
        """Whether a file is new or changed since the last call; raises OSError if one is missing."""
        stats = [Path(path).stat() for path in self._paths]
        seen = [(stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats]
        changed, self._seen = seen != self._seen, seen
        return changed


class Secret:
    """A secret from the settings or from a file. Its text appears in no repr and no message."""

    def __init__(self, text: str = "", file: str = "") -> None:
        self._text = text
        self._file = file
        self._watched = _Watched(file) if file else None

    def __repr__(self) -> str:
        return "Secret(file)" if self._file else "Secret()"

    def read(self) -> str:
        """The secret; a changed file is read again. Raises ValueError naming a file that has none."""
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
    """Trusted CA and client certificate; the files are read again when they change."""

    def __init__(self, ca: str = "", cert: str = "", key: str = "", insecure: bool = False) -> None:
        self._ca, self._cert, self._key, self._insecure = ca, cert, key, insecure
        self._watched = _Watched(*(path for path in (ca, cert, key) if path))
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """The context for a connection. Raises ValueError naming the wrong file."""
        try:
            if self._watched.changed() or self._context is None:
                self._context = None  # remains so while the files are wrong
                self._context = self._load()
        except OSError as error:
            self._context = None
            what = error.filename or "ca_file, cert_file or key_file"
            raise ValueError(f"{what}: {error.strerror or error}") from None
        return self._context

    def _load(self) -> ssl.SSLContext:
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


@dataclass(frozen=True)
class Credentials:
    """What a request proves its identity with: a user name and password, a token, or nothing."""

    username: str = ""
    password: Secret | None = None
    bearer_token: Secret | None = None

    def headers(self) -> dict[str, str]:
        """The Authorization header, if any. Raises ValueError for a secret that cannot be read."""
        if self.bearer_token is not None:
            return {"Authorization": f"Bearer {self.bearer_token.read()}"}
        if self.password is not None:
            pair = f"{self.username}:{self.password.read()}".encode()
            return {"Authorization": f"Basic {b64encode(pair).decode()}"}
        return {}

    def __bool__(self) -> bool:
        return self.bearer_token is not None or self.password is not None


ANONYMOUS = Credentials()


def credential_options(options: Options) -> Credentials:
    """Reads username, password and bearer_token; each secret may come from a file."""
    username, password = options.text("username"), _secret_option(options, "password")
    token = _secret_option(options, "bearer_token")
    if bool(username) != (password is not None):
        options.wrong("username", "belongs together with password or password_file")
    if ":" in username:
        options.wrong("username", "must not contain a colon")
    if token is not None and password is not None:
        options.wrong("bearer_token", "give it, or username and password, not both")
    return Credentials(username, password, token)


def tls_options(options: Options) -> Tls:
    """Reads ca_file, cert_file, key_file and insecure_skip_verify."""
    ca, cert, key = (options.text(name) for name in ("ca_file", "cert_file", "key_file"))
    tls = Tls(ca, cert, key, options.flag("insecure_skip_verify", False))
    if key and not cert:
        options.wrong("key_file", "needs cert_file")
    if ca or cert:
        try:
            tls.context()
        except ValueError as error:
            options.wrong("ca_file, cert_file, key_file", str(error))
    return tls


def tls_context(ca_file: str, cert_file: str, key_file: str, insecure: bool, where: str) -> ssl.SSLContext:
    """The context of PEM files. Raises SourceUnreachable naming the file and `where` it is set."""
    try:
        return Tls(ca_file, cert_file, key_file, insecure).context()
    except ValueError as error:
        raise SourceUnreachable(f"{error}; check {where}") from error


def _secret_option(options: Options, name: str) -> Secret | None:
    """A secret from the table or from `<name>_file`, which is read once to report a wrong file."""
    text, file = options.text(name), options.text(f"{name}_file")
    if text and file:
        options.wrong(name, f"give it or {name}_file, not both")
        return Secret(text)
    if not text and not file:
        return None
    secret = Secret(text, file)
    try:
        secret.read()
    except ValueError as error:
        options.wrong(f"{name}_file", str(error))
    return secret
