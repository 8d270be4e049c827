"""Presets and the card of detectors: whose thresholds hold where, and what a document may say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.core.clock import MINUTE_US
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.findings import read as findings_read
from gpuwatch.findings.effective_thresholds import in_force, sets, steps
from gpuwatch.findings.presets import LADDER, PRESETS, RECLAIM
from gpuwatch.findings.threshold_overrides import Layer, answer, layers, put, read
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.policy.values import PolicyError
from gpuwatch.rules.rule import is_time, rules
from gpuwatch.state import State
from tests.worlds.detectors import IDLE, WORK, World

RULE = rules()["idle-hoarding"]
BASE = dict(RULE.parameters)


def minutes(known: Mapping[str, Any] | None, name: str) -> float | None:
    return None if known is None else known[name] / MINUTE_US


def test_every_preset_names_thresholds_that_exist_and_a_source() -> None:
    """A preset that sets nothing would be believed."""
    known = {(rule.id, t.name) for rule in rules().values() for t in rule.thresholds}
    known |= {(RECLAIM, t.name) for t in LADDER}

    assert {"default", "meta-rsc", "princeton", "gpu-pruner"} == set(PRESETS)
    assert [] == [v for p in PRESETS.values() for v in p.values if (v.rule, v.name) not in known or not v.source]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_steps_of_a_reclaim_follow_each_other(preset: str) -> None:
    known = steps((Layer(preset=preset),), "c1", None, None).parameters
    assert known is not None
    times = [known[t.name] for t in LADDER if t.name.endswith("_us")]

    assert sorted(set(times)) == times


@pytest.mark.parametrize(
    ("found", "team", "pool", "idle_minutes", "preset"),
    [
        pytest.param((), "vision", "batch", 15, "default", id="without a card the rule's own numbers hold"),
        pytest.param((Layer(preset="default"),), None, None, 15, "default", id="the default preset changes nothing"),
        pytest.param((Layer("pool", "batch", "c2", "princeton"),), None, "batch", 15, "default", id="a pool elsewhere"),
        pytest.param((Layer("team", "nlp", None, "princeton"),), "vision", None, 15, "default", id="another team"),
        pytest.param((Layer(preset="princeton"),), None, None, 60, "princeton", id="a preset for everybody"),
        pytest.param(
            (Layer(preset="princeton"), Layer("pool", "batch", "c1", "gpu-pruner")), None, "batch", 30, "gpu-pruner",
            id="the pool's preset before the general one",
        ),
        pytest.param(
            (Layer("pool", "batch", None, "gpu-pruner"), Layer("team", "vision", None, "meta-rsc")), "vision", "batch", 10,
            "meta-rsc", id="the team's before the pool's",
        ),
        pytest.param(
            (Layer(thresholds=(("idle-hoarding", "idle_us_min", 20 * MINUTE_US),)), Layer("team", "vision", None, "default")),
            "vision", None, 15, "default", id="a preset replaces earlier values",
        ),
        pytest.param(
            (Layer(preset="princeton"), Layer("team", "vision", thresholds=(("idle-hoarding", "idle_us_min", 7),))), "vision",
            None, 7 / MINUTE_US, "princeton", id="a threshold over the preset of a layer below",
        ),
    ],
)  # fmt: skip
def test_whose_word_holds(
    found: tuple[Layer, ...], team: str | None, pool: str | None, idle_minutes: float, preset: str
) -> None:
    known = in_force(found, "idle-hoarding", BASE, "c1", pool, team)

    assert (idle_minutes, preset) == (minutes(known.parameters, "idle_us_min"), known.preset)


def test_a_rule_that_any_layer_switches_off_is_off() -> None:
    found = (Layer(off=("small-batch",)), Layer("team", "vision", off=("idle-hoarding",)))

    assert in_force(found, "idle-hoarding", BASE, "c1", None, "vision").parameters is None
    assert in_force(found, "idle-hoarding", BASE, "c1", None, "nlp").parameters is not None


def test_a_document_is_kept_as_it_was_written(tmp_path: Path) -> None:
    """TOML in, the card out, JSON in: the same layers; every version is kept."""
    text = b"""
    preset = "princeton"
    off = ["blind-spot"]
    [thresholds.idle-hoarding]
    idle_us_min = "20m"
    [[pools]]
    pool = "batch"
    cluster = "c1"
    [[teams]]
    team = "vision"
    [teams.thresholds.reclaim]
    warn_us = "1.5h"
    """
    with State.open(tmp_path) as state:
        found = read(text, "card.toml", rules(), ["vision"])
        done = put(state, found, "card.toml", "ada", 1)
        again = put(state, found, "card.toml", "ada", 2)
        document = answer(state)

        assert found == layers(state)
        assert found == read(json.dumps(document), "card.json", rules(), ["vision"])
        assert {"changed": True, "version": 1, "rows": 3} == done
        assert not again["changed"]
        assert {"reclaim": {"warn_us": 90 * MINUTE_US}} == document["teams"][0]["thresholds"]
        assert [] == answer(state, teams=["nlp"])["teams"]


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        pytest.param('preset = "princton"', "preset", "did you mean princeton", id="a misspelt preset"),
        pytest.param('off = ["idle"]', "off", "known: ", id="a rule that does not exist"),
        pytest.param("off = 3", "off", "no list", id="no list"),
        pytest.param("colour = 1", "colour", "not known", id="an unknown word"),
        pytest.param("[thresholds.idle-hoarding]\nidle_us_min = '20q'", "thresholds.idle-hoarding.idle_us_min", "20m", id="no time"),
        pytest.param("[thresholds.idle-hoarding]\nidle_us_min = -1", "thresholds.idle-hoarding.idle_us_min", "no time", id="negative"),
        pytest.param("[thresholds.idle-hoarding]\nidle_us_min = true", "thresholds.idle-hoarding.idle_us_min", "no time", id="a truth"),
        pytest.param("[thresholds.false-utilization]\nbusy_ratio_min = 2", "thresholds.false-utilization.busy_ratio_min", "0 to 1", id="a ratio above 1"),
        pytest.param("[thresholds.false-utilization]\nbusy_ratio_min = nan", "thresholds.false-utilization.busy_ratio_min", "no number", id="not a number"),
        pytest.param("[[pools]]\npreset = 'default'", "pools.0.pool", "missing", id="a pool without a name"),
        pytest.param("[[teams]]\nteam = 'nope'", "teams.0.team", "no ownership rule", id="an unknown team"),
        pytest.param("[[teams]]\nteam = '__idle__'", "teams.0.team", "name of the ledger", id="a name of the ledger"),
        pytest.param("[[teams]]\nteam = 'vision'\n[[teams]]\nteam = 'vision'", "teams", "stands twice", id="a team twice"),
        pytest.param("[thresholds.reclaim]\nwarn_us = '1h'\nsecond_warning_us = '1h'", "thresholds.reclaim.second_warning_us", "not after", id="two steps at once"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_fix(text: str, path: str, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read(text, "card.toml", rules(), ["vision"])

    assert [path] == [problem.path for problem in caught.value.problems]
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text", [b"\xff", b"{", b"a = ", b"[" * 5000, b"{" + b'"a":[' * 5000, b'{"\\ud800":1}', b".a" * 33 + b"=1"]
)
def test_what_is_no_document_is_refused_whole(text: bytes) -> None:
    with pytest.raises((UnreadableInput, PolicyError)):
        read(text, "card.toml", rules(), None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("idle_us_min", True), ("gap_us", True), ("fb_used_ratio_max", False), ("us_states", False), ("bus_width", False)],
)
def test_times_are_known_by_their_names(name: str, expected: bool) -> None:
    assert expected == is_time(name)


def test_each_team_is_judged_by_its_own_thresholds(tmp_path: Path) -> None:
    """Half an hour idle: hoarding by default, not for the team with princeton's hour, and nobody says it of one switched off."""
    world = World(tmp_path)
    for name in ("a", "b", "c"):
        world.gpu(name, (30, WORK), (30, IDLE), (30, WORK))
        world.job(name, [name], 0, 90)
    world.store.sql("update claim set account = case job_id when 'a' then 'x' when 'b' then 'y' else 'z' end")
    replace_team_rules(
        world.state,
        [TeamRule("account", "x", "ax"), TeamRule("account", "y", "by"), TeamRule("account", "z", "cz")],
        "t",
        "t",
        0,
    )
    text = '[[teams]]\nteam="by"\npreset="princeton"\n[[teams]]\nteam="cz"\noff=["idle-hoarding"]'
    put(world.state, read(text, "card", rules(), None), "card", "ada", 1)

    world.analyze(100, detectors=("idle-hoarding", "small-batch"))

    assert ["a"] == [found.job for found in world.findings("idle-hoarding")]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        pytest.param('pool = "batch"', None, id="a pool of any cluster"),
        pytest.param('pool = "batch"\ncluster = "c1"', None, id="a pool of its cluster"),
        pytest.param('pool = "bacth"', "line 2: .*no device is in the pool 'bacth'; did you mean batch", id="a misspelt pool"),
        pytest.param('pool = "batch"\ncluster = "c2"', "of cluster 'c2'; known: c1/batch, c2/big", id="another cluster's pool"),
    ],
)  # fmt: skip
def test_a_pool_that_nobody_has_is_named(place: str, words: str | None) -> None:
    text = f'[[pools]]\n{place}\npreset = "princeton"'
    pools = [("c1", "batch"), ("c2", "big")]
    if words is None:
        assert 2 == len(read(text, "card", rules(), None, pools))
        return
    with pytest.raises(PolicyError, match=words):
        read(text, "card", rules(), None, pools)


def test_a_bare_number_is_not_taken_for_minutes() -> None:
    with pytest.raises(PolicyError, match="would be microseconds; write one such as"):
        read("thresholds.idle-hoarding.idle_us_min = 20", "card", rules(), None)
    assert 2 == len(
        read("thresholds.idle-hoarding = {idle_us_min = 900000000, grace_us = 0}", "card", rules(), None)[0].thresholds
    )


def test_a_finding_names_the_preset_that_judged_it(tmp_path: Path) -> None:
    """Also where a team's own number stands beside it; where the preset says nothing of a rule, it is the rule's own numbers."""
    world = World(tmp_path)
    for name in ("a", "b"):
        world.gpu(name, (30, WORK), (90, IDLE), (30, WORK))
        world.job(name, [name], 0, 150)
    world.store.sql("update claim set account = case job_id when 'a' then 'x' else 'y' end")
    replace_team_rules(world.state, [TeamRule("account", "x", "ax"), TeamRule("account", "y", "by")], "t", "t", 0)
    text = '[[teams]]\nteam="by"\npreset="princeton"\nthresholds.idle-hoarding.warn_us="70m"'
    put(world.state, read(text, "card", rules(), None), "card", "ada", 1)

    world.analyze(160, detectors=("idle-hoarding",))

    found = {one.subject["id"]: one.evidence for one in findings_read.read(world.store, detectors=["idle-hoarding"])}
    assert {"a": "default", "b": "princeton"} == {job: evidence["preset"] for job, evidence in found.items()}
    assert 70 * MINUTE_US == found["b"]["thresholds"]["warn_us"]
    put(world.state, read('preset = "princeton"', "card", rules(), None), "card", "ada", 2)
    other = rules()["small-batch"]
    assert ["default"] == [one.preset for one in sets(world.store, "c1", world.state, other, other.parameters)]


def test_runs_and_devices_of_a_pool_have_their_set(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.gpu("a", (60, WORK)).gpu("b", (60, WORK))
    world.job("a", ["a"], 0, 60).job("b", ["b"], 0, 60)
    world.analyze(70, detectors=("idle-hoarding",))
    world.store.sql("update device set pool = case gpu when 'a' then 'batch' else 'other' end")
    put(world.state, read('[[pools]]\npool="batch"\npreset="princeton"', "card", rules(), None), "card", "ada", 1)

    found = sets(world.store, "c1", world.state, RULE, BASE)
    runs = world.store.sql("select r.job_id, s.number from rule_set_run s join run r using (run_id)")
    devices = world.store.sql("select d.gpu, s.number from rule_set_device s join device d using (device_id)")

    assert [(0, "default"), (1, "princeton")] == [(one.number, one.preset) for one in found]
    assert ([("a", 1)], [("a", 1)]) == (runs, devices)
