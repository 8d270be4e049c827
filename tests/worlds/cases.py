"""Cases of a rule that share one world: each plays its scene under a name of its own, and all are analyzed in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.worlds.detectors import World

Scene = Callable[[World, str], object]
"""Plays one case into a world under a name of its own: its job, its node, or the start of its GPUs' names."""


class Cases:
    """The scenes of all cases, and the name that each has in the world of all."""

    def __init__(self, *groups: Mapping[str, Scene]) -> None:
        self._scenes = {case: scene for group in groups for case, scene in group.items()}
        self._names = {case: f"{number:03d}" for number, case in enumerate(self._scenes)}

    def name(self, case: str) -> str:
        """The name of a case: short, and no other's beginning."""
        return self._names[case]

    @contextmanager
    def analyzed(self, directory: Path, **options: Any) -> Iterator[World]:
        """The world of all cases after one analysis in which no rule failed."""
        world = World(directory)
        for case, scene in self._scenes.items():
            scene(world, self.name(case))
        assert [] == world.analyze(**options).failed_rules
        yield world
        world.store.close()
