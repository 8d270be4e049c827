"""The user behind a command, for the audit log; commands send it to the server of the same machine."""

from __future__ import annotations

import getpass
from urllib.parse import quote, unquote

HEADER = "X-Gpuwatch-User"
"""Header in which a command sends the user's name to the server of this machine, percent-encoded."""
MAX_CHARACTERS = 64
TYPED, LOOPBACK = "(command line)", "(loopback)"
"""Suffixes of user names that were not authenticated. No token may have such a name."""


def user() -> str | None:
    """The name of the user who runs this process; None if the system has none that can be printed."""
    try:
        return _shown(getpass.getuser())
    except (KeyError, OSError, ImportError):
        return None


def typed_by(name: str | None) -> str:
    """`ann (command line)`: an actor of the audit log."""
    return TYPED.strip("()") if name is None else f"{name} {TYPED}"


def sent_by(name: str | None) -> str:
    """`ann (loopback)`: an actor of the audit log who sent a request over loopback without a token."""
    return LOOPBACK.strip("()") if name is None else f"{name} {LOOPBACK}"


def encoded(name: str) -> str:
    """A name encoded for HEADER."""
    return quote(name, safe="")


def decoded(text: str | None) -> str | None:
    """The name in HEADER; None unless it has 1 to MAX_CHARACTERS printable characters."""
    # Percent-encoded, a character is at most 12 long.
    return None if text is None or len(text) > 12 * MAX_CHARACTERS else _shown(unquote(text))


def _shown(name: str) -> str | None:
    name = name.strip()
    return name if 0 < len(name) <= MAX_CHARACTERS and name.isprintable() else None
