"""Charges under policies: what a policy moves comes from somewhere, and windows, filters and order change nothing."""

from __future__ import annotations

import random
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch import charges, cost, policy
from gpuwatch.clock import DAY_US, Window
from gpuwatch.money import fraction_to_decimal
from gpuwatch.policy import DEFAULT, Policies, Policy
from gpuwatch.policy_parse import parse
from gpuwatch.rates import Rate
from gpuwatch.state import State
from tests.test_cost_days import DAY, drawn, rules, stated
from tests.test_ledger_properties import seeds, steady
from tests.world import H100, HOUR, IDLE, T0_US, Gpu, World, claim, minutes, node, samples, us

A100 = "NVIDIA A100-SXM4-80GB"
PICO = Decimal("0.000000000001")


def made(**fields: Any) -> Policies:
    """One policy from the first day on, with these fields of a document."""
    return Policies(parse({"policies": [{"name": "p", "valid_from": "1970-01-01"} | fields]}))


def bill(world: World, state: State, rules: Policies | None, window: Window, *by: str, **more: Any) -> dict[Any, Any]:
    """(words, kind, cause) -> published cost of a window."""
    answer = cost.chargeback(world.store, state, window, by or ("team",), policy=rules, **more)
    return {(*c.group.values(), c.kind, c.cause): c.cost for c in answer.items}


def two_teams() -> tuple[World, State, Window]:
    """A day of four H100 at 1 USD: a holds one busy for 6 h, b one idle for 12 h; and an A100 that nobody holds."""
    gpus = [Gpu(f"GPU-{n}", index=n) for n in range(3)] + [Gpu("GPU-x", "n2", model=A100)]
    rows = [samples(gpus[0], minutes(0, 24 * HOUR, 600)), samples(gpus[2], minutes(0, 24 * HOUR, 600), IDLE)]
    rows += [samples(gpus[1], minutes(0, 24 * HOUR, 600), IDLE), samples(gpus[3], minutes(0, 24 * HOUR, 600), IDLE)]
    world = World().add(
        *rows,
        claim("1", 0, 6 * HOUR, account="acct-a", gpus="GPU-0", user_name="ann", qos="low", state="PREEMPTED"),
        claim("2", 0, 12 * HOUR, account="acct-b", gpus="GPU-1", user_name="bob", state="COMPLETED"),
    )
    state = stated(world.book(), [Rate("*", "owned", Decimal(1), us(-DAY))], rules("a", "b"))
    return world, state, Window(us(0), us(DAY))
