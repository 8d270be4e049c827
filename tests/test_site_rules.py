"""Site detectors: what a file must say, what its SQL may not do, and that a bad one hurts nobody else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch import site_rules, sqlfile
from gpuwatch.clock import HOUR_US, MINUTE_US
from gpuwatch.detectors.rule import rules
from gpuwatch.settings import Settings
from gpuwatch.site_rules import RuleTooSlow, bounded, read
from gpuwatch.site_rules_guard import check
from gpuwatch.site_rules_header import SiteRuleError, parse
from gpuwatch.store import Store
from tests.detectors.detector_world import IDLE, WORK, World

HEAD = """-- id: site-low-power
-- title: Board draws little power
-- why: A board that rests
--    does no work.
-- bucket: hoarded
-- mode: hours
-- threshold watts_max = 200 | our burn-in of 2026-10
-- threshold windows_us_min = 15m | ours
-- measure watts: mean
-- measure devices: devices
-- word: cause
-- summary: {devices} devices at {watts:.0f} W, below {watts_max}; {cause}.
-- remedy: Look at the job.
"""
SELECT = """select
    c.chain,
    w.start_us,
    w.start_us + 300000000 as end_us,
    h.run_id,
    [h.device_id] as device_ids,
    map {'watts': w.power_watts::double} as numbers,
    map {'cause': 'it rests'} as words
from held h
join job_chain c using (run_id)
join device_window w on w.device_id = h.device_id and w.cluster = $cluster
where w.hour_us >= $from_us and w.hour_us < $until_us and w.power_watts < $watts_max
"""
GOOD = HEAD + SELECT


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open(None) as opened:
        opened.run("views/job_chain", cluster="", since_us=0, until_us=0)
        yield opened


@pytest.fixture
def forget() -> Iterator[None]:
    """The rules of the last load belong to the process."""
    yield
    with Store.open(None) as opened:
        site_rules.load(None, opened)


def written(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        (directory / f"{name}.sql").write_text(text, "utf-8")
    return directory


HOSTILE = {
    "reads a file": "select * from read_csv('/etc/passwd')",
    "reads a file by its name": "select * from '/etc/passwd.csv'",
    "reads a file as text": "select (select content from read_text('/etc/passwd'))",
    "reads a file as a method": "select 'a'.read_text()",
    "reads a file beside a query of that name": 'with "/etc/passwd.csv" as (select 1) select * from "/etc/passwd.csv"',
    "reads in the order": "select * from run order by (select max(content) from read_text('/etc/passwd'))",
    "reads laterally": "select * from run, lateral (select * from read_blob('/etc/passwd'))",
    "lists a directory": "select 1 from run where exists (from glob('/*'))",
    "guesses a file": "select * from sniff_csv('x')",
    "two statements": "select 1; select 2",
    "a write": "insert into run select 1",
    "a write within": "with x as (delete from run returning *) select * from x",
    "a copy": "copy run to '/tmp/x'",
    "a copy within": "with x as (copy run to '/tmp/x') select 1",
    "an update within": "with x as (update run set end_us = 0 returning *) select * from x",
    "an attached database": "attach 'x' as y",
    "a pragma": "pragma version",
    "a setting": "set memory_limit = '1GB'",
    "reads a setting": "select current_setting('memory_limit')",
    "an extension": "load httpfs",
    "a called function": "call pragma_version()",
    "the catalog": "select * from duckdb_secrets()",
    "the catalog by its schema": "select * from information_schema.tables",
    "tables shown": "select * from (show tables)",
    "SQL in text": "select * from query('select 1')",
    "a table by text": "select * from query_table('run')",
    "a variable": "select getvariable('a')",
    "a Python name": "select * from store",
    "waiting": "select sleep_ms(1000)",
    "chance": "select random()",
    "a sample": "select * from run using sample 3",
    "the clock": "select now()",
    "the date": "select current_date",
    "who asks": "select user",
    "an explanation": "explain select 1",
    "no SQL": "selec 1",
    "nothing": "",
    "depth": "select " + "(" * 5000 + "1" + ")" * 5000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_sql_that_does_more_than_read_the_books_is_refused(store: Store, text: str) -> None:
    with pytest.raises(SiteRuleError) as caught:
        check(store, text, 7)

    assert 7 == caught.value.line
    assert caught.value.fix


def test_the_line_is_that_of_the_fault(store: Store) -> None:
    with pytest.raises(SiteRuleError, match="line 12: function glob"):
        check(store, "select\n  1,\n  glob('*')\nfrom run", 10)


@pytest.mark.parametrize("name", [name for name in sqlfile.names_in("detectors") if "false_util" not in name])
def test_our_own_rules_would_be_let_in(store: Store, name: str) -> None:
    """What gpuwatch writes itself, a site may write too, but for tables that a Python step makes."""
    try:
        check(store, ";".join(statement.text for statement in sqlfile.load(name)), 1)
    except SiteRuleError as error:
        if not error.reason.startswith("table "):
            raise


def test_a_head_becomes_a_rule() -> None:
    rule, line = parse(GOOD)

    assert (1 + HEAD.count("\n"), SELECT.rstrip("\n")) == (line, rule.sql)
    assert "A board that rests does no work." == rule.why
    assert {"watts_max": 200.0, "windows_us_min": 15 * MINUTE_US} == rule.parameters
    assert {"watts": "mean", "devices": "devices"} == rule.measures
    assert (HOUR_US, None) == (rule.look_back_us, rule.severity)
    assert "2 devices at 71 W, below 200; it rests." == rule.summary({"devices": 2, "watts": 70.6, "cause": "it rests"})
    assert "? devices at ? W, below 150; ?." == rule.summary({"thresholds": {"watts_max": 150}})


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        pytest.param("-- id: site-low-power\n", "", 1, "does not say id", id="no id"),
        pytest.param("-- id: site-low-power", "-- id: Site Low", 1, "is none", id="an id that is none"),
        pytest.param("-- title:", "-- tittle:", 2, "not known in the head", id="a misspelt word"),
        pytest.param("-- mode: hours", "-- mode: hours\n-- mode: all", 7, "said twice", id="a word twice"),
        pytest.param("-- mode: hours", "-- mode: days", 6, "known: hours", id="an unknown mode"),
        pytest.param("-- bucket: hoarded", "-- bucket: idle", 5, "known: compute", id="an unknown bucket"),
        pytest.param("= 200 | our burn-in of 2026-10", "= 200", 7, "not complete", id="a threshold without a source"),
        pytest.param("watts_max = 200", "cluster = 200", 7, "not complete", id="a threshold of a reserved name"),
        pytest.param("watts_max = 200", "watts_max = 2h", 7, "is a time", id="a time by a name that is none"),
        pytest.param("= 15m", "= 9999d", 8, "out of range", id="a time without end"),
        pytest.param("watts: mean", "watts: median", 9, "no measure", id="an unknown measure"),
        pytest.param("{cause}", "{nobody}", 12, "is not known", id="a name that no evidence has"),
        pytest.param("{cause}", "{cause.__class__}", 12, "is not known", id="an attribute"),
        pytest.param("{cause}", "{cause[0]}", 12, "is not known", id="an item"),
        pytest.param("{cause}", "{cause!r}", 12, "no known form", id="a conversion"),
        pytest.param("{cause}", "{cause:>99999999}", 12, "no known form", id="a width that fills memory"),
        pytest.param("{cause}", "{cause", 12, "summary", id="an open brace"),
    ],
)  # fmt: skip
def test_a_head_that_is_wrong_is_refused_at_its_line(old: str, new: str, line: int, words: str) -> None:
    with pytest.raises(SiteRuleError) as caught:
        parse(GOOD.replace(old, new))

    assert line == caught.value.line
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param("c.chain,", "", "column subject_id is missing", id="no subject"),
        pytest.param("as end_us", "as ends", "column ends is not known", id="an unknown column"),
        pytest.param("w.start_us + 300000000 as end_us", "null::varchar as end_us", "is VARCHAR", id="a time as text"),
        pytest.param("map {'watts': w.power_watts::double} as numbers", "3 as numbers", "make it map", id="no map"),
        pytest.param("$watts_max", "$watts", "$watts is no parameter", id="an unknown parameter"),
        pytest.param("w.power_watts <", "w.watts <", "watts", id="a column that the table lacks"),
        pytest.param("device_window w", "device_windows w", "does not exist", id="a table that is not there"),
    ],
)  # fmt: skip
def test_a_select_that_is_no_verdict_is_refused(store: Store, tmp_path: Path, old: str, new: str, words: str) -> None:
    loaded = read(written(tmp_path, a=GOOD.replace(old, new, 1)), store)

    assert {} == loaded.rules
    assert words in str(loaded.refused[0])


def test_good_files_are_kept_beside_bad_ones(store: Store, tmp_path: Path) -> None:
    written(
        tmp_path,
        a_good=GOOD,
        b_same_id=GOOD,
        c_ours=GOOD.replace("site-low-power", "idle-hoarding"),
        d_other=GOOD.replace("site-low-power", "site-other"),
        e_long="-- " + "x" * site_rules.BYTES_MAX,
    )
    (tmp_path / "f_bytes.sql").write_bytes(b"-- id: \xff\xfe")
    (tmp_path / "g_folder.sql").mkdir()
    (tmp_path / "notes.txt").write_text("not mine")

    loaded = read(tmp_path, store)

    assert {"site-low-power": "a_good.sql", "site-other": "d_other.sql"} == loaded.files
    assert ["b_same_id.sql", "c_ours.sql", "e_long.sql", "f_bytes.sql", "g_folder.sql"] == [
        r.file for r in loaded.refused
    ]
    assert all(each.reason and each.fix for each in loaded.refused)


def test_a_directory_that_is_not_there_is_told(store: Store, tmp_path: Path) -> None:
    assert ["No such file or directory"] == [r.reason for r in read(tmp_path / "nowhere", store).refused]


def test_files_are_read_again_when_they_change(store: Store, tmp_path: Path, forget: None) -> None:
    written(tmp_path, a=GOOD)
    first = site_rules.load(tmp_path, store)
    again = site_rules.load(tmp_path, store)
    written(tmp_path, b=GOOD.replace("site-low-power", "site-b"))
    third = site_rules.load(tmp_path, store)

    assert first is again
    assert ["site-low-power", "site-b"] == [*third]
    assert {} == site_rules.load(None, store)


def test_a_rule_that_takes_too_long_is_ended(store: Store) -> None:
    rule, _ = parse(GOOD)
    began = time.monotonic()

    with (
        pytest.raises(RuleTooSlow, match=r"longer than 0\.05 s"),
        store.cursor() as cursor,
        bounded(cursor, rule, 0.05),
    ):
        cursor.sql("select count(*) from range(100000000) a, range(100000) b")

    assert 20 > time.monotonic() - began


def test_rules_of_ours_are_not_bounded_here(store: Store) -> None:
    with bounded(store, rules()["idle-hoarding"], 0.0):
        assert [(3,)] == store.sql("select 3")


def test_a_site_rule_judges_beside_ours(tmp_path: Path, forget: None) -> None:
    """Its findings are findings; a file that is refused is told with the analysis, and the rest goes on."""
    folder = tmp_path / "rules"
    folder.mkdir()
    written(folder, good=GOOD, bad=GOOD.replace("select\n", "selec\n").replace("site-low-power", "site-bad"))
    world = World(tmp_path / "data", Settings(detectors_dir=str(folder)))
    world.gpu("a", (60, WORK), (60, IDLE))
    world.job("1", ["a"], 0, 120)

    report = world.analyze(130, detectors=("site-low-power", "idle-hoarding"))

    found = world.findings("site-low-power")
    assert ["1"] == [one.job for one in found]
    assert "it rests" == found[0].evidence["cause"]
    assert 60 == found[0].started
    assert "bad.sql" in [line.partition(":")[0] for line in report.failed_rules]
    assert ["1"] == [one.job for one in world.findings("idle-hoarding")]


def test_the_example_of_the_page_is_let_in(store: Store, tmp_path: Path) -> None:
    """What people copy must work."""
    page = (Path(__file__).parents[1] / "docs/site-detectors.md").read_text("utf-8")
    loaded = read(written(tmp_path, example=page.split("```sql\n")[1].split("```")[0]), store)

    assert (["site-low-power"], ()) == ([*loaded.rules], loaded.refused)
