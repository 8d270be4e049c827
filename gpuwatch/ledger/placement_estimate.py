"""Chooses devices for holds that a scheduler reports without a label, index or UUID: free devices in index order.

Pure: the result depends only on the arguments. A placed hold is marked `estimated` unless the
reported UUIDs and counts leave no choice.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuwatch.core.model import WHOLE_GPU, device_key
from gpuwatch.ledger.device_slots import Slot, Spans

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
    numbered: bool = False
    """Its scheduler numbers the devices as the node does: `indexes` name them."""
    totals: bool = False
    """Only the run's total is known: how much of it was on this node is a guess."""


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
    counted_us: int | None = None
    """When the inventory was last read: a GPU that was moved away later is one of it."""
    named: dict[str, Slot] = field(default_factory=dict, init=False)
    """The device chosen for a UUID that samples do not contain: a slice's own, or that of a GPU that nobody measures."""

    def __post_init__(self) -> None:
        for profile, count in sorted((self.inventory or {}).items()):
            have = sum(1 for slot in self.slots if (slot.profile or "") == profile and self._has(slot))
            for _ in range(min(count - have, DEVICES_PER_NODE_MAX)):
                self.add(profile or None, counted=True)

    def _has(self, slot: Slot) -> bool:
        """Whether a device is one of those that the inventory counts."""
        if not slot.former:
            return True
        at = self.counted_us
        return at is not None and not any(from_us <= at < until_us for from_us, until_us in slot.away)

    def add(self, profile: str | None, *, counted: bool = False) -> Slot:
        """Adds an unmeasured device, named after the node and the lowest free index of its kind."""
        used = {slot.index for slot in self.slots if slot.profile == profile}
        index = next(i for i in range(DEVICES_PER_NODE_MAX + len(used) + 1) if i not in used)
        gpu = f"{self.name}/gpu{index}" if profile is None else f"{self.name}/{profile}/{index}"
        slot = Slot(device_key(self.cluster, gpu, WHOLE_GPU), gpu, index, profile, measured=False, counted=counted)
        insort(self.slots, slot, key=lambda s: (s.profile or "", s.index))
        return slot

    def kind(self, wanted: Wanted) -> str | None:
        """Under the single MIG strategy a request for a GPU is one for the node's only profile when the run began."""
        if wanted.profile is not None:
            return wanted.profile
        present = [slot for slot in self._present(wanted) if not slot.former and slot.counted]
        first = [slot for slot in present if not any(a <= wanted.start_us < b for a, b in slot.away)]
        known = {slot.profile for slot in first or present}
        return known.pop() if len(known) == 1 else None

    def bound(self, wanted: Wanted) -> int | None:
        """How many devices of a kind it has, None where that is not known or where several runs share one.

        Without an inventory, it has those that are measured.
        """
        if self.shared:
            return None
        kind = self.kind(wanted)
        known = [slot for slot in self._present(wanted) if slot.measured or self.inventory is not None]
        return sum(1 for slot in known if slot.profile == kind) or None

    def indexed(self, wanted: Wanted) -> list[Slot]:
        """The unmeasured devices that the indexes name, none where the indexes leave a doubt.

        A measured device with one of these indexes is held already.
        """
        if not wanted.numbered or wanted.units < WHOLE_UNITS or wanted.profile or self.inventory is None:
            return []
        if any(slot.profile is not None or not slot.numbered or slot.away for slot in self.slots):
            return []
        named = [slot for slot in self.slots if slot.index in wanted.indexes and not slot.measured]
        return named if len(named) == wanted.count else []

    def place(self, wanted: Wanted) -> list[Placed]:
        """Chooses `wanted.count` devices: free ones in index order, named GPUs and requested indexes first.

        Fractions of a device are packed onto as few devices as possible.
        """
        profile = self.kind(wanted)
        named, sure = self._named_slots(wanted, profile)
        taken, crowded = named, 0
        for _ in range(min(wanted.count - len(named), DEVICES_PER_NODE_MAX)):
            others = [s for s in self._present(wanted) if s.profile == profile and s not in taken]
            best, full = self._best(others, wanted)
            if best is None or len(others) <= crowded or (full and self._may_grow(profile)):
                taken.append(self.add(profile))
            elif full and wanted.units == WHOLE_UNITS and not wanted.gpus and not any(s.away for s in others):
                crowded += 1
            else:
                taken.append(best)
        self._name(wanted.gpus, profile, taken)
        placed = [placed for slot in taken for placed in self._turns(slot, wanted, taken, slot in sure)]
        left = [s for s in self._present(wanted) if s.profile == profile and s not in taken]
        own: dict[int, Spans] = defaultdict(Spans)
        for _ in range(crowded):
            placed += self._cut(wanted, left, own)
        return placed

    def _cut(self, wanted: Wanted, slots: list[Slot], own: dict[int, Spans]) -> Iterator[Placed]:
        """Divides a request over time, because no device is free for all of it: one device after the other, each while it is free.

        While none is free, the device that others hold for the shortest part of the rest. `own` are the pieces of the same request.
        """
        pieces: list[tuple[Slot, int, int]] = []
        start_us = wanted.start_us
        while start_us < wanted.end_us:
            others = [s for s in slots if not any(own[s.device_id].meeting(start_us, start_us + 1))]
            best = max(
                others,
                key=lambda s: (s.free_until(start_us, wanted.end_us), -s.busy_us(start_us, wanted.end_us), -s.index),
            )
            end_us = best.free_until(start_us, wanted.end_us)
            if end_us <= start_us:
                end_us = min(us for s in slots for us in s.edges(start_us, wanted.end_us))
            if pieces and pieces[-1][0] is best:
                pieces[-1] = (best, pieces[-1][1], end_us)
            else:
                pieces.append((best, start_us, end_us))
            start_us = end_us
        for slot, from_us, to_us in pieces:
            slot.held.add(from_us, to_us, wanted.units)
            own[slot.device_id].add(from_us, to_us, wanted.units)
            yield Placed(wanted.run_id, slot.device_id, wanted.pod_uid, from_us, to_us, True, self.name, slot.name)

    def _turns(self, slot: Slot, wanted: Wanted, taken: list[Slot], sure: bool = False) -> Iterator[Placed]:
        """A device, and those that are free while it was not on this node."""
        slot.held.add(wanted.start_us, wanted.end_us, wanted.units)
        span = (wanted.start_us, wanted.end_us)
        yield Placed(wanted.run_id, slot.device_id, wanted.pod_uid, *span, not sure, self.name, slot.name)
        for away_us, here_us in slot.away:
            part = replace(wanted, start_us=max(away_us, wanted.start_us), end_us=min(here_us, wanted.end_us))
            if part.start_us < part.end_us:
                present = [s for s in self._present(part) if s not in taken]
                others = [s for s in present if s.profile == slot.profile]
                if not others and wanted.profile is None and slot.profile is not None:
                    others = [s for s in present if s.profile is None]  # the slice is part of a whole GPU again
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
        have = sum(1 for slot in self.slots if slot.profile == profile and self._has(slot))
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
            named = self.indexed(wanted)
            return list(named), named
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


def place(nodes: Mapping[str, Node], wanted: Iterable[Wanted]) -> list[Placed]:
    """Places every request on its node, in order of start (then run), so that the answer does not depend on input order.

    Requests that name their GPUs, by UUID or by index, come before those that take any.
    """

    def turn(w: Wanted) -> tuple[bool, bool, int, int, str, str, str]:
        exact = not w.gpus and bool(nodes[w.node].indexed(w))
        return not w.gpus, not exact, w.start_us, w.run_id, w.node, w.profile or "", w.pod_uid or ""

    ordered = sorted(wanted, key=turn)
    return [placed for w in ordered for placed in nodes[w.node].place(w)]
