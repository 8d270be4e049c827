"""Every scheduler in one fleet, inside of each other too, through files: each GPU-second is somebody's, once.

The oracle below is plain Python: it knows who was put where, and never looks at the files or the store.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing import chargeback
from gpuwatch.core.clock import SECOND_US, Window
from gpuwatch.imports.files import import_paths, seal_all
from gpuwatch.ledger import attribution
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.mixed_files import STEP_S, File, files
from tests.worlds.mixed_fleet import SPANS, Fleet, a_fleet, shifted
from tests.worlds.world import HOUR, T0_US

SETTINGS = Settings(default_interval_s=STEP_S)
WINDOW = Window(T0_US, T0_US + HOUR * SECOND_US)
NOBODY = "__platform__"
TEAMS = [
    TeamRule("account", "vision", "vision"),
    TeamRule("account", "nlp", "nlp"),
    TeamRule("namespace", "ml", "ml"),
]


# The oracle -----------------------------------------------------------------------------------------------------------

Owned = tuple[str, int, int, str, Fraction]
"""Device, start, end, "scheduler job" or NOBODY, and how much of the GPU."""


def owned(fleet: Fleet) -> list[Owned]:
    """Who owned how much of every device from when to when: the innermost what it asked for, the next one the rest."""
    found: list[Owned] = []
    for device in fleet.devices:
        holds = [hold for hold in fleet.holds if hold.device == device]
        edges = sorted({0, HOUR, *(at for hold in holds for at in (hold.start, hold.end))})
        for start, end in pairwise(edges):
            on = [hold for hold in holds if hold.start <= start and hold.end >= end]
            left = Fraction(device.share)
            for depth in sorted({hold.depth for hold in on}, reverse=True):
                inner = [hold for hold in on if hold.depth == depth]
                asked = sum((hold.part for hold in inner), Fraction(0))
                for hold in inner:
                    found.append(
                        (
                            device.name,
                            start,
                            end,
                            f"{hold.scheduler} {hold.job}",
                            left * hold.part / max(asked, Fraction(1)),
                        )
                    )
                left *= 1 - min(asked, Fraction(1))
            found.append((device.name, start, end, NOBODY, left))
    for gpu in sorted({device.gpu for device in fleet.devices if device.profile}):
        rest = 1 - sum((device.share for device in fleet.devices if device.gpu == gpu), Fraction(0))
        found.append((gpu, 0, HOUR, NOBODY, rest))
    return joined([row for row in found if row[-1]])


def joined(rows: Sequence[Owned]) -> list[Owned]:
    """Spans that touch and say the same, as one."""
    whole: list[Owned] = []
    for row in sorted(rows, key=lambda r: (r[0], r[3], r[1])):
        last = whole[-1] if whole else None
        if last and (last[0], last[3], last[4], last[2]) == (row[0], row[3], row[4], row[1]):
            whole[-1] = (*last[:2], row[2], *last[3:])
        else:
            whole.append(row)
    return sorted(whole)


def gpu_seconds(fleet: Fleet) -> dict[tuple[str, str, str], Fraction]:
    """By cluster, team and job."""
    teams = {(hold.device.name, f"{hold.scheduler} {hold.job}"): hold.team for hold in fleet.holds}
    clusters = {device.name: device.cluster for device in fleet.devices}
    clusters |= {device.gpu: device.cluster for device in fleet.devices}
    total: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    for device, start, end, who, share in owned(fleet):
        key = clusters[device], teams.get((device, who), NOBODY), who.partition(" ")[2] or NOBODY
        total[key] += share * (end - start)
    return dict(total)


# The books ----------------------------------------------------------------------------------------------------------


class Books:
    """A store with what was imported, and its state."""

    def __init__(self) -> None:
        self.store, self.state = Store.open(None, threads=1), State.open("sqlite://")
        replace_team_rules(self.state, TEAMS, "test", "test", 0)

    def take(self, imported: Sequence[File]) -> Books:
        for kind, cluster, path in imported:
            report = import_paths(self.store, self.state, kind, [path], cluster=cluster, now_us=WINDOW.end_us)

            assert ([], 0) == (report.unreadable, report.rejected), path
        return self

    def book(self) -> Books:
        """A whole analysis."""
        analyze(self.store, self.state, SETTINGS, now_us=WINDOW.end_us, detectors=["blind-spot"])
        chargeback.price_all(self.store, self.state)
        return self

    def ledger(self) -> Books:
        """The part of an analysis that decides on owners and charges."""
        seal_all(self.store)
        for (cluster,) in self.store.sql("select distinct cluster from context order by 1"):
            attribution.attribute(self.store, cluster, SETTINGS)
            ledger_hours.recompute_dirty(self.store, cluster, SETTINGS)
        chargeback.price_all(self.store, self.state)
        return self

    def owned(self) -> list[Owned]:
        rows = self.store.sql(
            """select d.gpu || case when d.gi >= 0 then '/GI-' || d.gi else '' end, s.start_us, s.end_us,
                coalesce(r.scheduler || ' ' || r.job_id, $nobody), s.share_num, s.share_den
            from segment s
            join device d using (device_id)
            left join run r using (run_id)""",
            nobody=NOBODY,
        )
        return joined([(d, second(a), second(b), who, Fraction(num, den)) for d, a, b, who, num, den in rows])

    def conflicts(self) -> int:
        return int(self.store.sql("select count(*) from segment where conflict")[0][0])

    def charged(self) -> dict[tuple[str, str, str], Fraction]:
        result = chargeback.chargeback(self.store, self.state, WINDOW, ("cluster", "team", "job"))
        rows: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
        for item in result.items:
            group = item.group
            who = group["job"] if group["team"] != NOBODY else NOBODY
            rows[group["cluster"] or "", group["team"] or "", who or ""] += Fraction(item.gpu_seconds)

        assert sum(rows.values()) == Fraction(result.gpu_seconds)
        return {key: value for key, value in rows.items() if value}

    def capacity(self) -> Fraction:
        return Fraction(chargeback.ledger(self.store, self.state, WINDOW).capacity_gpu_seconds)


def second(us: int) -> int:
    whole, rest = divmod(us - T0_US, SECOND_US)
    assert not rest
    return whole


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return a_fleet(SPANS)


@pytest.fixture(scope="module")
def made(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> list[File]:
    return files(fleet, SPANS, tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def books(made: list[File]) -> Books:
    return Books().take(made).book()


def test_every_gpu_is_owned_by_whom_it_was_to_the_second(fleet: Fleet, books: Books) -> None:
    assert owned(fleet) == books.owned()
    assert 0 == books.conflicts()


def test_the_charges_are_the_gpu_seconds_of_every_team_and_job(fleet: Fleet, books: Books) -> None:
    assert gpu_seconds(fleet) == books.charged()


def test_nothing_is_counted_twice_or_lost(fleet: Fleet, books: Books) -> None:
    gpus = {device.gpu for device in fleet.devices}

    assert HOUR * len(gpus) == books.capacity()
    assert HOUR * len(gpus) == sum(gpu_seconds(fleet).values())
    assert sorted(gpus) == [row[0] for row in books.store.sql("select distinct gpu from device order by 1")]


def test_importing_again_changes_nothing(made: list[File], books: Books) -> None:
    before, charges = books.owned(), books.charged()
    again = Books().take(made).book().take(made).book()

    assert (before, charges) == (again.owned(), again.charged())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_order_of_files_does_not_matter(made: list[File], books: Books, seed: int) -> None:
    """With the first seed half of them are analysed before the others come."""
    shuffled = random.Random(seed).sample(made, len(made))
    half = len(made) // 2
    other = Books().take(shuffled[:half])
    other = other.book().take(shuffled[half:]).book() if seed == 1 else other.take(shuffled[half:]).ledger()

    assert books.owned() == other.owned()
    assert books.charged() == other.charged()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_times_of_any_second_are_kept(tmp_path: Path, seed: int) -> None:
    spans = shifted(seed)
    fleet = a_fleet(spans)
    books = Books().take(files(fleet, spans, tmp_path)).ledger()

    assert owned(fleet) == books.owned()
    assert gpu_seconds(fleet) == books.charged()


def test_where_no_exporter_names_an_owner_the_schedulers_do(fleet: Fleet, tmp_path: Path) -> None:
    """Which of equal devices a job had is then unknown; how much everybody had is not."""
    books = Books().take(files(fleet, SPANS, tmp_path, labels=False)).ledger()

    assert gpu_seconds(fleet) == books.charged()
    assert 0 == books.conflicts()
