"""The fleet simulator: writes a bundle in the wire formats of real clusters, and the truth about it."""

from gpuwatch.simulate.bundle import simulate
from gpuwatch.simulate.truth import Truth

__all__ = ["Truth", "simulate"]
