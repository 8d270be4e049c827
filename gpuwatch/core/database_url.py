"""The URL of a PostgreSQL database: what is wrong with one, and how it is shown without its password."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

SCHEMES = ("postgresql+psycopg", "postgresql")
EXAMPLE = "postgresql+psycopg://gpuwatch@db.example.com/gpuwatch"
MAX_CHARACTERS = 2000
_SHOWN_OPTIONS = ("host", "port", "sslmode")
"""Options of a URL that may be shown. Others may hold a secret."""


def problem(url: str) -> str | None:
    """What is wrong with the URL of a database, without its password; None for a usable one."""
    if len(url) > MAX_CHARACTERS or url.partition("://")[0] not in SCHEMES:
        return f"is not the URL of a PostgreSQL database; write one like {EXAMPLE}"
    if url.count("@") > 1 or ("@" in url and "@" not in urlsplit(url).netloc) or "#" in url:
        return "has special characters in its user or password; percent-encode them: %40 for @, %2F for /, %23 for #"
    if not urlsplit(url).path.strip("/"):
        return f"names no database; write one like {EXAMPLE}"
    try:
        urlsplit(url).port  # noqa: B018 - raises
    except ValueError:
        return f"has a port that is not a number from 0 to 65535; write one like {EXAMPLE}"
    return None


def has_password(url: str) -> bool:
    """Whether the URL holds a password, which other users of the machine see in an argument of a command."""
    parts = urlsplit(url)
    return parts.password is not None or any("password" in name.lower() for name, _ in parse_qsl(parts.query))


def shown(url: str) -> str:
    """A URL without its password and without options that may be secret."""
    if problem(url) is not None:
        return "(not shown: it may hold a password)"
    parts = urlsplit(url)
    user, at, where = parts.netloc.rpartition("@")
    options = "&".join(f"{name}={value}" for name, value in parse_qsl(parts.query) if name in _SHOWN_OPTIONS)
    return f"postgresql://{user.partition(':')[0]}{at}{where}{parts.path}{'?' if options else ''}{options}"
