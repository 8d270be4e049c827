"""Typed access to the fields of a JSON object."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from gpuwatch.core.clock import parse_rfc3339

Object = dict[str, Any]


class Malformed(ValueError):
    """A field of one object has the wrong shape; the text names the field."""


def mapping(parent: Object, key: str) -> Object:
    """The object under `key`, empty when absent or null; raises Malformed for anything else."""
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed(f"{key} is not an object")
    return value


def mappings(parent: Object, key: str) -> list[Object]:
    """The list of objects under `key`, empty when absent or null; raises Malformed for anything else."""
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Malformed(f"{key} is not a list of objects")
    return value


def string(parent: Object, key: str) -> str | None:
    """The text under `key`, None when absent, null or empty; raises Malformed for anything else."""
    value = parent.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise Malformed(f"{key} is not a string")
    return _encodable(value)


def require_metadata(item: Object, *keys: str) -> None:
    """Raises Malformed naming the `keys` that the metadata of a Kubernetes object lacks."""
    metadata = mapping(item, "metadata")
    if missing := [key for key in keys if string(metadata, key) is None]:
        raise Malformed(f"metadata has no {' and no '.join(missing)}")


def integer(parent: Object, key: str) -> int | None:
    """The whole number under `key` (quantities may be text: "8"), None when absent; raises Malformed otherwise."""
    value = parent.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,9}", str(value)):
        raise Malformed(f"{key} is not a whole number")
    return int(value)


def moment(parent: Object, key: str) -> int | None:
    """The RFC 3339 time under `key` in microseconds, None when absent or Go's zero time; raises Malformed."""
    text = string(parent, key)
    if text is None or text.startswith("0001-01-01T00:00:00"):
        return None
    try:
        return _parsed(text)
    except (ValueError, OverflowError) as error:
        raise Malformed(f"{key} is not an RFC 3339 time") from error


@lru_cache(maxsize=1 << 16)
def _parsed(text: str) -> int:
    """Cached: an object is sent again with every change of it, mostly with the same times."""
    return parse_rfc3339(text)


def labels_of(item: Object, key: str = "labels") -> dict[str, str]:
    """Labels (or `annotations`) of an object: text to text, others dropped."""
    labels = mapping(mapping(item, "metadata"), key)
    return {k: _encodable(v) for k, v in labels.items() if isinstance(v, str)}


def compact_json(value: Any) -> str:
    """Deterministic JSON without spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _encodable(text: str) -> str:
    """JSON may escape half a surrogate pair, which no UTF-8 column can hold: it becomes `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
