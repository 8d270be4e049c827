"""Site detectors: what a file must say, what its SQL may not do, and that a bad one hurts nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.analysis.pipeline import parameters
from gpuwatch.api.errors import translated
from gpuwatch.core import sqlfile
from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.findings import custom_rules
from gpuwatch.findings import read as findings_read
from gpuwatch.findings.custom_header import SiteRuleError, parse
from gpuwatch.findings.custom_rules import RuleFailed, RuleTooLarge, RuleTooSlow, bounded, read
from gpuwatch.findings.custom_sql_guard import check
from gpuwatch.findings.threshold_overrides import put
from gpuwatch.findings.threshold_overrides import read as read_card
from gpuwatch.rules.rule import rules
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store
from tests.worlds.detectors import IDLE, WORK, World

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
        custom_rules.load(None, opened)


def written(directory: Path, **files: str) -> Path:
    directory.mkdir(exist_ok=True)
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
    "a list without end": "select unnest(range(start_us, end_us)) from run",
    "a text without end": "select repeat('x', 2000000000)",
    "a text that doubles": "select replace(replace('xxxxxxxx', 'x', 'xxxxxxxx'), 'x', 'xxxxxxxx')",
    "a width without end": "select format('{:>1900000000}', 'a')",
    "a comparison without end": "select levenshtein(string_agg(name, ''), string_agg(job_id, '')) from run",
    "a search without end": "select json_contains(to_json(list(run_id)), to_json(list(end_us))) from run",
    "a time zone without end": "select timezone(string_agg(name, ''), timestamp '2026-01-01') from run",
    "a list by a list": "select list_transform(list(run_id), lambda x: list_sum(list_transform([x], lambda y: x * y))) from run",
    "a pattern with many repetitions": "select regexp_matches(string_agg(name, ''), '((a?){100}){10}(a{0,1000}){1}b') from run",
    "repetitions of a repetition": "select name ~ '((ab{2,40}){30})' from run",
    "a long pattern": f"select name similar to '{'a?' * 101}' from run",
    "a pattern from the data": "select regexp_extract(name, job_id) from run",
    "a pattern that is computed": "select regexp_split_to_array(name, 'a' || 'b') from run",
    "chance": "select random()",
    "a sample": "select * from run using sample 3",
    "the clock": "select now()",
    "the date": "select current_date",
    "who asks": "select user",
    "an explanation": "explain select 1",
    "no SQL": "selec 1",
    "nothing": "",
    "depth": "select " + "abs(" * 5000 + "1" + ")" * 5000,
}


def test_parentheses_without_end_are_refused_or_harmless(store: Store) -> None:
    """DuckDB 2.0 refuses them, 1.5 drops them while it reads the text: the select is then a constant."""
    try:
        check(store, "select " + "(" * 5000 + "1" + ")" * 5000, 7)
    except SiteRuleError as error:
        assert 7 == error.line


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_sql_that_does_more_than_read_the_books_is_refused(store: Store, text: str) -> None:
    with pytest.raises(SiteRuleError) as caught:
        check(store, text, 7)

    assert 7 == caught.value.line
    assert caught.value.fix


@pytest.mark.parametrize(
    "text",
    [
        "select timezone('Europe/Berlin', timestamp '2026-01-01')",
        "select timestamp '2026-01-01' at time zone 'Europe/Berlin'",
        "select list_transform(list_filter(list(run_id), lambda x: x > 0), lambda y: y + 1) from run",
        "select jaro_winkler_similarity(name, job_id) from run",
        "select regexp_matches(name, '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$', 'i') from run",
        "select name ~ 'train-.*', name !~ '[0-9]{4}', regexp_extract(name, '([a-z]+)-x', 1) from run",
    ],
)
def test_what_can_be_ended_is_allowed(store: Store, text: str) -> None:
    check(store, text, 1)


def test_the_line_is_that_of_the_fault(store: Store) -> None:
    with pytest.raises(SiteRuleError, match="line 12: function glob"):
        check(store, "select\n  1,\n  glob('*')\nfrom run", 10)


def test_rows_of_a_range_may_be_counted_off(store: Store) -> None:
    check(store, "select r.x from run, range(start_us, end_us, 3600000000) as r(x)", 1)


@pytest.mark.parametrize("name", [name for name in sqlfile.names_in("detectors") if "false_util" not in name])
def test_our_own_rules_would_be_let_in(store: Store, name: str) -> None:
    """What gpuwatch writes itself, a site may write too, but for tables and macros that a Python step makes, and lists of hours."""
    try:
        check(store, ";".join(statement.text for statement in sqlfile.load(name)), 1)
    except SiteRuleError as error:
        if not error.reason.startswith(("table ", "function range() makes a list", "function never_started()")):
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
        pytest.param("-- id: site-low-power\n", "", 1, "has no id", id="no id"),
        pytest.param("-- id: site-low-power", "-- id: Site Low", 1, "is not valid", id="an id that is none"),
        pytest.param("-- title:", "-- tittle:", 2, "not known in the head", id="a misspelt word"),
        pytest.param("-- mode: hours", "-- mode: hours\n-- mode: all", 7, "given twice", id="a word twice"),
        pytest.param("-- mode: hours", "-- mode: days", 6, "known: hours", id="an unknown mode"),
        pytest.param("-- bucket: hoarded", "-- bucket: idle", 5, "known: compute", id="an unknown bucket"),
        pytest.param("= 200 | our burn-in of 2026-10", "= 200", 7, "not complete", id="a threshold without a source"),
        pytest.param("watts_max = 200", "cluster = 200", 7, "not complete", id="a threshold of a reserved name"),
        pytest.param("watts_max = 200", "watts_max = 2h", 7, "is a time", id="a time by a name that is none"),
        pytest.param("= 15m", "= 9999d", 8, "out of range", id="a time without end"),
        pytest.param("watts: mean", "watts: median", 9, "not a measure", id="an unknown measure"),
        pytest.param("{cause}", "{nobody}", 12, "is not known", id="a name that no evidence has"),
        pytest.param("{cause}", "{cause.__class__}", 12, "is not known", id="an attribute"),
        pytest.param("{cause}", "{cause[0]}", 12, "is not known", id="an item"),
        pytest.param("{cause}", "{cause!r}", 12, "not a known format", id="a conversion"),
        pytest.param("{cause}", "{cause:>99999999}", 12, "not a known format", id="a width that fills memory"),
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
        e_long="-- " + "x" * custom_rules.BYTES_MAX,
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


ROW = "select 'node' as subject_kind, 'n' as subject_id, $until_us - 60000000 as start_us, $until_us as end_us{} from range(1)"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param("'node'", "'board'", "subject_kind is none of gpu", id="an unknown kind of subject"),
        pytest.param("'n'", "null::varchar", "subject_id is empty", id="no subject"),
        pytest.param("'n'", "string_agg('n', '') over (rows 600 preceding)", "", id="a window function is none of it"),
        pytest.param("$until_us - 60000000", "null::bigint", "is no time", id="no begin"),
        pytest.param("$until_us - 60000000", "$until_us + 1", "is no time", id="backwards"),
        pytest.param("$until_us as", "9000000000000000000 as", "is no time", id="beyond all calendars"),
        pytest.param("- 60000000", "- 7200000000", "more than an hour", id="two hours in a row of one"),
        pytest.param("{}", ", 1.5 as confidence", "confidence is not 0 to 1", id="more than certain"),
        pytest.param("{}", ", 'nan'::double as confidence", "confidence is not 0 to 1", id="a confidence that is none"),
        pytest.param("{}", ", 'abc' as confidence", "confidence is not 0 to 1", id="a confidence in words"),
        pytest.param("{}", ", 'grave' as severity", "severity is none of info", id="an unknown severity"),
        pytest.param("{}", ", null as severity, null as confidence", "", id="no value for it"),
    ],
)
def test_a_row_that_no_finding_can_be_made_of_fails_its_rule(
    store: Store, tmp_path: Path, old: str, new: str, words: str
) -> None:
    """A confidence that is not a number, or a year without a calendar, would hurt every reader of findings."""
    text = HEAD + ROW.replace(old, new).replace("{}", "")
    rule = read(written(tmp_path, a=text), store).rules["site-low-power"]
    asked = {"until_us": 10 * HOUR_US}
    if not words:
        assert 1 == len(store.sql(rule.sql or "", **asked))
        return
    with pytest.raises(Exception, match=words):
        store.sql(rule.sql or "", **asked)


def test_a_missing_directory_is_reported(store: Store, tmp_path: Path) -> None:
    assert ["No such file or directory"] == [r.reason for r in read(tmp_path / "nowhere", store).refused]


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        pytest.param({"watts": 1234567.25}, "1,234,567 W for 15m", id="a large number is written in full"),
        pytest.param({"watts": 0.25}, "0.25 W for 15m", id="a small one with its decimals"),
        pytest.param(
            {"thresholds": {"windows_us_min": 5400e6}}, "? W for 90m", id="a time in force, not that of the file"
        ),
        pytest.param({"thresholds": {"windows_us_min": 0}}, "? W for 0s", id="no time"),
        pytest.param({"thresholds": {"windows_us_min": 1500}}, "? W for 1,500 us", id="less than a second"),
    ],
)
def test_numbers_and_times_are_written_as_people_write_them(evidence: dict[str, object], words: str) -> None:
    text = GOOD.replace(
        "{devices} devices at {watts:.0f} W, below {watts_max}; {cause}", "{watts} W for {windows_us_min}"
    )

    assert f"{words}." == parse(text)[0].summary(evidence)


def test_files_are_read_again_when_they_change(store: Store, tmp_path: Path, forget: None) -> None:
    written(tmp_path, a=GOOD)
    first = custom_rules.load(tmp_path, store)
    again = custom_rules.load(tmp_path, store)
    written(tmp_path, b=GOOD.replace("site-low-power", "site-b"))
    third = custom_rules.load(tmp_path, store)

    assert first is again
    assert ["site-low-power", "site-b"] == [*third]
    assert {} == custom_rules.load(None, store)


def test_a_rule_that_takes_too_long_is_ended(store: Store) -> None:
    rule, _ = parse(GOOD)

    with (
        pytest.raises(RuleTooSlow, match=r"longer than 0\.05 s"),
        store.cursor() as cursor,
        bounded(cursor, rule, 0.05),
    ):
        cursor.sql("select count(*) from range(100000000) a, range(100000) b")


def test_a_rule_that_is_ended_leaves_no_transaction_behind(store: Store) -> None:
    """An interrupt that hits the rollback too must not stop the rules that follow."""
    rule, _ = parse(GOOD)
    with store.cursor() as cursor:
        with pytest.raises(RuleTooSlow), bounded(cursor, rule, 0.05):
            cursor.sql("begin transaction")
            cursor.sql("select count(*) from range(100000000) a, range(100000) b")
        with cursor.transaction():
            assert [(3,)] == cursor.sql("select 3")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("select 'a'::int", "Could not convert string 'a'", id="a cast"),
        pytest.param("select factorial(100000)", "out of range", id="a number without end"),
    ],
)
def test_a_rule_that_fails_is_answered_422_with_its_own_message(store: Store, text: str, words: str) -> None:
    rule, _ = parse(GOOD)
    with store.cursor() as cursor, pytest.raises(RuleFailed, match=words) as failed, bounded(cursor, rule):
        cursor.sql(text)
    answer = translated(failed.value)

    assert (422, "rule") == (answer.status_code, answer.field)
    assert words in str(answer.detail)


def test_a_fault_of_our_own_is_not_blamed_on_a_rule(store: Store) -> None:
    rule, _ = parse(GOOD)
    with pytest.raises(KeyError), bounded(store, rule):
        raise KeyError("ours")


def test_a_rule_that_needs_too_much_memory_says_so(tmp_path: Path) -> None:
    rule, _ = parse(GOOD)
    text = "select length(list(concat(a.range, b.range))::varchar) from range(100000) a, range(10000) b"
    with (
        Store.open(tmp_path, memory_limit="100MB") as small,
        pytest.raises(RuleTooLarge, match="memory_limit"),
        bounded(small, rule),
        small.transaction(),
    ):
        small.sql(text)


def test_rules_of_ours_are_not_bounded_here(store: Store) -> None:
    with bounded(store, rules()["idle-hoarding"], 0.0):
        assert [(3,)] == store.sql("select 3")


def test_a_site_rule_judges_beside_ours(tmp_path: Path, forget: None) -> None:
    """Its findings are findings; a refused file is reported with the analysis, and the rest goes on."""
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


def test_sentences_speak_of_the_thresholds_in_force(tmp_path: Path, forget: None) -> None:
    """Of those that the card sets, not of those of the file."""
    folder = written(tmp_path / "rules", good=GOOD)
    world = World(tmp_path / "data", Settings(detectors_dir=str(folder)))
    world.gpu("a", (60, WORK), (60, IDLE))
    world.job("1", ["a"], 0, 120)
    own = custom_rules.load(folder, world.store)
    put(world.state, read_card("thresholds.site-low-power.watts_max = 150", "card", own, None), "card", "ada", 1)

    world.analyze(130, detectors=("site-low-power",))

    (found,) = findings_read.read(world.store)
    assert "below 150;" in found.summary
    assert [found.key] == [one.key for one in findings_read.read(world.store, q="below 150;")]


def test_a_changed_file_evaluates_open_findings_again(tmp_path: Path, forget: None) -> None:
    folder = written(tmp_path / "rules", good=GOOD)
    world = World(tmp_path / "data", Settings(detectors_dir=str(folder)))
    world.gpu("a", (60, WORK), (60, IDLE))
    world.job("1", ["a"], 0, None, heard=120)
    world.analyze(121, detectors=("site-low-power",))
    before = [(one.state, one.resolved_reason) for one in findings_read.read(world.store)]

    written(folder, good=GOOD.replace("< $watts_max", "< $watts_max - 199"))
    world.store.run("analysis/mark_dirty", cluster="c1", since_us=None, until_us=None)
    world.analyze(121, detectors=("site-low-power",))

    assert [("open", None)] == before
    assert [("resolved", "rule_changed")] == [
        (one.state, one.resolved_reason) for one in findings_read.read(world.store)
    ]


def test_a_file_that_is_gone_ends_what_it_found(tmp_path: Path, forget: None) -> None:
    """Nobody judges it again; what it wasted stays, and a slip in another file ends nothing."""
    folder = written(tmp_path / "rules", good=GOOD)
    world = World(tmp_path / "data", Settings(detectors_dir=str(folder)))
    world.gpu("a", (60, WORK), (60, IDLE))
    world.job("1", ["a"], 0, None, heard=120)
    world.analyze(121, detectors=("site-low-power",))
    (before,) = findings_read.read(world.store)
    (folder / "good.sql").unlink()
    (folder / "bad.sql").write_text("select", "utf-8")

    world.analyze(121, detectors=("blind-spot",))
    slipped = [one.state for one in findings_read.read(world.store)]
    (folder / "bad.sql").unlink()
    world.analyze(121, detectors=("blind-spot",))

    (gone,) = findings_read.read(world.store)
    assert ["open"] == slipped
    assert ("resolved", "rule removed", before.wasted_gpu_seconds) == (
        gone.state,
        gone.resolved_reason,
        gone.wasted_gpu_seconds,
    )


def test_a_threshold_named_like_a_setting_keeps_its_own_number(tmp_path: Path, forget: None) -> None:
    """The setting idle_minutes is for our rules."""
    folder = written(tmp_path / "rules", good=GOOD.replace("windows_us_min = 15m", "idle_us_min = 30m"))
    with Store.open(None) as empty:
        own = custom_rules.load(folder, empty)["site-low-power"]

    assert 30 * MINUTE_US == parameters(own, Settings(idle_minutes=5))["idle_us_min"]


def test_a_column_that_is_misspelt_is_named_at_its_line(store: Store, tmp_path: Path) -> None:
    """With those that may have been meant."""
    text = GOOD.replace("    w.start_us,\n", "    w.strt_us,\n")
    (refused,) = read(written(tmp_path, bad=text), store).refused

    assert 1 + text.splitlines().index("    w.strt_us,") == refused.line
    assert "strt_us" in refused.reason and "start_us" in refused.fix


def test_the_tables_of_the_page_are_those_of_the_store(store: Store, checkout: Path) -> None:
    """Every table and column that the page names."""
    page = (checkout / "docs/act/site-detectors.md").read_text("utf-8")
    listed = page.partition("| table | a row is | columns |")[2].partition("\n\n")[0].splitlines()[2:]
    documented = {}
    for line in listed:
        _, tables, _, columns, _ = line.split("|")
        names = (re.findall(r"`([a-z_]+)`", part) for part in columns.split(";"))
        documented |= dict(zip(re.findall(r"`([a-z_]+)`", tables), names, strict=True))

    assert {"job_chain", "held", "device_window", "ledger_hour", "run_team", "pending"} <= documented.keys()
    for table, columns in documented.items():
        known = {row[0] for row in store.sql(f"select column_name from (describe {table})")}
        assert set() == set(columns) - known - {"device_minute"}, table


def test_the_example_of_the_page_is_let_in(store: Store, tmp_path: Path) -> None:
    """What people copy must work."""
    page = (Path(__file__).parents[2] / "docs/act/site-detectors.md").read_text("utf-8")
    loaded = read(written(tmp_path, example=page.split("```sql\n")[1].split("```")[0]), store)

    assert (["site-low-power"], ()) == ([*loaded.rules], loaded.refused)
