"""What a pass costs: DuckDB plans every statement again, so the statements are counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.analysis import pipeline
from gpuwatch.rules.rule import rules
from gpuwatch.store.connection import Connection
from tests.worlds.detectors import WORK, World, hour_us

QUIET_MAX = 30
FIRST_MAX = 250
"""Statements of a pass without changes, and of the first one over one GPU and 120 samples."""


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that any connection runs from here on."""
    seen: list[str] = []
    execute = Connection._execute

    def counting(self: Connection, text: str, parameters: object = None) -> Any:
        seen.append(text)
        return execute(self, text, parameters)

    monkeypatch.setattr(Connection, "_execute", counting)
    return seen


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.gpu("GPU-a", (120, WORK)).job("1", ["GPU-a"], 0, None)
    assert made.store, "its records are stored before anything is counted"
    yield made
    made.store.close()


def test_the_statements_of_a_pass_follow_its_input(world: World, statements: list[str]) -> None:
    """All rules run over one GPU; what was not there then is not looked for, and a second pass only compares."""
    world.analyze(120)
    first = len(statements)
    statements.clear()
    world.analyze(121)
    quiet = len(statements)
    world.gpu("GPU-a", (1, WORK), start=120)
    statements.clear()
    world.analyze(122)

    assert first <= FIRST_MAX
    assert quiet <= QUIET_MAX
    assert len(statements) < first


def test_new_samples_concern_the_hours_beside_them_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first hour of a device does not change with its last sample: what a pass reads does not grow with history."""
    world.gpu("GPU-a", (480, WORK), start=120)
    world.analyze(600)
    windows: list[tuple[int, int]] = []
    evaluated = pipeline.evaluate.evaluate

    def noting(*given: Any) -> list[str]:
        windows.append(given[6])
        return evaluated(*given)

    monkeypatch.setattr(pipeline.evaluate, "evaluate", noting)
    world.gpu("GPU-a", (60, WORK), start=600)
    report = world.analyze(660)

    # The samples are of 10:01 to 11:00: an hour on either side is computed, and rules read a chain's reach beyond.
    assert [(hour_us(8), hour_us(14))] == windows
    assert 4 == report.hours


def test_a_new_record_ends_the_quiet(world: World, statements: list[str]) -> None:
    """Records of schedulers have no dirty hours of their own until they are attributed."""
    world.analyze(120)
    world.analyze(121)
    world.job("2", ["GPU-a"], 30, 60)
    statements.clear()
    world.analyze(122)

    assert len(statements) > QUIET_MAX
    assert [("1",), ("2",)] == world.store.sql("select job_id from run order by 1")


def test_what_has_no_input_is_not_looked_for(world: World, statements: list[str]) -> None:
    """Failed runs, memory, requests of the days before, faults, several records of a run: statements of some hundred lines."""
    words = {
        "failed work": "failed_span",
        "memory": "fb_bytes_max",
        "requests": "requests_all",
        "faults": "odd_device",
        "several records": "preferred_kind",
    }

    def looked_for() -> set[str]:
        return {name for name, word in words.items() if any(word in text for text in statements)}

    world.analyze(120)
    assert set() == looked_for()

    day = 24 * 60
    world.gpu("GPU-a", (60, {**WORK, "fb_used_bytes": 1, "row_remap_pending": 1}), start=day)
    world.job("2", ["GPU-a"], 30, 60, state="FAILED").job("2", ["GPU-a"], 30, 60, state="FAILED")
    statements.clear()
    world.analyze(day + 60)
    assert set(words) == looked_for()


def test_every_need_of_a_rule_is_an_input_that_is_looked_for(world: World) -> None:
    world.store.run("views/pod_state")
    known = {row["name"] for row in world.store.rows("findings/inputs", cluster="c1")} | {
        "on_demand_rates",
        "spot_rates",
    }
    needs = {name for rule in rules().values() for need in rule.needs for name in need.split("|")}

    assert set() == needs - known
