"""GET /queues and /workloads: pages, filters, and that a team's token sees its own."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from gpuwatch.api.routes.capacity.queues import Queue, Workload
from gpuwatch.core.model import Records
from gpuwatch.core.queue_model import QUEUE, WORKLOAD
from tests.worlds.api import BLUE, BLUE_WORDS, NOW_US, RED, Api


@pytest.fixture(scope="module")
def queued(filled: Api) -> Iterator[Api]:
    """Two teams' week, and a queue with a waiting gang of each."""
    rows, gangs = [], []
    for team in (RED, BLUE):
        name = f"{team['team']}queue"
        shared = {"cluster": "c1", "scheduler": "kueue", "namespace": team["namespace"], "observed_us": NOW_US - 1}
        rows.append(shared | {"kind": "local_queue", "name": name, "parent": "cq", "used": '{"":1}'})
        rows.append(shared | {"kind": "user", "name": team["user"], "parent": "root"})
        gangs.append(
            shared
            | {
                "kind": "Workload", "uid": f"{team['team']}-1", "name": f"{team['team']}gang", "queue": name,
                "state": "pending", "reason": "WaitingForQuota", "device_count": 4, "submit_us": NOW_US - 60_000_000,
                "user_name": team["user"],
            }
        )  # fmt: skip
    rows.append(
        {
            "cluster": "c1", "scheduler": "kueue", "kind": "cluster_queue", "name": "cq", "observed_us": NOW_US - 1,
            "detail": '{"namespace_selector":{"matchLabels":{"team":"blue"}}}',
        }
    )  # fmt: skip
    store = filled.service.store
    with store.transaction():
        for table, schema, listed in (("queue", QUEUE, rows), ("workload", WORKLOAD, gangs)):
            full = [{name: row.get(name) for name in schema.names} for row in listed]
            store.append(Records(table, pa.Table.from_pylist(full, schema=schema)))
    yield filled
    with store.transaction():
        store.sql("delete from queue")
        store.sql("delete from workload")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("queues", {"redqueue", "bluequeue", "cq", "ursula", "boris"}),
        ("workloads", {"redgang", "bluegang"}),
        ("workloads?queue=redqueue", {"redgang"}),
        ("workloads?state=running", set()),
        ("workloads?team=blue", {"bluegang"}),
        ("workloads?cluster=c2", set()),
        ("queues?cluster=c2", set()),
    ],
)
def test_an_admin_sees_all(queued: Api, path: str, names: set[str]) -> None:
    answer = queued.get(f"/api/v1/{path}", token=queued.service.local_secret)

    assert 200 == answer.status_code
    assert names == {item["name"] for item in answer.json()["items"]}


def test_answers_have_the_shape_that_is_described(queued: Api) -> None:
    secret = queued.service.local_secret
    for path, shape in (("queues", Queue), ("workloads", Workload)):
        for item in queued.get(f"/api/v1/{path}", token=secret).json()["items"]:
            shape.model_validate(item)


def test_a_team_sees_its_own(queued: Api) -> None:
    token = queued.token("read", "red")
    queues, workloads = (queued.get(f"/api/v1/{path}", token=token) for path in ("queues", "workloads"))

    assert ["redqueue"] == [item["name"] for item in queues.json()["items"]]
    assert [("redgang", "red", 60.0)] == [
        (item["name"], item["team"], item["wait_seconds"]) for item in workloads.json()["items"]
    ]
    assert [] == [word for word in BLUE_WORDS if word in (queues.text + workloads.text).lower()]


@pytest.mark.parametrize("query", ["", "team=blue", "team=red,blue", "queue=bluequeue", "state=pending"])
@pytest.mark.parametrize("path", ["queues", "workloads"])
def test_no_question_shows_another_team(queued: Api, path: str, query: str) -> None:
    token = queued.token("read", "red")
    answer = queued.get(f"/api/v1/{path}?{query}", token=token)
    asked = query if answer.status_code >= 400 else ""

    assert [] == [word for word in BLUE_WORDS if word in answer.text.lower() and word not in asked]


@pytest.mark.parametrize("path", ["queues", "workloads"])
def test_pages_are_the_whole(queued: Api, path: str) -> None:
    secret = queued.service.local_secret
    whole = queued.get(f"/api/v1/{path}", token=secret).json()["items"]
    paged, following = [], ""
    for _ in whole:
        answer = queued.get(f"/api/v1/{path}?limit=1&cursor={following}", token=secret).json()
        paged += answer["items"]
        following = answer["next"] or ""

    assert whole == paged
    assert "" == following


@pytest.mark.parametrize(
    ("path", "field"),
    [
        pytest.param("queues?limit=0", "limit", id="a page of nothing"),
        pytest.param("workloads?cursor=xyz", "cursor", id="a cursor of somebody else"),
        pytest.param("queues?queue=a", "queue", id="a parameter of the other route"),
    ],
)
def test_errors_name_the_field(queued: Api, path: str, field: str) -> None:
    answer = queued.get(f"/api/v1/{path}", token=queued.service.local_secret)

    assert (400, field) == (answer.status_code, answer.json()["error"]["field"])


@pytest.mark.parametrize("path", ["queues", "workloads"])
def test_a_token_that_only_sends_reads_nothing(queued: Api, path: str) -> None:
    assert 403 == queued.get(f"/api/v1/{path}", token=queued.token("ingest")).status_code
