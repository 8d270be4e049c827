"""Two cells with a cluster each, and the same fleet in one directory."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from gpuwatch.core.clock import DAY_US
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.publish import Publisher
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.lake.tables import SAMPLES, published_tables
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.simulate.live import LiveFleet
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.lake.conftest import PAST_DAYS, START_US, STEP_S, Fleet, bring

NOW_US = START_US + 2 * DAY_US
"""Of two days, the samples of the first are settled."""
OF_A_FILE = {
    "day_stamp": "a random name for each computation of a day",
    "import_run": "imports are numbered by each directory",
    "import_given": "the same",
}
"""Tables that differ between two directories with the same data, each with the reason."""


@dataclass
class Cells:
    """Directories by cell, the directory with all of them, and when they were analyzed."""

    directories: dict[str, Path]
    one: Path
    now_us: int

    def publish(self, made: LakeSettings) -> dict[str, LakeSettings]:
        """Publishes each cell; returns their settings."""
        found = {cell: LakeSettings(**{**made.__dict__, "cell": cell}) for cell in self.directories}
        for cell, settings in found.items():
            with Lake.open(settings, create=True) as lake, Store.open(self.directories[cell]) as store:
                Publisher(settings, lambda: NOW_US).publish(lake, store)
        return found


def made(folder: Path, history: Fleet) -> Cells:
    """A second cluster of 8 GPUs beside that of the history."""
    other = LiveFleet(8, PAST_DAYS, 9, STEP_S, START_US)
    other.write_history(folder / "past", None)
    about = folder / "past" / "bundle.toml"
    about.write_text(re.sub(r'cluster = "[^"]*"', 'cluster = "west"', about.read_text()))
    with Store.open(folder / "west") as store, State.open(folder / "west") as state:
        replace_rates(state, [Rate("*", "owned", Decimal("2.50"), 0)], "test", "test", START_US)
        bring(store, state, folder / "past", history.now_us)
        store.link_state(state.identity())
    shutil.copytree(history.directory, folder / "one")
    with Store.open(folder / "one") as store, State.open(folder / "one") as state:
        bring(store, state, folder / "past", history.now_us)
    return Cells({"east": history.directory, "west": folder / "west"}, folder / "one", history.now_us)


def differing(one: Store, other: Store) -> Iterator[str]:
    """The tables in which two directories have other rows. Of samples, those of settled days count."""
    for table in published_tables(one):
        where = f" where observed_us < {START_US + DAY_US}" if table.name == SAMPLES else ""
        query = (
            "select count(*), md5(coalesce(string_agg(t::varchar, chr(10) order by t::varchar), ''))"
            f" from {table.name} t{where}"
        )
        if one.sql(query) != other.sql(query):
            yield table.name
