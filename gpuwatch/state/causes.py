"""Why the state's database refused: the driver's message in one line, and a fix."""

from __future__ import annotations

RESTORE = "restore it from a backup with gpuwatch restore BACKUP --state-only"
BUSY = "another process writes for long; wait for it, or stop it"
_FIXES = {
    "not a database": f"it is damaged; {RESTORE}",
    "malformed": f"it is damaged; {RESTORE}",
    "locked": BUSY,
    "lock timeout": BUSY,
    "readonly": "give this user write permission to the file and its directory",
    "disk I/O": "free space on its disk, or see what is wrong with it",
    "password authentication failed": "correct state_password_file, PGPASSWORD or the user of the URL",
    "no password supplied": "set state_password_file or PGPASSWORD",
    "does not exist": "create it (createuser, createdb), or correct the URL",
    "permission denied": "let this user create tables in its database: alter database NAME owner to USER",
    "read-only transaction": "it is a standby; name the primary server in the URL",
    "too many c": "raise max_connections of the server, or stop other clients",
    "starting up": "wait until it has started, and repeat",
    "shutting down": "wait until it has started again, and repeat",
    "terminating connection": "repeat; it reconnects",
    "closed the connection": "repeat; it reconnects",
    "connection is lost": "repeat; it reconnects",
    "translate host name": "correct the host of the URL",
    "resolve host": "correct the host of the URL",
    "refused": "start PostgreSQL there, or correct host and port of the URL",
    "timeout expired": "check that PostgreSQL runs there and that no firewall is between",
    "disk full": "free space on its disk",
    "No space left": "free space on its disk",
    "full": "free space on its disk",
}
"""A part of the driver's message, and the fix. The first that matches counts."""


def cause(error: BaseException) -> str:
    """The driver's message on one line, and a fix."""
    message = " ".join(str(getattr(error, "orig", None) or error).split())
    fix = next((fix for part, fix in _FIXES.items() if part in message), "check that the database can be reached")
    return f"{message}; {fix}"
