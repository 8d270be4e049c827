"""What teams pay for shares of a GPU, inside pods and with runs inside them: cents computed by hand."""

from __future__ import annotations

from decimal import Decimal

from gpuwatch.billing import chargeback
from gpuwatch.collectors.slurm.shares import SHARES_LABEL
from gpuwatch.core.clock import Window
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from tests.ledger.test_nesting import ray, seen
from tests.worlds.templates import computed_once
from tests.worlds.world import H100, HOUR, Gpu, World, claim, node, pod, us

WINDOW = Window(us(0), us(HOUR))
PRICE = Decimal("3.60")
"""A tenth of a cent a second."""


def sharded(job: str, start: int, end: int, name: str, number: int, team: str) -> dict[str, object]:
    labels = f'{{"{SHARES_LABEL}":{number}}}'
    return claim(
        job, start, end, name, device_indexes="0", labels=labels, account=f"acct-{team}", user_name=f"u-{team}"
    )


@computed_once
def fleet() -> tuple[World, State]:
    """A Slinky pod with one GPU of four shards, and a Slurm node with one GPU of 100 MPS shares; Ray in a job of each."""
    slinky, mps = Gpu("GPU-s", "k1"), Gpu("GPU-m", "n1")
    world = World().add(
        seen(slinky),
        node("k1", {"": 1}, scheduler="kubernetes"),
        node("slinky-0", {"": 1}, at=0, sharing="time-slicing", replicas=4),
        pod("slinky-0", "u1", 0, HOUR, "k1", gpus="GPU-s", labels='{"nodeset.slinky.slurm.net/pod-name":"slinky-0"}'),
        sharded("a", 0, 1800, "slinky-0", 1, "a"),
        sharded("b", 600, 3000, "slinky-0", 3, "b"),
        ray("inside", "r1", 1200, 2400, node="slinky-0"),
        seen(mps),
        node("n1", {"": 1}, sharing="mps", replicas=100),
        sharded("m", 0, HOUR, "n1", 30, "m"),
        ray("half", "r2", 1800, HOUR, node="n1", size=0.5),
    )
    world.book()
    state = State.open("sqlite://")
    replace_rates(state, [Rate(H100, "owned", PRICE, us(0) - 10**12)], "test", "test", 0)
    rules = [TeamRule("account", f"acct-{team}", team) for team in ("a", "b", "m")]
    replace_team_rules(state, [*rules, TeamRule("namespace", "lab", "cloud")], "test", "test", 0)
    chargeback.price_all(world.store, state)
    return world, state


def cents(*by: str) -> dict[str, Decimal]:
    world, state = fleet()
    bill = chargeback.chargeback(world.store, state, WINDOW, by)
    return {charge.group[by[0]] or charge.kind: charge.cost or Decimal(0) for charge in bill.items}


def test_teams_pay_their_shares_to_the_cent_and_all_of_them_pay_the_gpus() -> None:
    """Slinky: a 600 s alone and a quarter of 1,200; b three quarters of those and 1,200 alone; the pod the last 600 s.
    MPS: 30 of 100 shares for an hour, and the platform the other 70."""
    expected = {"a": "0.90", "b": "2.10", "cloud": "0.60", "m": "1.08", "__platform__": "2.52"}
    assert {team: Decimal(amount) for team, amount in expected.items()} == cents("team")
    assert 2 * PRICE == sum(cents("team").values())


def test_a_job_and_the_ray_job_in_it_divide_what_the_job_pays() -> None:
    found = cents("job")

    assert Decimal("1.05") == found["b"]  # three quarters of 600 s, and 600 s alone
    assert Decimal("1.05") == found["inside"]  # the same: three quarters of 600 s, and 600 s
    assert (Decimal("0.81"), Decimal("0.27")) == (found["m"], found["half"])
    assert 2 * PRICE == sum(found.values())
