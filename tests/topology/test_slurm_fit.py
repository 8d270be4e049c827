"""Which features every node of a job certainly needs."""

from __future__ import annotations

import pytest

from gpuwatch.topology.slurm_fit import required_features


@pytest.mark.parametrize(
    ("constraint", "needed"),
    [
        (None, set()),
        ("", set()),
        ("a|b", set()),
        ("a&b|c", set()),
        ("a*2&b*1", set()),
        ("[a|b]&c", set()),
        ("a,b", set()),
        ("(a|b", set()),
        ("((a|b)&c)&d", set()),
        ("a&", set()),
        ("a", {"a"}),
        ("a&b-1.x", {"a", "b-1.x"}),
        ("(a|b)&c", {"c"}),
        ("c&(a&b)", {"c"}),
    ],
)
def test_features_that_are_certain(constraint: str | None, needed: set[str]) -> None:
    assert needed == required_features(constraint)
