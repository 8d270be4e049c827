"""How Hypothesis runs: the same examples on every machine."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

DEPTH = int(os.environ.get("GPUWATCH_TEST_DEPTH", "1"))
"""How many times the usual number of drawn cases run: a night has time for more."""

steady = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),
)
"""A failure is a fact, not luck. Shrinking is worth its time only at a desk."""
