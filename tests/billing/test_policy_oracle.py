"""Charges under policies against a reading of docs/charge-back/policies.md in fractions, over fleets of several models and pools."""

from __future__ import annotations

import random
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from gpuwatch.billing import chargeback, policy_charges
from gpuwatch.core.clock import DAY_US, HOUR_US, SECOND_US, Window
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.ledger.totals import working_tables
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.parse import parse
from gpuwatch.policy.policy import DEFAULT, Policies, Policy, matches
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from tests.worlds.world import BUSY, CLUSTER, H100, HOUR, IDLE, SETTINGS, T0_US, Gpu, World, claim, node, samples, us

A100 = "NVIDIA A100-SXM4-80GB"
MODELS = (H100, H100, A100)
LAYOUTS = ((), (), (), ("1g.10gb", "2g.20gb"), ("3g.40gb", "4g.40gb"), ("1g.10gb",) * 5)
STATES = ("COMPLETED", "PREEMPTED", "NODE_FAIL", "FAILED")
STEP = 300
FIRST, LAST = 20 * HOUR, 30 * HOUR
"""The fleet is seen from 20:00 of the first day to 06:00 of the second."""
ASLEEP, ACTIVE = ("hoarded", "gap"), ("communication", "stalled", "below_roof")
FREE = {bucket: bucket for bucket in ("stranded", "out_of_service", "mig_remainder")} | {"schedulable": "idle"}
FAILED = ("PREEMPTED", "NODE_FAIL")
NEAR = Fraction(1, 10**4)
"""Minutes that an edge cuts are divided to whole microseconds: parts of a cent by the thousand rows."""

Sums = dict[tuple[Any, ...], Fraction]
Prices = list[tuple[str, str | None, int, int, str, Fraction]]


class Fleet:
    """GPUs of two models in two pools, some partitioned; jobs of three teams and of nobody; prices, one of which changes."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.qos: dict[str, str | None] = {}
        rows: list[Any] = []
        for number in range(rng.randint(2, 4)):
            name, model = f"n{number % 2}", rng.choice(MODELS)
            layout = rng.choice(LAYOUTS) if model == H100 else ()
            uuid, free = f"GPU-{number}", rng.random() < 0.2
            parts = [Gpu(uuid, name, number, gi, profile, model) for gi, profile in enumerate(layout)]
            for part in parts or [Gpu(uuid, name, number, model=model)]:
                rows += self._device(part, free)
        pools = [
            node(f"n{n}", {"": 4}, FIRST, pool=pool) for n, pool in enumerate(rng.choice((("p", "q"), ("p", "p"))))
        ]
        self.world = World().add(*rows, *pools).attribute()
        # Which free devices cannot be placed on is another module's matter: here every second one.
        self.world.store.sql(
            "update segment set free_bucket = 'stranded' where free_bucket = 'schedulable' and device_id % 2 = 0"
        )
        ledger_hours.recompute_dirty(self.world.store, CLUSTER, SETTINGS)
        self.prices = self._prices()
        self.state = State.open("sqlite://")
        rates = [
            Rate(model, "owned", Decimal(str(float(price))), start, end, None, None, profile, currency)
            for model, profile, start, end, currency, price in self.prices
        ]
        replace_rates(self.state, rates, "test", "test", 0)
        teams = [TeamRule("account", f"acct-{team}", team) for team in "abc"]
        replace_team_rules(self.state, teams, "test", "test", 0)
        chargeback.price_all(self.world.store, self.state)

    def _device(self, gpu: Gpu, free: bool) -> list[Any]:
        rng, rows, claims, at, held = self.rng, [], [], FIRST, []
        while at < LAST:
            upto = min(at + rng.randrange(1, 30) * STEP, LAST)
            mood = rng.choice((BUSY, BUSY, IDLE, {}, None))
            instants = [at + STEP // 2 + n * STEP for n in range((upto - at) // STEP)]
            rows += [] if mood is None and at > FIRST and upto < LAST else samples(gpu, instants, mood or {})
            at = upto
        end = FIRST
        while not free and len(held) < 3 and rng.random() < 0.8:
            start = end + rng.randrange(2 * HOUR)
            end = start + rng.randrange(400, 5 * HOUR)
            if end >= LAST:
                break
            held.append((start, end))
        for n, (start, stop) in enumerate(held):
            job = f"{gpu.uuid[4:]}{gpu.gi + 1}{n}"
            self.qos[job] = rng.choice(("low", "high", None))
            open_end = n == len(held) - 1 and rng.random() < 0.2
            words = {"qos": self.qos[job], "account": rng.choice(("acct-a", "acct-b", "acct-c", None))}
            words |= {"gpus": gpu.uuid, "state": rng.choice(STATES), "profile": gpu.profile}
            if gpu.gi >= 0:
                words["gpus"] = None
                rows = [r if not (us(start) <= r.at_us < us(stop)) else _labelled(r, job) for r in rows]
            ends = {"evidence": stop} if open_end else {}
            claims.append(claim(job, start, None if open_end else stop, gpu.node, **ends, **words))
        return [*rows, *claims]

    def _prices(self) -> Prices:
        rng, far = self.rng, T0_US + 9 * DAY_US
        change = rng.choice((T0_US + DAY_US, us(FIRST) + rng.randrange(10 * HOUR_US)))
        found: Prices = [
            (H100, None, 0, change, "USD", Fraction("2.49")),
            (H100, None, change, far, "USD", Fraction("1.234567")),
        ]
        if rng.random() < 0.8:
            found.append((A100, None, 0, far, "USD", Fraction("0.5")))
        if rng.random() < 0.5:
            found.append((H100, "1g.10gb", 0, far, "EUR", Fraction("0.7")))
        return found

    def price(self, model: str | None, profile: str | None, at_us: int) -> tuple[str | None, Fraction]:
        for of in (profile, None) if profile else (None,):
            for name, some, start, end, currency, price in self.prices:
                if (name, some) == (model, of) and start <= at_us < end:
                    return currency, price
        return None, Fraction(0)

    def policies(self, rng: random.Random) -> Policies:
        documents = []
        for n in range(rng.choice((1, 2))):
            weight = Decimal(rng.choice((0, 1, 10000, 5000, rng.randrange(10001)))) / 10000
            scope = rng.choice((["cluster", "pool", "gpu_model"], ["gpu_model"], ["pool"], []))
            split = {"payer": rng.choice(("proportional", "even")), "scope": scope}
            free = (split, "platform", "quota_holder")
            documents.append(
                {
                    "name": f"p{n}",
                    "valid_from": f"2026-11-0{2 + n}",
                    "basis": {"allocated": weight, rng.choice(("used", "effective")): 1 - weight},
                    "payers": {
                        "idle": rng.choice(free),
                        "stranded": rng.choice(free),
                        "out_of_service": rng.choice(free[:2]),
                        "mig_remainder": rng.choice(free[:2]),
                        "unused": rng.choice(free[:2]),
                        "lost_work": rng.choice(("owner", "platform", "cause")),
                    },
                    "quotas": [
                        {"team": "a", "gpus": rng.choice(("0.7", "2"))},
                        {"team": "b", "gpus": "1.3", "gpu_model": "H100"},
                        {"team": "d", "gpus": "0.5", "pool": "p"},
                    ][: rng.randint(1, 3)],
                    "discounts": [{"qos": "lo*", "factor": "0.25"}, {"qos": "*", "factor": "0.9"}][: rng.randrange(3)],
                    "minimum_billing_seconds": rng.choice((0, 61, 3600)),
                    "checkpoint_minutes": rng.choice((30, 600)),
                    "shared": [
                        {"name": "net", "amount": "10.01", "per": "day", "currency": "USD", "split": "even"},
                        {"name": "desk", "amount": "7", "per": "month", "currency": "EUR", "split": "proportional"},
                        {
                            "name": "fix",
                            "amount": "0.3",
                            "per": "hour",
                            "currency": "USD",
                            "split": "fixed",
                            "percentages": {"a": "33.3333", "z": "66.6667"},
                        },
                    ][: rng.randrange(4)],
                }
            )
        return Policies(parse({"policies": documents}))


def _labelled(sample: Any, job: str) -> Any:
    return type(sample)(sample.gpu, sample.at_us, (("job", job),), sample.fields)


def expected(fleet: Fleet, rules: Policies, window: Window) -> Sums:
    """(team, cause, currency) -> cost of a window, as the page says it."""
    sums: Sums = defaultdict(Fraction)
    for day_us in range(T0_US, T0_US + 2 * DAY_US, DAY_US):
        rule = rules.at(day_us)
        whole = [h for h in _held(fleet, Window(day_us, day_us + DAY_US))]
        part = (
            Window(max(window.start_us, day_us), min(window.end_us, day_us + DAY_US))
            if (window.start_us < day_us + DAY_US and window.end_us > day_us)
            else None
        )
        if part is None or not whole:
            continue
        pools = _direct(fleet, rule, _held(fleet, part), sums)
        for (cause, place, currency), amount in pools.items():
            paid = Fraction(0)
            for team, share in _payers(fleet, rule, cause, place, whole, day_us).items():
                sums[team, cause, currency] += amount * share
                paid += amount * share
            sums["__platform__", cause, currency] += amount - paid
        _shared(rule, whole, day_us, part, sums)
    _runs(fleet, rules, window, sums)
    return {key: amount for key, amount in sums.items() if amount}


Row = tuple[str, str | None, tuple[Any, ...], str | None, str, Fraction, Fraction]


def _held(fleet: Fleet, window: Window) -> list[Row]:
    """(team, job, place, currency, bucket, GPU-seconds, price) of the ledger, told apart where a price changes."""
    edges = {edge for _, _, start, end, _, _ in fleet.prices for edge in (start, end)}
    cuts = sorted({window.start_us, window.end_us, *(e for e in edges if window.start_us < e < window.end_us)})
    found = []
    words = ("team", "job", "cluster", "pool", "gpu_model", "mig_profile")
    for start, end in pairwise(cuts):
        for row in chargeback.ledger(fleet.world.store, fleet.state, Window(start, end), words).items:
            result = row.group
            place = (result["cluster"], result["pool"], result["gpu_model"])
            currency, price = fleet.price(result["gpu_model"], result["mig_profile"], start)
            seconds = Fraction(row.gpu_seconds)
            found.append((result["team"] or "", result["job"], place, currency, row.bucket, seconds, price / HOUR))
    return found


def _direct(fleet: Fleet, rule: Policy, rows: list[Row], sums: Sums) -> Sums:
    """What teams pay for what they hold; returns what is left, by (cause, place, currency)."""
    pools: Sums = defaultdict(Fraction)
    weights = dict(rule.basis)
    asleep = Fraction(weights.get("allocated", 0))
    active = asleep + Fraction(weights.get("used", 0))
    for team, job, place, currency, bucket, seconds, price in rows:
        worth = seconds * price
        if bucket in FREE:
            pools[FREE[bucket], place, currency] += worth
            continue
        part = asleep if bucket in ASLEEP else active if bucket in ACTIVE else Fraction(1)
        factor = _factor(fleet, rule, job)
        sums[team, None, currency] += worth * part * factor
        pools["unused", place, currency] += worth * (1 - part)
        pools["discount", place, currency] += worth * part * (1 - factor)
    return pools


def _factor(fleet: Fleet, rule: Policy, job: str | None) -> Fraction:
    qos = fleet.qos.get(job or "")
    for discount in rule.discounts:
        if qos is not None and (discount.match == "*" or qos.startswith(discount.match.rstrip("*"))):
            return Fraction(discount.factor)
    return Fraction(1)


def _payers(
    fleet: Fleet, rule: Policy, cause: str, place: tuple[Any, ...], whole: list[Row], day_us: int
) -> dict[str, Fraction]:
    entry = rule.payer(cause)
    if cause == "discount" or entry.payer in ("platform", "owner"):
        return {}
    if entry.payer == "quota_holder":
        return _quota_parts(fleet, rule, place, whole, day_us)
    scope = [n for n, name in enumerate(("cluster", "pool", "gpu_model")) if name in entry.scope]
    weights: dict[str, Fraction] = defaultdict(Fraction)
    for team, _, where, _, bucket, seconds, _ in whole:
        if bucket not in FREE and all(where[n] == place[n] for n in scope) and seconds:
            weights[team] += seconds
    if entry.payer == "even":
        weights = {team: Fraction(1) for team in weights if not team.startswith("__")}
    total = sum(weights.values())
    return {team: weight / total for team, weight in weights.items()}


def _quota_parts(
    fleet: Fleet, rule: Policy, place: tuple[Any, ...], whole: list[Row], day_us: int
) -> dict[str, Fraction]:
    """Each quota pays for what it leaves free, of every free GPU of its scope alike; all of it at most."""
    causes = [bucket for bucket, cause in FREE.items() if rule.payer(cause).payer == "quota_holder"]
    low, high = fleet.world.store.sql("select min(start_us), max(end_us) from capacity")[0]
    known = Fraction(min(high, day_us + DAY_US) - max(low, day_us), SECOND_US)
    parts: dict[str, Fraction] = defaultdict(Fraction)
    for quota in rule.quotas:
        scope = (quota.cluster, quota.pool, quota.gpu_model)
        inside = [row for row in whole if matches(*scope, row[2])]
        free = sum((row[5] for row in inside if row[4] in causes), Fraction(0))
        held = sum((row[5] for row in inside if row[4] not in FREE and row[0] == quota.team), Fraction(0))
        if matches(*scope, place) and free:
            parts[quota.team] += min(max(Fraction(quota.gpus) * known - held, Fraction(0)), free) / free
    total = max(sum(parts.values()), Fraction(1))
    return {team: part / total for team, part in parts.items() if part}


def _shared(rule: Policy, whole: list[Row], day_us: int, part: Window, sums: Sums) -> None:
    held: dict[str, Fraction] = defaultdict(Fraction)
    for team, _, _, _, bucket, seconds, _ in whole:
        if bucket not in FREE and seconds:
            held[team] += seconds
    for shared in rule.shared:
        days = {"hour": Fraction(24), "day": Fraction(1), "month": Fraction(1, 30)}[shared.per]
        amount = Fraction(shared.amount) * days * (part.end_us - part.start_us) / DAY_US
        weights = {"even": {t: Fraction(1) for t in held if t[:2] != "__"}, "proportional": held}.get(shared.split)
        weights = {t: Fraction(p) for t, p in shared.percentages} if weights is None else weights
        total = sum(weights.values())
        for team, weight in (weights if total else {"__platform__": Fraction(1)}).items():
            sums[team, shared.name, shared.currency] += amount * weight / (total or 1)


def _runs(fleet: Fleet, rules: Policies, window: Window, sums: Sums) -> None:
    """Increments of billing and lost work, from the segments and minutes of each run that is over."""
    store = fleet.world.store
    segments = store.sql(
        """select r.run_id, r.job_id, r.state, coalesce(t.team, '__unallocated__'), s.device_id, s.start_us, s.end_us,
            s.share_num, s.share_den, d.model, s.profile
        from segment s join run r using (run_id) join device d on d.device_id = s.device_id
        left join run_team t on t.run_id = r.run_id where r.ended"""
    )
    for run in {row[0] for row in segments}:
        held = [row[1:] for row in segments if row[0] == run]
        start, end = min(row[4] for row in held), max(row[5] for row in held)
        for job, state, team, device, from_us, to_us, num, den, model, profile in held:
            bits: list[tuple[str, int, Fraction]] = []
            last = rules.at(end - 1).minimum_us
            if last and to_us == end:
                bits.append(("minimum", end - 1, Fraction(-(end - start) % last)))
            if state in FAILED:
                minutes = store.sql(
                    """select start_us, memory_roof_us + compute_us from device_minute
                    where device_id = $d and start_us >= $a and start_us < $b""",
                    d=device, a=from_us, b=to_us,
                )  # fmt: skip
                for at_us, lost_us in minutes:
                    rule = rules.at(at_us)
                    near = at_us >= end - rule.checkpoint_minutes * 60 * SECOND_US
                    if rule.payer("lost_work").payer in ("platform", "cause") and near:
                        bits.append(("lost_work", at_us, Fraction(-lost_us)))
            for cause, at_us, micros in bits:
                if not window.start_us <= at_us < window.end_us:
                    continue
                currency, price = fleet.price(model, profile, at_us)
                amount = micros / HOUR_US * price * Fraction(num, den) * _factor(fleet, rules.at(at_us), job)
                sums[team, cause, currency] += amount
                sums["__platform__", cause, currency] -= amount


def booked(fleet: Fleet, rules: Policies, window: Window) -> Sums:
    with working_tables(fleet.world.store):
        scale, _ = policy_charges.fill_charges(fleet.world.store, rules, window, ("team", "cause"), None, None, None)
        rows = fleet.world.store.sql("select team, cause, currency, sum(amount) from charge_group group by all")
    return {tuple(key): Fraction(int(amount), scale.hour) for *key, amount in rows if amount}


@pytest.fixture(scope="module")
def fleets() -> list[Fleet]:
    """Tests only read them."""
    return [Fleet(seed) for seed in range(3)]


@pytest.mark.parametrize("seed", range(3))
def test_a_policy_charges_what_the_page_says(fleets: list[Fleet], seed: int) -> None:
    fleet, rng = fleets[seed], random.Random(seed)
    rules = fleet.policies(rng)
    cut = sorted(us(FIRST) + rng.randrange(10 * HOUR_US) for _ in range(2))
    for window in (Window(T0_US, T0_US + 2 * DAY_US), Window(*cut)) if cut[0] < cut[1] else ():
        result, computed = expected(fleet, rules, window), booked(fleet, rules, window)
        wrong = {
            key: (float(result.get(key, 0)), float(computed.get(key, 0)))
            for key in {*result, *computed}
            if abs(result.get(key, Fraction(0)) - computed.get(key, Fraction(0))) > NEAR
        }
        assert {} == wrong


@pytest.mark.parametrize("seed", range(2))
def test_the_default_policy_answers_what_is_answered_without_policies(fleets: list[Fleet], seed: int) -> None:
    """charges.book under the default policy, and the statement that is run where every day has it."""
    fleet, rng = fleets[seed], random.Random(seed)
    store = fleet.world.store
    cut = sorted(us(FIRST) + rng.randrange(10 * HOUR_US) for _ in range(2))
    whole, part = Window(T0_US, T0_US + 2 * DAY_US), Window(cut[0], cut[1] + 1)
    groups = ("team", "job"), ("gpu_model", "mig_profile", "pool"), ("slice", "account")
    for window, bys in ((whole, groups), (part, groups[rng.randrange(3) :][:1])):
        for by in bys:
            plain = chargeback.chargeback(store, fleet.state, window, by)
            by_name = {
                (*c.group.values(), c.kind, c.currency): (c.gpu_seconds, c.cost, c.cost_exact) for c in plain.items
            }
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Policies, "plain", lambda *_: False)
                ruled = chargeback.chargeback(store, fleet.state, window, by, policy=Policies((DEFAULT,)))
            found = {
                (*c.group.values(), c.kind, c.currency): (c.gpu_seconds, c.cost, c.cost_exact) for c in ruled.items
            }
            assert by_name == found
            assert (plain.cost, plain.gpu_seconds, plain.unpriced_gpu_seconds) == (
                ruled.cost, ruled.gpu_seconds, ruled.unpriced_gpu_seconds,
            )  # fmt: skip


def test_the_fleets_hold_what_policies_speak_of(fleets: list[Fleet]) -> None:
    """Several models, pools, currencies, torn runs: else the comparison above says little."""
    assert {CLUSTER} == {row[0] for f in fleets for row in f.world.store.sql("select cluster from device")}
    assert {H100, A100} <= {row[0] for f in fleets for row in f.world.store.sql("select model from device")}
    assert {"p", "q"} <= {row[0] for f in fleets for row in f.world.store.sql("select pool from device")}
    assert any(f.world.store.sql("select 1 from device where gi > 0") for f in fleets)
    assert any(f.world.store.sql("select 1 from run where ended and state = 'PREEMPTED'") for f in fleets)
