"""A slow second reading of the books in plain Python and Fractions, to hold the SQL against.

Written from the rules (what a sample covers, who holds a device, what a slice weighs, how an interval is split), for
worlds of a few devices. Nothing here is shared with the SQL.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

Number = Fraction | int
BUCKETS = ("unobserved", "hoarded", "gap", "communication", "stalled", "below_roof", "memory_roof", "compute")
TENSOR_ROOF = Fraction(93, 100)
DRAM_ROOF = Fraction(80, 100)
IDLE_US = 15 * 60 * 1_000_000
MINUTE_US = 60_000_000
SPACINGS_MIN = 4
ZERO, ONE = Fraction(0), Fraction(1)

# H100-80: sevenths of compute and eighths of memory of each profile, as the vendor's table prints them.
SLICES = {
    "1g.10gb": (1, 1),
    "1g.20gb": (1, 2),
    "2g.20gb": (2, 2),
    "3g.40gb": (3, 4),
    "4g.40gb": (4, 4),
    "7g.80gb": (7, 8),
}


def layout_shares(profiles: Sequence[str]) -> tuple[list[Fraction], Fraction]:
    """Share of every configured slice of one GPU by its larger part, scaled to at most one GPU, and what is left."""
    raw = [max(Fraction(SLICES[p][0], 7), Fraction(SLICES[p][1], 8)) for p in profiles]
    total = sum(raw, ZERO)
    if total > 1:
        return [share / total for share in raw], ZERO
    return raw, 1 - total


@dataclass(frozen=True)
class Activity:
    """What is known of an interval, None unknown: engine, SMs, tensor, DRAM, other pipes, links (0..1)."""

    g: Fraction | None = None
    s: Fraction | None = None
    t: Fraction | None = None
    d: Fraction | None = None
    p: Fraction | None = None
    x: Fraction = ZERO

    @property
    def idle(self) -> bool:
        """Nothing ran, as far as anybody measured; unknown engine activity is not idle."""
        if self.g is None or self.g >= Fraction(2, 100):
            return False
        limits = ((self.s, Fraction(1, 100)), (self.t, Fraction(5, 1000)), (self.d, Fraction(1, 100)))
        return all(value is None or value < limit for value, limit in limits)


def waterfall(a: Activity) -> dict[str, Fraction]:
    """Fractions of an interval by bucket (`hoarded` left out); they add up to 1."""
    if a.s is None:
        if a.g is None:
            return {"unobserved": ONE}
        return {"gap": 1 - a.g, "unobserved": a.g}
    s = a.s if a.g is None else min(a.s, a.g)
    unknown = 1 - s if a.g is None else ZERO
    under = ZERO if a.g is None else a.g - s
    gap = ZERO if a.g is None else 1 - a.g
    if a.t is None and a.d is None and a.p is None:
        # Time with active SMs whose pipes nobody measured.
        communication = min(under, a.x)
        return {
            "unobserved": unknown + s,
            "gap": gap,
            "communication": communication,
            "stalled": under - communication,
        }
    uc = min(s, max((a.t or ZERO) / TENSOR_ROOF, a.p or ZERO))
    um = min(s, (a.d or ZERO) / DRAM_ROOF)
    low = s - max(uc, um)
    communication = min(under + low, a.x)
    from_under = min(under, communication)
    return {
        "unobserved": unknown,
        "gap": gap,
        "communication": communication,
        "stalled": under - from_under,
        "below_roof": low - (communication - from_under),
        "memory_roof": max(ZERO, um - uc),
        "compute": uc,
    }


@dataclass(frozen=True)
class Hold:
    """A run's word that it held a device during [start_us, end_us)."""

    run: str
    device: str
    start_us: int
    end_us: int


@dataclass
class Device:
    """Readings by instant in microseconds: letter of Activity -> value; `share` of the GPU that it is."""

    name: str
    readings: dict[int, dict[str, Fraction]]
    share: Fraction = ONE


@dataclass
class Account:
    """Exact microseconds of one device under one owner (None: nobody), and how many roundings they may carry."""

    seconds_us: int = 0
    buckets: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    parts: int = 0


def books(devices: Sequence[Device], holds: Iterable[Hold], default_us: int) -> dict[tuple[str, str | None], Account]:
    """Every device's time by owner and bucket. A later bind wins where holds overlap."""
    claims = list(holds)
    ends = [max(d.readings) + _interval(sorted(d.readings), default_us) // 2 for d in devices]
    size = {h.run: len({o.device for o in claims if o.run == h.run}) for h in claims}
    accounts: dict[tuple[str, str | None], Account] = defaultdict(Account)
    for device in devices:
        mine = [h for h in claims if h.device == device.name]
        times = sorted(device.readings)
        interval = _interval(times, default_us)
        # What is evidence of one slice is evidence of the whole card.
        card = device.name.split("/")[0]
        firsts = [_first(d, default_us) for d in devices if d.name.split("/")[0] == card]
        words = [h for h in claims if h.device.split("/")[0] == card]
        start = min([*firsts, *(h.start_us for h in words)])
        end = max([*ends, *(h.end_us for h in words)])
        for a, b, run in _spans(mine, start, end):
            account = accounts[(device.name, run)]
            account.seconds_us += b - a
            if run is not None:
                pieces = _pieces(device, times, interval, default_us, a, b)
                _book(account, pieces, b - a, size[run] > 1)
    return dict(accounts)


def _spans(holds: Sequence[Hold], start: int, end: int) -> list[tuple[int, int, str | None]]:
    """The owned span cut at every change of owner; equal neighbours are one span."""
    edges = sorted({start, end, *(h.start_us for h in holds), *(h.end_us for h in holds)})
    spans: list[tuple[int, int, str | None]] = []
    for a, b in pairwise(edges):
        present = [h for h in holds if h.start_us <= a and h.end_us >= b]
        owner = max(present, key=lambda h: h.start_us).run if present else None
        if spans and spans[-1][2] == owner:
            spans[-1] = (spans[-1][0], b, owner)
        else:
            spans.append((a, b, owner))
    return spans


def _first(device: Device, default_us: int) -> int:
    """Half an interval before a device's first reading."""
    times = sorted(device.readings)
    return times[0] - _interval(times, default_us) // 2


def _interval(times: Sequence[int], default_us: int) -> int:
    """The usual spacing of instants: the lower median, or the default where too few tell."""
    spacings = sorted(b - a for a, b in pairwise(times))
    return spacings[(len(spacings) - 1) // 2] if len(spacings) >= SPACINGS_MIN else default_us


def _covers(times: Sequence[int], interval: int) -> list[tuple[int, int, int]]:
    """(from, to, reading) of one field: back to the reading before, and one interval on before a silence."""
    spans = []
    for i, at in enumerate(times):
        back = min(at - times[i - 1] if i else interval, 2 * interval)
        silent = i + 1 == len(times) or times[i + 1] - at > 2 * interval
        spans.append((at - back, at + interval if silent else at, at))
    return spans


def _pieces(
    device: Device, times: Sequence[int], interval: int, default_us: int, start: int, end: int
) -> list[tuple[int, int, Activity]]:
    """What each sample covers of [start, end), with the field values that hold at its instant."""
    letters = sorted({name for reading in device.readings.values() for name in reading})
    held: dict[str, list[tuple[int, int, int]]] = {}
    for name in letters:
        own = [at for at in times if name in device.readings[at]]
        held[name] = _covers(own, _interval(own, default_us))
    pieces = []
    for i, at in enumerate(times):
        back = min(at - times[i - 1], 2 * interval) if i else interval // 2
        a, b = at - back, at + (interval // 2 if i + 1 == len(times) else 0)
        a, b = max(a, start), min(b, end)
        if a >= b:
            continue
        values: dict[str, Fraction] = {}
        for name in letters:
            known = [device.readings[r][name] for low, high, r in held[name] if low < at <= high]
            if known:
                values[name] = max(known)
        pieces.append((a, b, Activity(**values)))
    return pieces


def _book(account: Account, pieces: Sequence[tuple[int, int, Activity]], length: int, gang: bool) -> None:
    covered = 0
    runs = _idle_runs(pieces)
    for index, (a, b, activity) in enumerate(pieces):
        covered += b - a
        account.parts += (b - 1) // MINUTE_US - a // MINUTE_US + 1
        if runs.get(index, 0) >= IDLE_US:
            account.buckets["hoarded"] += b - a
            continue
        known = activity if gang else Activity(activity.g, activity.s, activity.t, activity.d, activity.p)
        for bucket, part in waterfall(known).items():
            account.buckets[bucket] += part * (b - a)
    account.buckets["unobserved"] += length - covered


def _idle_runs(pieces: Sequence[tuple[int, int, Activity]]) -> Mapping[int, int]:
    """Length of the run of idle pieces without a break that each idle piece lies in."""
    runs: dict[int, int] = {}
    members: list[int] = []
    for index, (a, b, activity) in enumerate([*pieces, (0, 0, Activity())]):
        touches = members and pieces[members[-1]][1] == a
        if members and not (activity.idle and touches):
            total = sum(pieces[m][1] - pieces[m][0] for m in members)
            runs.update(dict.fromkeys(members, total))
            members = []
        if activity.idle and b > a:
            members.append(index)
    return runs
