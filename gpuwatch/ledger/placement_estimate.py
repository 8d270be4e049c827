"""Chooses devices for holds that a scheduler reports without a label, index or UUID: free devices in index order.

Pure: the result depends only on the arguments. A placed hold is marked `estimated` unless the
reported UUIDs and counts leave no choice.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuwatch.core.model import WHOLE_GPU, device_key

DEVICES_PER_NODE_MAX = 1024
WHOLE_UNITS = 10_000
"""Units of a whole device: Ray counts fractions in ten-thousandths."""


@dataclass(frozen=True)
class Wanted:
    """`count` devices of `profile` (None = whole GPUs) held by a run on a node during [start_us, end_us)."""

    run_id: int
    pod_uid: str | None
    node: str
    profile: str | None
    count: int
    start_us: int
    end_us: int
    indexes: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()
    """UUIDs of the slices' GPUs, of the slices themselves, or of GPUs that nobody measures, where the scheduler reports them."""
    units: int = WHOLE_UNITS
    """How much of each device it holds."""


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

    def busy_us(self, start_us: int, end_us: int) -> int:
        """Microseconds of [start_us, end_us) in which something already holds this device."""
        spans = self.held.meeting(start_us, end_us)
        return sum(min(end, end_us) - max(start, start_us) for start, end, _ in spans)

    def away_us(self, start_us: int, end_us: int) -> int:
        """Microseconds of [start_us, end_us) in which no GPU was in it."""
        return sum(max(min(end, end_us) - max(start, start_us), 0) for start, end in self.away)

    def load(self, start_us: int, end_us: int) -> int:
        """The most units that are held at any instant of [start_us, end_us)."""
        return most_units(list(self.held.meeting(start_us, end_us)), start_us)


@dataclass(frozen=True)
class Placed:
    """A run on one device."""

    run_id: int
    device_id: int
    pod_uid: str | None
    start_us: int
    end_us: int
    estimated: bool = True
    node: str | None = None
    slot: str | None = None
    """Where the device was, if it was moved."""


@dataclass
class Node:
    """The devices of one node: the measured ones, and those that only its inventory counts."""

    cluster: str
    name: str
    inventory: Mapping[str, int] | None
    slots: list[Slot]
    shared: bool = False
    named: dict[str, Slot] = field(default_factory=dict, init=False)
    """The device chosen for a UUID that samples do not contain: a slice's own, or that of a GPU that nobody measures."""

    def __post_init__(self) -> None:
        for profile, count in sorted((self.inventory or {}).items()):
            have = sum(1 for slot in self.slots if (slot.profile or "") == profile and not slot.former)
            for _ in range(min(count - have, DEVICES_PER_NODE_MAX)):
                self.add(profile or None, counted=True)

    def add(self, profile: str | None, *, counted: bool = False) -> Slot:
        """Adds an unmeasured device, named after the node and the lowest free index of its kind."""
        used = {slot.index for slot in self.slots if slot.profile == profile}
        index = next(i for i in range(DEVICES_PER_NODE_MAX + len(used) + 1) if i not in used)
        gpu = f"{self.name}/gpu{index}" if profile is None else f"{self.name}/{profile}/{index}"
        slot = Slot(device_key(self.cluster, gpu, WHOLE_GPU), gpu, index, profile, measured=False, counted=counted)
        insort(self.slots, slot, key=lambda s: (s.profile or "", s.index))
        return slot

    def kind(self, wanted: Wanted) -> str | None:
        """Under the single MIG strategy a request for a GPU is one for the node's only profile at that time."""
        if wanted.profile is not None:
            return wanted.profile
        known = {slot.profile for slot in self._present(wanted) if not slot.former and slot.counted}
        return known.pop() if len(known) == 1 else None

    def place(self, wanted: Wanted) -> list[Placed]:
        """Chooses `wanted.count` devices: free ones in index order, named GPUs and requested indexes first.

        Fractions of a device are packed onto as few devices as possible.
        """
        profile = self.kind(wanted)
        named, sure = self._named_slots(wanted, profile)
        taken = named
        for _ in range(min(wanted.count - len(named), DEVICES_PER_NODE_MAX)):
            best, full = self._best(
                [s for s in self._present(wanted) if s.profile == profile and s not in taken], wanted
            )
            taken.append(self.add(profile) if best is None or (full and self._may_grow(profile)) else best)
        self._name(wanted.gpus, profile, taken)
        return [placed for slot in taken for placed in self._turns(slot, wanted, taken, slot in sure)]

    def _turns(self, slot: Slot, wanted: Wanted, taken: list[Slot], sure: bool = False) -> Iterator[Placed]:
        """A device, and those that are free while it was not on this node."""
        slot.held.add(wanted.start_us, wanted.end_us, wanted.units)
        span = (wanted.start_us, wanted.end_us)
        yield Placed(wanted.run_id, slot.device_id, wanted.pod_uid, *span, not sure, self.name, slot.name)
        for away_us, here_us in slot.away:
            part = replace(wanted, start_us=max(away_us, wanted.start_us), end_us=min(here_us, wanted.end_us))
            if part.start_us < part.end_us:
                others = [s for s in self._present(part) if s.profile == slot.profile and s not in taken]
                best, full = self._best(others, part)
                if best is not None and not full:
                    yield from self._turns(best, part, taken)

    def _present(self, wanted: Wanted) -> list[Slot]:
        """The devices that were on this node for some of the time."""
        length_us = wanted.end_us - wanted.start_us
        return [s for s in self.slots if not s.away or s.away_us(wanted.start_us, wanted.end_us) < length_us]

    def _may_grow(self, profile: str | None) -> bool:
        """Without an inventory, the scheduler's records are the only evidence of the number of devices."""
        if self.inventory is None:
            return True
        have = sum(1 for slot in self.slots if slot.profile == profile and not slot.former)
        return have < self.inventory.get(profile or "", 0)

    def _best(self, slots: list[Slot], wanted: Wanted) -> tuple[Slot | None, bool]:
        """The best of these devices, and whether it is already taken."""
        span = (wanted.start_us, wanted.end_us)
        if wanted.units < WHOLE_UNITS:
            loads = {slot.device_id: slot.load(*span) for slot in slots}
            room = [s for s in slots if loads[s.device_id] + wanted.units <= WHOLE_UNITS]
            best = min(room, key=lambda s: (s.index not in wanted.indexes, -loads[s.device_id], s.index), default=None)
            if best is not None or not slots:
                return best, best is None
            return min(slots, key=lambda s: (loads[s.device_id], s.index)), not self.shared
        best = min(
            slots,
            key=lambda s: (s.busy_us(*span) + s.away_us(*span), s.index not in wanted.indexes, s.index),
            default=None,
        )
        return best, best is None or (best.busy_us(*span) > 0 and not self.shared)

    def _name(self, gpus: Iterable[str], profile: str | None, taken: Iterable[Slot]) -> None:
        """Remembers the device chosen for each UUID, so that the same UUID gets the same device again."""
        own = [name for name in gpus if name.startswith("MIG-") or (profile is None and self._unmeasured(name))]
        names = [name for name in own if name not in self.named]
        if names:
            known = {slot.device_id for slot in self.named.values()}
            self.named |= dict(zip(names, (slot for slot in taken if slot.device_id not in known), strict=False))

    def _unmeasured(self, gpu: str) -> bool:
        return all(slot.gpu != gpu for slot in self.slots)

    def _named_slots(self, wanted: Wanted, profile: str | None) -> tuple[list[Slot], list[Slot]]:
        """The slices that the reported UUIDs name, and those of them that are certain."""
        if not wanted.gpus:
            return [], []
        span = (wanted.start_us, wanted.end_us)
        taken, sure = list[Slot](), list[Slot]()
        for name in dict.fromkeys(wanted.gpus):
            if (known := self.named.get(name)) and known.profile == profile:
                taken.append(known)
                continue
            count = wanted.gpus.count(name)
            slices = [s for s in self.slots if s.gpu == name and s.profile == profile and s not in taken]
            free = [s for s in slices if not s.busy_us(*span)]
            chosen = sorted(slices, key=lambda s: (s.busy_us(*span), s.index))[:count]
            taken += chosen
            if count in (len(slices), len(free)):
                sure += chosen
        return taken[: wanted.count], sure


def most_units(spans: list[tuple[int, int, int]], from_us: int) -> int:
    """The most units that spans (start, end, units) hold at one instant from `from_us` on."""
    edges = [(max(start, from_us), units) for start, _, units in spans] + [(end, -units) for _, end, units in spans]
    now = most = 0
    for _, change in sorted(edges):
        now += change
        most = max(most, now)
    return most


def place(nodes: Mapping[str, Node], wanted: Iterable[Wanted]) -> list[Placed]:
    """Places every request on its node, in order of start (then run), so that the answer does not depend on input order.

    What names its GPUs goes before what takes any.
    """
    ordered = sorted(wanted, key=lambda w: (not w.gpus, w.start_us, w.run_id, w.node, w.profile or "", w.pod_uid or ""))
    return [placed for w in ordered for placed in nodes[w.node].place(w)]
