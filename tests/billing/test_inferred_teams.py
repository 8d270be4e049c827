"""Charges of a fleet without a teams file: accounts and namespaces name the teams, and the rows say so."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.billing.focus import export as focus_export
from gpuwatch.billing.listings import chargeback_listing, ledger_listing
from gpuwatch.billing.opencost.allocation import allocations
from gpuwatch.billing.opencost.query import parse_query
from gpuwatch.billing.opencost.response import allocation_answer
from gpuwatch.billing.people_table import for_people
from gpuwatch.collectors.kubernetes.files import parse_objects
from gpuwatch.collectors.shared.records import table_batches
from gpuwatch.core.clock import Window, rfc3339
from gpuwatch.core.model import Rejects, Source
from gpuwatch.jobs.listing import jobs
from gpuwatch.output.fix_hints import Advice
from gpuwatch.output.render import render
from gpuwatch.output.terminal import as_table
from gpuwatch.policy.inferred import NONE
from gpuwatch.policy.ownership import TEAM_LABEL, TeamRule
from gpuwatch.policy.repository import load_team_rules, replace_team_rules, set_ownership_default
from gpuwatch.quality.doctor import examine
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from tests.worlds.world import CLUSTER, H100, HOUR, Gpu, World, claim, minutes, pod, samples, us

WINDOW = Window(us(0), us(HOUR))
OWNERS = {"g1": "physics", "g2": "lab", "g3": "vision", "g4": "kube-system", "g5": "root"}


def namespaces(**teams: str) -> str:
    """`kubectl get namespaces -o json` with the team in the label of each."""
    metadata = [{"name": name, "uid": name, "labels": {TEAM_LABEL: team}} for name, team in teams.items()]
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": one} for one in metadata]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def relabelled(world: World, state: State, at_us: int, **teams: str) -> None:
    source = Source("k8s.json", CLUSTER, observed_us=at_us)
    rows = parse_objects(namespaces(**teams), source, Rejects())
    with world.store.transaction():
        for table, found in rows.items():
            for batch in table_batches(table, found, CLUSTER):
                world.store.append(batch)
    chargeback.price_all(world.store, state)


@pytest.fixture(scope="module")
def fleet() -> tuple[World, State]:
    """Five GPUs, each held for an hour: by an account with a rule, three namespaces, and Slurm's root."""
    gpus = [Gpu(f"GPU-{name}", name) for name in OWNERS]
    held = [
        claim("1", 0, HOUR, "g1", gpus="GPU-g1", account="phys"),
        pod("a", "u1", 0, HOUR, "g2", gpus="GPU-g2"),
        pod("b", "u2", 0, HOUR, "g3", gpus="GPU-g3", namespace="cv"),
        pod("c", "u3", 0, HOUR, "g4", gpus="GPU-g4", namespace="kube-system"),
        claim("2", 0, HOUR, "g5", gpus="GPU-g5", account="root"),
    ]
    world = World().add(*[samples(gpu, minutes(0, HOUR)) for gpu in gpus], *held).book()
    state = State.open("sqlite://")
    replace_rates(state, [Rate(H100, "owned", Decimal(2), us(-HOUR), None)], "test", "test", 0)
    replace_team_rules(state, [TeamRule("account", "phys", "physics")], "test", "test", 0)
    relabelled(world, state, us(0), cv="vision")
    return world, state


def teams(world: World, state: State) -> dict[str, tuple[str | None, bool]]:
    listing = chargeback_listing(chargeback.chargeback(world.store, state, WINDOW))
    return {item["team"]: (item["cost"], item["inferred"]) for item in listing.items}


def test_namespaces_name_teams_and_say_so_everywhere(fleet: tuple[World, State]) -> None:
    world, state = fleet
    charged = chargeback_listing(chargeback.chargeback(world.store, state, WINDOW))
    booked = ledger_listing(chargeback.ledger(world.store, state, WINDOW, ["team", "bucket"]))
    users = chargeback_listing(chargeback.chargeback(world.store, state, WINDOW, ["user"]))
    bound = chargeback.chargeback(world.store, state, WINDOW, teams={"vision"})
    (owners,) = [check for check in examine(world.store, advice=Advice(), state=state) if check.id == "owners"]

    expected = {
        "physics": ("2.00", False),
        "lab": ("2.00", True),
        "vision": ("2.00", True),
        "__unallocated__": ("4.00", False),
    }
    assert expected == {team: entry for team, entry in teams(world, state).items() if team != "__platform__"}
    assert {"lab", "vision"} == {item["team"] for item in booked.items if item["inferred"]}
    assert "inferred" not in users.items[0]
    assert [("vision", True)] == [(charge.group["team"], charge.inferred) for charge in bound.items]
    assert render(charged, "csv")[0].decode().splitlines()[0].endswith(",inferred,partly_inferred")
    assert "without an ownership rule: lab, vision" in as_table(charged, 160)
    assert "40.0 % of held time has no team" in owners.what
    assert "40.0 % has a team that its account or namespace names (inferred): vision, lab" in owners.what


def test_rows_that_a_rule_decides_are_not_marked_where_the_team_has_other_time_too(fleet: tuple[World, State]) -> None:
    """Team lab has a pod of namespace lab, and by a rule the jobs of account phys."""
    world, state = fleet
    before = load_team_rules(state)
    replace_team_rules(state, [TeamRule("account", "phys", "lab")], "test", "test", 1)
    chargeback.price_all(world.store, state)

    def marks(*by: str) -> list[tuple[str | None, ...]]:
        items = chargeback.chargeback(world.store, state, WINDOW, ["team", *by]).items
        return [tuple(one.group.values()) for one in items if one.inferred and one.group["team"] == "lab"]

    booked = chargeback.ledger(world.store, state, WINDOW, ["team", "account", "bucket"]).items
    lab = next(row for row in chargeback.chargeback(world.store, state, WINDOW).items if row.group["team"] == "lab")
    table = as_table(for_people(chargeback_listing(chargeback.chargeback(world.store, state, WINDOW)), ["team"]), 160)
    assert (True, True) == (lab.mark.inferred, lab.mark.partly)
    assert ("lab (partly inferred)" in table, "vision (inferred)" in table) == (True, True)
    assert [("lab",)] == marks()
    assert [("lab", None)] == marks("account")
    assert [("lab", "lab")] == marks("namespace")
    assert [("lab", "lab/a", "a")] == marks("job", "name")
    assert {None} == {row.group["account"] for row in booked if row.mark.inferred and row.group["team"] == "lab"}
    replace_team_rules(state, before, "test", "test", 1)
    chargeback.price_all(world.store, state)


def test_jobs_and_opencost_mark_inferred_teams(fleet: tuple[World, State]) -> None:
    world, state = fleet
    found = {(job["team"], job["inferred"]) for job in jobs(world.store, state, WINDOW)["items"]}
    query = parse_query(
        {"window": f"{rfc3339(WINDOW.start_us)},{rfc3339(WINDOW.end_us)}", "aggregate": "team"}, us(HOUR)
    )
    (sets,) = allocation_answer(allocations(world.store, query, None, us(HOUR)))["data"]
    marks = {name: item["x_gpuwatch"]["teamInferred"] for name, item in sets.items()}

    assert {("physics", False), ("lab", True), ("vision", True), ("__unallocated__", False)} == found
    assert {"physics": False, "lab": True, "vision": True}.items() <= marks.items()


def test_focus_has_a_tag_in_both_columns_of_tags(fleet: tuple[World, State], tmp_path: Path) -> None:
    world, state = fleet
    with (tmp_path / "focus.csv").open("wb+") as file:
        focus_export.write(world.store, state, WINDOW, file, version="1.2", form="csv")
        file.seek(0)
        text = file.read().decode()

    assert 4 == text.count('""gpuwatch/team-inferred"":""true""')


def test_a_label_that_changes_and_the_setting_none(fleet: tuple[World, State]) -> None:
    world, state = fleet
    relabelled(world, state, us(1), cv="robots", lab="__platform__")
    moved = teams(world, state)
    set_ownership_default(state, NONE, "test", 1)
    chargeback.price_all(world.store, state)

    assert {"robots", "lab"} == {team for team, (_, inferred) in moved.items() if inferred}
    assert ("8.00", False) == teams(world, state)["__unallocated__"]
