"""MIG slices of a window: who held each, its share of the GPU, what it cost, and how far it was used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from typing import Any

from gpuwatch.billing.kinds import fill_kinds
from gpuwatch.core.clock import Window, rfc3339
from gpuwatch.core.money import CENT_PLACES, units_to_decimal
from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.hardware.mig_profiles import GEOMETRIES, Profile
from gpuwatch.ledger.totals import SECOND_PLACES, question, round_rows, scale_of, working_tables
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.state import State
from gpuwatch.store.database import Store

RATIOS = ("gr_engine_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio")
BY = ("slice", "team")
NAMES = ("slice", "gpu", "gi", "cluster", "node", "profile", "gpu_model", "team", "user", "job")
MAX_LAYOUTS = 4096
"""Layouts whose packing is remembered."""
PACKINGS_MAX = 4096
"""Packings of one layout that are compared; of a layout with more, nothing is reported."""

SPANS_A_HOLD = 3
"""Segments of a slice that are looked at first for each row of a page: its own, and those in which nobody held it."""
TAKE_GROWTH = 8
"""How many times more are looked at where these were too few, as those of one team may be."""

Row = Mapping[str, Any]
Epoch = tuple[str, int, int]


def slices(
    store: Store,
    state: State,
    window: Window,
    teams: Collection[str] | None = None,
    *,
    cluster: str | None = None,
    pool: str | None = None,
    gpu: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> dict[str, Any]:
    """Slices as JSON: `items`, one for each slice, layout epoch and owner, in order of slice and time; `gpus`, the newest
    layout of each GPU of these items; `next_offset`, the start of the next page, or None.

    `gpu_seconds` and `cost` add up to the chargeback by slice and team; `device_seconds` is the slice's own time,
    `idle_seconds` its hoarded part. Unallocated time belongs to `__platform__`. `gpu` picks one GPU; `teams` filters rows, and then hides the
    remainder of each GPU, which is the platform's. Prices and teams are those of the last pricing (price_all).
    A slice that only its scheduler reports has no `gpu`, `gi` and `idle_seconds`, and its GPU is not among `gpus`.
    `share_method` is how the slice counts as a part of its GPU, `split` how it was divided among several owners (None: it
    had one).
    """
    with worked_out(store, window, teams, cluster, pool, gpu, limit, offset) as there:
        if not there:
            return {"items": [], "gpus": [], "next_offset": None}
        rows = store.rows("billing/slices/row")
        use = {row["key"]: row for row in store.rows("billing/slices/use")}
        layouts = layouts_of(store)
    following = None
    if limit is not None and len(rows) > limit:
        rows, following = rows[:limit], offset + limit
    return {
        "items": [_item(row, use.get(row["key"]), layouts[epoch(row)]) for row in rows],
        "gpus": _gpus(rows, layouts, teams),
        "next_offset": following,
    }


@contextmanager
def worked_out(
    store: Store,
    window: Window,
    teams: Collection[str] | None,
    cluster: str | None,
    pool: str | None,
    gpu: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> Iterator[bool]:
    """Whether there are slices. Within, slice_page has the rows of the page and the one after it, and slice_used their use."""
    with working_tables(store):
        if not store.sql("select 1 from device where gi >= 0 or profile is not null limit 1"):
            yield False
            return
        scale = scale_of(store, window)
        asked = question(window, BY, cluster, teams, scale, pool=pool) | {
            "cent": scale.cent,
            "gpu": gpu,
            "limit": None if limit is None else limit + 1,
            "offset": offset,
        }
        fill_kinds(store, asked)
        store.run("billing/charge", **asked)
        round_rows(store, scale)
        store.run("billing/slices/life", **asked)
        _hold(store, asked)
        store.run("billing/slices/page", **asked)
        store.run("billing/slices/used", **asked)
        yield True


def layouts_of(store: Store) -> dict[Epoch, list[Row]]:
    """The slices of each GPU and epoch of slice_page, in order of their number."""
    layouts: dict[Epoch, list[Row]] = defaultdict(list)
    for row in store.rows("billing/slices/layout"):
        layouts[epoch(row)].append(row)
    return layouts


def _hold(store: Store, asked: Mapping[str, Any]) -> None:
    """Fills slice_hold with the slices of the page, in order of name: only as many as it takes, and these wholly."""
    spans = store.sql("select coalesce(sum(spans), 0)::bigint from slice_life")[0][0]
    wanted = None if asked["limit"] is None else asked["offset"] + asked["limit"]
    take = None if wanted is None else max(SPANS_A_HOLD * wanted, 1)
    while True:
        take = None if take is None or take >= spans else take
        store.run("billing/slices/hold", **asked, take=take)
        if take is None or wanted is None or _reach(store) >= wanted:
            return
        take *= TAKE_GROWTH


def _reach(store: Store) -> int:
    """The number of the last hold that was worked out."""
    return int(store.sql("select coalesce(max(key), 0)::bigint from slice_hold")[0][0])


def _item(row: Row, use: Row | None, layout: Sequence[Row]) -> dict[str, Any]:
    profile = profile_of(row["gpu_model"], row["profile"])
    return {
        **{name: row[name] for name in NAMES},
        "start": rfc3339(row["start_us"]),
        "end": rfc3339(row["end_us"]),
        "share": str(Fraction(row["share_num"], row["share_den"])),
        "share_method": row["method"],
        "split": row["split"],
        "gpu_seconds": seconds(row["micros"]),
        "device_seconds": seconds(row["device_us"]),
        "cost": None if row["cents"] is None else f"{units_to_decimal(int(row['cents']), CENT_PLACES):f}",
        "currency": row["currency"],
        "idle_seconds": seconds(0 if use is None else use["hoarded_us"]) if row["measured"] else None,
        "utilisation": _utilisation(use, profile),
        "placement": placement(row, profile, layout),
    }


def _utilisation(use: Row | None, profile: Profile | None) -> dict[str, float | None]:
    """Means by name, None where nothing was measured: a slice that nobody holds is not read.

    Memory is relative to the size that the driver reports for the profile; without one, to the size in its name,
    which is up to an eighth larger.
    """
    ratios: dict[str, float | None] = {name: None if use is None else use[name] for name in RATIOS}
    used = None if use is None else use["fb_used_bytes"]
    ratios["fb_used_ratio"] = None
    if used is not None and profile is not None:
        ratios["fb_used_ratio"] = min(used / (float(profile.memory_gib or profile.memory_gb) * 2**30), 1.0)
    return ratios


def placement(row: Row, profile: Profile | None, layout: Sequence[Row]) -> dict[str, Any] | None:
    """Where the slice lies on its GPU. No source prints it: derived from what fits, None where more than one place does."""
    if profile is None or not row["measured"]:
        return None
    starts = packing(row["gpu_model"], tuple(slice_["profile"] for slice_ in layout))
    place = next(
        n for n, slice_ in enumerate(layout) if (slice_["gi"], slice_["profile"]) == (row["gi"], row["profile"])
    )
    start = starts[place]
    if start is None:
        return None
    return {
        "start": start,
        "size": profile.memory_slices,
        "compute_slices": profile.compute_slices,
        "memory_slices": profile.memory_slices,
        "derived": True,
    }


@lru_cache(MAX_LAYOUTS)
def packing(model: str | None, profiles: tuple[str | None, ...]) -> tuple[int | None, ...]:
    """First memory slice of each of a GPU's instances, in order; None where the legal packings do not agree.

    Instances of one profile are taken to lie in the order given: drivers number them so, and they are alike.
    """
    known = [profile_of(model, profile) for profile in profiles]
    order = sorted(range(len(profiles)), key=lambda n: (profiles[n] or "", n))
    found: list[tuple[int, ...]] = []

    def extend(placed: list[tuple[str, int]]) -> None:
        if len(placed) == len(order):
            found.append(tuple(start for _, start in placed))
        if len(placed) == len(order) or len(found) > PACKINGS_MAX:
            return
        name = profiles[order[len(placed)]] or ""
        for start in hardware_shares.legal_starts(model or "", name, placed):
            if not placed or placed[-1][0] != name or placed[-1][1] < start:
                extend([*placed, (name, start)])

    if None not in known:
        extend([])
    starts: list[int | None] = [None] * len(profiles)
    if len(found) > PACKINGS_MAX:
        return tuple(starts)
    for place, n in enumerate(order):
        choices = {one[place] for one in found}
        starts[n] = choices.pop() if len(choices) == 1 else None
    return tuple(starts)


def profile_of(model: str | None, name: str | None) -> Profile | None:
    """The profile of a name on a model, None where either is not known exactly."""
    key = hardware_shares.model_key(model) if model else None
    plain = hardware_shares.profile_name(name) if name else None
    return None if key is None or plain is None else GEOMETRIES[key].profiles.get(plain)


def epoch(row: Row) -> Epoch:
    """The key of a row's layout: its cluster, GPU and start."""
    return row["cluster"], row["parent_id"], row["layout_us"]


def _gpus(
    rows: Sequence[Row], layouts: Mapping[Any, Sequence[Row]], teams: Collection[str] | None
) -> list[dict[str, Any]]:
    """One a GPU: the newest of its layouts among the rows, with the slices that may be seen."""
    seen: dict[tuple[str, int], dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if not row["measured"]:
            continue
        names = seen[(row["cluster"], row["parent_id"])][row["layout_us"]]
        if row["slice"] not in names:
            names.append(row["slice"])
    shown = teams is None or PLATFORM in teams
    gpus = []
    for (cluster, parent_id), epochs in seen.items():
        newest = max(epochs)
        any_slice = layouts[(cluster, parent_id, newest)][0]
        num, den = any_slice["remainder_num"] or 0, any_slice["remainder_den"] or 1
        gpus.append(
            {
                "gpu": any_slice["gpu"],
                "node": any_slice["node"],
                "cluster": cluster,
                "gpu_model": any_slice["gpu_model"],
                "remainder_share": str(Fraction(num, den)) if shown else None,
                "slices": epochs[newest],
            }
        )
    return gpus


def seconds(micros: object) -> str:
    """Microseconds as published seconds."""
    return f"{units_to_decimal(int(str(micros)), SECOND_PLACES):f}"
