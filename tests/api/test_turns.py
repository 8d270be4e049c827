"""Callers take turns: none waits for another's queue, and every queue has an end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import httpx
import pytest

from gpuwatch.api import turns as module
from gpuwatch.api.errors import ApiError
from gpuwatch.api.turns import Turns
from tests.worlds.api import Api


def turns(capacity: int, each: int = 99, wait_s: float = 60.0) -> Turns:
    return Turns(capacity, lambda: each, lambda: "the limit", wait_s)


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(main)


async def begun(of: Turns, *asked: tuple[str, int]) -> tuple[list[str], list[asyncio.Task[None]]]:
    """The callers in the order in which their turns begin, and their tasks."""
    order: list[str] = []

    async def one(caller: str, weight: int) -> None:
        await of.take(caller, weight)
        order.append(caller)

    tasks = [asyncio.create_task(one(*each)) for each in asked]
    await settled()
    return order, tasks


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_callers_are_served_in_rotation() -> None:
    """A caller with a long queue does not hold up the others."""

    async def main() -> list[str]:
        of = turns(1)
        order, _ = await begun(of, *[("a", 1)] * 4, *[("b", 1)] * 2, ("c", 1))
        while len(order) < 7:
            of.give(order[-1])
            await settled()
        return order

    assert list("aabcaba") == run(main())


def test_a_caller_has_no_more_than_its_share() -> None:
    async def main() -> tuple[list[str], int]:
        of = turns(6, each=2)
        order, tasks = await begun(of, *[("a", 1)] * 5, ("b", 1))
        for task in tasks:
            task.cancel()
        return sorted(order), of.free

    assert (["a", "a", "b"], 3) == run(main())


def test_a_large_turn_is_not_overtaken_for_ever() -> None:
    """What comes after it waits too, although it would fit."""

    async def main() -> tuple[list[str], list[str]]:
        of = turns(10)
        order, _ = await begun(of, ("a", 6), ("b", 8), ("c", 1))
        first = list(order)
        of.give("a", 6)
        await settled()
        return first, order

    assert (["a"], ["a", "b", "c"]) == run(main())


def test_one_turn_above_the_share_is_given_to_a_caller_without_others() -> None:
    async def main() -> list[str]:
        return (await begun(turns(10, each=2), ("a", 8)))[0]

    assert ["a"] == run(main())


@pytest.mark.parametrize("limit", ["WAITING_MAX", "WAITING_IN_ALL_MAX"])
def test_a_full_queue_answers_429(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(module, limit, 1)

    async def main() -> ApiError:
        of = turns(1)
        _, tasks = await begun(of, ("a", 1), ("a", 1), ("a", 1))
        error = tasks[2].exception()
        assert isinstance(error, ApiError)
        tasks[1].cancel()
        return error

    refused = run(main())

    assert (429, "the limit", "2") == (refused.status_code, refused.detail, (refused.headers or {})["Retry-After"])


def test_waiting_ends_with_429_and_takes_nothing() -> None:
    async def main() -> tuple[int, int, int]:
        of = turns(1, wait_s=0.0)
        await begun(of, ("a", 1))
        with pytest.raises(ApiError) as refused:
            await of.take("b")
        of.give("a")
        return refused.value.status_code, of.free, len(of._callers)

    assert (429, 1, 0) == run(main())


def test_a_caller_that_goes_away_leaves_its_place_to_the_next() -> None:
    async def main() -> tuple[list[str], int]:
        of = turns(10)
        order, tasks = await begun(of, ("a", 6), ("b", 8), ("c", 1))
        tasks[1].cancel()
        await settled()
        return order, of.free

    assert (["a", "c"], 3) == run(main())


def asked(api: Api, *paths: str, token: str | None = None) -> list[int]:
    """The statuses of requests at once."""

    async def main() -> list[int]:
        transport = httpx.ASGITransport(api.app, raise_app_exceptions=False)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            return [each.status_code for each in await asyncio.gather(*[client.get(path) for path in paths])]

    return asyncio.run(main())


def test_more_queries_than_one_token_may_run_wait_for_their_turn(api: Api) -> None:
    """And all turns are given back, also those of queries that fail."""
    capacity = api.app.state.questions.free
    paths = ["/api/v1/fleet", "/api/v1/ledger?window=nonsense", "/api/v1/jobs"] * 10

    assert [200, 400, 200] * 10 == asked(api, *paths, token=api.token("read"))
    assert capacity == api.app.state.questions.free


def test_a_token_beyond_its_queue_is_answered_429_and_another_is_served(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, other = api.token("read"), api.token("read")
    monkeypatch.setattr(module, "WAITING_MAX", 0)

    assert 429 == api.get("/api/v1/fleet", token=text).status_code
    monkeypatch.undo()
    assert [200] == asked(api, "/api/v1/fleet", token=other)


def test_probes_need_no_turn_and_no_free_connection(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes would take the pod away, and with it the ingest of everyone."""
    monkeypatch.setattr(api.service, "_readers", None)
    monkeypatch.setattr(api.app.state, "questions", turns(0, wait_s=0.0))

    assert [429, 200, 200] == asked(api, "/api/v1/fleet", "/readyz", "/healthz")


def test_a_store_that_does_not_respond_is_not_ready(api: Api) -> None:
    api.service._probe.close()

    assert [503] == asked(api, "/readyz")
