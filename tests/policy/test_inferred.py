"""Teams of time that no rule decides: named by the account or the namespace."""

from __future__ import annotations

import pytest

from gpuwatch.policy.inferred import Decision, Ownership, decide
from gpuwatch.policy.ownership import TEAM_LABEL, UNALLOCATED, TeamRule

OWNERSHIP = Ownership(
    (TeamRule("account", "phys", "physics"),), namespace_teams={("c1", "a"): "vision", ("c1", "b"): "__x"}
)
NO_TEAM = Decision(UNALLOCATED, "no label and no rule matches")


def inferred(team: str, why: str) -> Decision:
    return Decision(team, f"inferred from {why}", inferred=True, other=UNALLOCATED)


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        pytest.param(NO_TEAM, {"user_name": "ann", "queue": "gpu"}, id="a user or a queue names no team"),
        pytest.param(NO_TEAM, {"account": "root"}, id="Slurm's root account is no team"),
        pytest.param(NO_TEAM, {"namespace": "kube-system"}, id="a system namespace is no team"),
        pytest.param(NO_TEAM, {"namespace": "gpu-operator"}, id="nor is that of the GPU operator"),
        pytest.param(NO_TEAM, {"account": " ", "namespace": ""}, id="empty names are none"),
        pytest.param(NO_TEAM, {"account": "__platform__"}, id="reserved names are none"),
        pytest.param(Decision("physics", "account phys", place=0), {"account": "phys", "namespace": "n"}, id="a rule decides"),
        pytest.param(inferred("root-cause", "account root-cause"), {"account": "root-cause"}, id="only root is root"),
        pytest.param(inferred("n", "namespace n"), {"account": "root", "namespace": "n"}, id="the namespace beside root"),
        pytest.param(inferred("acc", "account acc"), {"account": "acc", "namespace": "n"}, id="account before namespace"),
        pytest.param(inferred("default", "namespace default"), {"namespace": "default"}, id="default is a namespace"),
        pytest.param(inferred("vision", f"label {TEAM_LABEL} of namespace a"), {"cluster": "c1", "namespace": "a"},
                     id="the namespace's label comes first"),
        pytest.param(inferred("a", "namespace a"), {"cluster": "c2", "namespace": "a"}, id="in its own cluster only"),
        pytest.param(inferred("b", "namespace b"), {"cluster": "c1", "namespace": "b"}, id="no label names the ledger"),
    ],
)  # fmt: skip
def test_who_is_named(expected: Decision, words: dict[str, str]) -> None:
    assert expected == decide(OWNERSHIP, words)


def test_a_nested_run_is_named_by_what_it_sets_itself() -> None:
    words = {"cluster": "c1", "namespace": "a", "account": "acc"}

    assert inferred("acc", "account acc") == decide(OWNERSHIP, words, {"account": "acc"})


def test_with_ownership_default_none_the_name_is_only_remembered() -> None:
    assert Decision(UNALLOCATED, NO_TEAM.why, other="acc") == decide(Ownership(infer=False), {"account": "acc"})
