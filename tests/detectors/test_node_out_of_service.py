"""Nodes out of service: what is maintenance or sleep, then what is forgotten, with the time that it costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from gpuwatch.core.model import NODE, Records
from gpuwatch.detectors.node_out_of_service import NODE_OUT_OF_SERVICE
from gpuwatch.findings import evaluate
from gpuwatch.store.database import Store
from tests.worlds.detectors import World, us
from tests.worlds.scheduling import found

RULE = "node-out-of-service"
HOUR = 60.0
END = 60 * HOUR
"""The fleet's jobs cover 60 hours."""


def listed(
    world: World, name: str, state: str, at: float | None = END, since: float | None = None, **words: object
) -> None:
    """A record of a node with two GPUs."""
    row = dict.fromkeys(NODE.names, None) | {
        "cluster": world.cluster,
        "scheduler": "slurm",
        "node": name,
        "devices": json.dumps({"": 2}),
        "observed_us": None if at is None else us(at),
        "since_us": None if since is None else us(since),
        "state": state,
        **words,
    }
    world.store.append(Records("node", pa.Table.from_pylist([row], schema=NODE)))


MUST_NOT_FIRE: dict[str, Callable[[World, str], object]] = {
    "a node that is up": lambda w, n: listed(w, n, "up"),
    "drained for 23 hours": lambda w, n: listed(w, n, "drain", since=END - 23 * HOUR),
    "drained for a day and back": lambda w, n: (
        listed(w, n, "drain", at=20 * HOUR, since=10 * HOUR),
        listed(w, n, "up", at=33 * HOUR),
    ),
    "asleep to save power": lambda w, n: (
        listed(w, n, "down", at=0.0, labels='{"states": "POWERED_DOWN"}'),
        listed(w, n, "down", labels='{"states": "POWERED_DOWN"}'),
    ),
    "a drain of unknown time in a list without a time": lambda w, n: listed(w, n, "drain", at=None),
}
MUST_FIRE: dict[str, tuple[Callable[[World, str], object], float, float, str]] = {
    "drained for two days in a list without a time": (
        lambda w, n: listed(w, n, "drain", at=None, since=12 * HOUR, reason="Xid 79"), 12, 60, "open"),
    "down for 30 hours, then back": (
        lambda w, n: (
            listed(w, n, "down", at=10 * HOUR, since=10 * HOUR, reason="Not responding"),
            listed(w, n, "up", at=40 * HOUR),
        ), 10, 40, "resolved"),
    "cordoned in Kubernetes without a time": (
        lambda w, n: (
            listed(w, n, "drain", at=20 * HOUR, scheduler="kubernetes", reason="cordoned"),
            listed(w, n, "drain", scheduler="kubernetes", reason="cordoned"),
        ), 20, 60, "open"),
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Every case is a node of one fleet, whose job on another node lasts from the beginning to the end."""
    w = World(tmp_path_factory.mktemp("world"))
    w.node("busy", END, {"": 1})
    w.claim(
        scheduler="slurm", kind="sacct", job_id="1", run_key="1@0", node="busy", device_count=1,
        start_us=us(0), end_us=us(END), evidence_us=us(END), state="COMPLETED", account="vision",
    )  # fmt: skip
    for number, scene in enumerate([*MUST_NOT_FIRE.values(), *(case[0] for case in MUST_FIRE.values())]):
        scene(w, f"n{number}")
    report = w.analyze(END, detectors=[RULE])
    assert [] == report.failed_rules
    return w


@pytest.mark.parametrize("number", range(len(MUST_NOT_FIRE)), ids=MUST_NOT_FIRE.keys())
def test_must_not_fire(world: World, number: int) -> None:
    assert [] == [one.subject for one in found(world, RULE) if one.subject == f"n{number}"]


@pytest.mark.parametrize("case", MUST_FIRE.keys())
def test_must_fire(world: World, case: str) -> None:
    number = len(MUST_NOT_FIRE) + list(MUST_FIRE).index(case)
    _, start, end, state = MUST_FIRE[case]
    (one,) = [one for one in found(world, RULE) if one.subject == f"n{number}"]

    assert ("node", start * HOUR, None if state == "open" else end * HOUR) == (one.kind, one.started, one.ended)
    assert 2 * (end - start) * 3600 == one.wasted_s
    assert (2, 2 * (end - start), end - start) == (
        one.evidence["gpus"], one.evidence["gpu_hours"], one.evidence["hours"],
    )  # fmt: skip


def test_its_words_have_the_reason_of_the_scheduler() -> None:
    evidence = {"state": "drain", "gpus": 8, "gpu_hours": 1200.4, "hours": 150.05, "reason": "Xid 79"}

    assert (
        "8 GPUs drained for 6 days 6 h: 1,200.4 GPU-hours paid for that no job could use. Reason: Xid 79."
        == NODE_OUT_OF_SERVICE.summary(evidence)
    )
    assert "1 GPU down for 2 days: 48 GPU-hours paid for that no job could use. The scheduler gives no reason." == (
        NODE_OUT_OF_SERVICE.summary({"state": "down", "gpus": 1, "gpu_hours": 48, "hours": 48, "reason": None})
    )


def test_every_outage_is_in_the_docs(checkout: Path) -> None:
    assert "24 hours" in (checkout / "docs/detectors/node-out-of-service.md").read_text("utf-8")


def granted(world: World) -> dict[str, int]:
    """Seconds of the ledger that the rule has, by node."""
    query = "select subject_id, sum(us) from granted_claim where detector = $rule group by 1"
    return {name: us_ // 1_000_000 for name, us_ in world.store.sql(query, rule=RULE)}


def test_an_outage_claims_time_only_once_it_is_a_finding(tmp_path: Path) -> None:
    """Time that a short outage claimed was kept from the rule that names the broken GPU. As soon as it is long enough, it has
    all of its time, also that of earlier passes; when the records change so that it was short, none.
    """
    w = World(tmp_path)
    w.node("busy", END, {"": 1})
    w.claim(
        scheduler="slurm", kind="sacct", job_id="1", run_key="1@0", node="busy", device_count=1,
        start_us=us(0), end_us=us(END), evidence_us=us(END), state="COMPLETED", account="vision",
    )  # fmt: skip
    listed(w, "n1", "drain", at=20 * HOUR, since=12 * HOUR, reason="Xid 79")
    w.analyze(20 * HOUR, detectors=[RULE])
    short = found(w, RULE), granted(w)
    listed(w, "n1", "drain", at=END, since=12 * HOUR, reason="Xid 79")
    w.analyze(END, detectors=[RULE])
    [one] = found(w, RULE)
    long = one.wasted_s, granted(w)
    listed(w, "n1", "up", at=15 * HOUR)
    listed(w, "n1", "drain", at=45 * HOUR, since=45 * HOUR)
    w.analyze(END, detectors=[RULE])

    assert ([], {}) == short
    assert (2 * 48 * 3600, {"n1": 2 * 48 * 3600}) == long
    assert ([], {}) == ([each for each in found(w, RULE) if each.wasted_s], granted(w))
    w.store.close()


def test_an_outage_that_goes_on_is_not_granted_its_whole_time_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the hours beside the new one are: an outage may last for months."""
    hours: list[set[int]] = []
    regrant = evaluate.regrant

    def noting(store: Store, cluster: str) -> None:
        hours.append({hour for (hour,) in store.sql("select hour_us from claim_hour")})
        regrant(store, cluster)

    monkeypatch.setattr(evaluate, "regrant", noting)
    w = World(tmp_path)
    w.node("busy", END + HOUR, {"": 1})
    w.claim(
        scheduler="slurm", kind="sacct", job_id="1", run_key="1@0", node="busy", device_count=1,
        start_us=us(0), end_us=us(END + HOUR), evidence_us=us(END + HOUR), state="COMPLETED", account="vision",
    )  # fmt: skip
    listed(w, "n1", "drain", since=12 * HOUR)
    w.analyze(END, detectors=[RULE])
    listed(w, "n1", "drain", at=END + HOUR, since=12 * HOUR)
    w.analyze(END + HOUR, detectors=[RULE])
    first, second = hours[0], set().union(*hours[1:])

    assert {us(n * HOUR) for n in range(12, 60)} == first
    assert us(END) in second and min(second) >= us(END - 4 * HOUR)
    assert {"n1": 2 * 49 * 3600} == granted(w)
    w.store.close()
