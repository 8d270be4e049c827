"""Free GPUs in pieces: what must not be called so, then what must, and what is claimed of the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.detectors.fragmentation import FRAGMENTATION
from tests.worlds.detectors import H100, World, page_rows, us
from tests.worlds.fragmentation import asked, node, waits
from tests.worlds.scheduling import Verdict, evaluated, evaluated_apart, found, tell

RULE = "fragmentation"
Scene = Callable[[World], object]


def pieces(w: World, held: int = 1) -> None:
    """Three nodes of four GPUs; of each some are held."""
    for name in ("n1", "n2", "n3"):
        node(w, name, 4, held)


MUST_NOT_FIRE: dict[str, list[Scene]] = {
    "no request is known": [pieces],
    "too few requests to tell what is usual": [pieces, lambda w: asked(w, 4, 9)],
    "a request whose queue is not one of several pools": [
        pieces,
        lambda w: [tell(w, "node", scheduler="slurm", node=n, observed_us=1, state="up", pool=n) for n in ("n1", "n2")],
        lambda w: waits(w, 4, 10, 150, queue="other"),
    ],
}


def severity(one: Verdict) -> str | None:
    return FRAGMENTATION.severity and FRAGMENTATION.severity(one.evidence, 1.0)


def test_must_not_fire(tmp_path: Path) -> None:
    findings = evaluated_apart(tmp_path, RULE, 180, MUST_NOT_FIRE)

    assert {} == {case: verdicts for case, verdicts in findings.items() if verdicts}


class Case:
    """A case in the cluster of all of them: pools of its name, GPUs of a model of its own, and requests for that model."""

    def __init__(self, world: World, number: int, name: str) -> None:
        self.world, self.name = world, name
        self.model, self.gpu_type = f"NVIDIA X{number:02} 80GB", f"x{number:02}"

    def node(
        self, name: str, gpus: int, held: int, scheduler: str = "slurm", pool: str = "", **columns: object
    ) -> None:
        """A node of the case's pool, or of one of its pools."""
        where = f"{self.name}{pool and '/'}{pool}"
        node(self.world, f"{self.name} {name}", gpus, held, pool=where, model=self.model, step_s=300)
        if scheduler != "slurm" or columns:
            row = {
                "scheduler": scheduler,
                "node": f"{self.name} {name}",
                "observed_us": 1,
                "state": "up",
                "pool": where,
            }
            tell(self.world, "node", **(row | columns))

    def pieces(self, held: int = 1, scheduler: str = "slurm") -> Case:
        """Three nodes of four GPUs; of each some are held."""
        for name in ("n1", "n2", "n3"):
            self.node(name, 4, held, scheduler)
        return self

    def two_pools(self, held_b: int = 1, **b1: object) -> Case:
        """Three nodes of each pool, of the first with four GPUs and one held. `b1`: the free node of pool b."""
        for name, held in (("a1", 1), ("a2", 1), ("a3", 1), ("b1", held_b), ("b2", 4), ("b3", 4)):
            labels = {} if name in ("b2", "b3") or not b1 else b1 if name == "b1" else {"labels": {"zone": "a"}}
            self.node(name, 4, held, "kubernetes", name[0], **labels)
        return self

    def two_partitions(self, held_b: int = 1) -> Case:
        """Two nodes of partition a and one of b, which no record of Slurm names as partitions."""
        for name, held in (("a1", 1), ("a2", 1), ("b1", held_b)):
            self.node(name, 4, held, pool=name[0])
        return self

    def overlapping(self) -> Case:
        """Three nodes that are in two partitions."""
        for name in ("n1", "n2", "n3"):
            self.node(name, 4, 1, labels={"partitions": f"{self.name},{self.name}/debug"})
        return self

    def beside(self, rule: str | None = None, user: str = "ann", **labels: str) -> Case:
        """A job that waits beside three nodes in parts, which have the feature ib, and a free one with some labels of Slurm."""
        for name in ("n1", "n2", "n3"):
            self.node(name, 4, 1, labels={"partitions": self.name, "features": "ib,h"})
        self.node("n4", 4, 0, labels={"partitions": self.name, "features": "eth,h"} | labels)
        return self.waits(4, 10, 150, queue=self.name, user_name=user, node_rule=rule and {"constraint": rule})

    def roomy(self, *, needs: tuple[int, int] | None = (32, 256), **free: object) -> Case:
        """A job of four GPUs that waits beside three nodes in parts and a free one, of which it is known how many CPUs and how
        much memory they have. `free`: columns of the free one; `needs`: CPUs and GiB."""
        has = {"cpu_milli": 64_000, "memory_bytes": 512 * GIB}
        for name, held in (("n1", 1), ("n2", 1), ("n3", 1), ("n4", 0)):
            labels = {"labels": {"partitions": self.name, "features": "h"}}
            self.node(name, 5 if name == "n4" else 4, held, **(labels | has | (free if name == "n4" else {})))
        asked = {} if needs is None else {"cpu_milli": needs[0] * 1000, "memory_bytes": needs[1] * GIB}
        return self.waits(4, 10, 150, queue=self.name, **asked)

    def beside_it(self, name: str, until: float | None, cpus: int, gib: int) -> Case:
        """A job with the fifth GPU of a node, so many CPUs and so much memory."""
        self.world.claim(
            scheduler="slurm", kind="sacct", job_id=f"{self.name} cpu", run_key=f"{self.name} cpu", node=f"{self.name} {name}",
            device_count=1, gpus=f"{self.name} {name}-4", start_us=us(0), end_us=until and us(until), evidence_us=us(until or 180),
            state="RUNNING", cpu_milli=cpus * 1000, memory_bytes=gib * GIB,
        )  # fmt: skip
        return self

    def reserved(self, start: float, end: float, **more: object) -> Case:
        """The free node is reserved, for maintenance."""
        row = {"scheduler": "slurm", "name": self.name, "nodes": f"{self.name} n4", "users": "root", "flags": "MAINT"}
        tell(self.world, "reservation", **(row | {"start_us": start, "end_us": end} | more))
        return self

    def asked(self, gpus: int, times: int, gpu_type: str | None = None) -> Case:
        """Requests of the day before."""
        asked(self.world, gpus, times, self.name, gpu_type=gpu_type or self.gpu_type)
        return self

    def waits(self, gpus: int, since: float, until: float, reason: str = "Resources", **more: Any) -> Case:
        """A request that waits."""
        waits(self.world, gpus, since, until, reason, **({"job_id": self.name, "gpu_type": self.gpu_type} | more))
        return self

    def pod(self, event: str | None = None, **more: Any) -> Case:
        """A pod of four GPUs that waits, and what an event says of it."""
        pod = {"scheduler": "kubernetes", "job_id": f"lab/{self.name}", "namespace": "lab"}
        self.waits(4, 10, 150, "Unschedulable", **(pod | more))
        if event is not None:
            words = {"event_id": self.name, "object_kind": "Pod", "namespace": "lab", "name": f"{self.name}-0"}
            times = {"count": 1, "first_us": 11, "last_us": 140}
            tell(self.world, "event", **words, reason="FailedScheduling", message=event, **times)
        return self

    def recorded_at(self, *minutes: float, reason: str | None = "Resources") -> Case:
        """A job that waits since minute 5, as its records of some minutes say. Those of sacct give no reason."""
        row = {"scheduler": "slurm", "job_id": self.name, "submit_us": 5, "device_count": 4, "node_count": 1}
        for at in minutes:
            tell(self.world, "pending", **row, gpu_type=self.gpu_type, evidence_us=at, reason=reason)
        return self

    def ran(self, start: float = 60, end: float = 100) -> Case:
        """The job that waits ran in between, on a node that others held before and after."""
        self.node("n4", 4, 0)
        gpus = [f"{self.name} n4-{n}" for n in range(4)]
        for job, a, b in ((self.name, start, end), (f"{self.name} next", 0, start), (f"{self.name} last", end, 180)):
            self.world.job(job, gpus, a, b, node=f"{self.name} n4")
        return self

    def ruled(self, rule: dict[str, object], **b1: object) -> Case:
        """The four free GPUs of pool b are on one node, with some labels or taints; the pod that waits has a rule."""
        message = "0/6 nodes are available: 2 node(s) had untolerated taint {x: }, 4 Insufficient nvidia.com/gpu."
        return self.two_pools(0, **b1).pod(queue="team-queue", message=message, node_rule=rule)


GIB = 1 << 30
FULL_CPU = {"cpu_milli_used": 60_000}
FULL_MEMORY = {"memory_bytes_used": 500 * GIB}
TAINT = {"taints": '[["x","","NoSchedule"]]'}
ZONE_B = {"labels": {"zone": "b"}}

TAINTED = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {t: }."
SILENT: dict[str, Callable[[Case], object]] = {
    "what is usually asked for fits": lambda c: c.pieces().asked(1, 20),
    "less than half is lost": lambda c: c.pieces().asked(1, 12).asked(4, 10),
    "fewer free GPUs than a node has": lambda c: (c.node("n1", 4, 1), c.asked(4, 20)),
    "requests for another model": lambda c: c.pieces().asked(4, 20, "a100"),
    "requests for more than an empty node has": lambda c: (
        [c.node(n, 1, 0) for n in ("n1", "n2", "n3")],
        c.asked(4, 20),
    ),
    "nothing is free": lambda c: c.pieces(4).asked(4, 20),
    "a request that waits for quota": lambda c: c.pieces().waits(4, 10, 150, "QOSMaxGRESPerUser"),
    "a request of which only sacct has records": lambda c: c.pieces().recorded_at(5, 60, 160, reason=None),
    "a job that ran since it waited for resources": lambda c: (
        c.pieces().ran(20, 60).recorded_at(15).recorded_at(70, 130, reason=None)
    ),
    "a request that waits for another job": lambda c: (
        c.pieces().recorded_at(5, 60, 160, reason=None).recorded_at(5, 60, 160, reason="Dependency")
    ),
    "a request that waits for its turn": lambda c: c.pieces().waits(4, 10, 150, "Priority"),
    "nobody says why it waits": lambda c: c.pieces().waits(4, 10, 150, ""),
    "a request that waits for less than half an hour": lambda c: c.pieces().waits(4, 10, 39),
    "a request for more than is free": lambda c: c.pieces().waits(10, 10, 150),
    "a request that would fit": lambda c: c.pieces().waits(3, 10, 150),
    "pods that no taint lets in": lambda c: c.pieces(scheduler="kubernetes").pod(TAINTED),
    "pods that no taint lets in, whose record has no namespace of its own": lambda c: c.pieces(
        scheduler="kubernetes"
    ).pod(message=TAINTED, namespace=None),
    "pods that no taint lets in, whose record has no namespace at all": lambda c: c.pieces(scheduler="kubernetes").pod(
        message=TAINTED, namespace=None, job_id=c.name
    ),
    "a pod that one of its pools could take": lambda c: c.two_pools(held_b=0).pod(
        "0/6 nodes are available: 6 Insufficient nvidia.com/gpu.", queue="team-queue"
    ),
    "a pod whose queue is a full pool, beside another pool in parts": lambda c: c.two_pools(held_b=4).pod(
        "0/6 nodes are available: 6 Insufficient nvidia.com/gpu.", queue=f"{c.name}/b"
    ),
    "selected": lambda c: c.ruled({"terms": [[["zone", "In", ["a", "b"]]]]}, **ZONE_B),
    "a label of no node": lambda c: c.ruled({"terms": [[["disk", "In", ["ssd"]]]]}, **ZONE_B),
    "free for it without a constraint": lambda c: c.beside(),
    "free for it by one of two features": lambda c: c.beside("ib|eth"),
    "free for it by a constraint for some of its nodes": lambda c: c.beside("[ib*1&eth*1]"),
    "free for it as no record names the feature": lambda c: c.beside("nvme"),
    "free for it once it is started with another feature": lambda c: c.beside("ib", available_features="eth,ib,h"),
    "free for it as its features are not recorded": lambda c: c.beside("ib", partitions=""),
    "reserved for the one who waits": lambda c: c.beside(user="root").reserved(0, 500),
    "reserved for one of whom only the account is known": lambda c: c.beside().reserved(
        0, 500, users=None, accounts="x"
    ),
    "reserved for all but some": lambda c: c.beside().reserved(0, 500, users="-eve"),
    "reserved in part": lambda c: c.beside().reserved(0, 500, flags="SPEC_NODES", device_count=2),
    "reserved before it waits": lambda c: c.beside().reserved(0, 10),
    "reserved hours before, as a record says that is all": lambda c: c.beside().reserved(-500, 500, observed_us=-120),
    "named by one of two partitions, whose other has a free node": lambda c: c.two_partitions(0).waits(
        4, 10, 150, queue=f"{c.name}/a,{c.name}/b"
    ),
    "named by a partition that is not the first of a free node": lambda c: (
        c.overlapping().node("n4", 4, 0, pool="other", labels={"partitions": f"{c.name}/other,{c.name}/debug"}),
        c.waits(4, 10, 150, queue=f"{c.name}/debug"),
    ),
    "named by a partition that no record has, beside nodes without records": lambda c: c.two_partitions().waits(
        4, 10, 150, queue=f"{c.name}/a,{c.name}/c"
    ),
    "in a partition of none of the nodes": lambda c: c.overlapping().waits(4, 10, 150, queue=f"{c.name}/cpu"),
    "with the CPUs and memory that it needs": lambda c: c.roomy(cpu_milli_used=32_000, memory_bytes_used=256 * GIB),
    "without the CPUs, of a request that asks for none": lambda c: c.roomy(needs=None, **FULL_CPU),
    "on a node whose CPUs no record has": lambda c: c.roomy(cpu_milli=None, memory_bytes=None),
    "on a node that jobs have more of than there is": lambda c: c.roomy(cpu_milli_used=60_000).beside_it(
        "n4", None, 70, 1
    ),
    "on a node whose scheduler does not give out memory": lambda c: c.roomy(memory_bytes_used=0).beside_it(
        "n4", None, 1, 400
    ),
    "in parts whose nodes lack CPUs for any of them": lambda c: (
        c.pieces().node("n1", 0, 0, cpu_milli=64_000, cpu_milli_used=64_000),
        c.node("n2", 0, 0, cpu_milli=64_000, cpu_milli_used=64_000),
        c.node("n3", 0, 0, cpu_milli=64_000, cpu_milli_used=56_000),
        c.waits(4, 10, 150, cpu_milli=32_000),
    ),
    "tolerated": lambda c: c.ruled({"tolerations": [["x", "Exists", "", None]]}, **TAINT),
}
REPORTED: dict[str, Callable[[Case], object]] = {
    "usual": lambda c: c.pieces().asked(4, 20),
    "waiting": lambda c: c.pieces().waits(4, 10, 150),
    "lacking": lambda c: c.pieces(scheduler="kubernetes").pod(
        "0/4 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, "
        "3 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available."
    ),
    "several": lambda c: c.two_pools().pod(
        "0/8 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 6 Insufficient nvidia.com/gpu.",
        queue="team-queue",
    ),
    "far apart": lambda c: c.pieces().recorded_at(5, 160),
    "two sources": lambda c: c.pieces().recorded_at(5, 60, 160, reason=None).recorded_at(5, 60, 160),
    "in turns": lambda c: c.pieces().recorded_at(5, 58, 118, 158, reason=None).recorded_at(60, 120, 160),
    "ran": lambda c: c.pieces().ran().recorded_at(5, 160),
    "not selected": lambda c: c.ruled({"terms": [[["zone", "In", ["a"]]]]}, **ZONE_B),
    "kept away": lambda c: c.ruled({"terms": [[["zone", "NotIn", ["b"]]]]}, **ZONE_B),
    "tainted": lambda c: c.ruled({"terms": []}, **TAINT),
    "feature": lambda c: c.beside("ib&(h|a)"),
    "maintenance": lambda c: c.beside().reserved(0, 500),
    "for a while": lambda c: c.beside().reserved(60, 100, flags="SPEC_NODES", device_count=4),
    "gang of eight": lambda c: (
        [c.node(name, 4, 2) for name in ("n1", "n2", "n3", "n4")],
        c.waits(8, 10, 150, node_count=2),
    ),
    "cpus": lambda c: c.roomy(**FULL_CPU),
    "memory": lambda c: c.roomy(**FULL_MEMORY),
    "cpus of a job": lambda c: c.roomy().beside_it("n4", 100, 60, 1),
    "partitions": lambda c: c.two_partitions().waits(4, 10, 150, queue=f"{c.name}/a,{c.name}/b"),
    "one of two": lambda c: c.two_partitions(0).waits(4, 10, 150, queue=f"{c.name}/a"),
    "second": lambda c: (
        c.overlapping().node("n4", 4, 0, pool="other", labels={"partitions": f"{c.name}/other"}),
        c.waits(4, 10, 150, queue=f"{c.name}/debug,{c.name}/cpu"),
    ),
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> World:
    """All cases, which are one cluster."""
    world = World(tmp_path_factory.mktemp("cases"))
    for number, (name, plant) in enumerate((SILENT | REPORTED).items()):
        plant(Case(world, number, name))
    report = world.analyze(now=180, detectors=[RULE])
    assert [] == [text for text in report.failed_rules if text.startswith(RULE)]
    return world


@pytest.fixture(scope="module")
def findings(cases: World) -> dict[str, Verdict]:
    """What the rule reports of all cases, by pool."""
    listed = found(cases, RULE)
    assert len(listed) == len({one.subject for one in listed})
    return {one.subject: one for one in listed}


@pytest.mark.parametrize("case", SILENT)
def test_says_nothing_of(findings: dict[str, Verdict], case: str) -> None:
    assert [] == [subject for subject in findings if subject.split("/")[0] == case]


def test_free_gpus_that_the_usual_requests_cannot_use(tmp_path: Path, findings: dict[str, Verdict]) -> None:
    [one] = evaluated(tmp_path, RULE, 180, pieces, lambda w: asked(w, 4, 20))

    assert ("pool", H100, "medium", 0.0, "open") == (one.kind, one.subject, severity(one), one.started, one.state)
    assert 9 * (3 * 3600 - 30) == one.wasted_s, "half a step before the first sample nothing is known"
    among_others = findings["usual"]
    for evidence in (one.evidence, among_others.evidence):
        assert (1.0, 3) == tuple(evidence[n] for n in ("fragmentation_ratio", "largest_gang_gpus"))
    assert (0.0, "open") == (among_others.started, among_others.state)


def test_a_shape_that_waits_beside_enough_free_gpus(findings: dict[str, Verdict]) -> None:
    """It is critical; four of nine free GPUs are wasted from half an hour after it was submitted."""
    one = findings["waiting"]

    assert ("critical", 40.0, 150.0, "resolved") == (severity(one), one.started, one.ended, one.state)
    assert 4 * 110 * 60 == pytest.approx(float(one.wasted_s), abs=0.001)
    assert ("4", "waiting", 110, 140, 1) == tuple(
        one.evidence[n] for n in ("shape", "waiting_job", "starved_minutes", "waited_minutes", "moved_gpus")
    )
    text = FRAGMENTATION.summary(one.evidence)
    assert "waiting waited 2 h 20 min for 4, at least 1 h 50 min of it while as many GPUs were free" in text
    assert "job-waiting n1 (1 GPU on waiting n1)" == one.evidence["moves"]
    assert one.evidence["blockers"].startswith("job-waiting n1 (")


def test_the_largest_gang_is_that_of_the_time_in_which_the_request_waited(tmp_path: Path) -> None:
    """A whole node was free until minute 20 of the hour in which the request of minute 10 became starved, and is again at the end."""

    def scene(w: World) -> None:
        pieces(w)
        node(w, "n4", 4, 0)
        w.job("late", [f"n4-{n}" for n in range(2)], 20, 170, node="n4")
        waits(w, 4, 10, 165)

    [one] = evaluated(tmp_path, RULE, 180, scene)

    assert (4, 3) == tuple(one.evidence[name] for name in ("wanted_gpus", "largest_gang_gpus"))
    assert "the largest gang that one node could take 3" in FRAGMENTATION.summary(one.evidence)


def test_a_starved_gang_claims_as_many_free_gpus_as_it_wants(findings: dict[str, Verdict]) -> None:
    """Two nodes of four, beside four nodes of which two GPUs are free each: all eight, from half an hour after it was submitted."""
    one = findings["gang of eight"]

    assert ("2x4", 8, 110) == tuple(one.evidence[name] for name in ("shape", "wanted_gpus", "starved_minutes"))
    assert 8 * 110 * 60 == pytest.approx(float(one.wasted_s), abs=0.001)


def test_pods_that_only_lack_gpus_are_starved(findings: dict[str, Verdict]) -> None:
    one = findings["lacking"]

    assert "lab/lacking" == one.evidence["waiting_job"]
    assert 4 * 110 * 60 == pytest.approx(float(one.wasted_s), abs=0.001), (
        "free GPUs count although no request of the day before made them stranded"
    )


def test_a_pod_that_any_of_several_pools_could_take_waits_for_each(findings: dict[str, Verdict]) -> None:
    """Another reason for some nodes does not hide the GPUs that the others lack. The claims of both pools are four GPUs."""
    both = [findings["several/a"], findings["several/b"]]

    assert [4, 4] == [one.evidence["wanted_gpus"] for one in both]
    assert 4 * 110 * 60 == pytest.approx(sum(float(one.wasted_s) for one in both), abs=0.001)


@pytest.mark.parametrize("case", ["not selected", "kept away", "tainted"])
def test_a_place_is_free_only_on_nodes_that_a_pod_may_use(findings: dict[str, Verdict], case: str) -> None:
    """The message is that of the pods; there is no event. The cases where pool b is free for the pod are in SILENT."""
    assert [f"{case}/a"] == [subject for subject in findings if subject.split("/")[0] == case]


def test_a_request_waits_for_any_of_its_partitions(findings: dict[str, Verdict]) -> None:
    """Each pool has its part of the four free GPUs. A free node of a partition that is not named is not free for it."""
    both = [findings["partitions/a"], findings["partitions/b"]]

    assert [4 * 110 * 60 * 6 / 9, 4 * 110 * 60 * 3 / 9] == pytest.approx(
        [float(one.wasted_s) for one in both], abs=0.01
    )
    assert 4 * 110 * 60 == pytest.approx(float(findings["one of two/a"].wasted_s), abs=0.001)
    assert "one of two/b" not in findings


def test_a_node_is_in_all_its_partitions(findings: dict[str, Verdict]) -> None:
    """The finding is of the nodes' pool, their first partition. A name without GPU nodes hides nothing: all records are known."""
    assert 4 * 110 * 60 == pytest.approx(float(findings["second"].wasted_s), abs=0.001)
    assert "second/other" not in findings


@pytest.mark.parametrize(
    ("case", "start", "minutes"), [("feature", 40, 110), ("maintenance", 40, 110), ("for a while", 60, 40)]
)
def test_a_node_that_lacks_a_feature_or_is_reserved_for_others_is_not_free(
    findings: dict[str, Verdict], case: str, start: float, minutes: int
) -> None:
    assert (start, minutes) == (findings[case].started, findings[case].evidence["starved_minutes"])
    assert 4 * minutes * 60 == pytest.approx(float(findings[case].wasted_s), abs=0.001)
    assert f"job-{case} n1 (1 GPU on {case} n1)" == findings[case].evidence["moves"], "the free node is no place for it"


@pytest.mark.parametrize(
    ("case", "end", "minutes"), [("cpus", 150, 110), ("memory", 150, 110), ("cpus of a job", 100, 60)]
)
def test_a_node_without_the_cpus_or_memory_that_a_request_needs_is_not_free(
    cases: World, findings: dict[str, Verdict], case: str, end: float, minutes: int
) -> None:
    """Only GPUs of nodes that have them are wasted."""
    one = findings[case]

    assert (40, end, minutes) == (one.started, one.ended, one.evidence["starved_minutes"])
    assert 4 * minutes * 60 == pytest.approx(float(one.wasted_s), abs=0.001)
    nodes = cases.store.sql(
        "select distinct d.node from (select unnest(device_ids) as device_id from finding where key = $key) join device d using (device_id)",
        key=one.key,
    )
    assert {f"{case} n{n}" for n in (1, 2, 3)} == {name for (name,) in nodes} - {"cpus of a job n4"}, (
        "free since minute 100"
    )


def test_evidence_names_what_is_not_known_of_the_nodes(findings: dict[str, Verdict]) -> None:
    waiting, cpus = (findings[case].evidence["not_known"] for case in ("waiting", "cpus"))

    assert "what it asks for of CPUs and memory (ReqTRES)" in waiting
    assert "what it asks for" not in cpus
    assert "CPUs and memory of nodes (scontrol show node)" in cpus, "those of the other cases"
    assert "CPUs and memory of running jobs (AllocTRES)" in cpus, "of the job that would move"


def test_records_of_a_job_that_are_hours_apart_are_one_wait(findings: dict[str, Verdict]) -> None:
    """sacct dates a waiting job to its submission; scontrol's record comes with the next dump."""
    assert (35.0, 160.0) == (findings["far apart"].started, findings["far apart"].ended)


@pytest.mark.parametrize("case", ["two sources", "in turns"])
def test_records_without_a_reason_wait_for_that_of_the_others(findings: dict[str, Verdict], case: str) -> None:
    """sacct names no reason: that of scontrol's records near them counts, also where both have the same time."""
    assert (35.0, 160.0) == (findings[case].started, findings[case].ended)
    assert 125 == findings[case].evidence["starved_minutes"]


def test_a_wait_ends_when_its_job_starts(findings: dict[str, Verdict]) -> None:
    """No record in between; what it waited after that run was queued again counts from the run's end."""
    assert 85 == findings["ran"].evidence["starved_minutes"], "35 to 60 and 100 to 160"


KUBERNETES = {"scheduler": "kubernetes", "job_id": "lab/big", "namespace": "lab", "queue": "team-queue"}


@pytest.mark.parametrize(
    "seen", [pytest.param(1, id="seen from the start"), pytest.param(185, id="first seen after it waited")]
)
def test_a_pod_does_not_wait_for_nodes_of_another_scheduler(tmp_path: Path, seen: int) -> None:
    """Pool b is Slurm's. The pod's own pool is full. The first record of a node reaches back."""
    message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."

    def two_schedulers(w: World) -> None:
        for name, held, scheduler in (("a1", 4, "kubernetes"), ("b1", 1, "slurm"), ("b2", 1, "slurm")):
            node(w, name, 4, held)
            tell(w, "node", scheduler=scheduler, node=name, observed_us=seen, state="up", pool=name[0])

    rule = {"terms": [[["nodepool", "In", ["a", "c"]]]]}
    assert [] == evaluated(
        tmp_path, RULE, 180, two_schedulers,
        lambda w: waits(w, 4, 10, 150, "Unschedulable", **KUBERNETES, message=message, node_rule=rule),
    )  # fmt: skip


def test_judged_hour_by_hour_it_is_the_same_finding(tmp_path: Path) -> None:
    w = World(tmp_path)
    pieces(w)
    asked(w, 4, 1)
    waits(w, 4, 10, 150)
    w.analyze(now=180, detectors=[RULE])
    before = w.rows("finding")
    w.analyze(now=180, since_us=us(60), until_us=us(120), detectors=[RULE])

    assert before == w.rows("finding")


def test_the_doc_page_says_the_thresholds(checkout: Path) -> None:
    page = page_rows(checkout / "docs/detectors/fragmentation.md")

    assert {"fragmentation_min": "0.5", "requests_min": "10", "wait_us_min": "30 min"} == page
    assert set(page) == {threshold.name for threshold in FRAGMENTATION.thresholds}
