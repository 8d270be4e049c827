"""The note that a server leaves in its data directory: where it listens, for commands on the same directory."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

FILE = "serve.json"
ANSWER_S = 2.0
"""How long a server that listens may take to accept a connection."""
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where a server that listens on every address is asked on its own machine."""


@dataclass(frozen=True)
class Note:
    """Process, address and secret of a running server. The file is readable by its owner only."""

    pid: int
    url: str
    secret: str


def url_of(host: str, port: int) -> str:
    """The address at which this machine reaches a server bound to `host`."""
    near = ANYWHERE.get(host, host)
    return f"http://[{near}]:{port}" if ":" in near else f"http://{near}:{port}"


def leave(directory: Path, note: Note) -> None:
    """Writes the note, whole or not at all."""
    path, fresh = directory / FILE, directory / f"{FILE}.{os.getpid()}"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(note), file)
    os.replace(fresh, path)


def take_away(directory: Path) -> None:
    """Removes the note of this process."""
    note = _read(directory)
    if note is not None and note.pid == os.getpid():
        (directory / FILE).unlink(missing_ok=True)


def find(directory: Path) -> Note | None:
    """The note of a server that runs; None where there is none, its process is gone, or nobody listens there.

    In containers another process has the number of one that was killed: a note alone proves nothing.
    """
    note = _read(directory)
    if note is None:
        return None
    try:
        os.kill(note.pid, 0)
        at = urlsplit(note.url)
        socket.create_connection((at.hostname, at.port), ANSWER_S).close()
    except TimeoutError:
        return note  # it listens, and is busy
    except (OSError, ValueError, TypeError, OverflowError):
        return None
    return note


def _read(directory: Path) -> Note | None:
    try:
        return Note(**json.loads((directory / FILE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
