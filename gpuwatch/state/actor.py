"""Who types on the command line: told to the audit log, also by the server that the command asks."""

from __future__ import annotations

import getpass
from urllib.parse import quote, unquote

HEADER = "X-Gpuwatch-User"
"""What a command tells the server of this machine: the user's name, percent-encoded."""
MAX_CHARACTERS = 64
TYPED, LOOPBACK = "(command line)", "(loopback)"
"""What stands behind a user's name that nobody has proved: no token may be called so."""


def user() -> str | None:
    """The name of whoever runs this process; None where the system knows none that can be shown."""
    try:
        return _shown(getpass.getuser())
    except (KeyError, OSError, ImportError):
        return None


def typed_by(name: str | None) -> str:
    """`ann (command line)`: an actor of the audit log."""
    return TYPED.strip("()") if name is None else f"{name} {TYPED}"


def sent_by(name: str | None) -> str:
    """`ann (loopback)`: an actor of the audit log who asked over loopback, without a token."""
    return LOOPBACK.strip("()") if name is None else f"{name} {LOOPBACK}"


def encoded(name: str) -> str:
    """A name as HEADER has it."""
    return quote(name, safe="")


def decoded(text: str | None) -> str | None:
    """The name that HEADER has; None where it has none of 1 to MAX_CHARACTERS printable characters."""
    # Percent-encoded, a character is at most 12 long.
    return None if text is None or len(text) > 12 * MAX_CHARACTERS else _shown(unquote(text))


def _shown(name: str) -> str | None:
    name = name.strip()
    return name if 0 < len(name) <= MAX_CHARACTERS and name.isprintable() else None
