"""An example for every request and answer of the OpenAPI, made from its schema and the names below. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

DEPTH_MAX = 8
"""Objects within objects; deeper ones are left out where they may be."""
NAMES: Mapping[str, Any] = {
    "account": "nlp", "bucket": "hoarded", "code": "not_found", "confidence": 0.95, "currency_a_day": "USD", "gpu_index": 3,
    "hint": "list them with GET /api/v1/findings", "id": "4711", "severity": "medium", "status": "ok", "action": "ack", "actor": "dana", "at": "2026-11-21T02:08:29Z", "by": "team", "cluster": "c1",
    "currency": "USD", "detector": "idle-hoarding", "detectors": "idle-hoarding", "devices": "GPU-6f0d5f1e-3c55-4f0c-9a53-0b8c1a8f7a11",
    "finding": "idle-hoarding-1053fed89869310d", "gpu": "GPU-6f0d5f1e-3c55-4f0c-9a53-0b8c1a8f7a11", "gpu_model": "NVIDIA H100 80GB HBM3",
    "gpus": "8", "headline": "vit-pretrain (job 4711) of team vision on gpu-node-0042 holds 2 idle GPUs", "job": "4711",
    "job_id": "4711", "jobs": "4711", "key": "idle-hoarding-1053fed89869310d", "kind": "job", "message": "unknown team",
    "mig_profile": "3g.40gb", "model": "NVIDIA H100 80GB HBM3", "name": "vit-pretrain", "namespace": "vision-train",
    "node": "gpu-node-0042", "nodes": "gpu-node-0042", "pool": "h100", "pricing": "on_demand", "profile": "3g.40gb",
    "queue": "vision-batch", "reason": "Batching is on the team's list for this sprint.",
    "remedy": "Release the devices: end the job or scale it to zero.", "rule": "idle-hoarding", "scheduler": "slurm",
    "scope": "read", "shape": "8", "summary": "2 of 4 devices idle: 14 device-hours in 2 idle runs, the longest 7 h.",
    "team": "vision", "teams": "vision", "title": "GPUs held and idle", "user": "alice", "week": "2026-W47", "window": "7d",
}  # fmt: skip
"""Values by the name of their field."""
UNKNOWN = frozenset(
    {
        "assignee",
        "ended_at",
        "error",
        "next",
        "previous_severity",
        "resolved_reason",
        "suppressed_by",
        "until",
        "verdict",
    }
)
"""Fields that are null most of the time."""
TEXTS = ("text", "12.34", "USD", "2026-W47", "2026-11", "vision", "2026-11-21", "10.2", "a1b2c3d4", "7d")
"""Values for fields without a known name: the first that the pattern takes."""
FORMATS: Mapping[str, str] = {
    "date-time": "2026-11-21T02:08:29Z",
    "date": "2026-11-21",
    "uri": "https://gpuwatch.example/",
    "binary": "",
}
JSON = "application/json"
Json = dict[str, Any]


def add_examples(document: Json) -> None:
    """Gives each JSON body and answer of an OpenAPI document, and each parameter in a path, an example."""
    make = _Maker(document.get("components", {}).get("schemas", {}))
    for operation in (each for methods in document["paths"].values() for each in methods.values()):
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                parameter.setdefault("example", make.value(parameter["schema"], parameter["name"]))
        for content in _contents(operation):
            if "schema" in content:
                content.setdefault("example", make.value(content["schema"], ""))


def _contents(operation: Json) -> Iterator[Json]:
    """The JSON contents of a request and of what answers it well."""
    answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    for holder in (operation.get("requestBody", {}), *answers):
        if JSON in holder.get("content", {}):
            yield holder["content"][JSON]


class _Maker:
    """Makes values of schemas; `definitions` are the components that they refer to."""

    def __init__(self, definitions: Mapping[str, Json]) -> None:
        self._definitions = definitions

    def value(self, schema: Json, name: str, depth: int = 0) -> Any:
        """A value of the schema of a field called `name`."""
        if "$ref" in schema:
            return self.value(self._definitions[schema["$ref"].rpartition("/")[2]], name, depth)
        if "examples" in schema or "const" in schema or "enum" in schema:
            known = schema.get("examples") or schema.get("enum") or [schema["const"]]
            return NAMES[name] if NAMES.get(name) in known else known[0]
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return self._choice(options, name, depth)
        if parts := schema.get("allOf"):
            return self.value({**parts[0], **{k: v for k, v in schema.items() if k != "allOf"}}, name, depth)
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, name, depth)
        if kind == "string":
            return _text(schema, name)
        return _plain(schema, name, kind)

    def _choice(self, options: list[Json], name: str, depth: int) -> Any:
        present = [option for option in options if option.get("type") != "null"]
        if (depth > DEPTH_MAX or name in UNKNOWN) and len(present) < len(options):
            return None
        return self.value(present[0], name, depth) if present else None

    def _object(self, schema: Json, depth: int) -> Json:
        properties, needed = schema.get("properties", {}), schema.get("required", ())
        found = {
            name: self.value(each, name, depth + 1)
            for name, each in properties.items()
            if depth < DEPTH_MAX or name in needed
        }
        more = schema.get("additionalProperties")
        if isinstance(more, dict) and more and not properties:
            found["vision"] = self.value(more, "", depth + 1)
        return found

    def _array(self, schema: Json, name: str, depth: int) -> list[Any]:
        if "prefixItems" in schema:
            return [self.value(each, name, depth + 1) for each in schema["prefixItems"]]
        least = schema.get("minItems", 0)
        if "items" not in schema or (depth > DEPTH_MAX and not least):
            return []
        return [self.value(schema["items"], name, depth + 1)] * max(least, 1)


def _text(schema: Json, name: str) -> str:
    """A text that keeps the pattern, format and lengths of the schema."""
    if schema.get("format") in FORMATS:
        return FORMATS[schema["format"]]
    pattern, most = schema.get("pattern"), schema.get("maxLength")
    least: int = schema.get("minLength", 0)
    for text in (NAMES.get(name, ""), schema.get("default"), *TEXTS):
        if not isinstance(text, str) or len(text) < max(least, 1) or (most is not None and len(text) > most):
            continue
        if pattern is None or re.search(pattern, text):
            return text
    return "x" * max(least, 1)


def _plain(schema: Json, name: str, kind: str | None) -> Any:
    """A number, a boolean or anything."""
    if kind == "boolean":
        return bool(schema.get("default", False))
    if kind not in ("integer", "number"):
        return None if kind == "null" else {}
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    if isinstance(schema.get("default"), int | float):
        return schema["default"]
    if isinstance(NAMES.get(name), int | float):
        return NAMES[name]
    value = 0.42 if kind == "number" and (high == 1 or "ratio" in name) else 8
    value = max(value, low + ("exclusiveMinimum" in schema)) if low is not None else value
    return min(value, high) if high is not None else value
