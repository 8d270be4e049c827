"""Models of the coverage route."""

from __future__ import annotations

from gpuwatch.api.schema.common import Strict, Time


class Coverage(Strict):
    start: Time | None
    end: Time | None
    ended: bool
