"""Weekly reports of tiny worlds: what they say, to whom, and what they must not."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.core.errors import UsageError
from gpuwatch.dashboards.shell.theme import BUCKETS
from gpuwatch.findings.repository import Action, Actions
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.report.files import SETTING, done, slug
from gpuwatch.report.html.chart import COLOURS
from gpuwatch.report.weekly import weekly, write_due
from gpuwatch.state import State
from tests.worlds.templates import computed_once
from tests.worlds.world import BUSY, HOUR, IDLE, SETTINGS, T0_US, Gpu, World, claim, minutes, node, samples

WEEK, BEFORE = "2026-W45", "2026-W44"
EARLIER = -7 * 24 * HOUR
A, B = Gpu("GPU-ant", "node-ant"), Gpu("GPU-bee", "node-bee")
SLICE = Gpu("GPU-cow", "node-cow", gi=3, profile="1g.10gb")
RATES = (Rate("*", "on_demand", Decimal(2), 0),)
RULES = [("ann", "ants"), ("bob", "bees"), ("cat", "cows")]
LATER_US = T0_US + 9 * DAY_US


def ants_and_bees(goes_on: bool = False) -> World:
    """Ants work 3 hours (2 a week before), bees hold a GPU and do nothing."""
    return World().add(
        *(node(gpu.node or "", {"": 1}) for gpu in (A, B)),
        samples(A, minutes(EARLIER, EARLIER + 3 * HOUR), BUSY),
        samples(B, minutes(EARLIER, EARLIER + 3 * HOUR), IDLE),
        samples(A, minutes(0, 3 * HOUR), BUSY),
        samples(B, minutes(0, 3 * HOUR), IDLE),
        claim("ant-0", EARLIER, EARLIER + 2 * HOUR, "node-ant", user_name="ann", name="ant-name"),
        claim("ant-1", 0, 3 * HOUR, "node-ant", user_name="ann", name="ant-name"),
        claim(
            "bee-1",
            0,
            None if goes_on else 3 * HOUR,
            "node-bee",
            evidence=3 * HOUR,
            user_name="bob",
            name="bee-name",
        ),
    )


@computed_once
def usual(goes_on: bool = False) -> World:
    """The same with its ledger and findings, which do not depend on rates and teams."""
    world = ants_and_bees(goes_on)
    analyze(world.store, State.open("sqlite://"), SETTINGS, now_us=LATER_US)
    return world


class Fleet:
    """A world, the usual one by default, and a state."""

    def __init__(
        self,
        where: Path,
        world: World | None = None,
        *,
        rates: Sequence[Rate] = RATES,
        teams: Sequence[tuple[str, str]] = RULES,
        goes_on: bool = False,
    ) -> None:
        self.world, self.state = world or usual(goes_on), State.open(where)
        self._made: dict[object, dict[str, str]] = {}
        replace_rates(self.state, rates, "test", "test", 0)
        rules = [TeamRule("user", user, team) for user, team in teams]
        replace_team_rules(self.state, rules, "test", "test", 0)

    def analyse(self) -> Fleet:
        analyze(self.world.store, self.state, SETTINGS, now_us=LATER_US)
        return self

    def files(self, week: str = WEEK, teams: Sequence[str] | None = None, now_us: int | None = None) -> dict[str, str]:
        """Name without the week's folder -> text."""
        asked = (week, None if teams is None else tuple(teams), now_us)
        if asked in self._made:
            return self._made[asked]
        made = weekly(self.world.store, self.state, week, teams, now_us, formats=("html", "csv"))
        assert {week} == {file.name.split("/")[0] for file in made}
        self._made[asked] = {file.name.split("/")[1]: file.content.decode("utf-8-sig") for file in made}
        return self._made[asked]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """The usual fleet, for tests that only read."""
    return Fleet(tmp_path_factory.mktemp("fleet")).analyse()


class Read(HTMLParser):
    """Text, tags and attributes of a page; fails on tags that do not match."""

    VOID = ("meta",)

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.cells: list[str] = []
        self.headings: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert [] == self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside in ("h1", "h2", "h3"):
            self.headings.append(data)
        if inside not in ("style", "title"):
            self.cells.append(data.replace("\u00a0", " "))

    @property
    def text(self) -> str:
        return "\n".join(self.cells)


def rows(table: str, section: str) -> list[dict[str, str]]:
    """The rows of one section of a table file."""
    return [row for row in csv.DictReader(io.StringIO(table, newline="")) if row["section"] == section]


def cost(rows_: list[dict[str, str]]) -> Decimal:
    """What rows cost together."""
    return sum((Decimal(row["cost"]) for row in rows_ if row["cost"]), Decimal(0))


def test_a_week_without_books_is_refused(fleet: Fleet) -> None:
    """With the span that the books have; so is what is no week."""
    with pytest.raises(UsageError, match="no data for 2026-W30: the ledger covers 2026-10-26T00:00:00Z"):
        fleet.files("2026-W30")
    with pytest.raises(UsageError, match="'today' is not an ISO week"):
        fleet.files("today")
    with pytest.raises(UsageError, match="2026-W99"):
        fleet.files("2026-W99")


def test_a_team_that_held_nothing_is_refused(fleet: Fleet) -> None:
    """A misspelt name must not make an empty bill."""
    with pytest.raises(UsageError, match="team 'antz' has no charges"):
        fleet.files(teams=["antz"])
    with pytest.raises(UsageError, match="'__platform__'"):
        fleet.files(teams=["__platform__"])


def test_nothing_is_compared_in_the_first_week(fleet: Fleet) -> None:
    """No change is better than a change from nothing."""
    text = Read(fleet.files(BEFORE)["fleet.html"]).text

    assert "No comparison with the previous week: the data begins on 26 October 2026 00:00." in text
    assert "▲" not in text
    assert "▼" not in text


def test_every_team_gets_its_files(fleet: Fleet) -> None:
    """And the fleet; only the team's where it is named."""
    pair = [f"team-ants.{kind}" for kind in ("csv", "html")]

    assert sorted(["fleet.csv", "fleet.html", *pair, "team-bees.csv", "team-bees.html"]) == sorted(fleet.files())
    assert pair == sorted(fleet.files(teams=["ants"]))


def test_the_table_closes(fleet: Fleet) -> None:
    """Buckets and charges add up to the total, team charges to the team's, to the cent."""
    files = fleet.files()
    table = files["fleet.csv"]
    by_team = {t: cost([r for r in rows(table, "charge") if r["team"] == t]) for t in ("ants", "bees")}

    assert [Decimal("12.00")] * 3 == [cost(rows(table, name)) for name in ("total", "bucket", "charge")]
    assert {"ants": Decimal("6.00"), "bees": Decimal("6.00")} == by_team
    assert [Decimal("6.00")] * 3 == [cost(rows(files["team-bees.csv"], n)) for n in ("total", "bucket", "charge")]
    (total,) = rows(table, "total")
    assert ("21600.000000", "12.00") == (total["before_gpu_seconds"], total["before_cost"])


def test_the_page_says_it_in_order(fleet: Fleet) -> None:
    """Trend, where it went, who pays, wastes, quality, how: each title is a sentence about this week."""
    page = Read(fleet.files()["fleet.html"])

    assert [
        "The fleet: GPU spend, week 2026-W45",
        "What to do: three actions, $7.17 of waste in the 3 measured hours",
        "Spend by week",
        "Where it went: $7.20 was avoidable (60 % of the cost)",
        "Who pays: team ants pays the most, $6.00 (50 %)",
        "Largest waste: 1 finding, $5.97 since they began",
        "Held idle while others waited: unknown",
        "Data quality",
        "How this was computed",
        "What the buckets mean",
    ] == [heading.replace("\u00a0", " ") for heading in page.headings]
    assert (
        "The fleet cost $12.00 in week 2026-W45, the same as the previous week. $7.20 of it was avoidable"
        in " ".join(page.text.replace("\u00a0", " ").split())
    )
    assert "16 November" not in page.text


def test_a_team_page_is_about_the_team(fleet: Fleet) -> None:
    """Its own money against its own week before; no bucket that nobody holds."""
    text = Read(fleet.files()["team-ants.html"]).text

    assert "Team ants pays $6.00 in week 2026-W45, up 50 % from the previous week." in text
    assert "Free but stranded" not in text
    assert "ant-1" in text


def test_a_team_file_has_no_byte_of_another(fleet: Fleet) -> None:
    """Not its name, people, jobs, nodes, GPUs or money words."""
    others = {"ants": ("bee", "bob"), "bees": ("ants", "ann", "GPU-ant", "node-ant", "ant-1", "ant-name")}
    files = fleet.files()
    for team, words in others.items():
        for kind in ("csv", "html"):
            assert [] == [word for word in words if word in files[f"team-{team}.{kind}"]]
        assert files[f"team-{team}.csv"] == fleet.files(teams=[team])[f"team-{team}.csv"]
        assert files[f"team-{team}.html"] == fleet.files(teams=[team])[f"team-{team}.html"]


def test_the_waterfall_has_one_order_and_one_colour_each(fleet: Fleet) -> None:
    """Those of every other picture; what was not measured is hatched, never plain."""
    page = fleet.files()["fleet.html"]
    on_screen = {bucket.name: (bucket.light, bucket.dark) for bucket in BUCKETS}
    labels = [page.index(f"</svg>{words}") for words in BUCKET_WORDS.values()]

    assert list(BUCKET_WORDS) == list(COLOURS)
    assert on_screen == COLOURS
    assert sorted(labels) == labels
    assert f'fill="{COLOURS["hoarded"][0]}"' in page
    assert 'fill="url(#hatch)"' in page
    assert f'fill="{COLOURS["unobserved"][0]}"' not in page


def test_a_page_needs_nothing_else(fleet: Fleet) -> None:
    """No script, no request, no link: it opens from a mail."""
    for name, page in fleet.files().items():
        if name.endswith(".html"):
            read = Read(page)
            assert set() == set(read.tags) & {"script", "link", "img", "iframe", "object", "form", "a", "base"}
            assert [] == [(k, v) for k, v in read.attributes if k in ("src", "href") or k.startswith("on")]
            assert "http" not in page.replace("http-equiv", "")
            assert "@import" not in page
            assert page.count("url(") == page.count("url(#hatch)")


HOSTILE = '<script>alert("x")</script>&amp;\u202e'
FORMULA = "=cmd|' /C calc'!A0"


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """In pages, tables and file names, whoever chose them."""
    fleet = Fleet(tmp_path, teams=[("ann", HOSTILE), ("bob", FORMULA)]).analyse()
    files = fleet.files()

    names = {f"team-{slug(team)}.{kind}" for team in (HOSTILE, FORMULA) for kind in ("csv", "html")}
    assert {"fleet.csv", "fleet.html"} | names == set(files)
    for name, text in files.items():
        if name.endswith(".html"):
            assert "<script" not in text.lower()
            assert "\u202e" not in text
            Read(text)
    assert {HOSTILE, f"'{FORMULA}"} == {r["team"] for r in rows(files["fleet.csv"], "charge")} - {"__platform__"}


def test_what_has_no_rate_is_missing_and_not_free(tmp_path: Path) -> None:
    """With the line to add; bars fall back to time."""
    files = Fleet(tmp_path, rates=()).analyse().files()
    text = Read(files["fleet.html"]).text

    assert "The cost of the fleet in week 2026-W45 is unknown: no rate covers its GPU time." in text
    assert "no price" in text
    assert "Bars show GPU-hours, because some time has no price." in text
    assert "No rate for model 'NVIDIA H100 80GB HBM3', cluster 'c1'" in text
    assert "$0" not in text
    assert {""} == {row["cost"] for row in rows(files["fleet.csv"], "charge")}
    assert [("unpriced", "21600.000000")] == [
        (r["kind"], r["gpu_seconds"]) for r in rows(files["fleet.csv"], "total") if r["kind"]
    ]


def test_held_time_without_a_team_is_reported(tmp_path: Path) -> None:
    """It is in the fleet's table with its fix, gets no file of its own, and is not called a team."""
    fleet = Fleet(tmp_path, teams=[("ann", "ants")]).analyse()
    files = fleet.files()
    text = Read(files["fleet.html"]).text

    assert {"fleet.csv", "fleet.html", "team-ants.csv", "team-ants.html"} == set(files)
    assert "No team assigned" in text
    assert "50 % of the held time has no team: add the lines that gpuwatch doctor prints to teams.csv." in text
    assert "__" not in text
    assert "team-unallocated" in next(iter(fleet.files(teams=["__unallocated__"])))


def test_an_exempt_finding_is_only_counted(tmp_path: Path) -> None:
    """Its owner has said that it is meant to be so. The table has it all the same, with that state."""
    fleet = Fleet(tmp_path, goes_on=True).analyse()
    (key,) = (row["finding"] for row in rows(fleet.files()["fleet.csv"], "finding"))
    Actions(fleet.state).act(Action(key, "exempt", None, "warm standby", "bob", T0_US))
    files = fleet.files(now_us=LATER_US)

    assert ["exempt"] == [row["state"] for row in rows(files["fleet.csv"], "finding")]
    assert "1 more is exempt by the owner's decision." in Read(files["fleet.html"]).text
    assert "Largest waste: none found" in Read(files["team-bees.html"]).headings


def test_slices_have_owner_share_and_use(tmp_path: Path) -> None:
    """A slice pays for its share; what no slice covers is named."""
    world = ants_and_bees().add(
        samples(SLICE, minutes(0, 2 * HOUR), BUSY),
        node("node-cow", {"1g.10gb": 1}),
        claim("cow-1", 0, 2 * HOUR, "node-cow", user_name="cat", profile="1g.10gb"),
    )
    files = Fleet(tmp_path, world).analyse().files()
    (hold,) = rows(files["team-cows.csv"], "slice")

    assert ("cows", "cat", "cow-1", "GPU-cow/GI-3", "1g.10gb", "share 1/7") == tuple(
        hold[name] for name in ("team", "user", "job", "slice", "mig_profile", "text")
    )
    assert cost(rows(files["team-cows.csv"], "total")) == Decimal(hold["cost"])
    assert "MIG: 1 slice held for" in "\n".join(Read(files["fleet.html"]).headings)
    assert "GPU-cow" not in files["team-ants.csv"]


def test_a_week_before_the_first_is_skipped_for_good(fleet: Fleet, tmp_path: Path) -> None:
    """A new installation does not fail every pass."""
    assert write_due(fleet.world.store, fleet.state, tmp_path / "out", T0_US - 7 * DAY_US + 25 * HOUR_US) is None
    assert "2026-W43" == fleet.state.setting(SETTING)
    assert not (tmp_path / "out").exists()


def test_the_report_is_written_once(fleet: Fleet, tmp_path: Path) -> None:
    """When the week is over, and not again."""
    out, store = tmp_path / "out", fleet.world.store
    monday = T0_US + 7 * DAY_US

    assert write_due(store, fleet.state, out, monday + 7 * HOUR_US) is None
    written = write_due(store, fleet.state, out, monday + 25 * HOUR_US)
    assert written is not None
    assert (WEEK, {out / WEEK}) == (written.week, {path.parent for path in written.paths})
    assert [None, "ants", "bees"] == [note.team for note in written.notes]
    assert {"fleet.pdf", "fleet.xlsx", "team-ants.parquet"} <= {path.name for path in written.paths}
    assert write_due(store, fleet.state, out, monday + 26 * HOUR_US) is not None  # until it is told, it is due
    done(fleet.state, WEEK, monday + 26 * HOUR_US)
    assert write_due(store, fleet.state, out, monday + 27 * HOUR_US) is None


def test_work_that_nobody_measured_is_not_known(tmp_path: Path) -> None:
    """Ants hold a GPU that is busy by name, without SM activity."""
    world = World().add(
        node("node-ant", {"": 1}),
        samples(A, minutes(0, 3 * HOUR), {"gpu_util_ratio": 0.97}),
        claim("ant-1", 0, 3 * HOUR, "node-ant", user_name="ann"),
    )
    ants = Fleet(tmp_path, world).analyse()
    output = " ".join(Read(ants.files()["fleet.html"]).text.split())
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed: the workbook is not read back")
    book, *_ = weekly(ants.world.store, ants.state, WEEK, formats=("xlsx",))
    sheet = openpyxl.load_workbook(io.BytesIO(book.content))["Buckets"]
    hours = {row[0]: row[1:3] for row in sheet.iter_rows(min_row=2, values_only=True)}

    assert {
        "Compute": (None, None),
        "Memory-bound work": (None, None),
        "Held idle": (None, None),
    }.items() <= hours.items()
    assert (0, 0) == hours["Free but stranded"]
    assert "97 % of the GPU time held was not measured." in output
    assert output.index("Not measured 97 %") < output.index("Working unknown")
    assert "was avoidable" not in output
