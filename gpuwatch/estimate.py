"""Places on devices what a scheduler says was held and no label, index or UUID names: free devices in index order.

Pure: the answer depends only on its arguments. A placed hold is marked `estimated` (domain.md section 7.5).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuwatch.model import WHOLE_GPU, device_key

DEVICES_PER_NODE_MAX = 1024


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


@dataclass
class Slot:
    """A device of a node and the spans in which it is held. `measured` devices are known from samples."""

    device_id: int
    gpu: str
    index: int
    profile: str | None
    measured: bool
    held: list[tuple[int, int]] = field(default_factory=list)

    def busy_us(self, start_us: int, end_us: int) -> int:
        """Microseconds of [start_us, end_us) in which something already holds this device."""
        return sum(max(0, min(end, end_us) - max(start, start_us)) for start, end in self.held)


@dataclass(frozen=True)
class Placed:
    """A run on one device."""

    run_id: int
    device_id: int
    pod_uid: str | None
    start_us: int
    end_us: int


@dataclass
class Node:
    """The devices of one node: measured ones, and as many unseen ones as its inventory counts beyond them."""

    cluster: str
    name: str
    inventory: Mapping[str, int] | None
    slots: list[Slot]
    shared: bool = False
    only: str | None = field(default=None, init=False)
    """The node's only MIG profile, where it has no whole GPU."""

    def __post_init__(self) -> None:
        for profile, count in sorted((self.inventory or {}).items()):
            have = sum(1 for slot in self.slots if (slot.profile or "") == profile)
            for _ in range(min(count - have, DEVICES_PER_NODE_MAX)):
                self.add(profile or None)
        known = {slot.profile for slot in self.slots}
        self.only = known.pop() if len(known) == 1 else None

    def add(self, profile: str | None) -> Slot:
        """A device that nothing measured; its name is the node and the lowest free index of its kind."""
        used = {slot.index for slot in self.slots if slot.profile == profile}
        index = next(i for i in range(DEVICES_PER_NODE_MAX + len(used) + 1) if i not in used)
        gpu = f"{self.name}/gpu{index}" if profile is None else f"{self.name}/{profile}/{index}"
        slot = Slot(device_key(self.cluster, gpu, WHOLE_GPU), gpu, index, profile, measured=False)
        insort(self.slots, slot, key=lambda s: (s.profile or "", s.index))
        return slot

    def kind(self, profile: str | None) -> str | None:
        """Under the single MIG strategy a request for a GPU is one for the node's only profile."""
        return self.only if profile is None else profile

    def place(self, wanted: Wanted) -> list[Placed]:
        """Chooses `wanted.count` devices: free ones in index order, asked-for indexes first."""
        profile = self.kind(wanted.profile)
        limit = None if self.inventory is None else self.inventory.get(profile or "", 0)
        taken: list[Slot] = []
        for _ in range(min(wanted.count, DEVICES_PER_NODE_MAX)):
            slots = [s for s in self.slots if s.profile == profile and s not in taken]
            span = (wanted.start_us, wanted.end_us)
            best = min(
                slots,
                key=lambda s: (s.busy_us(*span), s.index not in wanted.indexes, s.index),
                default=None,
            )
            full = best is None or (best.busy_us(*span) > 0 and not self.shared)
            have = sum(1 for s in self.slots if s.profile == profile)
            # Without an inventory the scheduler's word is the only evidence of how many devices there are.
            if full and (limit is None or have < limit or best is None):
                best = self.add(profile)
            assert best is not None
            taken.append(best)
        for slot in taken:
            slot.held.append((wanted.start_us, wanted.end_us))
        return [Placed(wanted.run_id, slot.device_id, wanted.pod_uid, wanted.start_us, wanted.end_us) for slot in taken]


def place(nodes: Mapping[str, Node], wanted: Iterable[Wanted]) -> list[Placed]:
    """Places every request on its node, in order of start (then run), so that the answer does not depend on input order."""
    ordered = sorted(wanted, key=lambda w: (w.start_us, w.run_id, w.node, w.profile or "", w.pod_uid or ""))
    return [placed for w in ordered for placed in nodes[w.node].place(w)]
