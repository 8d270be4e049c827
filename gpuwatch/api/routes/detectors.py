"""The rules: their words and thresholds."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from gpuwatch.analyze import parameters
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Svc, answer, errors
from gpuwatch.api.paging import CursorText, Limit, decode, page, question
from gpuwatch.api.schema import Detectors
from gpuwatch.detectors.rule import rules

router = APIRouter(prefix=PREFIX, tags=["findings"])


@router.get("/detectors", response_model=Detectors, responses=errors(), summary="The rules")
def detectors(access: Reader, service: Svc, limit: Limit = 100, cursor: CursorText = None) -> Response:
    """Title, reason and thresholds in force. The remedy depends on the evidence: each finding has its own."""
    items = [
        {
            "id": rule.id,
            "title": rule.title,
            "why": rule.why,
            "remedy": None,
            "bucket": rule.bucket,
            "thresholds": {name: float(value) for name, value in parameters(rule, service.settings).items()},
            "doc": f"docs/detectors/{rule.id}.md",
        }
        for rule in rules().values()
    ]
    asked = question({"route": "detectors"})
    chosen, following = page(items, limit, decode(cursor, asked), asked, lambda item: str(item["id"]))
    return answer({"items": chosen, "next": following})
