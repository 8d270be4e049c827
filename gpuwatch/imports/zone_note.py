"""What an import says where it read local times as UTC because no zone was given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuwatch.core.clock import MINUTE_US, ZONE_US_MAX
from gpuwatch.core.words import duration
from gpuwatch.imports.provenance import ASSUMED_ZONE, place_of
from gpuwatch.store.database import Store

CLOCKS_DIFFER_US = 5 * MINUTE_US


def assumed_before(store: Store, repeated: Sequence[int], zoneless: Sequence[Path]) -> list[Path]:
    """Those of the files imported before whose local times were read as ASSUMED_ZONE; `zoneless`: files without a given zone."""
    names = {place_of(path): path for path in zoneless}
    query = (
        "select place from import_file where list_contains($ids, file_id) and zone = $zone and file_id in"
        " (select file_id from claim where naive_us is not null union select file_id from pending where naive_us is not null)"
    )
    found = (
        {place for (place,) in store.sql(query, ids=list(repeated), zone=ASSUMED_ZONE)} if repeated and names else set()
    )
    return [path for place, path in names.items() if place in found]


def zone_note(files: Sequence[Path], bundle: Path | None, last_us: int | None, now_us: int) -> str:
    """That local times were read as UTC, what shows that this is wrong, and what to write where. 0: the time of now is unknown."""
    first, *others = files
    text = f"{first}{f' and {len(others)} more' if others else ''}: its times have no offset and were read as {ASSUMED_ZONE}"
    ahead_us = 0 if last_us is None or now_us <= 0 else last_us - now_us
    if CLOCKS_DIFFER_US < ahead_us <= ZONE_US_MAX:
        text += f"; the last is {duration(ahead_us / 1e6)} in the future, as local times of a zone east of UTC are"
    where = "" if bundle is None else f'write timezone = "Europe/Berlin" into {bundle / "bundle.toml"}, or '
    return f"{text}; if they are local times, {where}read again with --timezone Europe/Berlin (or yours): it replaces this reading"
