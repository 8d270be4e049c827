"""The fleet and the history that `gpuwatch demo` shows."""
