"""The note that a server leaves in its data directory: where it listens, for commands on the same directory."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "serve.json"


@dataclass(frozen=True)
class Note:
    """Process, address and secret of a running server. The file is readable by its owner only."""

    pid: int
    url: str
    secret: str


def leave(directory: Path, note: Note) -> None:
    """Writes the note, whole or not at all."""
    path, fresh = directory / FILE, directory / f"{FILE}.{os.getpid()}"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(note), file)
    os.replace(fresh, path)


def take_away(directory: Path) -> None:
    """Removes the note of this process."""
    note = find(directory)
    if note is not None and note.pid == os.getpid():
        (directory / FILE).unlink(missing_ok=True)


def find(directory: Path) -> Note | None:
    """The note of a server that runs; None where there is none, or its process is gone."""
    try:
        note = Note(**json.loads((directory / FILE).read_text("utf-8")))
        os.kill(note.pid, 0)
    except (OSError, ValueError, TypeError):
        return None
    return note
