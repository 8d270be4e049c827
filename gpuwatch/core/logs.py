"""Structured logs: one JSON object per line on stderr, or plain text on a terminal."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
FIELD_MAX = 2000
"""The most characters of a field."""


class JsonLines(logging.Formatter):
    """`{"at", "level", "logger", "message", ...extra}`; a traceback in `traceback`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        entry: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:FIELD_MAX],
        }
        entry |= _extra(record)
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)[-FIELD_MAX:]
        return json.dumps(entry, default=str)


class PlainText(logging.Formatter):
    """`12:30:00 warning message key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line for people; control characters are escaped as in Python."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        extra = " ".join(f"{name}={value}" for name, value in _extra(record).items())
        line = f"{at} {record.levelname.lower()} {record.getMessage()} {extra}".rstrip()
        line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)[:FIELD_MAX]
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def set_up() -> None:
    """Sends all logs of the process to stderr, in one of the two formats."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainText() if sys.stderr.isatty() else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for noisy in ("uvicorn.error", "uvicorn.access", "aiohttp", "httpx", "httpcore", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
