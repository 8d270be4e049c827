"""Severity by money a day, and the read side of findings."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.core.clock import DAY_US, HOUR_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.findings import read as findings_read
from gpuwatch.findings import selection, texts
from gpuwatch.rates.repository import replace_rates
from gpuwatch.store.database import Store
from tests.worlds.facts import fleet_of_three
from tests.worlds.world import H100, T0_US


def forged(text: str) -> str:
    """A text as cursors carry it."""
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("cost", "elapsed_us", "expected"),
    [
        pytest.param(None, DAY_US, "low", id="no price is not harmless"),
        pytest.param(Fraction(0), DAY_US, "info", id="nothing wasted"),
        pytest.param(Fraction(999, 100), DAY_US, "info", id="just below ten a day"),
        pytest.param(Fraction(10), DAY_US, "low", id="ten a day"),
        pytest.param(Fraction(100), DAY_US, "medium", id="a hundred a day"),
        pytest.param(Fraction(1000), DAY_US, "high", id="a thousand a day"),
        pytest.param(Fraction(1), HOUR_US // 60, "low", id="a minute counts as an hour"),
    ],
)
def test_severity_is_money_a_day(cost: Fraction | None, elapsed_us: int, expected: str) -> None:
    assert expected == texts.severity_of(cost, elapsed_us)


def test_an_empty_store_has_no_findings() -> None:
    with Store.open(None, threads=1) as store:
        assert [] == findings_read.read(store)


def test_an_unknown_detector_is_named() -> None:
    with Store.open(None, threads=1) as store, pytest.raises(UsageError, match="no-such-rule"):
        findings_read.read(store, detectors=["no-such-rule"])


@dataclass(frozen=True)
class OwnerAction:
    """An action as findings read it."""

    action: str
    until_us: int | None = None


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """The findings of three jobs: 1 idles (search), 2 was hollow and idles now (vision)."""
    world, _ = fleet_of_three()
    yield world.store
    world.store.close()


def summaries(found: Iterable[findings_read.Finding]) -> list[tuple[str, str | None, str]]:
    """Job, rule and state."""
    return [(f.subject["id"] or "", f.detector, f.state) for f in found]  # type: ignore[misc]


IDLE_1 = ("1", "idle-hoarding", "open")
IDLE_2 = ("2", "idle-hoarding", "open")
HOLLOW_2 = ("2", "false-utilization", "resolved")


def key_of(store: Store, job: str, detector: str) -> str:
    return next(f.key for f in findings_read.read(store) if (f.subject["id"], f.detector) == (job, detector))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({"teams": []}, [], id="no team sees nothing"),
        pytest.param({"teams": ["__platform__"]}, [], id="what nobody held has no findings"),
        pytest.param({"team": "search", "teams": ["vision"]}, [], id="a team outside the others is not seen"),
        pytest.param({"cluster": "c2"}, [], id="another cluster"),
        pytest.param({"pool": "elsewhere"}, [], id="another pool"),
        pytest.param({"pool": H100, "job": "1"}, [IDLE_1], id="a pool, which is the model where there is none"),
        pytest.param({"severities": ["high", "medium"]}, [], id="none is that grave"),
        pytest.param({"q": "no such word"}, [], id="a word that is nowhere"),
        pytest.param({"q": "%"}, [HOLLOW_2], id="a search is text and no pattern"),
        pytest.param({"window": Window(T0_US - 2, T0_US)}, [], id="a window before all of them"),
        pytest.param({"keys": []}, [], id="no key asked for"),
        pytest.param({}, [IDLE_1, IDLE_2, HOLLOW_2], id="all, most expensive first"),
        pytest.param({"team": "search"}, [IDLE_1], id="one team"),
        pytest.param({"teams": ["vision", "search"]}, [IDLE_1, IDLE_2, HOLLOW_2], id="several teams"),
        pytest.param({"open_only": True}, [IDLE_1, IDLE_2], id="without the resolved"),
        pytest.param({"states": ["resolved"]}, [HOLLOW_2], id="the resolved only"),
        pytest.param({"detectors": ["false-utilization"]}, [HOLLOW_2], id="one rule"),
        pytest.param({"job": "2"}, [IDLE_2, HOLLOW_2], id="one job"),
        pytest.param({"severities": ["low"]}, [IDLE_1, IDLE_2, HOLLOW_2], id="each costs ten to a hundred a day"),
        pytest.param({"sort": "started"}, [IDLE_2, HOLLOW_2, IDLE_1], id="the newest first"),
        pytest.param({"sort": "severity"}, [IDLE_1, IDLE_2, HOLLOW_2], id="same severity: most expensive first"),
        pytest.param(
            {"window": Window(T0_US + HOUR_US, T0_US + 2 * HOUR_US)},
            [IDLE_1, IDLE_2],
            id="one ended as the window began",
        ),
        pytest.param({"q": "NOTEBOOK"}, [IDLE_1], id="a name in any case"),
        pytest.param({"q": "bob"}, [IDLE_2, HOLLOW_2], id="a user"),
        pytest.param({"q": "sear"}, [IDLE_1], id="a part of a team"),
        pytest.param({"q": "n1"}, [IDLE_1, IDLE_2, HOLLOW_2], id="a node"),
        pytest.param({"q": "mostly idle sms"}, [HOLLOW_2], id="a title"),
        pytest.param({"q": "longest 1 h"}, [IDLE_2], id="a summary"),
    ],
)
def test_findings_are_picked_and_ordered(
    store: Store, asked: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    assert expected == summaries(findings_read.read(store, **asked))


@pytest.mark.parametrize("sort", selection.SORTS)
def test_pages_join_to_the_whole(store: Store, sort: str) -> None:
    whole = findings_read.read(store, sort=sort)
    pages, cursor = [], None
    for _ in range(len(whole)):
        page = findings_read.page(store, sort=sort, limit=1, cursor=cursor)
        pages += page.items
        cursor = page.next

    assert cursor is None
    assert [f.key for f in whole] == [f.key for f in pages]


def test_a_page_that_holds_all_has_no_next(store: Store) -> None:
    assert findings_read.page(store, limit=3).next is None


def test_an_owner_changes_the_state_of_what_is_open(store: Store) -> None:
    actions = {
        key_of(store, "1", "idle-hoarding"): OwnerAction("ack"),
        key_of(store, "2", "idle-hoarding"): OwnerAction("snooze"),
        key_of(store, "2", "false-utilization"): OwnerAction("exempt"),
    }
    acked, snoozed = ("1", "idle-hoarding", "acked"), ("2", "idle-hoarding", "snoozed")

    assert [acked, snoozed, HOLLOW_2] == summaries(findings_read.read(store, actions=actions))
    assert [] == summaries(findings_read.read(store, actions=actions, states=["open"]))
    assert [acked] == summaries(findings_read.read(store, actions=actions, states=["acked"]))
    assert [acked, snoozed] == summaries(findings_read.read(store, actions=actions, open_only=True))


def test_an_action_on_another_finding_changes_nothing(store: Store) -> None:
    assert [IDLE_1, IDLE_2, HOLLOW_2] == summaries(
        findings_read.read(store, actions={"no-such-key": OwnerAction("ack")})
    )


def test_one_finding_is_read_by_its_team_only(store: Store) -> None:
    key = key_of(store, "1", "idle-hoarding")

    assert findings_read.read_one(store, "no-such-key") is None
    assert findings_read.read_one(store, key, teams=["vision"]) is None
    assert [IDLE_1] == summaries([f for f in [findings_read.read_one(store, key, teams=["search"])] if f is not None])


def test_money_follows_a_price_that_changes(store: Store) -> None:
    """An idle GPU cost 2 dollars in the first hour, of which a minute is free, and 4 in the second."""
    finding = findings_read.read(store, team="search")[0]

    assert ("7140.000000", "5.97", "USD") == (finding.wasted_gpu_seconds, finding.wasted_cost, finding.currency)


def test_the_rank_is_the_cost(store: Store) -> None:
    page = findings_read.page(store, limit=1)

    assert page.next is not None
    assert 5.966667 == selection.read_cursor(page.next)[0]


def test_no_rate_is_no_cost_and_comes_last() -> None:
    world, state = fleet_of_three()
    with world.store:
        replace_rates(state, [], "test", "rates.csv", T0_US + 1)
        chargeback.price_all(world.store, state)
        found = findings_read.read(world.store)

        assert [None, None, None] == [f.wasted_cost for f in found]
        assert ["low"] * 3 == [f.severity for f in found]
        assert 3 == len(findings_read.read(world.store, severities=["low"]))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param({"sort": "colour"}, "colour", id="a sort"),
        pytest.param({"states": ["odd"]}, "odd", id="a state"),
        pytest.param({"severities": ["dire"]}, "dire", id="a severity"),
        pytest.param({"cursor": "%%%"}, "cursor", id="a cursor that is no text of ours"),
        pytest.param({"cursor": "WzEsMl0"}, "cursor", id="a cursor that is short"),
        pytest.param({"cursor": forged("[" * 1400)}, "cursor", id="a cursor that is nested deeply"),
        pytest.param({"cursor": forged(f'[1{"0" * 400},1,"x"]')}, "cursor", id="a cursor whose number is too large"),
        pytest.param({"cursor": forged('[1,2,"\\ud800"]')}, "cursor", id="a cursor whose name is no text"),
        pytest.param({"cursor": forged('[NaN,2,"x"]')}, "cursor", id="a cursor that is not a number"),
    ],
)
def test_an_unknown_name_is_reported(store: Store, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        findings_read.page(store, **asked)
