"""Pairs of fleets with the same usage of one team, red, and different usage of all others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from gpuwatch.billing import budgets
from gpuwatch.billing.periods import close as periods_close
from gpuwatch.core.model import CLAIM, NODE, PENDING, Records
from gpuwatch.core.queue_model import QUEUE, WORKLOAD
from gpuwatch.findings.repository import Action, Actions
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.service.service import Service
from tests.worlds.api import NOW_US, Api, open_api
from tests.worlds.world import BUSY, HOUR, IDLE, Gpu, batch, claim, minutes, node, pod, samples, us

SPAN_H = 4
"""Hours of samples: the same in every fleet, so that the newest instant is the same."""
CLOSED = "2026-W44"
CLOSED_FROM = -HOUR
"""The last hour of the week that is closed."""
WEEK = "2026-W45"
SCHEMAS = {"claim": CLAIM, "node": NODE, "pending": PENDING, "queue": QUEUE, "workload": WORKLOAD}
RED = ("red", "ursula", "redlab", "redacct")
OTHERS = {"blue": ("blue", "boris", "bluelab", "blueacct"), "teal": ("teal", "tanja", "teallab", "tealacct")}
"""Team, user, namespace and account."""
MATCHED = (("account", 3), ("namespace", 2))

SLICE, PRICE = "1g.10gb", Decimal("7.1337")
"""A seventh of a GPU, and a price: red's amounts are no whole cents, and its GPU-seconds no whole microseconds."""
FULL = {"gr_engine_ratio": 0.97, "sm_active_ratio": 0.91, "tensor_active_ratio": 0.41, "dram_active_ratio": 0.23}
"""Work that every bucket of held time has a part of."""

Row = dict[str, Any]


class Fleet:
    """The records of a fleet, collected before they are stored in one go."""

    def __init__(self) -> None:
        self.samples: list[Any] = []
        self.rows: dict[str, list[Row]] = {name: [] for name in SCHEMAS}

    def gpu(
        self, gpu: Gpu, hours: int = SPAN_H, start: int = 0, fields: Mapping[str, float] = IDLE, **labels: str
    ) -> None:
        """Samples of a device."""
        self.samples += samples(gpu, minutes(start, start + hours * HOUR), fields, **labels)

    def job(
        self, owner: tuple[str, ...], job: str, start: int, end: int | None, node: str, gpus: list[str], **words: Any
    ) -> None:
        """A Slurm job on named GPUs of one node; `end` None: it still runs."""
        words |= {"evidence": SPAN_H * HOUR, "state": "RUNNING"} if end is None else {"state": "COMPLETED"}
        self.rows["claim"].append(
            claim(
                job, start, end, node, len(gpus), gpus=",".join(gpus), user_name=owner[1], account=owner[3],
                name=f"{owner[0]}train", submit_us=us(start - 60), queue="batch", **words,
            )
        )  # fmt: skip

    def waits(self, owner: tuple[str, ...], job: str, count: int) -> None:
        """A Slurm request that waits all the time."""
        row = {"job_id": job, "scheduler": "slurm", "device_count": count, "node_count": 1, "reason": "Resources"}
        words = {"user_name": owner[1], "account": owner[3], "queue": "batch", "submit_us": us(0)}
        for hour in range(SPAN_H + 1):
            self.rows["pending"].append(row | words | {"evidence_us": us(hour * HOUR)})

    def gang(self, owner: tuple[str, ...], name: str, state: str) -> None:
        """A Kueue workload in the queue that all teams share."""
        shared = {"scheduler": "kueue", "namespace": owner[2], "observed_us": NOW_US - 1}
        local = f"{owner[0]}queue"
        self.rows["queue"].append(shared | {"kind": "local_queue", "name": local, "parent": "cq"})
        self.rows["workload"].append(
            shared
            | {"kind": "Workload", "uid": f"{name}-uid", "name": name, "queue": local, "cluster_queue": "cq"}
            | {"state": state, "device_count": 2, "submit_us": NOW_US - 60_000_000, "user_name": owner[1]}
        )

    def store(self, service: Service) -> None:
        """Appends everything in one transaction."""
        with service.store.transaction():
            for one in batch(self.samples):
                service.store.append(one)
            for name, rows in self.rows.items():
                schema = SCHEMAS[name]
                full = [dict.fromkeys(schema.names) | {"cluster": "c1"} | row for row in rows]
                service.store.append(Records(name, pa.Table.from_pylist(full, schema=schema)))


def red_usage(fleet: Fleet, draw: Random) -> None:
    """What red held: idle and busy jobs, one across two nodes, a slice, and requests that wait."""
    for number in range(2):
        fleet.gpu(Gpu(f"GPU-red{number}", "rednode", number), fields=FULL if number else IDLE)
    fleet.rows["node"].append(node("rednode", {"": 2}, at=HOUR, pool="batch"))
    fleet.job(RED, "9001", 0, None, "rednode", ["GPU-red0"])
    start, end = draw.randrange(0, HOUR, 60), draw.randrange(2 * HOUR, SPAN_H * HOUR, 60)
    fleet.job(RED, "9003", start, end, "rednode", ["GPU-red1"])
    fleet.job(RED, "9003", start, end, "mixnode", ["GPU-mix0"])
    fleet.gpu(Gpu("GPU-mix0", "mixnode", 0), fields=FULL)
    fleet.gpu(
        Gpu("GPU-mig", "mignode", 0, 3, SLICE), fields=FULL, namespace="redlab", pod="redpod", pod_uid="redpod-uid"
    )
    words = {"namespace": "redlab", "user_name": "ursula", "profile": SLICE}
    row = pod("redpod", "redpod-uid", 0, draw.randrange(HOUR, SPAN_H * HOUR, 60), "mignode", **words)
    fleet.rows["claim"].append(row | {"job_id": "redlab/redpod"})
    fleet.waits(RED, "9005", draw.randint(1, 4))
    fleet.gang(RED, "redgang", "pending")
    fleet.gpu(Gpu("GPU-red0", "rednode"), 1, CLOSED_FROM)
    fleet.job(RED, "8001", CLOSED_FROM, CLOSED_FROM + HOUR, "rednode", ["GPU-red0"])


def other_usage(fleet: Fleet, draw: Random, teams: list[str]) -> None:
    """What the others held, on GPUs next to red's and in pools of their own."""
    for number in (1, 2, 3):
        fleet.gpu(Gpu(f"GPU-mix{number}", "mixnode", number), fields=draw.choice((BUSY, IDLE)))
    held = draw.sample((1, 2, 3), draw.randint(1, 3))
    for number in held:
        start = draw.randrange(0, HOUR, 60)
        fleet.job(OTHERS[draw.choice(teams)], f"70{number}", start, SPAN_H * HOUR, "mixnode", [f"GPU-mix{number}"])
    for place, team in enumerate(teams):
        owner = OTHERS[team]
        pool, name, size = f"{team}pool", f"{team}node", draw.randint(1, 3)
        fleet.rows["node"].append(node(name, {"": size}, at=HOUR, pool=pool))
        for number in range(size):
            model = draw.choice(("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"))
            gpu = Gpu(f"GPU-{team}{number}", name, number, model=model)
            fleet.gpu(gpu, fields=draw.choice((BUSY, IDLE)))
        idle = Gpu(f"GPU-{team}idle", name, size)
        fleet.gpu(idle)
        fleet.job(owner, f"80{place}{team[0]}", 0, None, name, [idle.uuid])
        fleet.job(owner, f"81{place}{team[0]}", 0, draw.randrange(HOUR, SPAN_H * HOUR, 60), name, [f"GPU-{team}0"])
        fleet.gpu(Gpu(f"GPU-{team}idle", name, size), 1, CLOSED_FROM)
        fleet.job(owner, f"82{place}{team[0]}", CLOSED_FROM, CLOSED_FROM + HOUR, name, [idle.uuid])
        for number in range(draw.randint(1, 3)):
            fleet.waits(owner, f"60{number}{team[0]}", 1)
            fleet.gang(owner, f"{team}gang{number}", draw.choice(("pending", "admitted")))
    cohort = {"": draw.randint(3, 9)}
    fleet.rows["queue"].append(
        {"scheduler": "kueue", "kind": "cluster_queue", "name": "cq", "observed_us": NOW_US - 1, "quota": '{"": 16}'}
        | {"used": json.dumps(cohort), "pending_count": draw.randint(2, 9), "running_count": draw.randint(1, 9)}
    )
    fleet.gpu(Gpu("GPU-mig", "mignode", 0, 4, SLICE), fields=draw.choice((BUSY, IDLE)))
    if draw.random() < 0.5:
        words = {"namespace": "bluelab", "user_name": "boris", "profile": SLICE}
        row = pod("bluepod", "bluepod-uid", 0, 2 * HOUR, "mignode", **words)
        fleet.rows["claim"].append(row | {"job_id": "bluelab/bluepod"})


@dataclass(frozen=True)
class Neighbour:
    """One fleet, its API, and the text of a token bound to team red."""

    api: Api
    token: str


def neighbour(seed: int, teams: list[str]) -> Neighbour:
    """A fleet: red's usage depends on `seed` alone, that of the others on `seed` and `teams`."""
    api = open_api(None)
    service, fleet = api.service, Fleet()
    red_usage(fleet, Random(seed))
    draw = Random(f"{seed} {teams}")
    other_usage(fleet, draw, teams)
    fleet.store(service)
    owners = [RED, *(OTHERS[team] for team in teams)]
    everyone = [RED, *OTHERS.values()]
    rules = [TeamRule(kind, owner[place], owner[0]) for owner in everyone for kind, place in MATCHED]
    replace_team_rules(service.state, rules, "test", "test", us(0))
    for number in range(1, len(owners) + 1):
        kept = [
            budgets.Budget(owner[0], "week", Decimal(100 + 10 * place), "USD")
            for place, owner in enumerate(owners[:number])
        ]
        budgets.replace(service.state, kept, "test", "test", us(0))
    rates = [Rate(model, "owned", PRICE, us(CLOSED_FROM)) for model in ("H100", "A100")]
    replace_rates(service.state, rates, "test", "test", us(0))
    service.analyse_once()
    with service.reader() as store:
        periods_close.close(store, service.state, CLOSED, "test", NOW_US, force=True, price=service.reprice)
        keys = [row[0] for row in store.sql("select key from finding where team <> 'red' order by key")]
    for key in keys[: draw.randint(1, 3)]:
        Actions(service.state).act(Action(key, "ack", None, "known", "boris", NOW_US, "true_positive"))
    return Neighbour(api, api.token("read", "red"))
