"""Answers to what a proposed rate card, list of owned hardware or team map would change."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from gpuwatch.api.common import answer
from gpuwatch.billing import policy_document, what_if
from gpuwatch.billing.proposed import Proposed
from gpuwatch.core.clock import Window


def compared(service: Any, proposed: Proposed, span: Window) -> Response:
    """What each team pays in a window now, and under what is proposed. Nothing is stored."""
    with service.reader() as store:
        found = what_if.compare(store, service.state, span, proposed=proposed)
    return answer(policy_document.difference_answer(found, span, what_if.closed_in(service.state, span)))
