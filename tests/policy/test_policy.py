"""Policy documents: what is read, every mistake that is named, and what holds on a day."""

from __future__ import annotations

import json
import re
import tomllib
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing import policy_document
from gpuwatch.core.clock import DAY_US, parse_rfc3339
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.policy.line_numbers import line_of, lines
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.parse import parse, read
from gpuwatch.policy.policy import DEFAULT, Policies, as_dict, methods_of
from gpuwatch.policy.repository import load_policies, replace_team_rules, share_methods, stored_policies
from gpuwatch.policy.values import Known, PolicyError
from gpuwatch.rates.presets import SPLITS, split_node
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.steady import steady
from tests.worlds.world import HOUR, Gpu, World, minutes, samples, us

PAGE = Path(__file__).parents[2] / "docs" / "charge-back" / "policies.md"
KNOWN = Known(frozenset(("a", "b")), (("c1", "batch", "NVIDIA H100 80GB HBM3"),), frozenset(("USD",)))
HEAD = {"name": "p", "valid_from": "2026-11-01"}
COST = {"name": "net", "amount": "5", "per": "day", "currency": "USD", "split": "even"}

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a field that is not known": ({"basys": "used"}, "policies.0.basys: is not known"),
    "a day that does not begin at midnight": ({"valid_from": "2026-11-01T01:00:00Z"}, "is no UTC midnight"),
    "a day before all prices": ({"valid_from": "0001-01-01"}, "valid_from: 0001-01-01 is before 1970-01-01"),
    "an end before the begin": ({"valid_to": "2026-11-01"}, "valid_to: is not after valid_from"),
    "a basis that is not known": ({"basis": "spent"}, "'spent' is not known"),
    "weights that do not add up to 1": ({"basis": {"used": "0.5"}}, "weights add up to 0.5"),
    "a weight of five decimals": ({"basis": {"used": "0.50000"}}, "is no plain decimal number"),
    "a cost that nobody knows": ({"payers": {"rent": "even"}}, "payers.rent: is not known"),
    "a payer that nobody knows": ({"payers": {"idle": "me"}}, "payers.idle: names no payer"),
    "idle GPUs have no owner": ({"payers": {"idle": "owner"}}, "nobody held it"),
    "no record says who caused it": ({"payers": {"stranded": "cause"}}, "no record says who caused it"),
    "a broken GPU is kept for nobody": ({"payers": {"out_of_service": "quota_holder"}}, "kept for nobody"),
    "unused time paid by its owner is another basis": ({"payers": {"unused": "owner"}}, "set basis instead"),
    "lost work has no even split": ({"payers": {"lost_work": "even"}}, "only owner (who ran it), platform or cause"),
    "the platform has no scope": ({"payers": {"idle": {"payer": "platform", "scope": []}}}, "has no scope"),
    "a quota holder without quotas": ({"payers": {"idle": "quota_holder"}}, "quotas: is empty"),
    "a team that nothing matches": ({"quotas": [{"team": "c", "gpus": "1"}]}, "has the team 'c'"),
    "a model that the fleet lacks": ({"quotas": [{"team": "a", "gpus": "1", "gpu_model": "B200"}]}, "no GPU of the"),
    "a negative quota": ({"quotas": [{"team": "a", "gpus": "-1"}]}, "quotas.0.gpus: is negative"),
    "a negative factor": ({"discounts": [{"qos": "low", "factor": "-0.5"}]}, "discounts.0.factor: is negative"),
    "a factor above 1": ({"discounts": [{"qos": "low", "factor": "1.5"}]}, "is above 1"),
    "a discount of two things": ({"discounts": [{"qos": "l", "queue": "q", "factor": "1"}]}, "one thing to match"),
    "an increment of two days": ({"minimum_billing_seconds": 172800}, "from 0 to 86400"),
    "a share method that nobody knows": ({"mig_share_method": "fair"}, "'fair' is not known"),
    "a currency without an exchange rate": ({"shared": [COST | {"currency": "CHF"}]}, "neither a price's nor"),
    "a shared cost that is negative": ({"shared": [COST | {"amount": "-5"}]}, "shared.0.amount: is negative"),
    "percentages that do not sum to 100": (
        {"shared": [COST | {"split": "fixed", "percentages": {"a": "60", "b": "39.9999"}}]},
        "add up to 99.9999",
    ),
    "one team in two spellings": (
        {"shared": [COST | {"split": "fixed", "percentages": {"a": "60", " a": "40"}}]},
        "percentages: names a team twice",
    ),
    "a shared cost named as one of the fleet": ({"shared": [COST | {"name": "idle"}]}, "is a cost of the fleet"),
    "a shared cost that no sum could hold": (
        {"shared": [COST | {"amount": "1" + "0" * 10}]},
        "no plain decimal number",
    ),
    "a quota beyond all fleets": ({"quotas": [{"team": "a", "gpus": "99999999"}]}, "at most 7 digits"),
    "a number with an exponent": ({"discounts": [{"qos": "low", "factor": Decimal("1e400")}]}, "a number that long"),
    "a number that is none": ({"discounts": [{"qos": "low", "factor": Decimal("NaN")}]}, "no plain decimal number"),
    "two shared costs of one name": ({"shared": [COST, COST]}, "shared.1.name: is that of shared.0"),
    "the platform is no team": ({"shared": [COST | {"teams": ["__platform__"]}]}, "is a name of the ledger"),
}


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_a_wrong_document_is_refused(case: str) -> None:
    fields, what = WRONG[case]

    with pytest.raises(PolicyError, match=re.escape(what)):
        parse({"policies": [HEAD | fields]}, KNOWN)


def test_every_mistake_is_named_at_once_and_nothing_is_applied() -> None:
    state = State.open("sqlite://")
    text = json.dumps({"policies": [HEAD | {"basis": "x", "quotas": [{"team": "c"}]}, HEAD, {"name": ""}]})

    with pytest.raises(PolicyError) as raised:
        policy_document.replace(Store.open(None), state, text, "p.json", "test", 1)
    named = [problem.path for problem in raised.value.problems]
    expected = ["policies.0.basis", "policies.0.quotas.0.team", "policies.0.quotas.0.gpus"]
    assert [*expected, "policies.2.valid_from", "policies.2.name"] == named
    assert ((), 0) == (load_policies(state).items, load_policies(state).version)


def test_a_mistake_in_toml_has_its_line() -> None:
    text = """
        [[policies]]
        name = "p"
        valid_from = 2026-11-01
        basis = { allocated = 0.5, "used" = 0.4 }
        [policies.payers]
        idle = "me"

        [[policies]]
        name = "q"
        [[policies.quotas]]
        team = "a"
        gpus = 1
        [[policies.quotas]]
        team = "a"
        'gpus' = -1
        [[policies.discounts]]
        "label:tier" = "x"
        factor = 2
        """
    with pytest.raises(PolicyError, match=r"^p.toml: nothing was changed: line 5: policies.0.basis: weights") as raised:
        read(text, "p.toml")

    assert [
        (5, "policies.0.basis"),
        (7, "policies.0.payers.idle"),
        (9, "policies.1.valid_from"),
        (16, "policies.1.quotas.1.gpus"),
        (19, "policies.1.discounts.0.factor"),
    ] == [(problem.line, problem.path) for problem in raised.value.problems]


def test_a_mistake_in_json_has_its_path() -> None:
    with pytest.raises(PolicyError) as raised:
        read(json.dumps({"policies": [HEAD | {"basis": "x"}]}), "p.json")

    assert [(None, "policies.0.basis")] == [(problem.line, problem.path) for problem in raised.value.problems]
    assert 3 == line_of(lines("a = 1\n\npolicies = [{}]"), "policies.7.name")


@pytest.mark.parametrize("text", ["{", "a = ", "\udcff".encode("utf-8", "surrogatepass"), "[" * 10_000], ids=repr)
def test_what_is_neither_toml_nor_json_is_unreadable(text: Any) -> None:
    with pytest.raises(UnreadableInput, match="neither TOML nor JSON"):
        read(text, "x")


def test_policies_that_hold_at_once_are_refused() -> None:
    rows = [HEAD | {"valid_to": "2026-11-03"}, HEAD | {"name": "q", "valid_from": "2026-11-02"}]
    with pytest.raises(PolicyError, match="'p' and 'q' hold at once on 2026-11-02"):
        parse({"policies": rows})


def test_a_day_has_the_policy_that_began_last_until_its_end() -> None:
    rows = [HEAD | {"valid_to": "2026-11-03"}, HEAD | {"name": "q", "valid_from": "2026-11-05", "preset": "share-idle"}]
    found = Policies(parse({"policies": rows}))
    first = parse_rfc3339("2026-10-31")

    names = [found.at(first + n * DAY_US).name for n in range(7)]
    assert ["default", "p", "p", "default", "default", "q", "q"] == names
    assert (True, False) == (found.plain(first, first + 5 * DAY_US), found.plain(first, first + 5 * DAY_US + 1))
    assert DEFAULT.plain


def test_the_share_method_of_slices_changes_with_the_policy() -> None:
    rows = [
        HEAD | {"mig_share_method": "compute", "valid_to": "2026-11-03"},
        HEAD | {"name": "q", "valid_from": "2026-11-05", "mig_share_method": "memory"},
    ]
    at = [parse_rfc3339(f"2026-11-0{n}") for n in (1, 3, 5)]

    assert list(zip(at, ("compute", "dominant", "memory"), strict=True)) == methods_of(parse({"policies": rows}))
    assert [] == methods_of(parse({"policies": [HEAD]})) == share_methods(State.open("sqlite://"))


def test_a_policy_says_dominant_where_the_setting_says_otherwise() -> None:
    rows = [
        HEAD | {"mig_share_method": "dominant", "valid_to": "2026-11-03"},
        HEAD | {"name": "q", "valid_from": "2026-11-05"},
    ]
    first, second = (parse_rfc3339(f"2026-11-0{n}") for n in (1, 3))
    policies = parse({"policies": rows})

    assert [] == methods_of(policies)
    assert [(first, "dominant"), (second, "memory")] == methods_of(policies, "memory")
    assert "mig_share_method" not in as_dict(policies[1])


def test_analysis_takes_the_setting_where_no_policy_says_a_share_method() -> None:
    """A seventh of the GPU by compute, an eighth by memory; the policy's days are from the second to the third."""
    state, slice_ = State.open("sqlite://"), Gpu(gi=1, profile="1g.10gb")
    world = World(Settings(default_interval_s=1800, mig_share_method="memory"))
    world.add(samples(slice_, minutes(0, 72 * HOUR, 1800)))
    record = {"name": "p", "valid_from": "2026-11-03", "valid_to": "2026-11-04", "mig_share_method": "dominant"}
    policy_document.replace(world.store, state, json.dumps({"policies": [record]}), "p.json", "ann", 0)
    analyze(world.store, state, world.settings, now_us=us(72 * HOUR))

    found = world.store.sql(
        """select start_us, end_us, method, share_num, share_den from segment join device using (device_id)
        where gi = 1 order by 1"""
    )
    shares = [(method, Fraction(num, den)) for *_, method, num, den in found]
    assert [("memory", Fraction(1, 8)), ("dominant", Fraction(1, 7)), ("memory", Fraction(1, 8))] == shares
    assert [us(24 * HOUR), us(48 * HOUR)] == [row[0] for row in found[1:]]


def test_a_card_keeps_what_was_set_and_each_version() -> None:
    state, store = State.open("sqlite://"), Store.open(None)
    replace_team_rules(state, [TeamRule("account", "x", "a")], "test", "test", 0)
    full = HEAD | {
        "basis": {"allocated": "0.25", "effective": "0.75"},
        "payers": {"idle": {"payer": "even", "scope": ["pool"]}, "stranded": "quota_holder"},
        "quotas": [{"team": "a", "gpus": "2.5", "pool": "batch"}],
        "discounts": [{"label:tier": "spot*", "factor": "0.3"}, {"preemptible": True, "factor": "0.5"}],
        "checkpoint_minutes": 30,
    }
    for n in range(2):
        done = policy_document.replace(store, state, json.dumps({"policies": [full]}), "p.json", "ann", n)
        assert {"changed": n == 0, "version": 1, "rows": 1} == done

    (item,) = load_policies(state).items
    assert (item,) == parse({"policies": [as_dict(item)]})
    result = policy_document.answer(state, parse_rfc3339("2026-12-01"))
    assert ("p", 1, "ann") == (result["in_force"], result["version"], result["history"][0]["by"])


ODD = st.sampled_from(
    (
        None,
        True,
        0,
        -1,
        2**63,
        1.5,
        Decimal("NaN"),
        Decimal("1e400"),
        Decimal("0.0001"),
        "",
        " a",
        "a",
        "\x00",
        "x" * 300,
    )
    + ("1", "0.5", "-1", "1e5", "١", "1_0", "2026-11-01", "0001-01-01", "9999-12-31", [], ["a"], [{}], {}, {"a": 1})
    + ("even", "proportional", "used", "USD", "day", "fixed", "share-idle", "__platform__", {"used": 1, "allocated": 0})
    + ({"a": "100"}, {"a": "50", "a ": "50"}, {"payer": "even", "scope": ["pool", "pool"]}, {"payer": []})
)
"""What may stand anywhere in a document."""
FIELDS = st.sampled_from(
    ("name", "valid_from", "valid_to", "preset", "basis", "payers", "quotas", "discounts", "minimum_billing_seconds")
    + ("checkpoint_minutes", "mig_share_method", "shared", "payers.idle", "payers.unused", "payers.lost_work")
    + ("quotas.team", "quotas.gpus", "quotas.pool", "discounts.qos", "discounts.label:a", "discounts.factor")
    + ("shared.name", "shared.amount", "shared.split", "shared.teams", "shared.percentages")
)
WHOLE = {"quotas": {"team": "a", "gpus": "1"}, "discounts": {"qos": "x", "factor": "0.5"}, "shared": COST, "payers": {}}


@settings(steady, max_examples=300)
@given(st.dictionaries(FIELDS, ODD, max_size=3))
def test_whatever_is_accepted_is_read_again_as_it_was(changes: dict[str, Any]) -> None:
    """A card that could not be read again would stop every charge."""
    row: dict[str, Any] = dict(HEAD)
    for place, value in changes.items():
        name, _, inner = place.partition(".")
        one = WHOLE.get(name, {}) | {inner: value}
        row[name] = value if not inner else one if name == "payers" else [one]
    try:
        found = parse({"policies": [row]})
    except PolicyError as error:
        assert str(error).encode()
        return

    assert found == stored_policies(json.loads(json.dumps([as_dict(item) for item in found], ensure_ascii=False)))


def test_the_examples_of_the_page_are_documents() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)

    assert blocks
    for block in blocks:
        assert parse(tomllib.loads(block, parse_float=Decimal))


# Splits of a node's price.


def test_published_splits_of_a_node() -> None:
    """peers.md 3.1 and 3.7: OpenCost's specification splits 35 at 30/30/10 into 15, 15 and 5."""
    base = (Decimal(30), Decimal(10), Decimal(30))

    opencost = split_node("opencost-ratio", Decimal(35), 1, 1, 1, base)
    assert (15, 15, 5) == (opencost.gpu, opencost.cpu, opencost.ram)
    aws = split_node("aws-scad", Decimal(10), 1, 1, 1)
    assert (Decimal(9), Decimal("0.9"), Decimal("0.1")) == (aws.gpu, aws.cpu, aws.ram)
    datadog = split_node("datadog-ccm", Decimal(100), 192, 2048, 8)
    assert (95, 3, 2) == (datadog.gpu, datadog.cpu, datadog.ram)
    assert Decimal("12.5") == split_node("gpu-only", Decimal(100), 192, 2048, 8).gpu_hour(8)


@steady
@given(
    st.sampled_from(SPLITS),
    st.decimals(0, 1000, places=6),
    st.integers(0, 400),
    st.integers(1, 4096),
    st.integers(1, 16),
)
def test_the_parts_are_the_price(preset: str, price: Decimal, vcpus: int, gib: int, gpus: int) -> None:
    parts = split_node(preset, price, vcpus, gib, gpus)

    assert price == parts.gpu + parts.cpu + parts.ram
    assert min(parts.gpu, parts.cpu, parts.ram) >= 0


@pytest.mark.parametrize(
    "arguments",
    [("aws", 1, 1, 1, 1), ("aws-scad", -1, 1, 1, 1), ("gpu-only", 1, 1, 1, 0), ("aws-scad", 1, 0, 0, 0)],
    ids=["no such preset", "a negative price", "no GPU", "an empty node"],
)
def test_a_node_that_cannot_be_split(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError, match="price split"):
        split_node(arguments[0], Decimal(arguments[1]), *arguments[2:])
