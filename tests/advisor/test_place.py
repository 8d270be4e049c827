"""Where to run a job: scores by hand, what is unknown, and a fleet's free GPUs and queue history."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.advisor.place import place
from gpuwatch.advisor.place_question import Cloud, Link, Question, question_of
from gpuwatch.advisor.place_score import EXPOSED, Candidate, ranked
from gpuwatch.cli import run
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.rates.card import Rate
from tests.billing.test_chargeback import priced
from tests.worlds.world import BUSY, HOUR, Gpu, World, claim, minutes, node, samples, us

ONE = Question(16, "H100", Fraction(10))


def candidate(name: str, **known: Any) -> Candidate:
    """A pool of which everything is known: 100 GB/s, no wait, 2 an hour, its data is there."""
    usual: dict[str, Any] = {"gb_per_s": 100.0, "wait_seconds": 0.0, "price": Fraction(2), "transfer_seconds": 0.0}
    return Candidate("pool", name, name, name, "NVIDIA H100", **(usual | {"egress": Fraction(0)} | known))


def rows(*found: Candidate, question: Question = ONE) -> dict[str, dict[str, Any]]:
    return {row["site"]: row for row in ranked(found, question, "USD")}


# Scores.


def test_the_best_in_everything_scores_one() -> None:
    found = rows(candidate("a"))["a"]
    assert (1, 1.0, 1.0, "320.00") == (found["rank"], found["score"], found["topology_ratio"], found["cost"])


def test_a_wait_and_a_price_lower_the_score_by_hand() -> None:
    found = rows(candidate("a"), candidate("b", wait_seconds=2.5 * 3600), candidate("c", price=Fraction(4)))
    assert ["a", "b", "c"] == list(found)
    assert [1.0, 0.8, 0.5] == [row["score"] for row in found.values()]  # 10 / 12.5 h, and 320 / 640


def test_slow_links_make_the_run_longer_and_more_expensive() -> None:
    row = rows(candidate("a"), candidate("b", gb_per_s=12.5))["b"]
    slower = 1 + EXPOSED * (8 - 1)
    assert row["topology_ratio"] == pytest.approx(1 / slower, abs=1e-4)
    assert row["score"] == pytest.approx(1 / slower**2, abs=1e-3)
    assert row["cost"] == f"{320 * slower:.2f}"
    assert "a step takes about 1.49 times as long as on the best links" in row["reasons"]


def test_data_moves_while_the_job_waits_and_its_egress_is_paid() -> None:
    moved = candidate("b", wait_seconds=3600.0, transfer_seconds=7200.0, egress=Fraction(80))
    row = rows(candidate("a"), moved)["b"]
    assert (12 * 3600, "400.00") == (row["done_seconds"], row["cost"])
    assert row["score"] == pytest.approx(10 / 12 * 0.8, abs=1e-4)


UNKNOWN = ["gb_per_s", "wait_seconds", "transfer_seconds", "price", "egress"]


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_unknown_gives_a_bound_and_no_score(name: str) -> None:
    found = rows(candidate("a", wait_seconds=10 * 3600.0), candidate("b", **{name: None}))
    assert [("a", 0.5), ("b", None)] == [(row["site"], row["score"]) for row in found.values()]
    assert 1.0 == found["b"]["score_most"]


def test_a_pool_that_cannot_hold_the_job_is_last_and_has_no_rank() -> None:
    found = rows(candidate("a", refused="has 8 GPUs, 16 are needed"), candidate("b", price=None))
    assert [("b", 1), ("a", None)] == [(row["site"], row["rank"]) for row in found.values()]
    assert (None, None, ["has 8 GPUs, 16 are needed"]) == tuple(
        found["a"][name] for name in ("score", "score_most", "reasons")
    )


def test_one_gpu_needs_no_links() -> None:
    assert 1.0 == rows(candidate("a", gb_per_s=None), question=Question(1, "H100"))["a"]["score"]


# Questions.

REFUSED = [
    ({"gpus": "0"}, "gpus '0'"),
    ({"gpus": "1.5"}, "gpus '1.5': give a whole number"),
    ({"data": ["4000"]}, "data_gb '4000': give gigabytes and their site"),
    ({"data": ["x@a"]}, "data_gb 'x'"),
    ({"site": ["c1"]}, "site 'c1': write NAME=VALUE"),
    ({"link": ["from=a"]}, "name both ends"),
    ({"link": ["from=a,to=b,gb_per_s=0"]}, "link gb_per_s '0': give a number above 0"),
    ({"link": ["from=a,to=b,speed=1"]}, "'speed' is not one of from, to, gb_per_s, price_per_gb"),
    ({"cloud": ["price=1"]}, "name it"),
    ({"cloud": ["name=a", "name=a"]}, "each needs a name of its own"),
    ({"hours": "0"}, "hours '0'"),
    ({"data": ["1@a"] * 101}, "data_gb: at most 100"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_value_that_is_none_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        question_of(**{"gpus": "8"} | given)


def test_a_question_is_read_from_its_options() -> None:
    found = question_of(
        "16",
        hours="2.5",
        data=["4000@site-a", "1@site-a"],
        site=["c1=site-a", "c1/p=site-b"],
        link=["from=site-a,to=aws,gb_per_s=1.25,price_per_gb=0.02"],
        cloud=["name=aws,price=6.88,gpus_a_node=8,wait_hours=0.5"],
    )
    assert (16, Fraction(5, 2), {"site-a": 4001}) == (found.gpus, found.hours, dict(found.data))
    assert {("site-a", "aws"): Link(Fraction(5, 4), Fraction(1, 50))} == dict(found.links)
    assert (Cloud("aws", Fraction("6.88"), 8, Fraction(1, 2)),) == found.clouds
    assert ["site-b", "site-a", "c2"] == [found.site_of(*one) for one in (("c1", "p"), ("c1", "q"), ("c2", None))]


# A fleet: pool p1 has two free GPUs on one node, p2 two that are held; runs waited there for an hour.


@pytest.fixture(scope="module")
def world() -> World:
    gpus = [Gpu(f"GPU-{n}", "n1" if n < 2 else "n2", n % 2) for n in range(4)]
    rows: list[Any] = [node("n1", pool="p1"), node("n2", pool="p2")]
    for n, gpu in enumerate(gpus):
        rows.append(samples(gpu, minutes(0, 8 * HOUR, 300), BUSY, job="x" if n > 1 else None))
    for run_ in range(4):
        start, end = 2 * run_ * HOUR, 2 * (run_ + 1) * HOUR if run_ < 3 else None
        waited = (HOUR, HOUR, HOUR, 2 * HOUR)[run_]
        job = f"x{run_}"
        rows.append(claim(job, start, end, node="n2", count=2, submit_us=us(start - waited), evidence=8 * HOUR))
    return World().add(*rows).book()


def asked(world: World, *rates: Rate, **more: Any) -> dict[str, dict[str, Any]]:
    state = priced(world, *rates)
    window = Window(us(-HOUR), us(8 * HOUR))
    found = place(world.store, state, us(8 * HOUR), window, question_of("2", hours="4", **more))
    return {item["pool"] or item["site"]: item for item in found["items"]}


PRICE = Rate("*", "owned", Decimal(2), us(-24 * HOUR))


def test_free_gpus_come_before_a_queue_whose_waits_are_its_own_history(world: World) -> None:
    found = asked(world, PRICE)
    assert ["p1", "p2"] == list(found)
    assert [0.0, 1.25 * 3600] == [row["wait_seconds"] for row in found.values()]
    assert "4 runs of about 2 GPUs waited 1 h 15 min on average, 1 h 42 min at the 90th percentile" in str(found["p2"])
    assert [2, 0] == [row["free_gpus"] for row in found.values()]
    # Nobody imported the links of the nodes, so the speed is unknown and there is no score.
    assert {None} == {row["score"] for row in found.values()}
    assert "import nvidia-smi topo -m of its nodes" in found["p1"]["reasons"][-1]


def test_a_cloud_is_compared_at_its_price_with_the_data_s_way(world: World) -> None:
    found = asked(
        world,
        PRICE,
        model="H100",
        data=["900@c1"],
        link=["from=c1,to=aws,gb_per_s=0.5,price_per_gb=0.02"],
        cloud=["name=aws,price=3,gpus_a_node=8,wait_hours=0.25"],
    )
    cloud = found["aws"]
    assert (1800.0, "18.00", "42.00", 16200.0) == tuple(
        cloud[name] for name in ("transfer_seconds", "egress_cost", "cost", "done_seconds")
    )
    assert cloud["score"] == pytest.approx(4 / 4.5, abs=1e-4)
    assert {0.0} == {found[pool]["transfer_seconds"] for pool in ("p1", "p2")}
    assert "900 GB from c1 take 30 min at 0.5 GB/s" in cloud["reasons"]


def test_without_a_rate_the_cost_is_unknown_and_not_zero(world: World) -> None:
    found = asked(world)
    assert {(None, None)} == {(row["price"], row["cost"]) for row in found.values()}
    assert "no price in USD" in str(found["p1"]["reasons"])


def test_another_site_without_a_link_is_unknown(world: World) -> None:
    found = asked(world, PRICE, data=["10@far"], site=["c1/p1=far"])
    assert ("far", 0.0) == (found["p1"]["site"], found["p1"]["transfer_seconds"])
    assert (None, None) == (found["p2"]["transfer_seconds"], found["p2"]["egress_cost"])


def test_a_job_that_is_too_large_does_not_fit(world: World) -> None:
    state = priced(world, PRICE)
    found = place(world.store, state, us(8 * HOUR), Window(us(0), us(8 * HOUR)), question_of("3", model="H100"))
    assert [(None, ["has 2 GPUs, 3 are needed"])] * 2 == [(i["rank"], i["reasons"]) for i in found["items"]]
    found = place(world.store, state, us(8 * HOUR), Window(us(0), us(8 * HOUR)), question_of("1", model="B200"))
    assert [] == found["items"]


def test_the_command_prints_the_ranking(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "teams.csv").write_text("match_kind,match,team\n")
    assert 0 == run(["import", "bundle", str(tmp_path), "--data", str(tmp_path / "data")])
    capsys.readouterr()
    line = ["decide", "place", "--gpus", "8", "--data", str(tmp_path / "data"), "--model", "H100"]
    cloud = ["--cloud", "name=aws,price=6.88,gpus_a_node=8"]
    assert 0 == run([*line, *cloud, "--format", "json"])
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert (1, "aws", None, 1.0, "1320.96") == tuple(
        item[name] for name in ("rank", "site", "score", "score_most", "cost")
    )
    assert 0 == run([*line, *cloud, "--format", "table"])
    assert "at most 1.00" in capsys.readouterr().out
    assert 2 == run([*line, "--cloud", "aws"])
    assert "cloud 'aws': write NAME=VALUE" in capsys.readouterr().err
