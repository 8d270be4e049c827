"""The quality of the inputs: late, failing and silent sources, what they lack, and the fix for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuwatch.core.clock import SECOND_US, rfc3339
from gpuwatch.core.model import Rejects
from gpuwatch.quality.sources import REJECTS_MAX, quality
from gpuwatch.quality.status import SourceStatus
from gpuwatch.store.database import Store
from tests.worlds.facts import fleet_of_three
from tests.worlds.world import HOUR, Gpu, World, claim, minutes, node, samples, us

NOW_US = us(HOUR)
SM_ACTIVE = "DCGM_FI_PROF_SM_ACTIVE"
URL = "dcgm http://n1:9400/metrics"


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(None, threads=1) as empty:
        yield empty


def source(ago_s: int | None, error: str | None = None, interval_s: float = 120.0, kind: str = "dcgm") -> SourceStatus:
    """A live source whose last success was this long ago."""
    last_us = None if ago_s is None else NOW_US - ago_s * SECOND_US
    return SourceStatus(URL, kind, "c1", interval_s, 0, last_us, last_us, error, 40)


def only(found: dict[str, Any]) -> dict[str, Any]:
    assert 1 == len(found["items"])
    item: dict[str, Any] = found["items"][0]
    return item


def test_an_empty_store_without_sources_says_what_to_import(store: Store) -> None:
    found = quality(store, None, [], NOW_US)

    assert ([], None, None) == (found["items"], found["unattributed_ratio"], found["unobserved_ratio"])
    assert "nothing has been received" == found["checks"][0]["what"]


def test_a_source_that_answers_needs_nothing(store: Store) -> None:
    assert {
        "source": URL,
        "kind": "dcgm",
        "cluster": "c1",
        "state": "ok",
        "last_seen": rfc3339(NOW_US - 100 * SECOND_US),
        "lag_s": 100.0,
        "samples": 40,
        "rejected": 0,
        "rejects": [],
        "missing_fields": [],
        "error": None,
        "fix": None,
    } == only(quality(store, None, [source(100)], NOW_US))


@pytest.mark.parametrize(
    ("status", "state", "lag_s", "fix"),
    [
        pytest.param(source(360), "ok", 360.0, None, id="three intervals are not late"),
        pytest.param(source(200, interval_s=0.0), "ok", 200.0, None, id="who pushes may pause for five minutes"),
        pytest.param(source(361), "late", 361.0, "dcgm-exporter", id="a second more is"),
        pytest.param(source(301, interval_s=0.0, kind="remote-write"), "late", 301.0, "remote_write", id="a silent sender"),
        pytest.param(source(None), "never", None, "dcgm-exporter", id="nothing has come yet"),
        pytest.param(source(100, "refused"), "failing", 100.0, "dcgm-exporter", id="the last try failed"),
        pytest.param(source(None, "refused", kind="odd"), "failing", None, "gpuwatch.toml", id="a kind without advice"),
    ],
)  # fmt: skip
def test_a_source_that_is_late_or_fails_has_a_fix(
    store: Store, status: SourceStatus, state: str, lag_s: float | None, fix: str | None
) -> None:
    item = only(quality(store, None, [status], NOW_US))

    assert (state, lag_s, status.error) == (item["state"], item["lag_s"], item["error"])
    assert (fix is None) == (item["fix"] is None)
    assert (fix or "") in (item["fix"] or "")


def test_what_a_source_refused_is_counted_and_shown(store: Store) -> None:
    rejects = Rejects()
    rejects.add("ignored: a metric of another exporter", URL, 3, "node_cpu", 900)
    rejects.add("not a number", URL, 7, "DCGM_FI_DEV_GPU_UTIL{} x", 2)
    for n in range(REJECTS_MAX):
        rejects.add(f"reason {n:02d}", URL, n, "", 1)
    status = source(1)
    status.rejects = rejects
    item = only(quality(store, None, [status], NOW_US))

    assert ("ok", 2 + REJECTS_MAX, REJECTS_MAX) == (item["state"], item["rejected"], len(item["rejects"]))
    assert {"reason": "not a number", "count": 2, "example": f"{URL}:7: DCGM_FI_DEV_GPU_UTIL{{}} x"} == item["rejects"][
        0
    ]
    assert "not a number" in item["fix"]


def imported(store: Store, kind: str, records: int, refused: int, at_us: int = NOW_US) -> None:
    """A file that was read."""
    store.sql(
        "insert into import_file (digest, kind, cluster, path, bytes, records, rejected, imported_us) values ($k || $r || $n, $k, 'c1', 'dump.txt', 10, $n, $r, $t)",
        k=kind, n=records, r=refused, t=at_us,
    )  # fmt: skip
    if refused:
        store.sql(
            "insert into reject values ('d', $k, 'c1', 'dump.txt', 'no end time', $r, 4, '12|')", k=kind, r=refused
        )


def test_imports_are_sources_that_are_never_late(store: Store) -> None:
    imported(store, "sacct", 5, 0, NOW_US - 90 * 86400 * SECOND_US)
    imported(store, "sacct", 7, 2, NOW_US - 60 * 86400 * SECOND_US)
    item = only(quality(store, None, [], NOW_US))

    assert ("import sacct", "ok", 12, 2, 2) == (
        item["source"], item["state"], item["samples"], item["files"], item["rejected"],
    )  # fmt: skip
    assert rfc3339(NOW_US - 60 * 86400 * SECOND_US) == item["last_seen"]
    assert [{"reason": "no end time", "count": 2, "example": "dump.txt:4: 12|"}] == item["rejects"]
    assert (
        "Correct and import the files again while the server is stopped: no end time (dump.txt:4: 12|)" == item["fix"]
    )


def test_an_import_of_which_nothing_could_be_used_failed(store: Store) -> None:
    imported(store, "sacct", 0, 3)
    item = only(quality(store, None, [], NOW_US))

    assert ("failing", "nothing in dump.txt could be used") == (item["state"], item["error"])


def test_nodes_that_report_all_fields_are_not_listed() -> None:
    world = World().add(node(devices={"": 1}), claim("1", 0, HOUR), samples(Gpu(), minutes(0, HOUR))).book()
    with world.store:
        assert [] == quality(world.store, None, [], NOW_US)["items"]


def test_a_node_that_is_silent_while_others_are_not_is_late() -> None:
    other = Gpu("GPU-b", "n2")
    world = World().add(samples(Gpu(), minutes(0, HOUR)), samples(other, minutes(0, HOUR - 600))).book()
    with world.store:
        item = only(quality(world.store, None, [], NOW_US))

        assert ("node n2", "node", "late", 630.0, 1) == (
            item["source"], item["kind"], item["state"], item["lag_s"], item["gpus"],
        )  # fmt: skip
        assert "n2" in item["fix"]


def test_a_node_without_a_field_gets_the_line_for_it() -> None:
    """n1 gives no SM_ACTIVE, n2 does: so the source of both does not lack it."""
    blind = {"gr_engine_ratio": 0.9, "tensor_active_ratio": 0.4, "dram_active_ratio": 0.2}
    world = World().add(
        claim("1", 0, HOUR),
        claim("2", 0, HOUR, "n2"),
        samples(Gpu(), minutes(0, HOUR), blind),
        samples(Gpu("GPU-b", "n2"), minutes(0, HOUR)),
    )
    with world.book().store:
        live, bad = quality(world.store, None, [source(1)], NOW_US)["items"]

        assert [] == live["missing_fields"]
        assert ("node n1", "ok", [SM_ACTIVE]) == (bad["source"], bad["state"], bad["missing_fields"])
        assert f"{SM_ACTIVE}, gauge," in bad["fix"]


def test_a_field_that_no_node_gives_is_missing_from_the_source() -> None:
    blind = {"gr_engine_ratio": 0.9, "tensor_active_ratio": 0.4, "dram_active_ratio": 0.2}
    world = World().add(claim("1", 0, HOUR), samples(Gpu(), minutes(0, HOUR), blind))
    with world.book().store:
        live = quality(world.store, None, [source(1)], NOW_US)["items"][0]
        slurm = quality(world.store, None, [source(1, kind="slurm")], NOW_US)["items"][0]

        assert ([SM_ACTIVE], []) == (live["missing_fields"], slurm["missing_fields"])


def test_shares_are_of_held_time() -> None:
    """One of three jobs has no team; all are measured."""
    world, state = fleet_of_three()
    with world.store:
        found = quality(world.store, state, [], us(2 * HOUR))

    assert (0.333333, 0.0) == (found["unattributed_ratio"], found["unobserved_ratio"])


def test_held_time_that_nobody_measured_is_a_share() -> None:
    """Held for two hours, sampled for one."""
    world = World().add(node("n1", {"": 1}), claim("1", 0, 2 * HOUR), samples(Gpu(), minutes(0, HOUR)))
    with world.book().store:
        assert 0.5 == quality(world.store, None, [], us(2 * HOUR))["unobserved_ratio"]


@pytest.mark.parametrize(
    ("kind", "name", "error", "fix"),
    [
        pytest.param("dcgm", "dcgm discovery 2", "e", "Check file_sd, dns or kubernetes of [[dcgm]] table 2", id="what finds targets"),
        pytest.param("slurm", "slurm c1", "scontrol: not found", "scontrol ping", id="Slurm by its commands"),
        pytest.param("slurm", "slurm c1", "slurmrestd http://h:6820/slurm/v0.0.41/jobs: no answer", "$SLURM_JWT\" http://h:6820/openapi/v3", id="slurmrestd over TCP"),
        pytest.param("slurm", "slurm c1", "slurmrestd https://h:6820: serves none", "-sk -H \"X-SLURM-USER-TOKEN: $SLURM_JWT\" https://h:6820/openapi/v3", id="slurmrestd over TLS"),
        pytest.param("slurm", "slurm c1", "slurmrestd /run/s.sock: permission denied", "--unix-socket /run/s.sock http://localhost/openapi/v3", id="slurmrestd over a socket"),
        pytest.param("slurm", "slurm c1", "slurmrestd /run/s.sock/slurmdb/v0.0.41/jobs: 404; load", "--unix-socket /run/s.sock http://", id="a socket that refused"),
        pytest.param("slurm", "slurm c1", "slurmrestd /slurm/v0.0.41/nodes: down; x", "$SLURM_JWT\" URL/openapi/v3", id="an answer that names no address"),
        pytest.param("kubernetes", "kubernetes https://k:6443", "https://k:6443/api: refused; check", "curl -sk https://k:6443/version", id="an API server that is away"),
        pytest.param("kubernetes", "kubernetes https://k:6443", "https://k:6443/api: 500 busy", "curl -sk https://k:6443/version", id="an API server that is busy"),
        pytest.param("kubernetes", "kubernetes https://k:6443", "https://k:6443/api/v1/pods: 403 no; bind", "kubectl auth can-i", id="an account that may not"),
        pytest.param("kubernetes", "kubernetes https://k:6443", "https://k:6443/api: 401 no; renew", "kubectl auth can-i", id="an account that is not known"),
        pytest.param("gpuwatch.toml", "gpuwatch.toml", "not reloaded: [[dcgm]]: x", "gpuwatch serve --check --config gpuwatch.toml", id="a configuration with mistakes"),
    ],
)  # fmt: skip
def test_the_fix_is_that_of_the_kind_and_the_error(store: Store, kind: str, name: str, error: str, fix: str) -> None:
    item = only(quality(store, None, [SourceStatus(name, kind, "c1", 60.0, 0, NOW_US, NOW_US, error)], NOW_US))

    assert fix in item["fix"]
    assert ("kill -HUP" in item["fix"]) == (kind == "gpuwatch.toml")


def test_what_live_sources_refused_is_in_the_checks(store: Store) -> None:
    status = source(1)
    status.rejects.add("not a number", URL, 7, "x", 2)
    check = next(one for one in quality(store, None, [status], NOW_US)["checks"] if one["id"] == "rejects")

    assert ("warn", "2 input items were refused for 1 reasons") == (check["status"], check["what"])
    assert f"{URL}:7: not a number (2 times): x" in check["fix"]
