"""The authority scorecard: what must not be graded first, then who decides, what is left to defaults, and whose money it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.audit.decision import EXPLICIT, NONE, UNKNOWN, Decision
from gpuwatch.audit.evidence import lacking
from gpuwatch.audit.facts import read_facts
from gpuwatch.audit.partitioning import partitioning
from gpuwatch.audit.plan import actions, claimed
from gpuwatch.audit.scheduling import scheduling
from gpuwatch.audit.scorecard import GRADES, LETTERS, NOT_GRADED, NOTHING, grade, scorecard, worst
from gpuwatch.billing import chargeback
from gpuwatch.core.clock import DAY_US, HOUR_US, Window, rfc3339
from gpuwatch.findings.read import Finding, facts_of, lost_of
from gpuwatch.findings.repository import Action, Actions
from gpuwatch.ledger.month import MONTH_DAYS, Basis
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.report.scorecard.plan import left_out_sentence
from gpuwatch.rules import layers
from gpuwatch.rules.rule import layer_of, rules
from tests.worlds.alerts import T0_US, finding
from tests.worlds.detectors import IDLE, WORK, World, us
from tests.worlds.templates import computed_once

ROOT = Path(__file__).parents[2]
NOW_US = us(10_000)
HOURS = 60.0
L40S = "NVIDIA L40S"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Nothing."""
    made = World(tmp_path)
    with made.store, made.state:
        yield made


def scorecard_of(world: World, window: Window | None = None) -> dict[str, Any]:
    """Its card, as JSON has it."""
    world.analyze(10_000, detectors=["idle-hoarding"])
    chargeback.price_all(world.store, world.state)
    found = scorecard(read_facts(world.store, world.state, window, NOW_US))
    json.dumps(found)
    return found


def grades(found: dict[str, Any]) -> list[str]:
    return [layer["grade_words"] for layer in found["layers"]]


def decided(found: dict[str, Any], id: str) -> tuple[str, float | None]:
    """A decision's state and the part of it that is taken."""
    each = {one["id"]: one for layer in found["layers"] for one in layer["decisions"]}
    return each[id]["state"], each[id]["ratio"]


def priced(world: World, price: str = "2.50") -> None:
    rate = Rate("*", "on_demand", Decimal(price), 0, None, None, None, None, "USD")
    replace_rates(world.state, [rate], "test", "test", 0)


def add(world: World, table: str, **columns: object) -> None:
    world.record(table, [{"cluster": world.cluster, "observed_us": us(0)} | columns])


def pods(world: World, job: str, nodes: int, **columns: object) -> None:
    """A gang of one GPU on each of some nodes, for four hours."""
    for number in range(nodes):
        name = f"GPU-{job}-{number}"
        world.gpu(name, (4 * HOURS, WORK), node=f"{job}-n{number}", model=L40S)
        world.claim(
            **{
                "scheduler": "kubernetes", "kind": "k8s-json", "job_id": f"ml/{job}", "run_key": job, "namespace": "ml",
                "pod": f"{job}-{number}", "pod_uid": f"{job}-{number}", "node": f"{job}-n{number}", "device_count": 1, "gpus": name,
                "submit_us": us(0), "start_us": us(0), "end_us": us(4 * HOURS), "state": "Succeeded",
                "labels": json.dumps({"training.kubeflow.org/job-name": job}),
            }
            | columns
        )  # fmt: skip


# What must not be graded -------------------------------------------------------------------------------------------


def test_of_an_empty_store_nothing_is_known(world: World) -> None:
    found = scorecard_of(world)

    assert [NOT_GRADED] * 4 == grades(found)
    assert [None] * 4 == [layer["grade"] for layer in found["layers"]]
    assert (None, None, None) == (found["window"], found["waste"]["cost"], found["waste"]["gpu_hours"])
    assert [] == found["actions"]
    assert "import bundle" in found["unknown"][0]["fix"]
    assert worst(found) is None


def test_without_a_scheduler_and_a_topology_no_layer_has_a_grade(world: World) -> None:
    """Samples alone say what GPUs did, not who decided."""
    for name, node in (("GPU-a", "n1"), ("GPU-b", "n1"), ("GPU-c", "n2")):
        world.gpu(name, (2 * HOURS, WORK), node=node)

    found = scorecard_of(world)

    assert [NOT_GRADED] * 4 == grades(found)
    assert [] == [layer["defaults"] for layer in found["layers"] if layer["defaults"]]
    assert {"placement", "partitioning", "scheduling", "fabric"} <= {one["layer"] for one in found["unknown"]}
    assert all(one["fix"] for one in found["unknown"])


def test_pods_that_only_labels_tell_have_no_known_authority(world: World) -> None:
    world.gpu("GPU-a", (2 * HOURS, WORK), pod="train-0")

    found = scorecard_of(world)

    assert "unknown" == found["writers"][0]["writers"][0]["authority"]
    assert ("not known", None) == decided(found, "one-writer")


def test_gpus_that_mig_cannot_cut_leave_nothing_to_decide(world: World) -> None:
    world.gpu("GPU-a", (2 * HOURS, WORK), model=L40S)

    found = scorecard_of(world)

    assert NOTHING == found["layers"][1]["grade_words"]
    assert found["layers"][1]["grade"] is None


def test_a_job_on_one_node_is_no_gang(world: World) -> None:
    world.gpu("GPU-a", (2 * HOURS, WORK)).gpu("GPU-b", (2 * HOURS, WORK))
    world.job("7", ["GPU-a", "GPU-b"], 0, 2 * HOURS)

    found = scorecard_of(world)

    assert [] == found["gangs"]
    assert ("does not arise", None) == decided(found, "topology-required")
    assert ("does not arise", None) == decided(found, "all-or-nothing")


def test_replicas_of_a_service_are_no_gang(world: World) -> None:
    """Nothing says that they are one: they are named as not known, and count nowhere."""
    pods(world, "chat", 2, labels=json.dumps({"app": "chat"}))

    found = scorecard_of(world)

    assert [] == found["gangs"]
    assert any("1 job held GPUs in several pods" in one["what"] for one in found["unknown"])


def test_two_schedulers_on_nodes_of_their_own_are_no_conflict(world: World) -> None:
    world.gpu("GPU-a", (2 * HOURS, WORK), node="n1", model=L40S).gpu("GPU-b", (2 * HOURS, WORK), node="n2", model=L40S)
    world.job("7", ["GPU-a"], 0, 2 * HOURS, node="n1")
    world.job("ml/x", ["GPU-b"], 0, 2 * HOURS, node="n2", scheduler="kubernetes", pod="x")

    found = scorecard_of(world)

    assert ("explicit", 1.0) == decided(found, "one-writer")
    assert [(True, 0)] == [(one["several"], one["shared_nodes"]) for one in found["writers"]]


# Who decides, and what is left to defaults -------------------------------------------------------------------------


def test_two_schedulers_on_one_node_are_reported(world: World) -> None:
    world.gpu("GPU-a", (4 * HOURS, WORK), model=L40S)
    world.job("7", ["GPU-a"], 0, 2 * HOURS)
    world.job("ml/x", ["GPU-a"], 2 * HOURS, 4 * HOURS, scheduler="kubernetes", pod="x")

    found = scorecard_of(world)

    assert ("default", 0.0) == decided(found, "one-writer")
    (pool,) = found["writers"]
    assert {("slurm", 0.5), ("kube-scheduler", 0.5)} == {(w["authority"], w["ratio"]) for w in pool["writers"]}


def test_one_scheduler_behind_a_gate_and_past_it_is_one_authority() -> None:
    """Beside it somebody who used a node for a moment is none that counts."""
    row = {"cluster": "c1", "pool": "p", "gate": None, "nodes": 1}
    parts = [("kube-scheduler", "kueue", 0.5), ("kube-scheduler", None, 0.46), ("slurm", None, 0.04)]
    binder = [
        row | {"authority": name, "gate": gate, "ratio": part, "gpu_hours": 100 * part} for name, gate, part in parts
    ]
    shared = {"cluster": "c1", "pool": "p", "authorities": ["kube-scheduler", "slurm"], "nodes": 1, "shared_nodes": 1}

    found = scheduling({"binder": binder, "shared_pool": [shared], "gang": [], "queues": []})

    assert ("explicit", 1.0) == (found[0].state, found[0].ratio)


def test_a_gang_of_plain_pods_is_placed_by_who_sees_no_links(world: World) -> None:
    """Whether it starts whole and what it asks for nobody says: these are not known, not defaults."""
    pods(world, "ddp", 2)

    found = scorecard_of(world)

    assert ("default", 0.0) == decided(found, "topology-told")
    assert ("not known", None) == decided(found, "topology-required")
    assert ("not known", None) == decided(found, "all-or-nothing")


@pytest.mark.parametrize(
    ("least", "detail", "whole", "asked"),
    [
        pytest.param(2, {"network_topology": {"mode": "hard"}}, 1.0, 1.0, id="a gang with hard topology is explicit"),
        pytest.param(2, {"network_topology": {"mode": "soft"}}, 1.0, 0.5, id="a soft one counts half"),
        pytest.param(1, {}, 0.0, 0.0, id="one pod may start, anywhere"),
    ],
)
def test_what_volcano_is_asked_for(
    world: World, least: int, detail: dict[str, Any], whole: float, asked: float
) -> None:
    pods(world, "ddp", 2, labels=json.dumps({"gpuwatch.io/scheduler-name": "volcano"}))
    add(
        world, "workload", scheduler="volcano", kind="PodGroup", uid="u", name="ddp", namespace="ml", job_id="ml/ddp",
        min_count=least, pod_count=2, state="running", detail=json.dumps(detail),
    )  # fmt: skip

    found = scorecard_of(world)

    assert whole == decided(found, "all-or-nothing")[1]
    assert asked == decided(found, "topology-required")[1]


def test_kueue_gates_and_its_required_topology_counts(world: World) -> None:
    pods(world, "ddp", 2, labels=json.dumps({"kueue.x-k8s.io/queue-name": "lq"}), queue="lq")
    sets = [{"name": "main", "count": 2, "topology": {"required": "cloud.com/rack"}}]
    add(
        world, "workload", scheduler="kueue", kind="Workload", uid="u", name="ddp", namespace="ml", job_id="ml/ddp",
        min_count=2, pod_count=2, state="running", detail=json.dumps({"pod_sets": sets}),
    )  # fmt: skip
    add(
        world, "queue", scheduler="kueue", kind="resource_flavor", name="f", flavor="f", detail=json.dumps({"topology": "t"})
    )  # fmt: skip

    found = scorecard_of(world)

    assert [1.0, 1.0, 1.0] == [decided(found, id)[1] for id in ("topology-told", "topology-required", "all-or-nothing")]
    assert [("kube-scheduler", "kueue")] == [(one["authority"], one["gate"]) for one in found["gangs"]]


def test_a_gang_that_volcano_gates_does_not_go_past_kueues_queue(world: World) -> None:
    """As the rule scheduler-conflict has it: both read run_placer."""
    pods(world, "ddp", 2)
    add(world, "queue", scheduler="kueue", kind="local_queue", name="lq", namespace="ml")
    pods(world, "bare", 2)
    add(
        world, "workload", scheduler="volcano", kind="PodGroup", uid="u", name="ddp", namespace="ml", job_id="ml/ddp",
        pod_count=2, min_count=2,
    )  # fmt: skip
    found = scorecard_of(world)

    assert {("kube-scheduler", "volcano"), ("pods past the queue", None)} == {
        (each["authority"], each["gate"]) for pool in found["writers"] for each in pool["writers"]
    }


def test_books_of_an_older_version_do_not_say_that_nothing_was_measured(world: World) -> None:
    world.gpu("GPU-a", (2 * HOURS, WORK))
    world.job("1", ["GPU-a"], 0, 2 * HOURS)
    scorecard_of(world)
    world.store.sql("delete from device_hour")
    world.store.sql("delete from workload_hour")

    found = scorecard(read_facts(world.store, world.state, None, NOW_US))

    assert [("not known", None)] * 2 == [decided(found, id) for id in ("links-measured", "link-health")]
    assert 2 == sum(one["fix"].startswith("gpuwatch analyze --since 2026-01-05T00:00:00Z") for one in found["unknown"])


def test_queues_without_quota_or_rules_are_named(world: World) -> None:
    world.gpu("GPU-a", (2 * HOURS, WORK))
    for name, quota, preemption in (("good", '{"":8}', '{"withinClusterQueue":"Never"}'), ("bare", None, None)):
        add(world, "queue", scheduler="kueue", kind="cluster_queue", name=name, flavor="f", quota=quota)
        add(world, "queue", scheduler="kueue", kind="cluster_queue", name=name, preemption=preemption)
    add(world, "queue", scheduler="volcano", kind="queue", name="root")

    found = scorecard_of(world)

    assert [("in part", 0.5), ("in part", 0.5)] == [decided(found, "quota"), decided(found, "preemption")]
    assert any("Without: bare" in line for line in found["layers"][2]["defaults"])


def test_slurms_default_of_no_preemption_is_a_default(world: World) -> None:
    world.gpu("GPU-a", (2 * HOURS, WORK))
    add(world, "queue", scheduler="slurm", kind="partition", name="gpu", preemption='{"mode":"OFF"}')

    found = scorecard_of(world)

    assert ("default", 0.0) == decided(found, "preemption")
    assert ("not known", None) == decided(found, "quota"), "a partition lists nodes"


def test_who_cuts_gpus(world: World) -> None:
    """Each case is a pool of its own."""
    capable = {"nvidia.com/mig.capable": "true"}
    cases: dict[str, tuple[str | None, dict[str, str], list[float | None]]] = {
        "mig-manager cuts them": ("mixed", {"nvidia.com/mig.config": "all-balanced"}, [1.0, 1.0]),
        "cut by hand": ("mixed", {}, [1.0, 0.0]),
        "slices without a strategy": ("none", {}, [0.0, 0.0]),
        "a node that says nothing of MIG": (None, {}, [None, None]),
        "a node that is told to be capable, without a strategy": (None, capable, [0.0, 0.0]),
    }
    for name, (strategy, labels, _) in cases.items():
        for number in (1, 2):
            world.gpu(f"GPU of {name}", (2 * HOURS, WORK), gi=number, profile="3g.40gb", node=name)
        add(
            world, "node", scheduler="kubernetes", node=name, pool=name, mig_strategy=strategy, labels=json.dumps(labels)
        )  # fmt: skip
    world.analyze(10_000, detectors=["idle-hoarding"])
    facts = read_facts(world.store, world.state, None, NOW_US)

    found = {}
    for name in cases:
        ratios = {d.id: d.ratio for d in partitioning({"mig": [row for row in facts["mig"] if row["pool"] == name]})}
        found[name] = [ratios["mig-strategy"], ratios["mig-owner"]]
    assert {name: expected for name, (_, _, expected) in cases.items()} == found


def test_links_that_a_matrix_tells_are_explicit(world: World) -> None:
    world.gpu("GPU-a", (2 * HOURS, WORK)).gpu("GPU-b", (2 * HOURS, WORK))
    for index, name in enumerate(("GPU-a", "GPU-b")):
        add(
            world,
            "link",
            node="n1",
            a=f"GPU{index}",
            b=f"GPU{index}",
            level="X",
            detail=json.dumps({"uuid": name}),
        )
    add(world, "link", node="n1", a="GPU0", b="GPU1", level="NV18")

    found = scorecard_of(world)

    assert 2 == found["topology"][0]["linkable_nodes"] + found["topology"][0]["nodes"]
    assert ("explicit", 1.0) == decided(found, "links-told")


# Grades ------------------------------------------------------------------------------------------------------------


def some(*ratios: float | None) -> list[Decision]:
    """Decisions by the part of each that is taken; None cannot be judged."""
    return [Decision(f"d{n}", "t", UNKNOWN if r is None else "s", r, "") for n, r in enumerate(ratios)]


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        pytest.param(some(None, None), NOT_GRADED, id="nothing can be judged"),
        pytest.param(some(0.0, None, None), NOT_GRADED, id="one of three is too few, be it a default"),
        pytest.param(some(1.0, None), NOT_GRADED, id="one of two is too few, be it explicit"),
        pytest.param([Decision("d", "t", NONE, None, "")], NOTHING, id="nothing arises"),
        pytest.param([], NOTHING, id="nothing at all"),
        pytest.param(some(0.0), "F", id="the only one is left to a default"),
        pytest.param(some(1.0, 1.0, None), "A", id="two of three are taken, the third unknown"),
        pytest.param(some(1.0, 0.5), "B", id="three quarters"),
        pytest.param(some(1.0, 0.0), "C", id="half"),
        pytest.param(some(0.5, 0.0), "D", id="a quarter"),
    ],
)
def test_grades_follow_the_printed_rule(decisions: list[Decision], expected: str) -> None:
    assert expected == grade(decisions, None, None)[0]


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [(None, "A"), (Fraction(199, 100), "A"), (Fraction(2), "B"), (Fraction(10), "C"), (Fraction(99), "C")],
)
def test_money_costs_letters(claimed: Fraction | None, expected: str) -> None:
    """Of a fleet that cost 100."""
    assert expected == grade(some(1.0), claimed, Fraction(100))[0]


def test_a_critical_finding_holds_a_layer_down_and_lifts_none_up() -> None:
    assert ["C", "F"] == [grade(some(ratio), None, None, critical=True)[0] for ratio in (1.0, 0.0)]


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=6), st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_deciding_more_never_lowers_a_grade(ratios: list[float | None], better: float) -> None:
    before = grade(some(*ratios, 0.0), None, None)[0]
    after = grade(some(*ratios, better), None, None)[0]

    assert (before in LETTERS) == (after in LETTERS)
    assert before not in LETTERS or LETTERS.index(after) <= LETTERS.index(before)


def test_the_letters_are_in_order() -> None:
    assert list(LETTERS) == [letter for letter, _ in GRADES]


def test_without_measurements_no_layer_has_a_grade(world: World) -> None:
    """Known links, one scheduler, one map: all decisions that can be graded are taken, and no GPU was measured."""
    world.node("n1", 0, {"": 4}).node("n2", 0, {"": 4})
    for number in range(2):
        add(world, "link", node=f"n{number + 1}", a="GPU0", b="GPU1", level="NV18")
    world.job("1", 4, 0, 2 * HOURS, node="n1").job("2", 4, 0, 2 * HOURS, node="n2")

    found = scorecard_of(world)

    assert {None} == {layer["grade"] for layer in found["layers"]}
    lacks = [layer["not_graded"] for layer in found["layers"] if layer["grade_words"] == NOT_GRADED]
    assert lacks
    assert {"0 % of the held GPU time was measured, and a grade needs 50 %."} == set(lacks)
    assert any(one["what"].startswith("Not graded: 0 %") and "dcgm-exporter" in one["fix"] for one in found["unknown"])


@pytest.mark.parametrize(
    ("layer", "id", "other"),
    [("placement", "links-told", "topology-told"), ("fabric", "links-measured", "network-told")],
)
def test_a_layer_without_its_own_evidence_is_not_graded(layer: str, id: str, other: str) -> None:
    """However good the rest is."""
    facts = {"buckets": {"compute": {"gpu_hours": Fraction(5)}}}
    good = [Decision(f"{other}-{n}", "t", EXPLICIT, 1.0, "") for n in range(3)]
    blind = Decision(id, "Links", UNKNOWN, None, "Nobody reads them.", "Read them.")

    assert ("Links: Nobody reads them.", "Read them.") == lacking(facts, layer, [*good, blind])
    assert None is lacking(facts, layer, [*good, Decision(id, "Links", EXPLICIT, 1.0, "")])


@pytest.mark.parametrize(("measured", "graded"), [(Fraction(49), False), (Fraction(50), True)])
def test_half_of_the_held_time_must_be_measured(measured: Fraction, graded: bool) -> None:
    facts = {"buckets": {"compute": {"gpu_hours": measured}, "unobserved": {"gpu_hours": 100 - measured}}}

    assert graded == (lacking(facts, "scheduling", some(1.0, 1.0)) is None)


# Money -------------------------------------------------------------------------------------------------------------


def hoard(world: World) -> None:
    """A job that holds two GPUs for a day and uses one of them."""
    priced(world)
    world.gpu("GPU-a", (24 * HOURS, IDLE), model=L40S).gpu("GPU-b", (24 * HOURS, WORK), model=L40S)
    world.job("7", ["GPU-a", "GPU-b"], 0, 24 * HOURS)


@computed_once
def hoarded() -> World:
    """That job, analysed."""
    world = World("sqlite://")
    hoard(world)
    scorecard_of(world)
    return world


def test_waste_is_the_sum_over_buckets_and_findings_are_a_part_of_it() -> None:
    found = scorecard_of(hoarded())

    waste = found["waste"]
    rows = [one for one in waste["buckets"] if one["waste"]]
    assert Decimal(waste["cost"]) == sum(Decimal(one["cost"]) for one in rows)
    assert Decimal(found["cost"]) == sum(Decimal(one["cost"]) for one in waste["buckets"])
    assert "120.02" == found["cost"], "two GPUs, a day, and half a minute at the edge"
    claimed = sum(Decimal(layer["cost"]) for layer in found["layers"])
    assert 0 < claimed <= Decimal(waste["cost"])
    measured = Fraction(24 * 3600 - 30, 3600)  # the first sample covers half a minute less
    assert {"recorded_hours": "25.000", "measured_hours": "23.992"} == found["basis"]
    month = sum(24 / measured * MONTH_DAYS * Fraction(one["avoidable_cost"]) for one in rows)
    assert f"{float(month):.2f}" == waste["cost_a_month"]
    assert "the 24 measured hours" == waste["basis"]
    assert "scheduling" == found["costliest"]
    assert "idle-hoarding" == found["actions"][0]["id"]


def test_only_what_was_claimed_within_the_window_counts() -> None:
    world = hoarded()
    whole = scorecard_of(world)
    half = scorecard_of(world, Window(us(12 * HOURS), us(24 * HOURS)))

    assert Decimal("60.00") == Decimal(half["cost"])
    assert Decimal(half["layers"][2]["cost"]) < Decimal(whole["layers"][2]["cost"])
    assert half["waste"]["cost_a_month"] is None, "half a day says nothing of a month"


def test_without_a_rate_money_is_unknown_and_not_zero(world: World) -> None:
    world.gpu("GPU-a", (24 * HOURS, IDLE), model=L40S)
    world.job("7", ["GPU-a"], 0, 24 * HOURS)

    found = scorecard_of(world)

    assert (None, None) == (found["cost"], found["waste"]["cost"])
    assert found["layers"][2]["cost"] is None
    assert Decimal(found["layers"][2]["gpu_hours"]) > 20
    assert "scheduling" == found["costliest"], "by GPU-hours"
    assert any("have no rate" in one["what"] for one in found["unknown"])


def whole(days: int) -> Basis:
    """All of these days was measured."""
    return Basis(days * DAY_US, days * DAY_US)


def found_row(found: Finding, **changed: Any) -> dict[str, Any]:
    """A finding as audit/facts.py has it, without claims."""
    names = ("detector", "key", "title", "remedy", "severity", "state", "team", "subject", "summary")
    blank: dict[str, Any] = {
        "hours": {}, "costs": {}, "unpriced_gpu_hours": Fraction(0), "saving": {}, "saving_hours": None,
        "saving_currency": None, "let_be": False, "facts": facts_of(found), "lost": lost_of(found),
    }  # fmt: skip
    return {name: getattr(found, name) for name in names} | blank | changed


def test_an_exempt_finding_asks_for_nothing() -> None:
    claims = {"hours": {"hoarded": Fraction(1)}, "costs": {"USD": Fraction(2)}}

    assert [] == actions([found_row(finding(state="exempt"), let_be=True, **claims)], {}, whole(1))
    (action,) = actions([found_row(finding(), **claims)], {}, whole(2))
    assert {"USD": 480 * MONTH_DAYS} == action["costs_a_month"], "480 dollars in its day"


def test_the_advice_of_an_action_is_that_of_what_goes_on() -> None:
    """The most expensive job is over, and its advice is of no use for the one that still holds its GPU."""

    def row(key: str, state: str, cost: int) -> dict[str, Any]:
        advice = "Next time …" if state == "resolved" else "End the job."
        claims = {"hours": {"hoarded": Fraction(1)}, "costs": {"USD": Fraction(cost)}, "remedy": advice}
        return found_row(finding(key, state=state), **claims)

    (action,) = actions([row("a", "resolved", 9), row("b", "open", 1), row("c", "resolved", 20)], {}, whole(2))

    assert ("End the job.", 3, 1, ["b", "c", "a"]) == (
        action["remedy"], action["findings"], action["open"], action["keys"],
    )  # fmt: skip


def test_lost_work_ranks_by_its_own_money_and_is_in_no_month() -> None:
    """The nodes of $8,343 failed; a small waste of the same team claims $7.57. Lost work without a price has its GPU-hours."""
    words = {"bucket": None, "wasted_gpu_seconds": "0.000000", "wasted_cost": "0.00", "detector": "failed-work"}
    ran = {"lost_gpu_hours": 3039.8, "lost_cost": "8343.00", "currency": "USD"}
    rows = [
        found_row(
            finding("small", "medium", wasted_cost="7.57"),
            hours={"hoarded": Fraction(4)},
            costs={"USD": Fraction(757, 100)},
        ),
        found_row(finding("lost", "medium", team="vision", evidence=ran, **words)),
        found_row(
            finding("tiny", "low", team="nlp", evidence=ran | {"lost_cost": None, "lost_gpu_hours": 9.0}, **words)
        ),
    ]

    found = actions(rows, {}, whole(14), by_team=True)

    assert [
        ("failed-work", "vision", "lost", {"USD": Fraction(8343)}, {}, {}),
        ("failed-work", "nlp", "lost", {}, {}, {}),
        ("idle-hoarding", "red", "finding", {}, {"USD": Fraction(757, 100)}, {"USD": Fraction(757, 100) * MONTH_DAYS}),
    ] == [(one["id"], one["team"], one["kind"], one["lost"], one["costs"], one["costs_a_month"]) for one in found]
    together = actions(rows, {}, whole(14))
    assert [("failed-work", None, {}), ("idle-hoarding", "red", {})] == [
        (one["id"], one["team"], one["lost"]) for one in together
    ], "one of them has no price, so the sum is unknown"
    assert Fraction("3048.8") == together[0]["lost_gpu_hours"]


@pytest.mark.parametrize(
    ("changed", "basis", "expected"),
    [
        pytest.param({}, Basis(14 * DAY_US, 6 * HOUR_US), 480 * MONTH_DAYS, id="an open one: its own mean, whatever the window"),
        pytest.param({}, Basis(DAY_US, DAY_US), 480 * MONTH_DAYS, id="the same in a window of a day"),
        pytest.param({"state": "resolved"}, Basis(14 * DAY_US, 10 * DAY_US), 48 * MONTH_DAYS, id="one that is over: by the measured days"),
        pytest.param({"state": "resolved"}, Basis(14 * DAY_US, 23 * HOUR_US), None, id="less than a measured day"),
        pytest.param(
            {"last_seen_at": rfc3339(T0_US + 6 * HOUR_US)}, Basis(14 * DAY_US, 6 * HOUR_US), None, id="six hours are no month"
        ),
        pytest.param(
            {"state": "resolved", "bucket": "stranded"}, Basis(16 * DAY_US, 6 * HOUR_US), 30 * MONTH_DAYS,
            id="free GPUs need no measurement",
        ),
    ],
)  # fmt: skip
def test_dollars_a_month_of_a_finding(changed: dict[str, Any], basis: Basis, expected: Fraction | None) -> None:
    row = found_row(finding(**changed), hours={"hoarded": Fraction(192)}, costs={"USD": Fraction(480)})

    assert expected == claimed(row).a_month(basis)


def test_findings_that_are_all_over_have_no_month() -> None:
    """What one of them cost is the same number in every window."""
    claims = {"hours": {"hoarded": Fraction(192)}, "costs": {"USD": Fraction(480)}}
    over, still = found_row(finding("a", state="resolved"), **claims), found_row(finding("b"), **claims)

    new = found_row(finding("c", last_seen_at=rfc3339(T0_US + 6 * HOUR_US)), **claims)

    assert [{}, {}, {"USD": 480 * MONTH_DAYS + 48 * MONTH_DAYS}] == [
        actions(rows, {}, whole(10))[0]["costs_a_month"] for rows in ([over], [over, new], [over, still])
    ]


def test_answers_of_owners_count() -> None:
    """One after the other, each on the finding that the one before left open."""
    cases: dict[str, tuple[str, str | None, int]] = {
        "one that its owner called true stays": ("ack", "true_positive", 0),
        "one that its owner knows stays": ("ack", None, 0),
        "one that is put off stays": ("snooze", None, 0),
        "one that its owner called false is left out": ("ack", "false_positive", 1),
        "one that its owner exempted is left out": ("exempt", None, 1),
    }
    world = hoarded()
    before = scorecard_of(world)
    (key,) = before["actions"][0]["keys"]
    owners = Actions(world.state)
    assert 0 == before["left_out"]
    for number, (name, (action, verdict, left_out)) in enumerate(cases.items()):
        until, at_us = NOW_US + DAY_US if action == "snooze" else None, NOW_US - 100 + 2 * number
        owners.act(Action(key, action, until, "looked", "ada", at_us, verdict))

        found = scorecard_of(world)

        assert left_out == found["left_out"], name
        assert left_out == len(before["actions"]) - len(found["actions"]), name
        assert bool(left_out) is all(key not in one["keys"] for one in found["actions"]), name
        assert bool(left_out) is (f"Left out: {left_out} finding " in left_out_sentence(found)), name
        assert (before["waste"], before["layers"][2]["cost"]) == (found["waste"], found["layers"][2]["cost"]), name
        owners.act(Action(key, "reopen", None, "again", "ada", at_us + 1))
        assert 0 == scorecard_of(world)["left_out"], f"{name}: what is reopened asks again"


def test_savings_are_separate_and_ranked_by_their_worth() -> None:
    rows = [
        found_row(finding("k", "info", detector=detector, bucket=None, confidence=1.0), saving_currency="USD", **saving)
        for detector, saving in (
            ("spot-suitability", {"saving": {"saving": "10.00"}}),
            ("right-sizing", {"saving": {"saving_per_hour": "1.50"}, "saving_hours": 24}),
        )
    ]

    found = actions(rows, {}, whole(2))

    assert [
        ("right-sizing", "saving", {"USD": Fraction(540)}),
        ("spot-suitability", "saving", {"USD": Fraction(10)}),
    ] == [(one["id"], one["kind"], one["saves_a_month"]) for one in found]


# Words and lists ---------------------------------------------------------------------------------------------------


def test_every_detector_has_one_layer() -> None:
    own = {rule.id: rule.layer for rule in rules().values()}

    assert {layer.id for layer in layers.LAYERS} == set(own.values())
    assert {layers.HOURS, layers.DAYS, layers.WEEKS} == {rule.effort for rule in rules().values()}
    assert own == {detector: layer_of(detector) for detector in own}
    assert layers.OTHER == layer_of("site-something")


def test_a_card_leaves_no_working_table_behind(world: World) -> None:
    world.gpu("GPU-a", (2 * HOURS, WORK))
    scorecard_of(world)

    left = world.store.sql("select table_name from duckdb_tables() where starts_with(table_name, 'audit_')")

    assert [] == left


def test_a_window_that_the_books_do_not_know_is_not_known(world: World) -> None:
    world.gpu("GPU-a", (2 * HOURS, WORK))

    found = scorecard_of(world, Window(us(0) - 48 * HOUR_US, us(0) - 24 * HOUR_US))

    assert found["window"] is None
    assert found["known"] is not None
    assert [NOT_GRADED] * 4 == grades(found)
