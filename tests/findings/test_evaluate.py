"""The engine of the rules: verdicts become findings, claims become grants, and a rule that fails, fails alone."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.findings import custom_rules, evaluate
from gpuwatch.findings.dry_run import DryRun, dry_run
from gpuwatch.findings.effective_thresholds import ParameterSet
from gpuwatch.rules.rule import Rule, Threshold
from gpuwatch.store.database import Store
from tests.worlds.detectors import CLUSTER, IDLE, T0, WORK, World, us
from tests.worlds.patience import PATIENCE_S
from tests.worlds.templates import computed_once

HOUR = 60
BUCKETS = ("hoarded", "stalled")
RULES = ("idle-hoarding", "false-utilization", "small-batch", "straggler")
"""In the order in which they claim."""


# What claims are granted ---------------------------------------------------------------------------------------------

claims = st.lists(
    st.tuples(
        st.sampled_from(RULES), st.integers(1, 2), st.integers(0, 1), st.sampled_from(BUCKETS), st.integers(1, 90)
    ),
    max_size=12,
)
books = st.lists(
    st.tuples(
        st.integers(1, 2), st.integers(0, 1), st.sampled_from([(1, 1), (1, 2), (2, 7)]), st.integers(0, 60), st.integers(0, 60)
    ),
    max_size=8,
)  # fmt: skip


@pytest.fixture(scope="module")
def books_store() -> Iterator[Store]:
    """A store that holds nothing but what a test puts into its ledger."""
    store = Store.open(None)
    yield store
    store.close()


def _book(store: Store, booked: Sequence[tuple[int, int, tuple[int, int], int, int]]) -> None:
    store.sql("delete from ledger_hour")
    for device, hour, (num, den), hoarded, stalled in booked:
        store.sql(
            "insert into ledger_hour (cluster, hour_us, device_id, run_id, share_num, share_den, hoarded_us, stalled_us)"
            " values ('c1', $h, $d, 7, $n, $m, $a, $b)",
            h=hour * HOUR_US, d=device, n=num, m=den, a=hoarded, b=stalled,
        )  # fmt: skip


def _grant(store: Store, wanted: Sequence[tuple[str, int, int, str, int]]) -> list[dict[str, Any]]:
    rows = [
        {
            "detector": rule, "cluster": "c1", "subject_kind": "job", "subject_id": "7", "cause_us": 0, "verdict_us": place,
            "device_id": device, "run_id": 7, "hour_us": hour * HOUR_US, "bucket": bucket, "us": amount,
        }
        for place, (rule, device, hour, bucket, amount) in enumerate(wanted)
    ]  # fmt: skip
    schema = pa.schema(
        [(n, pa.string()) for n in ("detector", "cluster", "subject_kind", "subject_id")]
        + [(n, pa.int64()) for n in ("cause_us", "verdict_us", "device_id", "run_id", "hour_us")]
        + [("bucket", pa.string()), ("us", pa.int64())]
    )
    with store.view("wanted_row", pa.Table.from_pylist(rows, schema=schema)):
        store.sql("create or replace temp table wanted_claim as select * from wanted_row")
    store.run("findings/grant", rank=list(evaluate.RANK))
    names = ("detector", "device_id", "hour_us", "bucket", "share_num", "share_den", "us")
    return [dict(zip(names, row, strict=True)) for row in store.sql(f"select {', '.join(names)} from granted")]


@given(claims, books)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rules_get_what_the_ledger_has_and_those_before_them_left(
    books_store: Store,
    wanted: list[tuple[str, int, int, str, int]],
    booked: list[tuple[int, int, tuple[int, int], int, int]],
) -> None:
    """Compared with a plain computation: one rule at a time, from the time that is left."""
    _book(books_store, booked)
    left: dict[tuple[int, int, str], int] = defaultdict(int)
    weighed: dict[tuple[int, int, str], Fraction] = defaultdict(Fraction)
    for device, hour, (num, den), *amounts in booked:
        for bucket, amount in zip(BUCKETS, amounts, strict=True):
            left[device, hour, bucket] += amount
            weighed[device, hour, bucket] += Fraction(amount * num, den)
    expected: dict[tuple[str, int, int, str], int] = defaultdict(int)
    for rule in RULES:
        for name, device, hour, bucket, amount in wanted:
            if name == rule:
                got = min(amount, left[device, hour, bucket])
                left[device, hour, bucket] -= got
                expected[rule, device, hour, bucket] += got

    granted = _grant(books_store, wanted)

    found: dict[tuple[str, int, int, str], int] = defaultdict(int)
    worth: dict[tuple[int, int, str], Fraction] = defaultdict(Fraction)
    for row in granted:
        place = row["device_id"], row["hour_us"] // HOUR_US, row["bucket"]
        found[row["detector"], *place] += row["us"]
        worth[place] += Fraction(row["us"] * row["share_num"], row["share_den"])
    assert {k: v for k, v in expected.items() if v} == dict(found)
    assert all(amount <= weighed[place] for place, amount in worth.items())


# Rules of any kind -----------------------------------------------------------------------------------------------------


@computed_once
def two_gpus() -> World:
    made = World("sqlite://")
    made.gpu("G0", (6 * HOUR, WORK)).gpu("G1", (2 * HOUR, WORK), (4 * HOUR, IDLE))
    made.job("7", ["G0", "G1"], 0, 6 * HOUR)
    made.analyze(now=360, detectors=["blind-spot"])
    return made


@pytest.fixture
def analysed() -> Iterator[World]:
    """A job on two GPUs for six hours: one works, one idles from the second hour on; its ledger is computed."""
    made = two_gpus()
    yield made
    made.store.close()


IDLE_HOURS = """
select 'node' as subject_kind, 'n1' as subject_id, l.hour_us + 600000000 as start_us, l.hour_us + 3600000000 as end_us,
    list(distinct l.device_id) as device_ids,
    map {'idle_us': sum(l.hoarded_us)::double, 'share_ratio': avg(l.hoarded_us / 3600e6), 'greatest': max(l.hoarded_us)::double} as numbers,
    map {'last_hour': (l.hour_us // 3600000000)::varchar} as words,
    list({'device_id': l.device_id, 'run_id': l.run_id, 'hour_us': l.hour_us, 'bucket': 'hoarded', 'us': l.hoarded_us}) as claims
from ledger_hour l
where l.cluster = $cluster and l.hour_us >= $from_us and l.hour_us < $until_us and l.hoarded_us > $least_idle
group by l.hour_us
"""


def rule(name: str = "site-idle", sql: str = IDLE_HOURS, **more: Any) -> Rule:
    """A rule whose statement stands beside it."""
    given: dict[str, Any] = {
        "bucket": "hoarded",
        "thresholds": (Threshold("least_idle", 0, "a test"),),
        "measures": {"idle_us": "sum", "share_ratio": "mean", "greatest": "max", "members": "devices"},
    } | more
    return Rule(
        name, "t", "w", given.pop("bucket"), given.pop("thresholds"), lambda e: "s", lambda e: "r", sql=sql, **given
    )


def general(parameters: dict[str, Any] | None = None) -> evaluate.Sets:
    """The same thresholds for everybody."""
    return lambda one: (ParameterSet(0, one.parameters if parameters is None else parameters, "default"),)


def run(
    world: World, *rules: Rule, hours: tuple[int, int] = (0, 6), sets: evaluate.Sets | None = None, now: float = 360
) -> list[str]:
    """One judgement of whole hours of the tiny world."""
    window = (T0 + hours[0] * HOUR_US, T0 + hours[1] * HOUR_US)
    return evaluate.evaluate(
        world.store, world.state, CLUSTER, world.settings, rules, sets or general(), window, us(now)
    )


def _no_sets(world: World) -> None:
    world.store.sql("create or replace temp table rule_set_run (run_id bigint, number integer)")
    world.store.sql("create or replace temp table rule_set_device (device_id bigint, number integer)")


def finding_rows(world: World, detector: str = "site-idle") -> list[tuple[Any, ...]]:
    """Findings of a rule: subject, minutes, state, reason, idle minutes wasted, key."""
    rows = world.store.sql(
        "select subject_kind, subject_id, started_us, last_seen_us, state, resolved_reason, wasted_units, wasted_den, key"
        " from finding where detector = $d order by started_us",
        d=detector,
    )
    return [
        (kind, name, (start - T0) // MINUTE_US, (end - T0) // MINUTE_US, state, reason, Fraction(int(u), d) / MINUTE_US, key)
        for kind, name, start, end, state, reason, u, d, key in rows
    ]  # fmt: skip


def test_hours_of_one_subject_are_one_finding_with_joined_evidence_and_the_ledgers_time(analysed: World) -> None:
    assert [] == run(analysed, rule())

    ((kind, name, started, seen, state, reason, wasted, _),) = finding_rows(analysed)
    assert ("node", "n1", 130, 360, "open", None, 240) == (kind, name, started, seen, state, reason, wasted)
    evidence = json.loads(analysed.store.sql("select evidence from finding where detector = 'site-idle'")[0][0])
    assert {"idle_us", "share_ratio", "greatest", "members", "last_hour"} == set(evidence)
    assert [4 * HOUR_US, 1, HOUR_US, 1] == [evidence[n] for n in ("idle_us", "share_ratio", "greatest", "members")]


def test_hour_by_hour_says_the_same_as_all_at_once_under_one_key(analysed: World, tmp_path: Path) -> None:
    run(analysed, rule())
    whole = finding_rows(analysed)
    analysed.store.sql("delete from finding")
    for table in ("verdict", "verdict_claim", "granted_claim", "rule_state", "finding_amount"):
        analysed.store.sql(f"delete from {table}")
    analysed.store.sql("insert into rule_state select 'c1', 'site-idle', 'least_idle=0', null, null")

    keys = set()
    for hour in range(6):
        run(analysed, rule(), hours=(hour, hour + 1))
        keys |= {row[-1] for row in finding_rows(analysed)}

    assert whole == finding_rows(analysed)
    assert {whole[0][-1]} == keys


def test_judging_again_changes_nothing(analysed: World) -> None:
    run(analysed, rule())
    tables = ("verdict", "verdict_claim", "granted_claim", "finding", "finding_amount", "rule_state")
    before = {name: analysed.rows(name) for name in tables}

    run(analysed, rule(), now=400)
    run(analysed, rule(), hours=(3, 4), now=500)

    assert before == {name: analysed.rows(name) for name in tables}


def test_a_pause_longer_than_the_gap_begins_another_finding(analysed: World) -> None:
    text = IDLE_HOURS.replace(
        "l.hoarded_us > $least_idle", f"l.hoarded_us > $least_idle and l.hour_us <> {T0 + 3 * HOUR_US}"
    )

    run(analysed, rule(sql=text, gap_us=HOUR_US))

    assert [(130, 180), (250, 360)] == [row[2:4] for row in finding_rows(analysed)]


def test_a_condition_shorter_than_the_least_is_kept_until_it_is_long_enough(analysed: World) -> None:
    patient = rule(least_us=3 * HOUR_US)

    run(analysed, patient, hours=(0, 4))
    early = finding_rows(analysed)
    run(analysed, patient, hours=(4, 6))

    assert [] == early
    assert [(130, 360)] == [row[2:4] for row in finding_rows(analysed)]


def test_a_savings_rule_wastes_nothing(analysed: World) -> None:
    run(analysed, rule(bucket=None))

    assert [0] == [row[6] for row in finding_rows(analysed)]
    assert [] == analysed.rows("verdict_claim")


def test_when_nothing_more_is_seen_the_finding_ends_where_it_was_last_seen(analysed: World) -> None:
    early = rule(sql=IDLE_HOURS.replace("l.hoarded_us >", f"l.hour_us < {T0 + 4 * HOUR_US} and l.hoarded_us >"))
    analysed.store.sql("update device set last_us = $at", at=T0 + 4 * HOUR_US)
    run(analysed, early, hours=(0, 4))
    first = finding_rows(analysed)
    analysed.store.sql("update device set last_us = $at", at=T0 + 6 * HOUR_US)

    run(analysed, early, hours=(4, 6))

    assert ["open"] == [row[4] for row in first]
    assert [("resolved", "condition ended")] == [row[4:6] for row in finding_rows(analysed)]


def test_late_data_of_long_ago_does_not_open_what_has_ended(analysed: World) -> None:
    """The row of the last hour was true when it was written, and nobody judges it again."""
    early = rule(sql=IDLE_HOURS.replace("l.hoarded_us >", f"l.hour_us < {T0 + 4 * HOUR_US} and l.hoarded_us >"))
    analysed.store.sql("update device set last_us = $at", at=T0 + 4 * HOUR_US)
    run(analysed, early, hours=(0, 4))
    analysed.store.sql("update device set last_us = $at", at=T0 + 8 * HOUR_US)
    run(analysed, early, hours=(4, 8))

    run(analysed, early, hours=(2, 3))

    assert [("resolved", "condition ended")] == [row[4:6] for row in finding_rows(analysed)]


def test_late_data_of_long_ago_does_not_withdraw_what_a_rule_of_everything_says(analysed: World) -> None:
    all_of_it = rule(sql=IDLE_HOURS.replace("l.hour_us >= $from_us and ", ""), mode="all")
    run(analysed, all_of_it)
    first = finding_rows(analysed)

    run(analysed, all_of_it, hours=(0, 2))

    assert [(130, 360)] == [row[2:4] for row in first]
    assert first == finding_rows(analysed)


def test_nothing_holds_still_of_a_job_that_has_ended(analysed: World) -> None:
    """Its last minutes are the last that is known."""
    run(
        analysed,
        rule(
            sql="select chain, min(start_us) as start_us, max(end_us) as end_us from job_chain group by chain",
            thresholds=(), bucket=None, mode="runs",
        ),
    )  # fmt: skip

    assert [("7", 0, 360, "resolved")] == [row[1:5] for row in finding_rows(analysed)]


def test_what_lies_before_the_end_of_an_exemption_stays_exempt(tmp_path: Path) -> None:
    """Whoever was exempt until three o'clock is not accused of two o'clock when it is four."""
    made = World(tmp_path)
    made.gpu("G0", (6 * HOUR, WORK)).job(
        "7", ["G0"], 0, None, heard=360, labels={"gpuwatch.io/exempt-until": "2026-01-05T03:00:00Z"}
    )
    made.analyze(now=360, detectors=["blind-spot"])

    run(
        made,
        rule(
            sql="select c.chain, h.hour_us as start_us, h.hour_us + 3600000000 as end_us from job_chain c,"
            " (select unnest(range($since_us, $until_us, 3600000000)) as hour_us) h",
            thresholds=(), bucket=None,
        ),
    )  # fmt: skip

    assert [("7", 180, 360)] == [row[1:4] for row in finding_rows(made)]
    made.store.close()


def test_other_thresholds_evaluate_open_findings_again(analysed: World) -> None:
    """The rule asks for more now: the finding is withdrawn with its money, and says why."""
    run(analysed, rule())

    run(analysed, rule(), hours=(5, 6), sets=general({"least_idle": 2 * HOUR_US}))

    assert [("resolved", "rule_changed", 0)] == [row[4:7] for row in finding_rows(analysed)]
    assert [] == analysed.rows("granted_claim")


def test_a_rule_that_is_switched_off_says_nothing(analysed: World) -> None:
    run(analysed, rule())

    run(analysed, rule(), sets=lambda one: (ParameterSet(0, None, "default"),))

    assert [("resolved", 0)] == [(row[4], row[6]) for row in finding_rows(analysed)]


def test_devices_of_a_pool_are_judged_by_the_thresholds_of_their_pool(analysed: World) -> None:
    _no_sets(analysed)
    idle = analysed.store.sql("select device_id from device where gpu = 'G1'")[0][0]
    both = lambda one: (
        ParameterSet(0, one.parameters, "default"),
        ParameterSet(1, {"least_idle": 2 * HOUR_US}, "strict"),
    )
    window = (T0, T0 + 6 * HOUR_US)
    evaluate.evaluate(analysed.store, analysed.state, CLUSTER, analysed.settings, [rule()], both, window, us(360))
    found = finding_rows(analysed)
    analysed.store.sql("insert into rule_set_device values ($d, 1)", d=idle)

    evaluate.evaluate(analysed.store, analysed.state, CLUSTER, analysed.settings, [rule()], both, window, us(360))

    assert ["open"] == [row[4] for row in found]
    assert ["resolved"] == [row[4] for row in finding_rows(analysed)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("select 1 as nonsense", "nonsense", id="a column that nobody knows"),
        pytest.param("select 'n1' as subject_id, 1 as start_us, 2 as end_us", "subject_kind", id="a column that lacks"),
        pytest.param("select * from no_such_table", "no_such_table", id="a table that is not there"),
        pytest.param("select missing_column from ledger_hour", "missing_column", id="a column that is not there"),
        pytest.param("select error('it broke') as subject_kind", "it broke", id="an error while it runs"),
    ],
)
def test_a_rule_that_fails_fails_alone_and_keeps_its_findings(analysed: World, text: str, says: str) -> None:
    run(analysed, rule(), rule("site-other"))
    before = finding_rows(analysed)

    (failed,) = run(analysed, rule(sql=text), rule("site-other"))

    assert failed.startswith("site-idle: ")
    assert says in failed
    assert before == finding_rows(analysed)
    assert 1 == len(finding_rows(analysed, "site-other"))
    assert [("site-idle", True)] == [
        (one["detector"], says in one["reason"]) for one in evaluate.failures(analysed.store)
    ]


def test_what_a_failing_rule_owes_it_judges_when_it_works_again(analysed: World) -> None:
    run(analysed, rule(), hours=(0, 2))
    run(analysed, rule(sql="select * from no_such_table"), hours=(2, 5))

    run(analysed, rule(), hours=(5, 6))

    assert [(130, 360, 240)] == [(row[2], row[3], row[6]) for row in finding_rows(analysed)]


@pytest.mark.slow
def test_a_rule_that_says_very_much_is_heard(analysed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """200,000 rows of one transaction, more than a row group of the store has."""
    monkeypatch.setattr(evaluate, "bounded", partial(custom_rules.bounded, seconds=PATIENCE_S))
    failed = run(
        analysed,
        rule(
            sql="select 'node' as subject_kind, 'n1' as subject_id, $since_us + range as start_us, $since_us + range + 1 as end_us"
            " from range(200000)",
        ),
        hours=(2, 3),
    )

    assert [] == failed
    assert [("n1", 0)] == [(row[1], row[2]) for row in finding_rows(analysed)]
    assert [(200_000,)] == analysed.store.sql("select count(*) from verdict")


def test_a_rule_that_speaks_of_too_many_is_not_heard(analysed: World) -> None:
    """Each subject is a finding in memory."""
    text = "select 'node' as subject_kind, 'n' || range as subject_id, $since_us as start_us, $since_us + 1 as end_us from range(100001)"

    (failed,) = run(analysed, rule(sql=text), hours=(2, 3))

    assert "100,001 subjects" in failed
    assert [] == finding_rows(analysed)


def tried(world: World, one: Rule) -> DryRun:
    """A dry run of a rule over the six hours."""
    window = (T0, T0 + 6 * HOUR_US)
    return dry_run(world.store, world.state, CLUSTER, world.settings, one, general()(one), window, us(360))


def wasted(found: DryRun) -> list[int]:
    """Hours of each amount of a dry run."""
    return [int(row["units"]) // int(row["den"]) // HOUR_US for row in found.amounts]


def test_a_dry_run_tells_what_it_would_find_and_stores_nothing(analysed: World) -> None:
    tables = ("verdict", "verdict_claim", "granted_claim", "finding", "finding_amount", "rule_state")
    before = {name: analysed.rows(name) for name in tables}

    found = tried(analysed, rule())

    assert [("node", "n1")] == [(row["subject_kind"], row["subject_id"]) for row in found.findings]
    assert [4] == wasted(found)
    assert before == {name: analysed.rows(name) for name in tables}


def test_a_dry_run_leaves_out_conditions_of_other_rules_that_are_too_short(analysed: World) -> None:
    run(analysed, rule("driver-drift", least_us=8 * HOUR_US))
    short = wasted(tried(analysed, rule()))
    run(analysed, rule("driver-drift", least_us=0, thresholds=(Threshold("least_idle", 1, "a test"),)))

    assert [4] == short
    assert [] == wasted(tried(analysed, rule())), "as a finding it has its time"


def test_a_dry_run_leaves_out_conditions_of_the_rule_that_are_too_short(analysed: World) -> None:
    """A condition of one hour claims what a lasting one of the same rule claims too."""
    brief = IDLE_HOURS.replace("'n1'", "'brief'").replace(
        "> $least_idle", f"> $least_idle and l.hour_us = {T0 + 3 * HOUR_US}"
    )

    found = tried(analysed, rule(sql=f"{brief} union all {IDLE_HOURS}", least_us=2 * HOUR_US))

    assert ["n1"] == [row["subject_id"] for row in found.findings]
    assert [4] == wasted(found)
