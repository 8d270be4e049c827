"""Reclaims: notice, grace, two warnings, recommendation; who is left alone; lines that end nothing by themselves."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from gpuwatch.alerts.changes import enqueue
from gpuwatch.alerts.delivery.destination_guard import Guard
from gpuwatch.alerts.outbox.tables import OUTBOX
from gpuwatch.alerts.repository import Channels
from gpuwatch.billing.chargeback import price_all
from gpuwatch.cli import app
from gpuwatch.core.clock import MINUTE_US
from gpuwatch.findings.repository import Action, Actions
from gpuwatch.findings.threshold_overrides import put, read
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.reclaim import state as reclaim_state
from gpuwatch.reclaim.alerts import alerts
from gpuwatch.reclaim.repository import Reached, Reclaims
from gpuwatch.reclaim.steps import END, SHRINK, STEPS, Standing, command, due_step, message_key, standing
from gpuwatch.rules.rule import rules
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.findings.test_contention import waits
from tests.worlds.detectors import IDLE, WORK, World, us

TIMES = {
    "notice_us": 15 * MINUTE_US,
    "warn_us": 60 * MINUTE_US,
    "second_warning_us": 105 * MINUTE_US,
    "recommend_us": 120 * MINUTE_US,
}

TEAMS = [TeamRule("user", "ada", "ada"), TeamRule("user", "bob", "bob")]


def at(reached: list[tuple[str, int]]) -> Standing:
    return standing(0, [(step, minute * MINUTE_US) for step, minute in reached], TIMES)


@pytest.mark.parametrize(
    ("reached", "known", "now", "due"),
    [
        pytest.param([], 14, 14, None, id="a minute short of the notice"),
        pytest.param([], 15, 15, "notice", id="a quarter of an hour"),
        pytest.param([("notice", 15)], 59, 59, None, id="grace"),
        pytest.param([("notice", 15)], 60, 60, "warning", id="an hour"),
        pytest.param([("notice", 15), ("warning", 60)], 104, 104, None, id="before the second warning"),
        pytest.param([("notice", 15), ("warning", 60)], 105, 105, "second_warning", id="the second warning"),
        pytest.param([("notice", 15), ("warning", 60), ("second_warning", 105)], 120, 120, "recommendation", id="two hours"),
        pytest.param([("notice", 300)], 320, 320, None, id="who looked late begins with the notice and waits"),
        pytest.param([("notice", 300)], 345, 345, "warning", id="as long as the steps lie apart"),
        pytest.param([("notice", 300)], 345, 344, None, id="by the clock, too"),
        pytest.param([("notice", 15)], 50, 80, None, id="what nobody measured is not idle"),
        pytest.param([("notice", 15)], 400, 431, None, id="what nobody measured lately may work"),
        pytest.param([(step, 15) for step in STEPS], 999, 999, None, id="after the recommendation nothing comes"),
    ],
)  # fmt: skip
def test_each_step_comes_in_its_time(reached: list[tuple[str, int]], known: int, now: int, due: str | None) -> None:
    assert due == due_step(at(reached), known * MINUTE_US, now * MINUTE_US)


def test_no_step_is_skipped_however_late_one_looks() -> None:
    """From nothing told to the recommendation takes four looks and as long as the steps lie apart."""
    reached: list[tuple[str, int]] = []
    for minute in range(600, 900):
        step = due_step(at(reached), minute * MINUTE_US, minute * MINUTE_US)
        reached += [] if step is None else [(step, minute)]

    assert [("notice", 600), ("warning", 645), ("second_warning", 690), ("recommendation", 705)] == reached


HOSTILE = [
    "1; rm -rf /",
    "$(reboot)",
    "`id`",
    "--signal=KILL",
    "1 2",
    "a\nb",
    "-A",
    "*",
    "",
    "1_",
    "1,2",
    "'",
    "\u202e1",
]


@pytest.mark.parametrize("job", HOSTILE)
def test_a_name_that_no_scheduler_gave_gets_no_line(job: str) -> None:
    assert command("slurm", job, {}, (), END) is None
    assert command("kubernetes", job, {}, (job,), END) is None
    assert command("kubernetes", f"ml/{job}", {"pod-template-hash": "x"}, (job,), END) is None
    assert command("kubernetes", f"{job}/train", {"pod-template-hash": "x"}, (), END) is None


@pytest.mark.parametrize(
    ("scheduler", "job", "labels", "pods", "expected"),
    [
        pytest.param("slurm", "123", {}, (), "scancel 123", id="a Slurm job"),
        pytest.param("slurm", "123_7", {}, (), "scancel 123_7", id="a task of an array"),
        pytest.param(
            "kubernetes", "ml/api", {"pod-template-hash": "x"}, ("api-x-1",),
            "kubectl --namespace=ml scale deployment api --replicas=0", id="a deployment",
        ),
        pytest.param(
            "kubernetes", "ml/db", {"statefulset.kubernetes.io/pod-name": "db-0"}, ("db-0",),
            "kubectl --namespace=ml scale statefulset db --replicas=0", id="a stateful set",
        ),
        pytest.param(
            "kubernetes", "ml/train", {"batch.kubernetes.io/job-name": "train"}, ("train-x",),
            "kubectl --namespace=ml delete job train", id="a job",
        ),
        pytest.param("kubernetes", "ml/nb", {}, ("nb",), "kubectl --namespace=ml delete pod nb", id="a bare pod"),
        pytest.param("kubernetes", "ml/x", {}, ("x-1",), None, id="a controller that nobody told of"),
        pytest.param("ray", "ml/x", {}, ("x",), None, id="another scheduler"),
    ],
)  # fmt: skip
def test_lines_name_one_thing(
    scheduler: str, job: str, labels: dict[str, Any], pods: tuple[str, ...], expected: str | None
) -> None:
    line = command(scheduler, job, labels, pods, END)

    assert expected == line
    assert line is None or shlex.join(shlex.split(line)) == line
    assert command(scheduler, job, labels, pods, SHRINK) is None


LAST = 310
"""The minute of the last measurement of most tests."""


def hoard(directory: Path, idle_minutes: int = LAST - 60, **words: Any) -> World:
    """Job 1 works for an hour, and its GPU has been idle since."""
    world = World(directory)
    world.gpu("a", (60, WORK), (idle_minutes, IDLE))
    world.job("1", ["a"], 0, None, heard=60 + idle_minutes, **words)
    replace_rates(world.state, [Rate("H100", "owned", Decimal("2.00"), us(0))], "t", "t", 0)
    analyzed(world, 60 + idle_minutes)
    return world


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The world of most tests, judged once."""
    return hoard(tmp_path_factory.mktemp("hoard"))


@pytest.fixture
def world(judged: World, tmp_path: Path) -> Iterator[World]:
    """The same with a state of its own: nobody has said anything yet."""
    kept = judged.state
    judged.state = State.open(tmp_path)
    yield judged
    judged.state.close()
    judged.state = kept
    judged.store.sql("delete from pending")


def analyzed(world: World, minute: float) -> None:
    world.analyze(minute, detectors=("idle-hoarding",))
    price_all(world.store, world.state)


def found(world: World, minute: float) -> list[reclaim_state.Proposal]:
    return reclaim_state.proposals(world.store, world.state, us(minute))


def test_a_job_that_ended_holds_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.gpu("a", (60, WORK), (130, IDLE))
    world.job("1", ["a"], 0, 190)
    analyzed(world, 190)

    assert [] == found(world, 190)


def test_a_server_that_must_be_there_is_left_alone(tmp_path: Path) -> None:
    assert [] == found(hoard(tmp_path, labels={"latency-critical": "true"}), 190)


def test_a_device_without_signals_is_left_alone(world: World) -> None:
    """Whose finding is not sure enough, by the card."""
    put(world.state, read("[thresholds.reclaim]\nconfidence_min = 0.99", "card", rules(), None), "card", "ada", 1)

    assert [] == found(world, 190)


def test_steps_are_taken_one_at_a_time(world: World) -> None:
    """Two hours idle, and nobody was told: notice first; a second look takes nothing; an hour later the warning."""
    first = reclaim_state.advance(world.store, world.state, us(190))
    again = reclaim_state.advance(world.store, world.state, us(190))
    listed = [one.at.step for one in found(world, 190)]
    later = reclaim_state.advance(world.store, world.state, us(240))

    assert (["notice"], [], ["notice"]) == ([one.at.step for one in first], again, listed)
    assert ["warning"] == [one.at.step for one in later]
    assert None is later[0].command


def test_what_is_recommended_has_a_line_and_its_worth(world: World) -> None:
    replace_team_rules(world.state, TEAMS, "t", "t", 0)
    price_all(world.store, world.state)
    waits(world, "9", 130, 190, 1)
    for minute in (190, 240, 290, 310):
        reclaim_state.advance(world.store, world.state, us(minute))
    item = reclaim_state.as_dict(found(world, 310)[0])

    assert ("recommendation", None, "end", "scancel 1") == tuple(
        item[n] for n in ("step", "next_step", "action", "command")
    )
    assert (250.0, "2026-01-05T01:00:00Z") == (item["idle_minutes"], item["idle_since"])
    assert "1.000000" == item["contention"]["gpu_hours"]


def test_a_job_of_which_some_devices_work_is_not_to_be_ended(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.gpu("a", (60, WORK), (LAST - 60, IDLE)).gpu("b", (LAST, WORK))
    world.job("1", ["a", "b"], 0, None, heard=LAST)
    analyzed(world, LAST)
    for minute in (190, 240, 290, 310):
        reclaim_state.advance(world.store, world.state, us(minute))

    (one,) = found(world, 310)
    assert ("recommendation", SHRINK, 1, 2, None) == (
        one.at.step,
        one.action,
        one.idle_devices,
        one.devices,
        one.command,
    )


@pytest.mark.parametrize(
    ("action", "held"),
    [
        pytest.param(("snooze", us(230), None), "snoozed", id="a snooze holds it until it ends"),
        pytest.param(("exempt", us(230), None), "exempt", id="an exemption too"),
        pytest.param(("ack", us(230), "false_positive"), "acked", id="who called it false is asked no more"),
    ],
)
def test_an_owner_holds_it_for_as_long_as_they_asked(
    world: World, action: tuple[str, int, str | None], held: str
) -> None:
    key = found(world, 190)[0].finding.key
    Actions(world.state).act(Action(key, action[0], action[1], "soon", "ada", us(190), action[2]))

    during = reclaim_state.advance(world.store, world.state, us(200))
    item = reclaim_state.as_dict(found(world, 200)[0])
    after = reclaim_state.advance(world.store, world.state, us(240))

    assert ([], held, None) == (during, item["held_by"], item["next_step"])
    assert "2026-01-05T03:50:00Z" == item["held_until"]
    assert ["notice"] == [one.at.step for one in after]


def test_an_acknowledged_finding_goes_on(world: World) -> None:
    """To know is not to use."""
    Actions(world.state).act(
        Action(found(world, 190)[0].finding.key, "ack", None, "I know", "ada", us(190), "true_positive")
    )

    assert ["notice"] == [one.at.step for one in reclaim_state.advance(world.store, world.state, us(200))]


def test_work_in_between_begins_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.gpu("a", (60, WORK), (130, IDLE), (20, WORK), (40, IDLE))
    world.job("1", ["a"], 0, None, heard=250)
    analyzed(world, 250)
    key = world.findings("idle-hoarding")[0].key
    Reclaims(world.state).add([Reached(key, us(60), step, us(190)) for step in STEPS], us(190))

    (one,) = found(world, 250)
    assert ("idle", us(210)) == (one.at.step, one.idle_from_us)


def test_those_that_others_wait_for_come_first(tmp_path: Path) -> None:
    """A short hoard that somebody wants before a long one of another model that nobody wants."""
    world = World(tmp_path)
    world.gpu("a", (60, WORK), (200, IDLE), model="NVIDIA A100-SXM4-80GB").gpu("b", (200, WORK), (60, IDLE))
    world.job("long", ["a"], 0, None, heard=260).job("short", ["b"], 0, None, heard=260)
    replace_team_rules(world.state, TEAMS, "t", "t", 0)
    waits(world, "9", 210, 260, 1, gpu_type="h100")
    analyzed(world, 260)

    assert ["short", "long"] == [one.job_id for one in found(world, 260)]


def test_a_preset_has_its_own_times(tmp_path: Path) -> None:
    world = hoard(tmp_path, 20)
    before = reclaim_state.advance(world.store, world.state, us(80))
    put(world.state, read('preset = "gpu-pruner"', "card", rules(), None), "card", "ada", 1)
    (one,) = found(world, 80)

    assert ["notice"] == [p.at.step for p in before]
    assert ("gpu-pruner", us(95)) == (one.preset, one.at.next_us)


def test_messages_get_graver_and_end(tmp_path: Path) -> None:
    """One message a reclaim: opened with the notice, graver at each step, resolved when the devices work."""
    world = hoard(tmp_path)
    listed = [alerts(world.store, world.state, us(minute))[0] for minute in (190, 240, 290, 310)]
    world.gpu("a", (30, WORK), start=LAST)
    analyzed(world, LAST + 30)
    over = alerts(world.store, world.state, us(LAST + 35))

    assert ["info", "low", "medium", "high"] == [one.severity for one in listed]
    assert 1 == len({one.key for one in listed} | {one.key for one in over})
    assert (["resolved"], "Nothing to do.") == ([one.state for one in over], over[0].remedy)
    assert "All 1 devices of 1 idle for 250 minutes." == listed[-1].summary
    assert "scancel 1" == listed[-1].evidence["command"]


# What nobody knows, and who was not told -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "phases",
    [
        pytest.param(None, id="nobody ever measured it"),
        pytest.param(((60, WORK),), id="it fell silent at work"),
        pytest.param(((60, WORK), (40, IDLE)), id="it fell silent when idle"),
    ],
)
def test_a_device_of_which_nothing_is_known_now_may_work(tmp_path: Path, phases: tuple[Any, ...] | None) -> None:
    """The other one is idle: the job is not to be ended."""
    world = World(tmp_path)
    world.gpu("a", (60, WORK), (130, IDLE))
    if phases is not None:
        world.gpu("b", *phases)
    world.job("1", ["a", "b"], 0, None, heard=190)
    analyzed(world, 190)

    assert [(2, 1, SHRINK)] == [(one.devices, one.idle_devices, one.action) for one in found(world, 190)]


def test_without_measurements_no_step_is_taken_and_no_line_written(world: World) -> None:
    """The collector is dead for a night: the job may work by now."""
    key, idle_from_us = found(world, 250)[0].finding.key, found(world, 250)[0].idle_from_us
    Reclaims(world.state).add([Reached(key, idle_from_us, step, us(100)) for step in STEPS[:3]], us(100))

    assert [] == reclaim_state.advance(world.store, world.state, us(LAST + 31))
    assert ["recommendation"] == [one.at.step for one in reclaim_state.advance(world.store, world.state, us(LAST + 30))]
    assert [(LAST + 30, "scancel 1"), (LAST + 31, None)] == [
        (minute, found(world, minute)[0].command) for minute in (LAST + 30, LAST + 31)
    ]


def outbox(world: World, message: str, severity: str, state: str, sent: float | None = None) -> None:
    values = {"dedup": f"{message}{severity}{state}", "channel": "ops", "finding_key": message, "event": "opened"}
    values |= {"payload": "{}", "state": state, "created_us": us(190), "due_us": us(190), "attempts": 0}
    with world.state.transaction(write=True) as connection:
        connection.execute(
            sa.insert(OUTBOX).values(**values, severity=severity, sent_us=None if sent is None else us(sent))
        )


@pytest.mark.parametrize(
    ("state", "sent", "due"),
    [
        pytest.param("pending", None, None, id="it waits in the outbox"),
        pytest.param("sending", None, None, id="it is on its way"),
        pytest.param("sent", 200, 245, id="its owner was told ten minutes later"),
        pytest.param("dead", None, 235, id="it was given up: the clock alone counts"),
    ],
)
def test_the_next_step_waits_until_the_last_was_announced(
    world: World, state: str, sent: float | None, due: float | None
) -> None:
    (first,) = reclaim_state.advance(world.store, world.state, us(190))
    outbox(world, message_key(first.finding.key, first.idle_from_us), "info", state, sent)

    (one,) = found(world, 250)
    assert (None if due is None else us(due)) == one.at.next_us
    assert ([] if due is None else ["warning"]) == [
        one.at.step for one in reclaim_state.advance(world.store, world.state, us(250))
    ]


def test_of_several_channels_one_is_enough(world: World) -> None:
    (first,) = reclaim_state.advance(world.store, world.state, us(190))
    message = message_key(first.finding.key, first.idle_from_us)
    outbox(world, message, "info", "pending")
    outbox(world, message, "info", "sent", 191)

    assert us(236) == found(world, 250)[0].at.next_us


@pytest.mark.parametrize("name", ["workload-class", "gpuwatch.io/workload-class"])
def test_a_class_of_servers_is_left_alone_too(name: str) -> None:
    assert reclaim_state._serves({name: "latency-critical"})
    assert not reclaim_state._serves({name: "batch"})


def test_lines_of_two_clusters_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm counts jobs from 1 in each."""
    Store.open(tmp_path).close()
    held = {"held_by": None, "step": "recommendation"}
    items = [{"cluster": name, "command": "scancel 7"} | held for name in ("c1", "c2")]
    monkeypatch.setattr(reclaim_state, "proposals", lambda *_, **__: [0, 1])
    monkeypatch.setattr(reclaim_state, "as_dict", lambda n: items[n])

    result = CliRunner().invoke(app, ["reclaim", "--commands", "--data", str(tmp_path)])

    assert (2, "") == (result.exit_code, result.stdout)
    assert "c1, c2" in result.stderr + str(result.exception)


def test_a_message_in_a_channel_s_outbox_holds_the_next_step(world: World) -> None:
    """As the service does it: steps, then what is to be told."""
    hook = {"name": "ops", "kind": "webhook", "url": "http://192.0.2.1/x", "severity_min": "info"}
    Channels(world.state, Guard.of(["192.0.2.1"])).put(hook, "ada", us(0))
    enqueue(world.state, alerts(world.store, world.state, us(190)), us(190))
    held = [one.at.untold for one in found(world, 250)]
    alerts(world.store, world.state, us(250))
    with world.state.transaction(write=True) as connection:
        connection.execute(sa.update(OUTBOX).values(state="sent", sent_us=us(200)))
    (entry,) = alerts(world.store, world.state, us(250))

    assert ([True], "warning") == (held, entry.evidence["step"])
