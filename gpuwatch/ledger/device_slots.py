"""The devices of a node as holds are placed on them, and the spans in which they are held. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field


class Spans:
    """Time spans with units, grouped by length, so that overlapping ones are found without scanning all of them."""

    def __init__(self) -> None:
        self._by_length: dict[int, list[tuple[int, int, int]]] = {}

    def add(self, start_us: int, end_us: int, units: int) -> None:
        """One more span [start_us, end_us)."""
        insort(self._by_length.setdefault((end_us - start_us).bit_length(), []), (start_us, end_us, units))

    def meeting(self, start_us: int, end_us: int) -> Iterator[tuple[int, int, int]]:
        """The spans (start, end, units) that share an instant with [start_us, end_us)."""
        for bits, spans in self._by_length.items():
            first, last = bisect_left(spans, (start_us - (1 << bits),)), bisect_left(spans, (end_us,))
            yield from (span for span in spans[first:last] if span[1] > start_us)


@dataclass
class Slot:
    """A device of a node and the spans in which it is held. `measured` devices are known from samples."""

    device_id: int
    gpu: str
    index: int
    profile: str | None
    measured: bool
    held: Spans = field(default_factory=Spans)
    """With the units that each holds of it."""
    name: str | None = None
    """Its name on the node, where a GPU was moved into it or out of it."""
    former: bool = False
    """Its GPU is on another node now."""
    away: tuple[tuple[int, int], ...] = ()
    """When no GPU was in it, or the GPU was cut otherwise."""
    counted: bool = True
    """Whether samples or an inventory show it; otherwise only a request does."""
    numbered: bool = True
    """`index` is its number on the node, not only its place in our list."""

    def busy_us(self, start_us: int, end_us: int) -> int:
        """Microseconds of [start_us, end_us) in which something already holds this device."""
        spans = self.held.meeting(start_us, end_us)
        return sum(min(end, end_us) - max(start, start_us) for start, end, _ in spans)

    def away_us(self, start_us: int, end_us: int) -> int:
        """Microseconds of [start_us, end_us) in which no GPU was in it."""
        return sum(max(min(end, end_us) - max(start, start_us), 0) for start, end in self.away)

    def free_until(self, start_us: int, end_us: int) -> int:
        """Until when in [start_us, end_us) nothing holds this device: `start_us` where it is held then."""
        return max(min((start for start, _, _ in self.held.meeting(start_us, end_us)), default=end_us), start_us)

    def edges(self, start_us: int, end_us: int) -> Iterator[int]:
        """Where in (start_us, end_us] something begins or ends to hold this device, and `end_us`."""
        yield end_us
        for span in self.held.meeting(start_us, end_us):
            yield from (us for us in span[:2] if start_us < us < end_us)

    def load(self, start_us: int, end_us: int) -> int:
        """The most units that are held at any instant of [start_us, end_us)."""
        return most_units(list(self.held.meeting(start_us, end_us)), start_us)


def most_units(spans: list[tuple[int, int, int]], from_us: int) -> int:
    """The most units that spans (start, end, units) hold at one instant from `from_us` on."""
    edges = [(max(start, from_us), units) for start, _, units in spans] + [(end, -units) for _, end, units in spans]
    now = most = 0
    for _, change in sorted(edges):
        now += change
        most = max(most, now)
    return most
