"""Doctor: what it finds in tiny worlds, and the fix it gives."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing.prices import price_all
from gpuwatch.core.model import CONTEXT, Records, Rejects, context_key, device_key
from gpuwatch.ledger import attribution
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality.doctor import (
    AFTER_ANALYSIS,
    NO_GPU,
    NO_TIME,
    NOT_ANALYSED,
    NOT_JUDGED,
    Check,
    _rate_lines,
    examine,
    wrong,
)
from gpuwatch.quality.status import SourceStatus
from gpuwatch.rates.card import parse_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.topology import derive as topology_derive
from tests.worlds.world import (
    HOUR,
    SETTINGS,
    Gpu,
    Sample,
    World,
    batch,
    claim,
    minutes,
    node,
    one_hour,
    pod,
    samples,
    us,
)

SM_ACTIVE = "DCGM_FI_PROF_SM_ACTIVE, gauge, The ratio of cycles an SM has at least 1 warp assigned."
SM_OCCUPANCY = "DCGM_FI_PROF_SM_OCCUPANCY, gauge, The ratio of number of warps resident on an SM."


def checks(store: Store) -> dict[str, Check]:
    return {check.id: check for check in examine(store)}


def test_a_measured_job_needs_no_counters() -> None:
    world = World().add(node(devices={"": 1}), claim("1", 0, HOUR), samples(Gpu(), minutes(0, HOUR))).book()

    found = checks(world.store)

    assert "ok" == found["counters"].status
    assert "ok" == found["unmeasured"].status
    assert "ok" == found["books"].status


def test_a_job_without_sm_active_gets_the_exact_lines() -> None:
    blind = {"gr_engine_ratio": 0.9, "tensor_active_ratio": 0.4, "dram_active_ratio": 0.2}
    world = World().add(node(devices={"": 1}), claim("1", 0, HOUR), samples(Gpu(), minutes(0, HOUR), blind)).book()

    check = checks(world.store)["counters"]

    assert "fail" == check.status
    assert [SM_ACTIVE, SM_OCCUPANCY] == check.fix.splitlines()[1:]


def test_counters_that_one_check_lists_are_not_repeated_by_the_next() -> None:
    blind = {"gr_engine_ratio": 0.9, "tensor_active_ratio": 0.4, "dram_active_ratio": 0.2}
    world = World().add(node(devices={"": 1}), claim("1", 0, HOUR), samples(Gpu(), minutes(0, HOUR), blind)).book()
    with State.open("sqlite://") as state:
        analyze(world.store, state, SETTINGS, now_us=us(4 * HOUR))
    found = checks(world.store)

    assert SM_ACTIVE in found["counters"].fix
    assert ("warn", False) == (found["verdicts"].status, SM_ACTIVE in found["verdicts"].fix)
    assert "Add the lines of the check counters, above." in found["verdicts"].fix


@pytest.mark.parametrize(
    ("begins", "known"),
    [
        pytest.param(0, None, id="measured from the beginning, with a gap at the end"),
        pytest.param(
            2 * HOUR, ("2026-11-02T02:00:30Z", "2026-11-02T00:00:00Z"), id="measured later than jobs are known"
        ),
    ],
)
def test_history_before_the_first_sample_is_not_a_broken_exporter(begins: int, known: tuple[str, str] | None) -> None:
    world = (
        World()
        .add(node(devices={"": 1}), claim("1", 0, 4 * HOUR), samples(Gpu(), minutes(begins, begins + HOUR)))
        .book()
    )

    check = checks(world.store)["telemetry"]

    assert "warn" == check.status
    if known is None:
        assert ("only" in check.what, check.fix.startswith("Check that dcgm-exporter runs there")) == (False, True)
    else:
        assert f"measured from {known[0]}" in check.what and check.what.endswith(
            f"only, and jobs are known from {known[1]}"
        )
        assert f"--window {known[0]}," in check.fix


def test_an_empty_store_says_what_to_import() -> None:
    with Store.open(None, threads=1) as store:
        found = examine(store)

    assert wrong(found)
    assert "nothing has been imported" == found[0].what


def test_a_fix_on_files_is_a_command_with_the_data_directory() -> None:
    with Store.open(None, threads=1) as store:
        (first, *_) = examine(store, advice=Advice(".venv/bin/gpuwatch", "my data"))

    assert [
        ".venv/bin/gpuwatch import bundle BUNDLE --data 'my data'",
        ".venv/bin/gpuwatch analyze --data 'my data'",
    ] == first.fix.splitlines()


def labelled(*teams: str | None, key: str = "team") -> Check:
    """The check of owners where pods of namespace `lab` hold a GPU each for an hour, with these labels."""
    world = World()
    for place, team in enumerate(teams):
        labels = json.dumps({} if team is None else {key: team})
        world.add(pod(f"p{place}", f"u{place}", 0, HOUR, f"n{place}", labels=labels))
        world.add(node(f"n{place}", devices={"": 1}))
    world.book()
    with State.open("sqlite://") as state:
        price_all(world.store, state)
    return checks(world.store)["owners"]


@pytest.mark.parametrize(
    ("teams", "key"),
    [
        pytest.param(("lab", "lab"), "team", id="the label says what the namespace says"),
        pytest.param(("nlp", None, None), "team", id="it names less than half of the time"),
        pytest.param(("__platform__", "__x", ""), "team", id="reserved and empty values name nobody"),
        pytest.param(("a", "b"), "pod-template-hash", id="a label that is not by custom a team's"),
    ],
)
def test_a_label_is_not_proposed(teams: tuple[str | None, ...], key: str) -> None:
    check = labelled(*teams, key=key)

    assert ("ok", False) == (check.status, "label" in check.what + check.fix)


def test_a_label_that_names_most_of_the_time_is_proposed_as_one_rule() -> None:
    check = labelled("nlp", "nlp", "vision", None)

    assert "warn" == check.status
    assert check.what.endswith("The label team names 75.0 % of the held time (2 values: nlp, vision)")
    assert "gpuwatch teams add 'label:team,*,*'" == check.fix


def test_a_server_that_was_scraped_waits_for_its_books() -> None:
    world = World().add(samples(Gpu(), minutes(0, 120)))
    with world.store:
        (first, *_) = examine(world.store, advice=Advice(url="http://localhost:1"))

    assert ("warn", False) == (first.status, "gpuwatch import" in first.fix)


def test_rates_of_a_server_are_sent_to_it() -> None:
    fix = Advice(url="http://localhost:1", token=True).rates(["*,on_demand,USD_PER_HOUR,1970-01-01T00:00:00Z,"])

    assert "curl --fail-with-body -X PUT http://localhost:1/api/v1/rates" in fix
    assert "Bearer $TOKEN" in fix


@pytest.mark.parametrize("token", [False, True])
@pytest.mark.parametrize("name", ["rates", "teams"])
def test_on_the_servers_machine_a_request_is_a_command(name: str, token: bool) -> None:
    """The command sends it; only that line changes."""
    served = getattr(Advice(url="http://localhost:1", token=token), name)(["a,b,c"])
    lines = Advice(data="my data").as_commands(served).splitlines()

    assert served.splitlines()[:-1] == lines[:-1]
    assert f"gpuwatch {name} set {name}.csv --data 'my data'" == lines[-1]
    assert "curl -s http://n7:9400" == Advice().as_commands("curl -s http://n7:9400")


def test_lines_for_one_model_spelt_twice_are_one_and_are_taken_as_they_stand() -> None:
    rows = [
        {"model": "NVIDIA H100 80GB HBM3", "from_us": 0, "to_us": 2**62, "lacking_us": 1},
        {"model": "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "from_us": 0, "to_us": 2**62, "lacking_us": 1},
        {"model": "NVIDIA L4", "from_us": 0, "to_us": us(0), "lacking_us": 1},
        {"model": "NVIDIA L4", "from_us": us(HOUR), "to_us": 2**62, "lacking_us": 1},
    ]
    lines = [line.replace("USD_PER_HOUR", "2.00") for line in _rate_lines(rows)]
    rejects = Rejects()
    kept = parse_rates("\n".join(["gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to", *lines]), "f", rejects)

    assert (3, {}) == (len(kept), rejects.counts)


def test_owners_that_follow_each_other_are_one_exporter_with_steady_labels() -> None:
    jobs = [samples(Gpu(), minutes(600 * n, 600 * n + 600), job=str(n)) for n in range(6)]
    world = World().add(node(devices={"": 1}), *jobs).book()

    found = checks(world.store)

    assert ("ok", "ok") == (found["exporters"].status, found["labels"].status)


def test_pods_that_share_a_gpu_are_one_exporter() -> None:
    pods = [samples(Gpu(), minutes(0, HOUR), namespace="ml", pod=name) for name in ("a", "b")]
    world = World().add(node(devices={"": 1}, sharing="time-slicing", replicas=2), *pods).book()

    found = checks(world.store)

    assert ("ok", "ok") == (found["exporters"].status, found["labels"].status)


def test_labels_that_vanish_for_single_scrapes_are_distinguished_from_a_second_exporter() -> None:
    instants = minutes(0, HOUR)
    seen = [at for n, at in enumerate(instants) if n % 4]
    lost = [at for n, at in enumerate(instants) if n % 4 == 0]
    world = (
        World().add(node(devices={"": 1}), samples(Gpu(), seen, namespace="ml", pod="a"), samples(Gpu(), lost)).book()
    )

    found = checks(world.store)

    assert ("ok", "warn") == (found["exporters"].status, found["labels"].status)
    assert "c1/n1" in found["labels"].what
    assert "pod-resources" in found["labels"].fix


def test_two_exporters_of_one_node_are_named() -> None:
    instants = minutes(0, HOUR, 30)
    world = (
        World()
        .add(
            node(devices={"": 1}),
            samples(Gpu(pci="00000000:1B:00.0"), instants[::2]),
            samples(Gpu(pci="0000:1b:00.0"), instants[1::2]),
        )
        .book()
    )

    check = checks(world.store)["exporters"]

    assert "warn" == check.status
    assert "1 GPUs are read twice; only one reading counts: c1/n1 (1)" == check.what


@pytest.mark.parametrize(
    ("model", "profile", "share"),
    [
        pytest.param("NVIDIA GB300", "1g.35gb", "1/7", id="a model that is not known"),
        pytest.param("NVIDIA A100-PG509-200", "1g.10gb", "1/7", id="a name that leaves the memory open"),
        pytest.param(None, "3g.40gb", "3/7", id="no model"),
    ],
)
def test_a_share_that_is_read_from_a_name_only_is_reported(model: str | None, profile: str, share: str) -> None:
    world = World().add(samples(Gpu(gi=1, profile=profile, model=model), minutes(0, HOUR))).book()  # type: ignore[arg-type]
    check = checks(world.store)["shares"]

    assert ("warn", "ok") == (check.status, checks(world.store)["profiles"].status)
    assert f"{profile} on {model or 'a GPU without a model'} ({share} of a GPU)" in check.what


@pytest.mark.parametrize(
    ("status", "model", "profile"),
    [
        pytest.param("ok", "NVIDIA H100 80GB HBM3", "1g.10gb", id="its own profile"),
        pytest.param("ok", "NVIDIA H100 80GB HBM3", "1g.10gb+me", id="with media extensions"),
        pytest.param("ok", "Some GPU of tomorrow", "1g.11gb", id="a model nobody knows accuses nobody"),
        pytest.param("ok", "a100", "1g.10gb", id="a model of two memory sizes accuses nobody"),
        pytest.param("warn", "NVIDIA H100 NVL", "1g.11gb", id="the neighbour's name that old exporters print"),
        pytest.param("warn", "NVIDIA H100 80GB HBM3", "whatever", id="no profile at all"),
    ],
)
def test_profiles_that_a_gpu_does_not_have(status: str, model: str, profile: str) -> None:
    slice_ = Gpu(gi=1, profile=profile, model=model)
    world = World().add(samples(slice_, minutes(0, HOUR))).book()

    check = checks(world.store)["profiles"]

    assert status == check.status, check.what


def test_a_misnamed_profile_is_reported_with_what_it_is_counted_as() -> None:
    world = World().add(samples(Gpu(gi=1, profile="1g.11gb", model="NVIDIA H100 NVL"), minutes(0, HOUR))).book()

    assert "1g.11gb on NVIDIA H100 NVL (1 slices on c1/n1, counted as 1g.12gb)" in checks(world.store)["profiles"].what


def test_a_gpu_alone_needs_no_topology() -> None:
    world = World().add(node(devices={"": 1}), samples(Gpu(), minutes(0, HOUR))).book()

    assert "ok" == checks(world.store)["topology"].status


def test_gpus_of_a_node_whose_links_nobody_tells_are_named_with_the_command() -> None:
    gpus = [Gpu(f"GPU-{n}", index=n) for n in range(2)]
    world = World().add(node(devices={"": 2}), *(samples(gpu, minutes(0, HOUR)) for gpu in gpus)).book()

    check = checks(world.store)["topology"]

    assert ("warn", "GPU links of 1 nodes unknown (c1/n1)") == (check.status, check.what)
    assert "nvidia-smi topo -m" in check.fix


# What nobody looked at ----------------------------------------------------------------------------------------------

SERVER = Advice(url="http://localhost:1")


def test_an_analysed_store_was_looked_at() -> None:
    world = World().add(node(devices={"": 1}), claim("1", 0, HOUR), samples(Gpu(), minutes(0, HOUR))).book()

    found = examine(world.store)

    assert [] == [check.id for check in found if NOT_ANALYSED in check.what]
    assert set(AFTER_ANALYSIS) | {"analysis", "rejects"} == {check.id for check in found}


@pytest.mark.parametrize(
    ("advice", "status", "fix"),
    [
        pytest.param(
            Advice("gpuwatch", "d"), "fail", "gpuwatch analyze --data d", id="files are analysed by a command"
        ),
        pytest.param(SERVER, "warn", SERVER.analysis(), id="a server analyses by itself"),
    ],
)
def test_what_is_stored_and_not_analysed_was_not_looked_at(advice: Advice, status: str, fix: str) -> None:
    world = World().add(node(devices={"": 1}), claim("1", 0, HOUR), samples(Gpu(), minutes(0, HOUR)))
    with world.store:
        found = {check.id: check for check in examine(world.store, advice=advice)}

    assert status == found["analysis"].status
    assert {(name, NOT_JUDGED, f"not judged: {NOT_ANALYSED}", fix) for name in AFTER_ANALYSIS} == {
        (check.id, check.status, check.what, check.fix) for check in found.values() if check.id in AFTER_ANALYSIS
    }
    assert "ok" == found["rejects"].status


def test_a_fleet_without_gpus_is_not_sent_to_the_analysis_again() -> None:
    world = World().add(node(), claim("1", 0, HOUR, count=0)).attribute()
    topology_derive.derive(world.store, "c1")
    found = checks(world.store)

    assert ("fail", "no analysed record names a GPU") == (found["analysis"].status, found["analysis"].what)
    assert {(NOT_JUDGED, f"not judged: {NO_GPU}")} == {
        (check.status, check.what) for check in found.values() if check.id in AFTER_ANALYSIS
    }
    assert "analyze" not in found["books"].fix


def test_a_dump_of_pods_without_any_time_after_their_start_is_reported_as_such() -> None:
    """Pods request GPUs, so that it would be wrong to state that no record names one."""
    world = World().add(pod("p", "u1", 0, None)).attribute()
    topology_derive.derive(world.store, "c1")
    found = checks(world.store)

    assert "records name GPUs, but none has a time after its start" == found["analysis"].what
    assert "kubectl get pods,nodes,events" in found["analysis"].fix
    assert {(NOT_JUDGED, f"not judged: {NO_TIME}")} == {
        (check.status, check.what) for check in found.values() if check.id in AFTER_ANALYSIS
    }


# Live sources beside what is stored ---------------------------------------------------------------------------------


def live(kind: str, name: str, error: str | None = None, last_us: int | None = None) -> SourceStatus:
    return SourceStatus(name, kind, "c1", 60.0, 0, last_us, last_us, error)


def test_what_a_live_source_ignores_is_not_refused() -> None:
    source = live("dcgm", "dcgm http://n1:9400/metrics")
    source.rejects.add("ignored: a metric of another exporter", "x", 3, "node_cpu", 900)
    with Store.open(None, threads=1) as store:
        found = {check.id: check for check in examine(store, advice=SERVER, sources=[source])}

    assert ("ok", "no input was refused") == (found["rejects"].status, found["rejects"].what)


def test_pieces_that_live_sources_and_files_refused_are_reported_together() -> None:
    source = live("dcgm", "dcgm http://n1:9400/metrics")
    source.rejects.add("not a number", "x", 7, "DCGM_FI_DEV_GPU_UTIL x", 5)
    with Store.open(None, threads=1) as store:
        store.sql("insert into reject values ('d', 'sacct', 'c1', 'dump.txt', 'no end time', 2, 4, '12|')")
        found = {check.id: check for check in examine(store, advice=SERVER, sources=[source])}

    assert ("warn", "7 input items were refused for 2 reasons") == (found["rejects"].status, found["rejects"].what)
    assert [
        "dcgm http://n1:9400/metrics:7: not a number (5 times): DCGM_FI_DEV_GPU_UTIL x",
        "dump.txt:4: no end time (2 times): 12|",
    ] == found["rejects"].fix.splitlines()[1:]


@pytest.mark.parametrize(
    ("sources", "lines"),
    [
        pytest.param(
            [live("dcgm", "dcgm http://n1:9400/metrics")],
            ["gpuwatch.toml, [[slurm]] or [[kubernetes]] (docs/connect/sources.md), and send SIGHUP", 'cluster = "c1"'],
            id="no scheduler is configured",
        ),
        pytest.param(
            [live("slurm", "slurm c1", "scontrol: refused")],
            ["is configured (slurm c1) and fails: scontrol: refused", "scontrol ping"],
            id="the configured one fails",
        ),
        pytest.param(
            [live("kubernetes", "kubernetes https://k:6443")],
            ["and has not answered yet", "curl -sk https://k:6443/version"],
            id="the configured one never answered",
        ),
        pytest.param(
            [live("slurm", "slurm c1", last_us=us(0))],
            ["answers without these nodes"],
            id="the configured one has other nodes",
        ),
    ],
)  # fmt: skip
def test_gpus_that_no_scheduler_names_beside_a_server(sources: list[SourceStatus], lines: list[str]) -> None:
    world = one_hour()

    check = {check.id: check for check in examine(world.store, advice=SERVER, sources=sources)}["unscheduled"]

    assert "warn" == check.status
    assert len(lines) == len(check.fix.splitlines())
    assert [] == [want for want, line in zip(lines, check.fix.splitlines(), strict=True) if want not in line]


# One GPU in two clusters --------------------------------------------------------------------------------------------


def second_cluster(world: World, readings: list[Sample]) -> World:
    """The same readings under another cluster's name, both attributed."""
    contexts, points = batch(readings)
    rows = [{**row, "cluster": "c2"} for row in contexts.rows.to_pylist()]
    for row in rows:
        row["device_id"] = device_key("c2", row["gpu"], row["gi"])
        row["context_id"] = context_key(row)
    table = points.rows.set_column(0, "device_id", pa.array([rows[0]["device_id"]] * len(readings), pa.int64()))
    place = table.schema.get_field_index("context_id")
    table = table.set_column(place, "context_id", pa.array([rows[0]["context_id"]] * len(readings), pa.int64()))
    with world.store.transaction():
        world.store.append(Records("context", pa.Table.from_pylist(rows, schema=CONTEXT)))
        world.store.append(Records("sample", table))
    world.attribute()
    attribution.attribute(world.store, "c2", SETTINGS)
    return world


def test_a_gpu_that_moved_to_another_cluster_counts_once() -> None:
    world = second_cluster(World().add(samples(Gpu(), minutes(0, 60))), samples(Gpu(), minutes(600, 660)))

    assert "ok" == checks(world.store)["clusters"].status


def test_a_gpu_that_is_read_under_two_clusters_counts_twice() -> None:
    world = second_cluster(World().add(samples(Gpu(), minutes(0, HOUR))), samples(Gpu(), minutes(0, HOUR)))

    check = checks(world.store)["clusters"]

    assert ("warn", "1 GPUs are measured in two clusters at once and count twice: GPU-a (c1, c2)") == (
        check.status, check.what,
    )  # fmt: skip
    assert "use one name" in check.fix
