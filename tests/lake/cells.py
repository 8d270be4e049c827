"""Four cells with a cluster each, and the same fleet in one directory."""

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
OTHERS = {"west": (9, PAST_DAYS), "north": (10, 0.5), "south": (11, 0.4)}
"""The seed of each further cell's cluster of 8 GPUs, and its days."""
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
    """Three clusters of 8 GPUs beside that of the history."""
    shutil.copytree(history.directory, folder / "one")
    for cell, (seed, days) in OTHERS.items():
        LiveFleet(8, days, seed, STEP_S, START_US).write_history(folder / f"past-{cell}", None)
        shutil.copy(history.directory.parent / "past" / "rates.csv", folder / f"past-{cell}")  # they share their prices
        about = folder / f"past-{cell}" / "bundle.toml"
        about.write_text(re.sub(r'cluster = "[^"]*"', f'cluster = "{cell}"', about.read_text()))
        for directory in (folder / cell, folder / "one"):
            with Store.open(directory) as store, State.open(directory) as state:
                if directory.name == cell:
                    replace_rates(state, [Rate("*", "owned", Decimal("2.50"), 0)], "test", "test", START_US)
                bring(store, state, folder / f"past-{cell}", history.now_us)
                store.link_state(state.identity())
    return Cells({"east": history.directory} | {cell: folder / cell for cell in OTHERS}, folder / "one", history.now_us)


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
