"""The `events` receiver: what is taken, what is refused with its place, and that a repeat changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.push import events
from gpuwatch.collectors.push.event_record import NEEDED, NOT_GIVEN
from gpuwatch.collectors.push.events import Decoder
from gpuwatch.core.clock import SECOND_US, parse_rfc3339, rfc3339
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import TABLES, Records, Rejects
from gpuwatch.core.registry import make_receiver
from tests.worlds.world import CLUSTER, IDLE, T0_US, Gpu, World, minutes, samples

NOW_US = T0_US + 7200 * SECOND_US
Json = dict[str, Any]


def at(seconds: float) -> str:
    return rfc3339(T0_US + round(seconds * SECOND_US))


def decode(
    body: bytes | str | list[Json], decoder: Decoder | None = None, now_us: int = NOW_US
) -> tuple[list[Records], Rejects]:
    text = json.dumps(body) if isinstance(body, list) else body
    rejects = Rejects()
    encoded = text if isinstance(text, bytes) else text.encode()
    return (decoder or Decoder())(encoded, "application/json", CLUSTER, now_us, rejects), rejects


def rows(batches: list[Records], table: str) -> list[Json]:
    return [row for batch in batches if batch.table == table for row in batch.rows.to_pylist()]


def claim(event_id: str = "e1", **words: Any) -> Json:
    named = {"scheduler": "slurm", "job_id": "7", "node": "n1", "device_count": 1, "start": at(0)}
    return {"id": event_id, "type": "claim", **named, **words}


def pod(name: str = "a", *, running: bool = True, gpus: int = 1, end: float | None = None, **metadata: Any) -> Json:
    state: Json = {"running": {"startedAt": at(0)}}
    if end is not None:
        state = {"terminated": {"startedAt": at(0), "finishedAt": at(end)}}
    limits = {"nvidia.com/gpu": str(gpus)}
    named = {"namespace": "lab", "name": name, "uid": f"uid-{name}", "creationTimestamp": at(0)}
    status: Json = {"phase": "Succeeded" if end else "Running", "containerStatuses": [{"name": "m", "state": state}]}
    return {
        "kind": "Pod",
        "metadata": named | metadata,
        "spec": {"containers": [{"name": "m", "resources": {"limits": limits}}]}
        | ({"nodeName": "n1"} if running else {}),
        "status": status if running else {"phase": "Pending"},
    }


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b"", "is empty", id="nothing"),
        pytest.param(b" \n\n", "is empty", id="only blanks"),
        pytest.param(b"\x80\x81\x82 binary", "is not text", id="bytes that are no text"),
        pytest.param(b"hello\nworld", "neither JSON nor NDJSON", id="lines none of which is JSON"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="a tower of brackets"),
        pytest.param(b'[{"id": "a"', "neither JSON nor NDJSON", id="a list that breaks off"),
    ],
)
def test_a_body_that_says_nothing_is_unreadable(body: bytes, words: str) -> None:
    with pytest.raises(UnreadableInput, match=words):
        decode(body)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        pytest.param({"a": 1}, "neither a Kubernetes object", id="no kind and no type"),
        pytest.param(claim(id=7), "id is missing", id="an id that is no text"),
        pytest.param(claim(job_id=None), "job_id is missing", id="no job"),
        pytest.param(claim(nodename="n1"), "nodename is not a field", id="a misspelt field"),
        pytest.param(claim(start="yesterday"), "start is not an RFC 3339 time", id="a time in words"),
        pytest.param(claim(start_us=T0_US), "start_us is given twice", id="one time under two names"),
        pytest.param(claim(device_count=0), "device_count is not positive", id="no devices"),
        pytest.param(claim(device_count=True), "device_count is not a whole number", id="true is not one"),
        pytest.param(claim(device_count=-1), "device_count is not a whole number", id="a negative count"),
        pytest.param(claim(scheduler="lsf"), "scheduler is not one of", id="a scheduler that is not known"),
        pytest.param(claim(end=at(-1)), "end precedes start", id="an end before the start"),
        pytest.param(claim(end=at(9000)), "end is in the future", id="an end to come"),
        pytest.param(claim(evidence=at(9000)), "evidence is in the future", id="evidence to come"),
        pytest.param(claim(start="1970-01-01T00:00:00Z"), "start is too old", id="a start at the epoch"),
        pytest.param(claim(start=None), "run_key, pod_uid or start is missing", id="no way to know the run"),
        pytest.param(claim(labels=[1]), "labels is not text", id="labels that are no object"),
        pytest.param(
            {"id": "n", "type": "node", "scheduler": "slurm", "node": "n1"}, "observed is missing", id="no time"
        ),
        pytest.param({"type": "ERROR", "object": {"code": 410}}, "the forwarded watch failed", id="a broken watch"),
        pytest.param({"kind": "Deployment", "metadata": {}}, "ignored: kind Deployment", id="a kind that is not read"),
        pytest.param({"kind": "Pod", "metadata": 1}, "Pod: metadata is not an object", id="a torn pod"),
    ],
)
def test_a_bad_item_is_refused_at_its_place_and_the_others_are_kept(item: Json, reason: str) -> None:
    batches, rejects = decode([claim("first", job_id="1"), item, claim("last", job_id="3")])

    assert ["1", "3"] == [row["job_id"] for row in rows(batches, "claim")]
    assert [True] == [known.startswith(reason) for known in rejects.counts]
    assert [("events", 2)] == [first[:2] for first in rejects.first.values()]


def without(item: Json, *names: str) -> Json:
    """An object without these members of its metadata; "spec" is its own."""
    kept = {key: value for key, value in item.items() if key not in names}
    return kept | {"metadata": {key: value for key, value in item["metadata"].items() if key not in names}}


def test_a_whole_pod_without_gpus_is_no_mistake() -> None:
    batches, rejects = decode([pod(gpus=0), {"type": "DELETED", "object": pod("b", gpus=0)}])

    assert ([], {}) == (batches, rejects.counts)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("name", "metadata has no name", id="no name"),
        pytest.param("uid", "metadata has no uid", id="no uid"),
        pytest.param("namespace", "metadata has no namespace", id="no namespace"),
        pytest.param("spec", "has no spec", id="no word of what it asks for"),
    ],
)
@pytest.mark.parametrize("make_one", [pod, lambda: workload()], ids=["Pod", "Workload"])
@pytest.mark.parametrize("word", [None, "ADDED", "DELETED"])
def test_an_object_that_nothing_identifies_is_refused(
    make_one: Callable[[], Json], word: str | None, name: str, reason: str
) -> None:
    """It could be stored nowhere: its sender must hear of it."""
    item = without(make_one(), name)
    batches, rejects = decode([item if word is None else {"type": word, "object": item}])

    assert ([], {f"{item['kind']}: {reason}": 1}) == (batches, rejects.counts)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param('{"kind":"Pod"}', "Pod: metadata has no name and no uid and no namespace", id="one object"),
        pytest.param('[{"kind":"Pod"}]', "Pod: metadata has no name and no uid and no namespace", id="in a list"),
        pytest.param(
            '{"kind":"PodList","items":[{"metadata":{"name":"p"}}]}',
            "Pod: metadata has no uid and no namespace",
            id="in a typed list",
        ),
        pytest.param(
            '{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":"w"}}',
            "Workload: metadata has no uid and no namespace",
            id="a workload of which only the name is told",
        ),
        pytest.param('{"kind":"Node","metadata":{}}', "Node: metadata has no name", id="a node"),
    ],
)
def test_a_bare_object_is_refused(body: str, reason: str) -> None:
    batches, rejects = decode(body)

    assert ([], {reason: 1}) == (batches, rejects.counts)


def test_a_torn_line_is_refused_alone() -> None:
    batches, rejects = decode(
        "\n".join([json.dumps(claim("a", job_id="1")), '{"id": ', json.dumps(claim("b", job_id="2"))])
    )

    assert ["1", "2"] == [row["job_id"] for row in rows(batches, "claim")]
    assert {"line is not JSON": 1} == rejects.counts
    assert 2 == rejects.first["line is not JSON"][1]


def test_fields_come_as_people_write_them() -> None:
    result = claim(end=at(60), user="ann", gpus=["GPU-a", "GPU-b"], device_indexes=[0, 1], labels={"b": "2", "a": "1"})
    batches, rejects = decode([result | {"cluster": "c2", "device_count": 2}])
    row = rows(batches, "claim")[0]

    assert 0 == rejects.total
    assert ("c2", "ann", "GPU-a,GPU-b", "0,1") == tuple(
        row[n] for n in ("cluster", "user_name", "gpus", "device_indexes")
    )
    assert '{"a":"1","b":"2"}' == row["labels"]
    assert (T0_US, T0_US + 60 * SECOND_US, f"7@{T0_US}", "events") == tuple(
        row[n] for n in ("start_us", "end_us", "run_key", "kind")
    )


def test_every_type_has_its_table() -> None:
    items: list[Json] = [
        claim(),
        {
            "id": "n",
            "type": "node",
            "scheduler": "slurm",
            "node": "n1",
            "observed": at(0),
            "devices": {"": 8},
            "state": "up",
        },
        {"id": "p", "type": "pending", "scheduler": "slurm", "job_id": "8", "submit": at(0), "device_count": 4},
        {"id": "v", "type": "event", "reason": "Drained", "last": at(5), "name": "n1", "object_kind": "Node"},
    ]
    batches, rejects = decode(items)

    assert {} == rejects.counts
    assert {"claim", "node", "pending", "event"} == {batch.table for batch in batches}
    assert [("v", 1, T0_US + 5 * SECOND_US)] == [
        (r["event_id"], r["count"], r["first_us"]) for r in rows(batches, "event")
    ]
    assert ['{"":8}'] == [row["devices"] for row in rows(batches, "node")]


def test_kubernetes_objects_and_lists_are_taken_as_kubectl_prints_them() -> None:
    node = {"kind": "Node", "metadata": {"name": "n1", "labels": {}}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
    listed = {"kind": "List", "items": [pod("a"), node]}
    typed = {"kind": "PodList", "items": [{k: v for k, v in pod("b").items() if k != "kind"}]}
    batches, rejects = decode([listed, typed])

    assert {} == rejects.counts
    assert ["a", "b"] == [row["pod"] for row in rows(batches, "claim")]
    assert ["n1"] == [row["node"] for row in rows(batches, "node")]


def test_a_pod_that_waits_is_one_request_however_often_it_is_reported() -> None:
    events = [{"type": word, "object": pod("w", running=False, gpus=4)} for word in ("ADDED", "MODIFIED", "MODIFIED")]
    batches, _ = decode("\n".join(json.dumps(event) for event in events))

    assert [4] == [row["device_count"] for row in rows(batches, "pending")]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        pytest.param(pod(end=50), 50, id="a container says when"),
        pytest.param(pod(deletionTimestamp=at(90)), 90, id="the deletion says when"),
        pytest.param(pod(deletionTimestamp=at(7230)), 7200, id="gone before its deadline"),
        pytest.param(pod(), 7200, id="nothing says when: now"),
    ],
)
def test_a_deleted_pod_ends_once(last: Json, expected: float) -> None:
    """The same deletion an hour later says the same end."""
    decoder = Decoder()
    body = [{"type": "DELETED", "object": last}]
    first, _ = decode(body, decoder)
    again, _ = decode(body, decoder, NOW_US + 3600 * SECOND_US)

    assert [T0_US + expected * SECOND_US] == [row["end_us"] for row in rows(first, "claim")]
    assert rows(first, "claim") == rows(again, "claim")


def test_an_id_counts_once_within_a_body() -> None:
    batches, rejects = decode([claim("x", job_id="1"), claim("x", job_id="2")])

    assert ["1"] == [row["job_id"] for row in rows(batches, "claim")]
    assert 0 == rejects.total


def test_a_repeat_after_a_restart_changes_nothing() -> None:
    """Start and end of a job and a pod, told once and told thrice by three processes: the same books."""
    gpu = Gpu("GPU-a"), Gpu("GPU-b", index=1)
    body = [
        claim("start", gpus=["GPU-a"]),
        claim("end", gpus=["GPU-a"], end=at(1800), evidence=at(1800)),
        {"type": "DELETED", "object": pod("a", deletionTimestamp=at(2400))},
        {
            "id": "n",
            "type": "node",
            "scheduler": "slurm",
            "node": "n1",
            "observed": at(0),
            "devices": {"": 2},
            "state": "up",
        },
    ]

    def books(times: int) -> dict[str, list[Json]]:
        world = World().add(*(samples(one, minutes(0, 3600), IDLE) for one in gpu))
        for _ in range(times):
            with world.store.transaction():
                for batch in decode(body)[0]:
                    world.store.append(batch)
        return world.book().derived()

    once = books(1)

    assert 1800 * SECOND_US in {row["end_us"] - row["start_us"] for row in once["run"]}
    assert once == books(3)


def test_the_service_finds_it_by_name() -> None:
    assert isinstance(make_receiver("events"), Decoder)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{}\n" * 3, id="lines"),
        pytest.param(b"[1,1,1]", id="a list"),
        pytest.param(b'{"kind":"PodList","items":[{},{},{}]}', id="the items of a List"),
    ],
)
def test_more_items_than_memory_is_meant_for_are_refused(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_ITEMS", 2)
    with pytest.raises(UnreadableInput, match="more than 2 "):
        Decoder()(body, "", "c1", 1_793_577_600_000_000, Rejects())


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" + b"[]," * 20 + b"[]]", id="brackets"),
        pytest.param(b"[" + b"{}," * 20 + b"{}]", id="braces"),
        pytest.param(b"[" + b"1," * 40 + b"1]", id="numbers"),
        pytest.param(b'{"a": 1}\n[' + b"1," * 40 + b"1]", id="a line of numbers"),
        pytest.param('{"a": "🦀'.encode() + b"x" * 600 + b'"}', id="text in which every character takes four bytes"),
    ],
)
def test_a_text_that_takes_too_much_memory_once_parsed_is_refused_unparsed(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_PARSED_BYTES", 2000)
    with pytest.raises(UnreadableInput, match="send NDJSON .* or several bodies"):
        Decoder()(body, "", "c1", 1_793_577_600_000_000, Rejects())


def test_lines_are_parsed_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they may take more memory than one text may."""
    monkeypatch.setattr(events, "MAX_PARSED_BYTES", 2000)
    lines = b"\n".join(json.dumps(claim(f"e{n}", job_id=str(n))).encode() for n in range(30))
    batches = Decoder()(lines, "", "c1", NOW_US, Rejects())

    assert 30 == len(rows(batches, "claim"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_lines_may_have_any_encoding_of_json(encoding: str) -> None:
    lines = "\n".join(json.dumps(claim(f"e{n}", job_id=f"{n} ä"), ensure_ascii=False) for n in range(2))
    batches = Decoder()(lines.encode(encoding), "", "c1", NOW_US, Rejects())

    assert ["0 ä", "1 ä"] == [row["job_id"] for row in rows(batches, "claim")]


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param("", id="no name"),
        pytest.param("\ud800", id="half a character"),
        pytest.param("a b", id="a space"),
        pytest.param("c" * 129, id="too long"),
        pytest.param(7, id="a number"),
    ],
)
def test_a_record_of_a_cluster_that_is_no_name_is_refused_alone(cluster: object) -> None:
    """The rest of the body is kept: a cluster is what every listing is filtered by."""
    batches, rejects = decode([claim("e1", cluster=cluster), claim("e2", job_id="8")])

    assert (["8"], 1) == ([row["job_id"] for row in rows(batches, "claim")], rejects.total)


def test_half_a_character_in_an_id_does_not_lose_the_body() -> None:
    """JSON can write what UTF-8 cannot hold: it is stored as a question mark."""
    batches, rejects = decode([{"id": "e\ud800", "type": "event", "reason": "x", "last": at(0)}, claim()])

    assert (["e?"], 1, 0) == (
        [row["event_id"] for row in rows(batches, "event")],
        len(rows(batches, "claim")),
        rejects.total,
    )


def workload(**status: Any) -> Json:
    containers = [{"name": "m", "resources": {"requests": {"nvidia.com/gpu": "8"}}}]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"namespace": "lab", "name": "job-train", "uid": "w1", "creationTimestamp": at(0)},
        "spec": {
            "queueName": "research",
            "podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": containers}}}],
        },
        "status": status,
    }


def test_objects_of_a_queue_are_taken_like_pods() -> None:
    batches, rejects = decode([workload()])

    (row,) = rows(batches, "workload")
    assert ("research", 2, 16, NOW_US) == (row["queue"], row["pod_count"], row["device_count"], row["observed_us"])
    assert 0 == rejects.total


def test_a_workload_that_was_deleted_has_ended() -> None:
    batches, _ = decode([{"type": "DELETED", "object": workload()}])

    (row,) = rows(batches, "workload")
    assert ("deleted", NOW_US) == (row["state"], row["end_us"])
    assert [] == rows(batches, "pending")


def test_a_gang_that_waits_without_pods_does_not_add_to_pods_that_wait() -> None:
    one = decode([workload()])[0]
    both = decode([workload(), pod("a", running=False, gpus=4)])[0]

    assert len(rows(one, "pending")) + 1 == len(rows(both, "pending"))


# What docs/reference/api.md says of records.

PAGE = (Path(__file__).parents[3] / "docs/reference/api.md").read_text("utf-8")
SHAPES = ("claim", "node", "pending", "event")


def documented(shape: str) -> dict[str, str]:
    """Fields of a type of record by whether they are needed, as the page has them."""
    at = 1 + SHAPES.index(shape)
    lines = [line for line in PAGE.splitlines() if line.startswith("| `") and line.count("|") == 8]
    cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[at] for row in cells if row[at] != "-"}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_field_of_a_record_is_documented(shape: str) -> None:
    fields = set(TABLES[shape].names) - set(NOT_GIVEN)
    spelt = {f if f == "suspended_us" else f.removesuffix("_us").replace("user_name", "user") for f in fields}
    result = documented(shape)

    assert spelt == set(result)
    assert set(NEEDED[shape]) == {name for name, word in result.items() if word.startswith("required")}


def test_the_records_of_the_documentation_are_taken() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith('{"id"')]
    batches, rejects = decode("\n".join(lines), now_us=parse_rfc3339("2026-11-21T12:00:00Z"))

    assert {} == rejects.counts
    assert [2, 1, 1, 1] == [len(rows(batches, shape)) for shape in SHAPES]


@pytest.mark.parametrize("fraction", [0, -0.5, True, "half", 2e6])
def test_a_fraction_of_a_gpu_is_a_number_above_none(fraction: object) -> None:
    batches, rejects = decode([claim(fraction=0.5), claim("e2", fraction=fraction)])

    assert [0.5] == [row["fraction"] for row in rows(batches, "claim")]
    assert {"fraction is not a number above 0": 1} == rejects.counts
