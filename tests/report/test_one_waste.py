"""One definition of waste: random fleets whose avoidable time and money are the same everywhere."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from gpuwatch.alerts.channels import slack
from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing.chargeback import price_all
from gpuwatch.cli import app
from gpuwatch.commands import queries
from gpuwatch.core.model import CLAIM, NODE, Records
from gpuwatch.dashboards.client import Caller, Client
from gpuwatch.dashboards.pages import findings, me, overview, teams
from gpuwatch.dashboards.pages import team as team_page
from gpuwatch.dashboards.pages.work import workloads
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.waste import charges
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.report import flat_table
from gpuwatch.report.compose import document, lead
from gpuwatch.report.facts import Facts
from gpuwatch.report.summary import summary
from gpuwatch.report.weekly import facts_of
from gpuwatch.store.database import Store
from tests.dashboards.laid_out import text
from tests.worlds.api import Api, open_api
from tests.worlds.steady import DEPTH
from tests.worlds.world import HOUR, IDLE, Gpu, batch, claim, minutes, node, samples, us

NEVER, PARTLY = 0, 1
"""Seeds without any measurement, and with held time that is mostly unmeasured: fleets of their own."""
TOGETHER = 3 if DEPTH == 1 else 1
FLEETS = ((NEVER,), (PARTLY,), *(tuple(range(seed, seed + TOGETHER)) for seed in range(2, 20, TOGETHER)))
"""The seeds whose nodes are together in one fleet: passing over three costs little more than passing over one. A deep run has twenty."""
CLAIMED, STRANDED = {13, 14, 18}, {2, 6, 10, 14, 18}
"""Seeds of fleets where findings claim below-peak time, and where free GPUs are stranded."""
WEEK = "2026-W45"
TENTH_OF_AN_HOUR_S = 360
OWNERS = ("ants", "bees", "cows")
SHAPES = (
    IDLE,
    {"gr_engine_ratio": 0.97, "sm_active_ratio": 0.87, "tensor_active_ratio": 0.45, "dram_active_ratio": 0.43},
    {"gr_engine_ratio": 0.95, "sm_active_ratio": 0.2, "tensor_active_ratio": 0.03, "dram_active_ratio": 0.1},
    {"gr_engine_ratio": 0.6, "sm_active_ratio": 0.5, "tensor_active_ratio": 0.1, "dram_active_ratio": 0.4},
    None,
)
"""Idle, training, busy without work, loading data, not measured."""


LOSS = re.compile(r"(\S+(?: [kM])?) was avoidable \(([^)]+)\)")


@dataclass
class Fleet:
    """A service that holds one random fleet, analysed."""

    api: Api
    seeds: tuple[int, ...]

    @cached_property
    def ledger(self) -> Any:
        """The ledger answer of the API, by team."""
        return self.get("/api/v1/ledger", by="team").json()

    @cached_property
    def command(self) -> Any:
        """The same of the command line."""
        return query_command(self.api.service)

    @cached_property
    def reports(self) -> dict[str | None, Facts]:
        """The facts of the weekly report, of the fleet (None) and of each team."""
        service = self.api.service
        return {one.team: one for one in facts_of(service.store, service.state, WEEK, None, None)}

    @cached_property
    def focus(self) -> list[dict[str, str]]:
        """The rows of the FOCUS file."""
        return list(csv.DictReader(io.StringIO(self.get("/api/v1/chargeback", format="focus").text)))

    @cached_property
    def overview(self) -> overview.Data:
        """What the overview reads."""
        return self.page(None)

    def page(self, team: str | None) -> overview.Data:
        return asyncio.run(overview.load(Client(self.api.app).of(Caller()), query_of(team)))

    def get(self, path: str, **params: str) -> Any:
        answer = self.api.get(path, params={"window": WEEK, **params})
        assert 200 == answer.status_code, answer.text
        return answer


def shape_of(rng: random.Random, seed: int, device: int) -> Any:
    if seed == NEVER:
        return None
    if seed == PARTLY:
        return SHAPES[1] if device == 0 else None
    return rng.choice(SHAPES)


def fill(api: Api, seeds: tuple[int, ...]) -> None:
    """The nodes and jobs of each seed, analysed."""
    service = api.service
    price = Decimal(random.Random(seeds[0]).randint(50, 900)) / 100
    rules = [TeamRule("account", owner, owner) for owner in OWNERS]
    for seed in seeds:
        add_nodes(service.store, seed)
    replace_team_rules(service.state, rules, "test", "test", us(0))
    replace_rates(service.state, [Rate("*", "owned", price, us(-HOUR))], "test", "test", us(0))
    # All rules that claim below-peak time here, and idle GPUs: other rules change no sum.
    detectors = ("false-utilization", "idle-hoarding")
    analyze(service.store, service.state, service.settings, now_us=service.now_us(), detectors=detectors)
    price_all(service.store, service.state)


def add_nodes(store: Store, seed: int) -> None:
    """Two to three nodes of four GPUs, or slices; jobs of one to four GPUs for one or two hours each."""
    rng = random.Random(seed)
    rows: list[Any] = []
    claims: list[dict[str, Any]] = []
    nodes = []
    device = 0
    for place in range(rng.randint(2, 3)):
        name, sliced = f"n{seed}-{place}", rng.random() < 0.25 and seed not in (NEVER, PARTLY)
        nodes.append(node(name, {"": 1} if sliced else {"": 4}, at=0, pool=f"p{place % 2}"))
        gpus = (
            [Gpu(f"GPU-{name}", name, 0, gi, "1g.10gb") for gi in range(3, 6)]
            if sliced
            else [Gpu(f"GPU-{name}-{i}", name, i) for i in range(4)]
        )
        at, free = 0, gpus
        while free:
            size = min(len(free), 1 if sliced else rng.choice((1, 1, 2, 4)))
            mine, free = free[:size], free[size:]
            hours = rng.randint(1, 2)
            job, owner = f"{seed}-{place}{at}", rng.choice((*OWNERS, "nobody"))
            shape = shape_of(rng, seed, device)
            for gpu in mine:
                device += 1
                if shape is not None:
                    rows += samples(gpu, minutes(0, hours * HOUR), shape)
                    rows += samples(gpu, minutes(hours * HOUR, 2 * HOUR), IDLE)
            if at == 0 or rng.random() < 0.8:
                words = {"gpus": ",".join(g.uuid for g in mine)} if shape is not None else {}
                claims.append(
                    claim(
                        job, 0, hours * HOUR, name, device_count=size, user_name=owner, account=owner, name=job,
                        **words,
                    )
                )  # fmt: skip
            at += size
    if seed % 4 == 2:  # Whole nodes were requested the day before: what is free in part is stranded.
        whole = {"device_count": 4, "user_name": "ants", "account": "ants"}
        claims.append(claim(f"{seed}-whole", -2 * HOUR, -HOUR, f"n{seed}-0", **whole))
    with store.transaction():
        for one in batch(rows) if rows else ():
            store.append(one)
        store.append(Records("claim", pa.Table.from_pylist(claims, schema=CLAIM)))
        store.append(Records("node", pa.Table.from_pylist(nodes, schema=NODE)))


@pytest.fixture(scope="module", params=FLEETS, ids=lambda seeds: "-".join(map(str, seeds)))
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    api = open_api(None)
    try:
        fill(api, request.param)
        yield Fleet(api, request.param)
    finally:
        api.service.stop()


def money(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def of_ledger(answer: Any) -> tuple[Decimal | None, Decimal | None]:
    """Avoidable GPU-seconds and their cost, of an answer of the API or the command line."""
    return money(answer["avoidable"]["gpu_seconds"]), money(answer["avoidable"]["cost"])


def query_of(team: str | None) -> Query:
    return Query("/", {"window": WEEK, **({"team": team} if team else {})})


def of_focus(fleet: Fleet, team: str | None) -> Decimal | None:
    """The sum of x_WasteCost, in cents; None where it is unknown in every row."""
    mine = [row["x_WasteCost"] for row in fleet.focus if team in (None, row["x_Team"])]
    lost = [Decimal(one) for one in mine if one]
    return sum(lost, Decimal(0)).quantize(Decimal("0.01")) if lost else None


def of_report(fleet: Fleet, team: str | None) -> tuple[object, object]:
    """The row of the report's files."""
    rows = [row for row in flat_table.rows(fleet.reports[team]) if row["section"] == "measure"]
    mine = [row for row in rows if row["kind"] == "avoidable"]
    return (mine[0]["gpu_seconds"], mine[0]["cost"]) if mine else (None, None)


def query_command(service: Any) -> Any:
    """What `gpuwatch ledger --by team` prints on the data of a service."""

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[tuple[Any, Any, None]]:
        yield service.store, service.state, None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "opened", opened)
        patch.setattr(queries.lockfile, "find", lambda _: None)
        result = CliRunner().invoke(app, ["ledger", "--window", WEEK, "--format", "json", "--by", "team"])
    assert 0 == result.exit_code, result.output
    return json.loads(result.stdout)


def test_every_place_has_the_same_waste(fleet: Fleet) -> None:
    lost = of_ledger(fleet.ledger)
    card = fleet.get("/api/v1/audit-card").json()["waste"]
    hours = None if lost[0] is None else (lost[0] / 3600).quantize(Decimal("0.001"))

    assert lost == of_ledger(fleet.command)
    assert lost == of_ledger(fleet.overview.now)
    assert lost == of_report(fleet, None)
    assert (hours, lost[1]) == (money(card["gpu_hours"]), money(card["cost"]))
    assert fleet.ledger["avoidable"]["ratio"] == card["ratio"]
    assert (lost[1] or 0) == (of_focus(fleet, None) or 0)
    assert (fleet.seeds in ((NEVER,), (PARTLY,))) <= (card["ratio"] is None)


def test_every_place_has_the_same_waste_of_a_team(fleet: Fleet) -> None:
    by_team = {one["team"]: of_ledger(one) for one in fleet.command["groups"]}
    listed = {one["team"]: of_ledger(one) for one in fleet.ledger["groups"]}
    assert by_team == listed
    known = [team for team in OWNERS if team in by_team]
    for team in known:
        assert by_team[team] == of_report(fleet, team)
        assert by_team[team][1] == of_focus(fleet, team)
    for team in known[: int(fleet.seeds[0] in (NEVER, 8))]:
        assert by_team[team] == of_ledger(fleet.page(team).now)


def test_measures_are_all_of_the_time(fleet: Fleet) -> None:
    """Every GPU-second is in one measure, and what is avoidable of each row adds up to the waste."""
    found = fleet.ledger
    measures = {**{name: found[name] for name in ("working", "avoidable", "free")}, **found["unknown"]}
    sizes = [Decimal(one["gpu_seconds"] or 0) for one in measures.values()]
    rows = sum((Decimal(one["avoidable_gpu_seconds"]) for one in found["items"]), Decimal(0))

    assert abs(Decimal(found["capacity_gpu_seconds"]) - sum(sizes)) <= Decimal("0.000003")
    assert abs(Decimal(found["avoidable"]["gpu_seconds"] or 0) - rows) <= Decimal("0.000012")
    parts = {name: Decimal(0) for name in ("below_roof", "stranded")}
    for one in found["items"]:
        if one["bucket"] in parts:
            parts[one["bucket"]] += Decimal(one["avoidable_gpu_seconds"])
    assert bool(CLAIMED & {*fleet.seeds}) <= (parts["below_roof"] > 0)
    assert bool(STRANDED & {*fleet.seeds}) <= (parts["stranded"] > 0)
    if fleet.seeds == (NEVER,):
        assert found["working"]["gpu_seconds"] is None, "unknown is not zero"
        assert (None, None) == (found["roofline_efficiency"], found["avoidable"]["gpu_seconds"])


def test_the_overview_and_the_report_have_one_headline(fleet: Fleet) -> None:
    shown = text(overview.layout(fleet.overview, query_of(None), "light"))
    titles = " ".join(section.title for section in document(fleet.reports[None]).sections)
    found = fleet.ledger["avoidable"]
    listed = [LOSS.findall(words.replace("\u00a0", " ")) for words in (shown, titles)]

    assert listed[0] == listed[1]
    assert bool(listed[0]) == (found["ratio"] is not None and Decimal(found["gpu_seconds"]) > 0)


def test_slack_has_the_headline_of_the_report(fleet: Fleet) -> None:
    facts = fleet.reports[None]
    message = slack.report(summary(facts, "weekly"), None, "weekly")
    listed = [LOSS.findall(words.replace("\u00a0", " ")) for words in (message["text"], lead(facts))]

    assert listed[0] == listed[1][:1]
    found = fleet.ledger["avoidable"]
    assert bool(listed[0]) == (found["ratio"] is not None and Decimal(found["gpu_seconds"]) > 0)


def test_the_pages_of_charges_and_workloads_have_the_same_waste(fleet: Fleet) -> None:
    """By team, where enough of its time was measured; and its workloads together what it has."""
    api = Client(fleet.api.app).of(Caller())
    groups = {one["team"]: one["avoidable"] for one in fleet.ledger["groups"]}
    charged = charges.of(asyncio.run(teams.load(api, query_of(None))).mixes, {}, "team")
    listed = asyncio.run(workloads.load(api, query_of(None))).items

    known = {team: money(one["cost"]) if one["ratio"] is not None else None for team, one in groups.items()}
    assert known == {team: charged[team].cost for team in groups}
    for team, lost in known.items():
        mine = [one.avoidable for one in listed if one.team == team]
        if lost is not None and team != "__platform__" and None not in mine:
            assert abs(lost - sum(one or 0 for one in mine)) <= Decimal("0.01") * len(mine)


def test_the_pages_of_a_team_and_of_a_person_have_the_same_waste(fleet: Fleet) -> None:
    """Each team is one user here."""
    api = Client(fleet.api.app).of(Caller())
    by_team = {one["team"]: of_ledger(one) for one in fleet.ledger["groups"]}
    for name in [owner for owner in OWNERS if owner in by_team]:
        of_team = asyncio.run(team_page.load(api, Query(f"{team_page.ROOT}{name}", {"window": WEEK}))).answer["now"]
        people = asyncio.run(me.load(api, Query("/me", {"window": WEEK, "user": name}))).ledger["groups"]

        assert by_team[name] == of_ledger(of_team)
        assert [by_team[name]] == [of_ledger(one) for one in people if one["user"] == name]


def test_findings_waste_at_most_what_was_avoidable(fleet: Fleet) -> None:
    """Those of the page together, by team; its title has their sum, to a tenth of an hour."""
    data = asyncio.run(findings.load(Client(fleet.api.app).of(Caller()), Query("/findings", {"state": "all"})))
    avoidable = {one["team"]: of_ledger(one)[0] for one in fleet.ledger["groups"]}
    claimed = dict.fromkeys(avoidable, Decimal(0))
    for one in data.findings["items"]:
        claimed[one["team"]] += Decimal(one["wasted_gpu_seconds"])

    assert (
        abs(sum(claimed.values()) - Decimal(data.inbox["total"]["gpu_hours_so_far"]) * 3600) <= TENTH_OF_AN_HOUR_S / 2
    )
    assert {} == {name: lost for name, lost in claimed.items() if lost > (avoidable[name] or 0)}
    assert bool(CLAIMED & {*fleet.seeds}) <= (sum(claimed.values()) > 0)
