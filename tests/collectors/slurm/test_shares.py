"""Slurm's shards and MPS in each of its formats: one claim a node, with the shares held and, where printed, their GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.slurm.shares import SHARES_LABEL, requested_shares
from tests.collectors.slurm import test_accounting, test_control, test_json
from tests.collectors.slurm.test_control import job
from tests.collectors.slurm.test_json import answer, sacct, squeue

Tables = dict[str, list[dict[str, Any]]]

NO_GPU = {"tres": "TRES=cpu=4", "num": "1", "nodes": "gpu01"}
DARK = {"gres_detail": [], "tres_req_str": "cpu=1"}


def control(detail: str = "", **changes: str) -> Callable[[Path], Tables]:
    text = job(detail, **(NO_GPU | changes))
    return lambda folder: test_control.read(folder, text)[0]


def controller(**changes: Any) -> Callable[[Path], Tables]:
    return lambda folder: test_json.read(folder, answer(squeue(DARK | {"tres_alloc_str": "cpu=1"} | changes)))[0]


def accounted(counts: dict[str, int], **changes: Any) -> Callable[[Path], Tables]:
    return lambda folder: test_json.read(folder, answer(sacct(changes, counts)))[0]


def printed(**changes: str) -> Callable[[Path], Tables]:
    return lambda folder: test_accounting.read(folder, test_accounting.history(changes))[0]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        pytest.param(
            control("     Nodes=gpu01 CPU_IDs=0 Mem=1 GRES=shard:h100:4(IDX:1)"),
            [("gpu01", "h100", 1, "1", 4)],
            id="scontrol with the GPU",
        ),
        pytest.param(control(asked="TresPerNode=gres/shard:4"), [("gpu01", None, 1, None, 4)], id="scontrol, as asked"),
        pytest.param(
            control("     JOB_GRES=mps:50(0/100,50/100)"), [("gpu01", None, 1, "1", 50)], id="scontrol's GRES of the job"
        ),
        pytest.param(
            control(tres="TRES=cpu=4,gres/shard=6", num="2", nodes="gpu[01-02]", asked="X=1"),
            [("gpu01", None, 1, None, 3), ("gpu02", None, 1, None, 3)],
            id="scontrol's total over two nodes",
        ),
        pytest.param(
            controller(gres_detail=["shard:4(IDX:0)"]), [("n1", None, 1, "0", 4)], id="slurmrestd with the GPU"
        ),
        pytest.param(controller(tres_alloc_str="gres/shard=4"), [("n1", None, 1, None, 4)], id="slurmrestd's total"),
        pytest.param(controller(tres_per_node="gres:mps:25"), [("n1", None, 1, None, 25)], id="slurmrestd, as asked"),
        pytest.param(
            accounted({"gres/shard": 4, "gres/shard:h100": 4}), [("n1", "h100", 1, None, 4)], id="sacct --json"
        ),
        pytest.param(
            printed(AllocTRES="cpu=1,gres/mps=50", NodeList="n1", NNodes="1"), [("n1", None, 1, None, 50)], id="sacct -P"
        ),
    ],
)  # fmt: skip
def test_shares_are_held(tmp_path: Path, read: Callable[[Path], Tables], expected: list[Any]) -> None:
    """They are no workload that asks for GPUs: nothing waits for a whole one."""
    tables = read(tmp_path)

    assert expected == [
        (c["node"], c["gpu_type"], c["device_count"], c["device_indexes"], json.loads(c["labels"])[SHARES_LABEL])
        for c in tables["claim"]
    ]
    assert [] == [row for name in ("pending", "workload") for row in tables.get(name, [])]


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(control(state="PENDING", start="Unknown", asked="TresPerNode=gres/shard:4"), id="scontrol"),
        pytest.param(controller(job_state="PENDING", tres_req_str="cpu=1,gres/shard=4"), id="slurmrestd"),
        pytest.param(controller(job_state="PENDING", tres_per_node="gres:shard:4"), id="slurmrestd, by its options"),
        pytest.param(printed(State="PENDING", Start="Unknown", ReqTRES="gres/shard=4", AllocTRES=""), id="sacct"),
    ],
)
def test_a_job_that_waits_for_shares_asks_for_them_and_for_no_free_gpu(
    tmp_path: Path, read: Callable[[Path], Tables]
) -> None:
    tables = read(tmp_path)

    assert [("gres/shard", None, 4)] == [
        (row["profile"], row["gpu_type"], row["device_count"]) for row in tables["pending"]
    ]
    assert [] == [row for name in ("claim", "workload") for row in tables.get(name, [])]


@pytest.mark.parametrize(
    ("text", "factor", "expected"),
    [
        pytest.param("cpu=4,gres/gpu=2", 1, [], id="GPUs"),
        pytest.param("gres/shard=0", 1, [], id="none"),
        pytest.param("gres/mps:h100:50", 2, [("gres/mps", "h100", 100)], id="MPS on two nodes"),
        pytest.param("gres:shard", 1, [("gres/shard", None, 1)], id="one, unnamed"),
        pytest.param(
            "gres/shard=6,gres/shard:h100=4", 1, [("gres/shard", "h100", 4), ("gres/shard", None, 2)], id="of a type"
        ),
    ],
)
def test_requested_shares(text: str, factor: int, expected: list[Any]) -> None:
    assert expected == [(one.profile, one.gpu_type, one.number) for one in requested_shares(text, factor)]


@pytest.mark.parametrize("text", ["gres/shard=x", "gres/shard=-1", "gres/shard:999999999"])
def test_requested_shares_that_are_no_number_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        requested_shares(text, 9)


def test_a_comment_makes_no_shares_of_whole_gpus(tmp_path: Path) -> None:
    tables, _ = test_json.read(tmp_path, answer(squeue({"comment": json.dumps({SHARES_LABEL: 1, "team": "v"})})))

    assert ['{"team":"v"}'] == [row["labels"] for row in tables["claim"]]
