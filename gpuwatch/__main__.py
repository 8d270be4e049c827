"""`python -m gpuwatch` is the `gpuwatch` command."""

from __future__ import annotations

from gpuwatch.cli import main

if __name__ == "__main__":
    main()
