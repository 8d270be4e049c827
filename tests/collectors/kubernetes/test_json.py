"""The k8s-json importer as a whole: forms of input, and bad input."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.kubernetes import objects as kubernetes_objects
from gpuwatch.collectors.kubernetes.files import DRA_UNKNOWN
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import TABLES, Records, Rejects, Source
from gpuwatch.core.registry import find_importer

DATA = Path(__file__).parents[2] / "data" / "k8s"
EVENTS = json.loads((DATA / "events.json").read_text())["items"]


def counts(path: Path, rejects: Rejects) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in find_importer("k8s-json").read(Source(str(path), "c1"), rejects):
        assert isinstance(batch, Records)
        assert TABLES[batch.table] == batch.rows.schema
        found[batch.table] = found.get(batch.table, 0) + batch.rows.num_rows
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [("pods", {"claim": 14, "pending": 1, "pod_list": 1}), ("nodes", {"node": 9}), ("events", {"event": 2})],
)
def test_fixture_files(name: str, expected: dict[str, int]) -> None:
    rejects = Rejects()

    assert expected == counts(DATA / f"{name}.json", rejects)
    assert 0 == rejects.total


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(json.dumps({"kind": "List", "items": EVENTS}, indent=1), id="a List"),
        pytest.param("\n".join(json.dumps(e) for e in EVENTS), id="NDJSON"),
        pytest.param("\n".join(json.dumps(e, indent=4) for e in EVENTS), id="objects one after another"),
        pytest.param(json.dumps(EVENTS), id="an array"),
        pytest.param(json.dumps([{"kind": "List", "items": EVENTS}]), id="an array of Lists"),
        pytest.param("\ufeff" + json.dumps({"items": EVENTS, "kind": "List"}), id="a byte order mark"),
        pytest.param(
            json.dumps({"items": [{k: v for k, v in e.items() if k != "kind"} for e in EVENTS], "kind": "EventList"}),
            id="a typed list whose items carry no kind",
        ),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_forms_of_input(tmp_path: Path, body: str, packed: bool) -> None:
    file = tmp_path / "events.json"
    file.write_bytes(gzip.compress(body.encode()) if packed else body.encode())

    assert {"event": 2} == counts(file, Rejects())


def test_an_empty_list_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "none.json"
    file.write_text('{"apiVersion": "v1", "items": [], "kind": "List"}')

    assert {} == counts(file, Rejects())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b" \n ", "is empty", id="blank"),
        pytest.param(b"{}", "no Kubernetes object", id="an object without a kind"),
        pytest.param(b'{"jobs": [{"job_id": 1}], "meta": {}}', "no Kubernetes object", id="JSON of Slurm"),
        pytest.param(b"[1, 2]", "no Kubernetes object", id="numbers"),
        pytest.param(b"null", "no Kubernetes object", id="null"),
        pytest.param(b'{"kind": "List",\n "items": [{"kind": "Pod"},', "line 2 column", id="torn List"),
        pytest.param(b'{"kind": "List", "items": [{"kind": "P', "line 1 column", id="torn in a string"),
        pytest.param(bytes(range(256)), "not JSON", id="binary"),
        pytest.param(b"[" * 200_000, "JSON", id="nested without end"),
        pytest.param(gzip.compress(b'{"kind": "List"}' * 99)[:-20], "gzip", id="torn gzip"),
    ],
)
def test_unreadable(tmp_path: Path, body: bytes, words: str) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(body)

    with pytest.raises(UnreadableInput, match=words) as error:
        counts(file, Rejects())
    assert str(file) in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"gone\.json"):
        counts(tmp_path / "gone.json", Rejects())


def test_a_file_over_the_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_objects, "MAX_FILE_BYTES", 100)
    with pytest.raises(UnreadableInput, match="larger than 100 bytes"):
        counts(DATA / "events.json", Rejects())


def test_one_malformed_item_is_refused_by_name_and_line(tmp_path: Path) -> None:
    bad_time = {"kind": "Event", "metadata": {"namespace": "ml", "name": "x", "uid": "e"}, "lastTimestamp": "soon"}
    named = {"namespace": "ml", "name": "p", "uid": "u"}
    bad_pod = {"kind": "Pod", "metadata": named, "spec": {"containers": "none"}}
    items = [EVENTS[0], bad_time, bad_pod, 7, {"kind": "Service"}, {"kind": "Service"}]
    file = tmp_path / "mixed.json"
    file.write_text('{"kind": "List", "items": [\n' + ",\n".join(json.dumps(i) for i in items) + "\n]}")
    rejects = Rejects()

    assert {"event": 1} == counts(file, rejects)
    assert {
        "Event: lastTimestamp is not an RFC 3339 time": (str(file), 3, "ml/x"),
        "Pod: containers is not a list of objects": (str(file), 4, "ml/p"),
        "item is not an object": (str(file), 5, "7"),
        "ignored: kind Service": (str(file), 6, "(no name)"),
    } == rejects.first
    assert 2 == rejects.counts["ignored: kind Service"]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        pytest.param({"kind": "Pod"}, "Pod: metadata has no name and no uid and no namespace", id="a bare pod"),
        pytest.param(
            {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w"}},
            "Workload: metadata has no uid and no namespace",
            id="a workload of which only the name is told",
        ),
        pytest.param({"kind": "ResourceClaim"}, "ResourceClaim: metadata has no name", id="a claim of nobody"),
    ],
)
def test_an_object_that_nothing_identifies_is_refused(tmp_path: Path, item: dict[str, Any], reason: str) -> None:
    file = tmp_path / "bare.json"
    file.write_text(json.dumps([item, EVENTS[0]]))
    rejects = Rejects()

    assert {"event": 1} == counts(file, rejects)
    assert {reason: 1} == rejects.counts


def test_a_torn_line_of_ndjson_costs_only_itself(tmp_path: Path) -> None:
    file = tmp_path / "torn.ndjson"
    file.write_text(json.dumps(EVENTS[0]) + "\n" + json.dumps(EVENTS[1]) + "\n" + json.dumps(EVENTS[1])[:50])
    rejects = Rejects()

    assert {"event": 2} == counts(file, rejects)
    assert {"line is not JSON": 1} == rejects.counts


def test_devices_of_dra_claims_are_named_as_unknown(tmp_path: Path) -> None:
    named = {"namespace": "ml", "name": "p", "uid": "u"}
    pod = {"kind": "Pod", "metadata": named, "spec": {"containers": [{}], "resourceClaims": [{"name": "gpu"}]}}
    file = tmp_path / "dra.json"
    file.write_text(json.dumps(pod))
    rejects = Rejects()

    assert {} == counts(file, rejects)
    assert {DRA_UNKNOWN: 1} == rejects.counts


def test_half_a_surrogate_does_not_stop_the_file(tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    file.write_text(json.dumps(EVENTS[0] | {"message": "\ud800"}))

    assert {"event": 1} == counts(file, Rejects())
