"""The placement card of a job: what it says, and where it is not there."""

from __future__ import annotations

from typing import Any

import pytest
from dash.development.base_component import Component

from gpuwatch.dashboards.pages.job import placement

FAR: dict[str, Any] = {
    "grade": "D",
    "why": "Spans 2 NVLink domains on 2 nodes; one NVLink domain with 8 free GPUs was there at 14:02 UTC.",
    "gpus": 8,
    "worst_level": "leaf",
    "gb_per_s": 50.0,
    "slowdown": {
        "bandwidth_ratio": 7.4,
        "exposed_ratio_low": 0.029,
        "exposed_ratio_high": 0.111,
        "lost_ratio_low": 0.157,
        "lost_ratio_high": 0.416,
    },
    "missing": [],
}
UNKNOWN: dict[str, Any] = FAR | {
    "grade": None,
    "why": "Not graded: the links inside its node are not known.",
    "worst_level": None,
    "gb_per_s": None,
    "slowdown": None,
    "missing": [{"what": "links of n1", "fix": "On n1:\nnvidia-smi topo -m > n1.txt"}],
}


def text(node: Any) -> str:
    if isinstance(node, (list, tuple)):
        return " ".join(text(child) for child in node)
    return text(getattr(node, "children", "")) if isinstance(node, Component) else str(node or "")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="a service that does not tell it"),
        pytest.param({"placement": None}, id="a job whose devices nobody knows"),
        pytest.param({"placement": {"gpus": 1, "grade": None}}, id="one GPU"),
    ],
)
def test_there_is_no_card(data: dict[str, Any]) -> None:
    assert None is placement(data)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(
            UNKNOWN,
            ["Placement not graded", "The links inside its node are not known.", "links of n1", "nvidia-smi topo -m"],
            id="what is unknown, with the fix",
        ),
        pytest.param(FAR | {"grade": "A", "slowdown": None}, ["Best possible placement"], id="the best that was free"),
        pytest.param(
            FAR,
            ["Placement D: a closer placement was possible", "14:02", "50 GB/s", "16", "42", "2.9 to 11.1 %"],
            id="farther than it had to be, with the assumed share",
        ),
    ],
)
def test_the_card_says_it(answer: dict[str, Any], expected: list[str]) -> None:
    page_text = text(placement({"placement": answer}))

    assert [] == [words for words in expected if words not in page_text]


def test_the_numbers_are_those_of_the_finding() -> None:
    evidence = {
        "lost_gpu_hours_low": 4.474, "lost_gpu_hours_high": 12.919, "exposed_ratio_low": 0.019,
        "exposed_ratio_high": 0.111,
    }  # fmt: skip
    about = {"detector": "topology-blind-placement", "evidence": evidence}
    page_text = text(placement({"placement": FAR, "findings": [{"detector": "idle-hoarding"}, about]}))

    assert "4.5 to 12.9 GPU-h" in page_text and "1.9 % to 11 %" in page_text
    assert "42" not in page_text and "not measured" not in page_text
