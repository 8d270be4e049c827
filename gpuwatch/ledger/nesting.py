"""Runs inside other runs: Ray or Slurm in a pod, Ray in a Slurm job. Chooses which devices of the outer run an inner
run holds. Pure.

An inner run never holds more than its outer run does: not another device, and not a microsecond longer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuwatch.ledger.device_slots import Spans, most_units
from gpuwatch.ledger.placement_estimate import WHOLE_UNITS

Holder = tuple[int, str | None]
"""A run and its pod, None where it has none."""


@dataclass(frozen=True)
class OuterHold:
    """A device that an outer run holds during [start_us, end_us)."""

    holder: Holder
    node: str
    device_id: int
    order: int
    """Place of the device among those of its node."""
    profile: str | None
    start_us: int
    end_us: int
    estimated: bool


@dataclass(frozen=True)
class Inner:
    """An inner run that holds `count` devices of its outer runs, `units` ten-thousandths of each."""

    holder: Holder
    outers: tuple[tuple[Holder, int, int], ...]
    """Outer runs with start and end."""
    node: str
    host: str | None
    """The node of the devices, where the outer runs use the same node names; None in a pod."""
    profile: str | None
    count: int
    units: int
    start_us: int
    end_us: int
    indexes: tuple[int, ...] = ()
    """Which of the outer run's devices, by order."""


@dataclass(frozen=True)
class InnerHold:
    """An inner run on one device of an outer run."""

    holder: Holder
    outer: Holder
    node: str
    """The inner run's own: the name of the pod where the outer run is one."""
    device_id: int
    start_us: int
    end_us: int
    units: int
    estimated: bool


def refine(inners: Iterable[Inner], holds: Iterable[OuterHold], signs: Mapping[Holder, set[int]]) -> list[InnerHold]:
    """Puts inner runs on devices of their outer runs: those whose devices are named first, then the others, in order of start. `signs`: devices that labels or UUIDs name.

    Where the counts are equal, or signs or indexes name the devices, the choice is exact. Otherwise free devices are taken
    in order, and the hold is marked as estimated.
    """
    by_outer: dict[Holder, list[OuterHold]] = defaultdict(list)
    for hold in holds:
        by_outer[hold.holder].append(hold)
    used: dict[int, Spans] = defaultdict(Spans)
    found: list[InnerHold] = []

    def turn(i: Inner) -> tuple[bool, int, int, str, str, str]:
        named = i.units == WHOLE_UNITS and bool(i.indexes or signs.get(i.holder))
        return not named, i.start_us, i.holder[0], i.holder[1] or "", i.node, i.profile or ""

    ordered = sorted(inners, key=turn)
    for inner in ordered:
        for outer, sure in _outers(inner, by_outer):
            theirs = [h for h in by_outer[outer] if _fits(h, inner)]
            chosen = _choose(inner, theirs, used, signs.get(inner.holder, set()))
            for hold, certain in chosen:
                start, end = max(inner.start_us, hold.start_us), min(inner.end_us, hold.end_us)
                estimated = hold.estimated or not (sure and certain)
                found.append(
                    InnerHold(inner.holder, outer, inner.node, hold.device_id, start, end, inner.units, estimated)
                )
                used[hold.device_id].add(start, end, inner.units)
    return found


def _fits(hold: OuterHold, inner: Inner) -> bool:
    here = inner.host is None or short(hold.node) == inner.host
    return here and hold.start_us < inner.end_us and hold.end_us > inner.start_us


def _outers(inner: Inner, by_outer: Mapping[Holder, Sequence[OuterHold]]) -> list[tuple[Holder, bool]]:
    """The outer runs of an inner run, one after the other; False where another outer run would fit as well."""

    def rank(outer: tuple[Holder, int, int]) -> tuple[bool, int, int, int, str]:
        holder, start, end = outer
        devices = {h.device_id for h in by_outer.get(holder, ()) if _fits(h, inner)}
        shared = min(end, inner.end_us) - max(start, inner.start_us)
        return len(devices) < inner.count, -shared, -start, holder[0], holder[1] or ""

    taken: list[tuple[Holder, int, int]] = []
    doubtful: set[Holder] = set()
    for outer in sorted(inner.outers, key=rank):
        start, end = max(outer[1], inner.start_us), min(outer[2], inner.end_us)
        rivals = [t for t in taken if t[1] < end and t[2] > start]
        if not rivals:
            taken.append((outer[0], start, end))
        elif not rank(outer)[0]:
            doubtful |= {t[0] for t in rivals}
    return [(holder, holder not in doubtful) for holder, _, _ in taken]


def _choose(
    inner: Inner, theirs: Sequence[OuterHold], used: dict[int, Spans], signs: set[int]
) -> list[tuple[OuterHold, bool]]:
    """The chosen holds, each with whether the choice is certain. A device may be held in several spans."""
    seats = _seats(sorted(theirs, key=lambda h: (h.order, h.device_id, h.start_us)))
    fitting = [n for n, seat in enumerate(seats) if inner.profile in (None, seat[0].profile)] or list(range(len(seats)))
    named = {n for n, seat in enumerate(seats) if any(h.device_id in signs for h in seat)}
    indexed = {n for n in inner.indexes if n < len(seats)}
    loads = {n: max(_load(inner, used, h.device_id) for h in seats[n]) for n in fitting}

    def key(seat: int) -> tuple[bool, bool, int, int]:
        load = loads[seat]
        full = load + inner.units > WHOLE_UNITS
        # Fractions are packed on few devices, whole devices are spread.
        weight = load if full or inner.units == WHOLE_UNITS else -load
        return seat not in named, seat not in indexed, load if full else 0, weight

    chosen = sorted(fitting, key=lambda n: (*key(n), fitting.index(n)))[: inner.count]
    certain = set(fitting) if len(fitting) == inner.count else named | indexed
    return [(hold, n in certain) for n in sorted(chosen) for hold in seats[n]]


def _seats(holds: Iterable[OuterHold]) -> list[list[OuterHold]]:
    """The holds by seat. Devices of one profile that the outer run has one after the other, on one node, have one seat."""
    seats: list[list[OuterHold]] = []
    by_device: dict[int, list[OuterHold]] = {}
    for hold in holds:
        seat = by_device.get(hold.device_id) or next((s for s in seats if _follows(hold, s)), None)
        if seat is None:
            seats.append(seat := [])
        seat.append(hold)
        by_device[hold.device_id] = seat
    return seats


def _follows(hold: OuterHold, seat: Sequence[OuterHold]) -> bool:
    """Whether a device shares node and profile with all of these, and no instant with any of them."""
    return all(
        h.node == hold.node and h.profile == hold.profile and (h.end_us <= hold.start_us or h.start_us >= hold.end_us)
        for h in seat
    )


def _load(inner: Inner, used: dict[int, Spans], device: int) -> int:
    """The most units that runs chosen before hold at one time while an inner run is there."""
    return most_units(list(used[device].meeting(inner.start_us, inner.end_us)), inner.start_us)


def short(host: str) -> str:
    """A host name without its domain, in lower case."""
    return host.lower().partition(".")[0]
