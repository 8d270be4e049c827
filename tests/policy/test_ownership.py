"""Ownership rules: which team a run belongs to, and why."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from gpuwatch.core.model import Rejects
from gpuwatch.policy.inferred import Ownership, resolve_many
from gpuwatch.policy.ownership import (
    TEAM_LABEL,
    UNALLOCATED,
    TeamRule,
    parse_labels,
    parse_teams,
    resolve,
)
from tests.worlds.world import CLUSTER, HOUR, Gpu, World, claim, minutes, node, pod, samples

RULES = (
    TeamRule("user", "ann", "by-user"),
    TeamRule("account", "physics", "by-account"),
    TeamRule("namespace", "train-*", "by-namespace"),
    TeamRule("queue", "root.ml.*", "by-queue"),
    TeamRule("label:app", "llm", "by-label"),
)


def owner(**known: str) -> tuple[str, str]:
    labels = {key.removeprefix("label_"): value for key, value in known.items() if key.startswith("label_")}
    return resolve(
        RULES, labels, known.get("queue"), known.get("namespace"), known.get("account"), known.get("user")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("expected", "known"),
    [
        pytest.param(UNALLOCATED, {}, id="nothing known"),
        pytest.param(UNALLOCATED, {"user": "Ann", "namespace": "Train-a", "account": "phys"}, id="case counts"),
        pytest.param(UNALLOCATED, {"account": ""}, id="an empty account is none"),
        pytest.param(UNALLOCATED, {"queue": "root.ml"}, id="the fixed part of a pattern must be there"),
        pytest.param("by-user", {"user": "ann"}, id="the user decides when nothing else does"),
        pytest.param("by-account", {"user": "ann", "account": "physics"}, id="account before user"),
        pytest.param("by-namespace", {"account": "physics", "namespace": "train-a"}, id="namespace before account"),
        pytest.param("by-queue", {"namespace": "train-a", "queue": "root.ml.a.b"}, id="queue before namespace"),
        pytest.param("by-label", {"queue": "root.ml.a", "label_app": "llm"}, id="label before queue"),
    ],
)
def test_the_order_in_which_sources_decide(expected: str, known: dict[str, str]) -> None:
    assert expected == owner(**known)[0]


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        pytest.param(("by-label", "label app=llm"), "", id="an empty label says nothing"),
        pytest.param(("by-label", "label app=llm"), "__platform__", id="no label may hand its bill to the platform"),
        pytest.param(("vision", f"label {TEAM_LABEL}"), "vision", id="a run's own label wins over every rule"),
    ],
)
def test_the_explicit_label(expected: tuple[str, str], value: str) -> None:
    assert expected == resolve(RULES, {TEAM_LABEL: value, "app": "llm"}, "root.ml.a", "train-a", None, None)


@pytest.mark.parametrize(
    ("expected", "labels", "queue"),
    [
        pytest.param((UNALLOCATED, "no label and no rule matches"), {}, None, id="without the label, nothing"),
        pytest.param(
            (UNALLOCATED, "no label and no rule matches"), {"team": "  "}, None, id="a blank value names nobody"
        ),
        pytest.param(("rest", "queue q"), {"team": "__platform__"}, "q", id="a reserved value is passed over"),
        pytest.param(("vision", "label team=cv"), {"team": "cv"}, None, id="an exception before it"),
        pytest.param(("nlp", "label team=nlp"), {"team": "nlp"}, "q", id="the value is the team"),
        pytest.param(("rest", "queue q"), {"team": "*"}, "q", id="a star is no name of a team"),
        pytest.param(("gpu-a", "queue gpu-a"), {}, "gpu-a", id="the same for other kinds, of the values that match"),
    ],
)
def test_a_rule_whose_team_is_a_star_takes_the_value(
    expected: tuple[str, str], labels: dict[str, str], queue: str | None
) -> None:
    lines = ["label:team,cv,vision", "label:team,*,*", "queue,gpu-*,*", "queue,*,rest"]
    rejects = Rejects()
    rules = parse_teams("\n".join(["match_kind,match,team", *lines]), "teams.csv", rejects)

    assert (4, {}) == (len(rules), rejects.counts)
    assert expected == resolve(rules, labels, queue, None, None, None)


def test_rules_of_one_kind_decide_in_file_order() -> None:
    rules = [TeamRule("namespace", "*", "rest"), TeamRule("namespace", "a", "never")]

    assert ("rest", "namespace a") == resolve(rules, {}, None, "a", None, None)


@pytest.mark.parametrize(
    ("expected", "pattern", "value"),
    [
        pytest.param(False, "a*a", "a", id="both ends need their own text"),
        pytest.param(False, "a*b*c", "a-c", id="the middle is missing"),
        pytest.param(False, "a?c", "abc", id="a question mark is itself"),
        pytest.param(False, "[ab]", "a", id="brackets are themselves"),
        pytest.param(True, "*", "x", id="a star alone"),
        pytest.param(True, "a*b*c", "a--b--c", id="several stars"),
        pytest.param(True, "*-prod", "llm-prod", id="a star in front"),
        pytest.param(False, "*a" * 200 + "b", "a" * 20_000, id="many stars take no time"),
    ],
)
def test_a_star_stands_for_any_text(expected: bool, pattern: str, value: str) -> None:
    assert expected is TeamRule("user", pattern, "t").matches(value)


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        pytest.param("match_kind is not one of account, namespace, queue, user, label:<key>", "pod,a,t", id="kind"),
        pytest.param("match_kind is not one of account, namespace, queue, user, label:<key>", "label:,a,t", id="key"),
        pytest.param("match is empty: give a name, or * for every one", "user,,t", id="no match"),
        pytest.param("team is empty", "user,a,", id="no team"),
        pytest.param("the label gpuwatch.io/team is the team itself: no rule is asked about it",
                     "label:gpuwatch.io/team,a,t", id="a label that needs no rule"),
        pytest.param("team begins with __: those names are the ledger's own", "user,a,__platform__", id="reserved"),
        pytest.param("the same match is given to another team by an earlier line, which decides", "user,ann,blue",
                     id="a rule that can never decide"),
    ],
)  # fmt: skip
def test_a_bad_line_is_refused_and_the_good_ones_kept(reason: str, line: str) -> None:
    rejects = Rejects()
    rules = parse_teams(f"match_kind,match,team\nuser,ann,red\n{line}\nuser,bob,red\n", "teams.csv", rejects)

    assert {reason: 1} == rejects.counts
    assert ("teams.csv", 3) == rejects.first[reason][:2]
    assert [("ann", 2), ("bob", 4)] == [(rule.match, rule.line) for rule in rules]


@pytest.mark.parametrize(
    ("expected", "lines"),
    [
        pytest.param([], ["user,ab*,x", "user,*,y"], id="a special case before the rest"),
        pytest.param([], ["user,a*,x", "user,ab*,x"], id="the same team twice"),
        pytest.param([], ["user,a*,x", "account,ab,y"], id="another kind"),
        pytest.param([], ["user,a*,x", "user,*b,y"], id="neither holds the other"),
        pytest.param([], ["user,a,x", "user,a*,y"], id="a name, then what begins so"),
        pytest.param(["line 3 never decides after line 2"], ["user,*,x", "user,ann,y"], id="everybody comes first"),
        pytest.param(["line 3 never decides after line 2"], ["user,a*b*,x", "user,a-b*c,y"], id="stars within stars"),
        pytest.param(["line 4 never decides after line 3"], ["user,b*,x", "user,a*,x", "user,ab*,y"], id="the second"),
    ],
)
def test_a_rule_that_never_decides_is_refused_with_both_lines(expected: list[str], lines: list[str]) -> None:
    rejects = Rejects()
    rules = parse_teams("\n".join(["match_kind,match,team", *lines]), "teams.csv", rejects)

    assert expected == [text.split(":")[0] for _, _, text in rejects.first.values()]
    assert len(lines) - len(expected) == len(rules)


def test_a_repeated_line_is_refused_and_the_first_one_kept() -> None:
    rejects = Rejects()
    rules = parse_teams("match_kind,match,team\nuser,ann,red\nuser,ann,red\n", "teams.csv", rejects)

    assert ((TeamRule("user", "ann", "red"),), {"an earlier line says the same": 1}) == (rules, rejects.counts)


def test_many_owners_at_once() -> None:
    owners = pa.table(
        {
            "labels": ['{"app": "llm"}', None, "[1]"],
            "user_name": ["ann", "ann", None],
            "gpu_seconds": [1, 2, 3],
        }
    )
    found = resolve_many(Ownership(RULES), owners)

    assert ["labels", "user_name", "gpu_seconds", "team", "team_why", "inferred", "other_team"] == found.column_names
    assert ["by-label", "by-user", UNALLOCATED] == found["team"].to_pylist()
    assert ["label app=llm", "user ann", "no label and no rule matches"] == found["team_why"].to_pylist()
    assert 0 == resolve_many(Ownership(RULES), owners.slice(0, 0)).num_rows


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({}, "{torn", id="torn"),
        pytest.param({}, "[" * 100_000, id="nested without end"),
        pytest.param({"a": "b"}, '{"a": "b", "c": 1}', id="text only"),
    ],
)
def test_labels_are_a_json_object_of_text(expected: dict[str, str], text: str | None) -> None:
    assert expected == parse_labels(text)


def test_what_a_run_inside_another_says_itself_decides_before_what_it_has_from_outside() -> None:
    """A Slurm job in a pod of namespace ml is its account's; one whose account no rule knows is the namespace's."""
    rules = [TeamRule("namespace", "ml", "platform"), TeamRule("account", "vision", "vision")]
    pod_labels = {"gpuwatch.io/pool": "slurm"}
    worker = pod("slurmd-0", "u1", 0, HOUR, namespace="ml", labels=json.dumps(pod_labels))
    jobs = [
        claim("501", 0, 1200, "slurmd-0", account="vision"),
        claim("502", 1200, 2400, "slurmd-0", account="unknown"),
    ]
    world = World().add(
        node(devices={"": 1}), samples(Gpu(), minutes(0, HOUR), namespace="ml", pod="slurmd-0"), worker, *jobs
    )
    world.book()

    teams = resolve_many(
        Ownership(rules), world.store.table("billing/owner", cluster=CLUSTER, everyone=True)
    ).to_pylist()

    expected = [("lab/slurmd-0", "platform", "namespace ml"), ("501", "vision", "account vision")]
    expected.append(("502", "platform", "namespace ml"))
    jobs_of = dict(world.store.sql("select run_id, job_id from run"))
    assert sorted(expected) == sorted((jobs_of[t["run_id"]], t["team"], t["team_why"]) for t in teams)


def test_a_label_of_the_outer_run_gives_way_to_an_account_of_the_inner_one() -> None:
    own = json.dumps({"labels": None, "queue": None, "namespace": None, "account": "vision", "user_name": None})
    owner = {"labels": '{"gpuwatch.io/team": "platform"}', "account": "vision", "own": own}

    decided = resolve_many(Ownership([TeamRule("account", "vision", "vision")]), pa.Table.from_pylist([owner]))

    assert ["vision"] == decided["team"].to_pylist()


def test_owners_with_labels_of_their_own_have_the_teams_that_each_has_alone() -> None:
    """Labels that no rule names differ; labels that one names, of the run itself too, decide."""
    labels = [None, "no JSON", "{}", '{"app": "llm"}', '{"app": "other"}', json.dumps({TEAM_LABEL: "red"})]
    labels += [json.dumps({"app": "llm", "job": str(number)}) for number in range(3)]
    labels += [json.dumps({"job": str(number)}) for number in range(3)]
    own = [None, json.dumps({"labels": json.dumps({"app": "llm"})}), json.dumps({"user_name": "ann"})]
    rows = [
        {"cluster": "c", "labels": text, "account": account, "own": inner}
        for text in labels
        for account in ("physics", "else", None)
        for inner in own
    ]
    ownership = Ownership(RULES)
    schema = pa.schema([(name, pa.string()) for name in rows[0]])
    together = resolve_many(ownership, pa.Table.from_pylist(rows, schema=schema)).to_pylist()
    alone = [resolve_many(ownership, pa.Table.from_pylist([row], schema=schema)).to_pylist()[0] for row in rows]

    assert alone == together
    assert {"by-label", "by-user", "by-account", "red", "else"} <= {row["team"] for row in together}
