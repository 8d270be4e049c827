"""The fleet simulator: writes a bundle in the formats of real clusters, and the expected results."""

from gpuwatch.simulate.bundle import simulate
from gpuwatch.simulate.truth import Truth

__all__ = ["Truth", "simulate"]
