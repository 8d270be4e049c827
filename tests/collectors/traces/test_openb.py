"""openb nodes and pods: what is booked of a part of a GPU, refused rows, and the published counts."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import TABLES, Records, Rejects, Source
from gpuwatch.core.registry import find_importer

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
TRACE = SHARED / "data/openb"
NODES, PODS = "openb_node_list_all_node.csv", "openb_pod_list_default.csv"
NODE_HEADER = "sn,cpu_milli,memory_mib,gpu,model\n"
POD_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)

Tables = dict[str, list[dict[str, Any]]]


def read(path: Path) -> tuple[Tables, Rejects]:
    tables: Tables = {"claim": [], "pending": [], "node": []}
    rejects = Rejects()
    for batch in find_importer("trace-openb").read(Source(str(path), "c1"), rejects):
        assert isinstance(batch, Records) and batch.rows.schema == TABLES[batch.table]
        tables[batch.table] += batch.rows.to_pylist()
    return tables, rejects


def trace(tmp_path: Path, pods: str, nodes: str | None = "n0,1,1,0,\nn1,32000,262144,2,T4\nn2,1,1,4,V100M16\n") -> Path:
    (tmp_path / PODS).write_text(POD_HEADER + pods)
    if nodes is not None:
        (tmp_path / NODES).write_text(NODE_HEADER + nodes)
    return tmp_path


def test_a_pod_without_gpus_has_no_row(tmp_path: Path) -> None:
    tables, rejects = read(trace(tmp_path, "p,1000,1,0,0,,LS,Running,5,20,10\n"))

    assert ([], []) == (tables["claim"], tables["pending"])
    assert 0 == rejects.total


def test_a_scheduled_pod_is_a_claim(tmp_path: Path) -> None:
    tables, rejects = read(trace(tmp_path, "p,1000,1,1,460,,LS,Succeeded,5,20,10\n"))

    assert 0 == rejects.total
    assert [
        {
            "cluster": "c1",
            "scheduler": "kubernetes",
            "kind": "trace-openb",
            "job_id": "openb/p",
            "run_key": f"p@{10 * SECOND_US}",
            "pod_uid": "p",
            "pod": "p",
            "namespace": "openb",
            "node": "n1",
            "device_count": 1,
            "submit_us": 5 * SECOND_US,
            "start_us": 10 * SECOND_US,
            "end_us": 20 * SECOND_US,
            "evidence_us": 20 * SECOND_US,
            "state": "Succeeded",
            "qos": "LS",
            "name": "p",
            "labels": '{"gpu_milli":"460","placement":"estimated"}',
        }
    ] == [{name: value for name, value in claim.items() if value is not None} for claim in tables["claim"]]


def test_parts_of_a_gpu_do_not_share_one(tmp_path: Path) -> None:
    """Which pods shared a GPU is not published: each part is booked as the GPU that it was cut from."""
    pods = "a,1,1,1,500,,BE,Running,0,20,0\nb,1,1,1,500,,BE,Running,0,20,0\nc,1,1,1,500,,BE,Running,0,20,0\n"
    claims = read(trace(tmp_path, pods))[0]["claim"]

    assert [("a", "n1", 1), ("b", "n1", 1), ("c", "n2", 1)] == [
        (c["pod"], c["node"], c["device_count"]) for c in claims
    ]


def test_a_pod_stays_on_one_node(tmp_path: Path) -> None:
    pods = "a,1,1,1,1000,,BE,Running,0,20,0\nb,1,1,4,1000,,BE,Running,0,20,1\nc,1,1,8,1000,,BE,Running,0,20,2\n"
    claims = read(trace(tmp_path, pods))[0]["claim"]

    assert [("n1", 1), ("n2", 4), ("openb-unplaced-0000", 8)] == [(c["node"], c["device_count"]) for c in claims]


def test_a_pod_that_was_never_scheduled_waited(tmp_path: Path) -> None:
    (request,) = read(trace(tmp_path, "p,1000,1,2,1000,T4|P100,BE,Pending,5,20,\n"))[0]["pending"]

    assert ("openb/p", 5 * SECOND_US, None, 20 * SECOND_US, 2, "T4|P100") == tuple(
        request[name] for name in ("job_id", "submit_us", "start_us", "evidence_us", "device_count", "gpu_type")
    )


def test_a_pod_without_a_deletion_has_no_end(tmp_path: Path) -> None:
    (claim,) = read(trace(tmp_path, "p,1000,1,1,1000,,BE,Running,5,,10\n"))[0]["claim"]

    assert (None, 10 * SECOND_US) == (claim["end_us"], claim["evidence_us"])


def test_nodes_tell_their_gpus(tmp_path: Path) -> None:
    nodes = read(trace(tmp_path, ""))[0]["node"]

    assert [("n0", None, "{}"), ("n1", "T4", '{"":2}'), ("n2", "V100M16", '{"":4}')] == [
        (node["node"], node["gpu_model"], node["devices"]) for node in nodes
    ]


def test_one_file_is_known_by_its_header(tmp_path: Path) -> None:
    directory = trace(tmp_path, "p,1000,1,1,460,,LS,Succeeded,5,20,10\n")
    pods, nodes = read(directory / PODS)[0], read(directory / NODES)[0]

    assert ["openb-unplaced-0000"] == [claim["node"] for claim in pods["claim"]]
    assert ([], 3) == (nodes["claim"], len(nodes["node"]))


def test_the_usual_pod_list_is_taken_and_the_others_are_named(tmp_path: Path) -> None:
    directory = trace(tmp_path, "p,1000,1,1,460,,LS,Succeeded,5,20,10\n")
    (directory / "openb_pod_list_cpu050.csv").write_text(POD_HEADER + "p,1,1,1,1,,LS,Succeeded,5,20,10\n")
    tables, rejects = read(directory)

    assert 1 == len(tables["claim"])
    assert {"ignored: another list of the same pods or nodes; pass the file to import it": 1} == rejects.counts


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        pytest.param("x,1,1,1", "row has 4 columns, not 11", id="a torn row"),
        pytest.param(",1,1,1,1000,,BE,Running,0,20,0", "no name", id="no name"),
        pytest.param("x,1,1,1,0,,BE,Running,0,20,0", "gpu_milli is 0 for a pod with GPUs", id="no part of a GPU"),
        pytest.param("x,1,1,1,1500,,BE,Running,0,20,0", "gpu_milli is not a whole number up to 1000", id="1.5 GPUs"),
        pytest.param(
            "x,1,1,-1,1,,BE,Running,0,20,0", "num_gpu is not a whole number up to 1024", id="a negative count"
        ),
        pytest.param("x,1,1,1,1000,,BE,Running,?,20,", "creation_time is not a number of seconds", id="no time"),
        pytest.param(
            "x,1,1,1,1000,,BE,Running,0,20,30", "deletion_time precedes scheduled_time", id="deleted before it ran"
        ),
    ],
)
def test_a_bad_pod_is_refused_alone(tmp_path: Path, row: str, reason: str) -> None:
    good = "1,1,1,1000,,BE,Running,0,20,0\n"
    tables, rejects = read(trace(tmp_path, f"a,{good}{row}\nb,{good}"))

    assert ["a", "b"] == [claim["pod"] for claim in tables["claim"]]
    assert {reason: 1} == rejects.counts
    assert 3 == rejects.first[reason][1]


def test_another_directory_or_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")

    with pytest.raises(UnreadableInput, match=r"openb_node_list\*"):
        read(tmp_path)
    with pytest.raises(UnreadableInput, match=r"x\.csv"):
        read(tmp_path / "x.csv")


def test_counts_are_those_published() -> None:
    if not (TRACE / "expected.json").is_file():
        pytest.skip(f"{TRACE} is not here: set GPUWATCH_SHARED")
    expected = json.loads((TRACE / "expected.json").read_text())["totals"]
    tables, rejects = read(TRACE)
    gpus = [sum(json.loads(node["devices"]).values()) for node in tables["node"]]
    by_model: Counter[str] = Counter()
    for node, count in zip(tables["node"], gpus, strict=True):
        by_model[node["gpu_model"] or "none"] += count
    milli = [json.loads(claim["labels"])["gpu_milli"] for claim in tables["claim"]]
    with gzip.open(next(TRACE.glob(f"{PODS}*")), "rt") as stream:
        pods = [pod for pod in csv.DictReader(stream) if pod["num_gpu"] != "0"]
    waiting = [pod for pod in pods if not pod["scheduled_time"]]

    assert 0 == rejects.total
    assert (expected["nodes"], expected["gpu_nodes"], expected["gpus"]) == (
        len(gpus),
        sum(1 for count in gpus if count),
        sum(gpus),
    )
    assert expected["gpus_by_model"] == dict(sorted(by_model.items()))
    assert (expected["gpu_pods"], len(waiting)) == (
        len(tables["claim"]) + len(tables["pending"]),
        len(tables["pending"]),
    )
    assert expected["requested_gpu_milli"] == sum(
        claim["device_count"] * int(part) for claim, part in zip(tables["claim"], milli, strict=True)
    ) + sum(int(pod["num_gpu"]) * int(pod["gpu_milli"]) for pod in waiting)
    assert (
        sum(
            int(pod["num_gpu"]) * (int(pod["deletion_time"]) - int(pod["scheduled_time"]))
            for pod in pods
            if pod["scheduled_time"]
        )
        == sum(c["device_count"] * (c["end_us"] - c["start_us"]) for c in tables["claim"]) / SECOND_US
    )
    assert not [claim for claim in tables["claim"] if claim["node"].startswith("openb-unplaced")]
