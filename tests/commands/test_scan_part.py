"""What a scan prints about its source, and which phase a step belongs to."""

from __future__ import annotations

import pytest

from gpuwatch.commands.scan_source import counted, scan_part
from gpuwatch.store.database import Store


def test_a_scan_is_one_bar_from_reading_to_the_last_rule() -> None:
    part = scan_part()
    steps = [
        (0, 10, "samples of 2026-11-10T00:00"),
        (10, 10, "records of 2026-11-10T00:00"),
        (10, 10, "sealing"),
        (0, 1, "default: who held what"),
        (7, 14, "default: hours"),
        (14, 14, "default: hours"),
        (3, 30, "default: straggler"),
        (0, 1, "other: who held what"),
    ]

    assert [0, 0.5, 0.55, 0.55, 0.74, 0.88, 0.892, 0.892] == [round(part(*one), 3) for one in steps]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        pytest.param([], "", id="no GPU"),
        pytest.param([("n1", "GPU-a", -1, None)], ": 1 GPU on 1 node", id="one GPU"),
        pytest.param(
            [("n1", "GPU-a", 1, "1g.10gb"), ("n1", "GPU-a", 2, "1g.10gb"), ("n2", "GPU-b", -1, None)],
            ": 2 GPUs on 2 nodes",
            id="measured slices are parts of their GPU",
        ),
        pytest.param(
            [("n1", "n1/1g.10gb/0", -1, "1g.10gb"), ("n1", "n1/1g.10gb/1", -1, "1g.10gb"), ("n1", "n1/0", -1, None)],
            ": 1 GPU and 2 MIG slices on 1 node",
            id="slices that only a scheduler knows are no GPUs",
        ),
    ],
)
def test_gpus_and_slices_are_counted(devices: list[tuple[str, str, int, str | None]], expected: str) -> None:
    with Store.open(None, threads=1) as store:
        for number, (node, gpu, gi, profile) in enumerate(devices):
            store.sql(
                "insert into device (cluster, device_id, node, gpu, gi, profile) values ('c1', $n, $node, $gpu, $gi, $profile)",
                n=number,
                node=node,
                gpu=gpu,
                gi=gi,
                profile=profile,
            )

        assert expected == counted(store)
