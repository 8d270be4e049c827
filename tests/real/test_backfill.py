"""History out of a real Prometheus and a real VictoriaMetrics equals what was put into them, whatever gets in the way."""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest

from gpuwatch.imports.backfill import backfill as run_backfill
from gpuwatch.imports.backfill import plan_backfill
from gpuwatch.imports.history import open_history
from gpuwatch.store.database import Store
from tests.worlds import processes
from tests.worlds.patience import PATIENCE_S, wait_until
from tests.worlds.ports import free_port

HOUR_S = 3600
STEP_S = 30
T0_S = 1_793_577_600  # 2026-11-02T00:00:00Z
LENGTH_S = 2 * HOUR_S
SPAN = ("--since", "2026-11-02T00:00:00Z", "--until", "2026-11-02T02:00:00Z")
CLUSTER = "c1"
KILLS = 3
FIELDS = {
    "DCGM_FI_DEV_POWER_USAGE": "power_watts",
    "dcgm_fi_prof_sm_active": "sm_active_ratio",  # some send them in lower case
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor_active_ratio",
}
GPUS = 6

Series = tuple[dict[str, str], list[tuple[int, float]]]


def fleet() -> list[Series]:
    """Three metrics of six GPUs with times off the whole second; one GPU is silent for half an hour."""
    found: list[Series] = []
    for gpu in range(GPUS):
        labels = {
            "UUID": f"GPU-{gpu}",
            "gpu": str(gpu),
            "Hostname": "n1",
            "modelName": "NVIDIA H100 80GB HBM3",
            "exported_namespace": "lab",
            "exported_pod": f"train-{gpu}",
            "instance": "n1:9400",
            "job": "dcgm",
        }
        for number, name in enumerate(FIELDS):
            samples = [
                ((T0_S + at) * 1000 + 123 + gpu, ((at // STEP_S * 7 + gpu * 13 + number) % 64) / 64)
                for at in range(0, LENGTH_S, STEP_S)
                if not (gpu == 2 and 1800 <= at < 3600)
            ]
            found.append(({"__name__": name} | labels, samples))
    # What is left out: another metric, and a series that names no GPU.
    found.append(({"__name__": "up", "instance": "n1:9400", "job": "dcgm"}, [(T0_S * 1000, 1.0)]))
    return found


def pod_series() -> list[Series]:
    """kube-state-metrics for two hours: a pod that ends, one that is deleted, one that waits, on a node drained late."""
    own = {"instance": "10.0.0.9:8080", "job": "ksm"}
    every = range(0, LENGTH_S, STEP_S)

    def series(name: str, value: float, times: range = every, **labels: str) -> Series:
        return {"__name__": name} | own | labels, [((T0_S + at) * 1000, value) for at in times]

    def pod(name: str, node: str, gpus: int, times: range = every, **labels: str) -> Iterator[Series]:
        who = {"namespace": "lab", "pod": name, "uid": f"u-{name}"}
        where = {"node": node} if node else {}
        asked = who | where | {"container": "c", "resource": "nvidia_com_gpu", "unit": "integer"}
        yield series("kube_pod_container_resource_requests", gpus, times, **asked)
        yield series("kube_pod_info", 1, times, **who, **where)
        yield series("kube_pod_created", T0_S - 60, times, **who)
        kind, owner = labels.get("kind", "ReplicaSet"), labels.get("owner", "web-7d9f8b6c5d")
        yield series("kube_pod_owner", 1, times, **who, owner_kind=kind, owner_name=owner, owner_is_controller="true")
        yield series("kube_pod_labels", 1, times, **who, label_kueue_x_k8s_io_queue_name="q1", label_app="a")
        if node:
            yield series("kube_pod_start_time", T0_S - 30, times, **who)
            yield series("kube_pod_container_state_started", T0_S - 20, times, **who, container="c")

    found = [series("kube_node_status_capacity", 8, node="n1", resource="nvidia_com_gpu", unit="integer")]
    found.append(series("kube_node_labels", 1, node="n1", label_nvidia_com_gpu_product="NVIDIA-H100-80GB-HBM3"))
    found.append(series("kube_namespace_labels", 1, namespace="lab", label_gpuwatch_io_team="physics"))
    ready = {"node": "n1", "condition": "Ready", "status": "true"}
    found.append(series("kube_node_status_condition", 1, **ready))
    found.append(
        (
            {"__name__": "kube_node_spec_unschedulable", "node": "n1"} | own,
            [((T0_S + at) * 1000, float(at >= HOUR_S)) for at in every],
        )
    )
    found += pod("done", "n1", 2, kind="Job", owner="fit")
    found += pod("gone", "n1", 1, range(0, 3000, STEP_S))
    found += pod("waits", "", 4)
    found.append(series("kube_pod_completion_time", T0_S + 1000, namespace="lab", pod="done", uid="u-done"))
    for name, phase in (("done", "Succeeded"), ("gone", "Running"), ("waits", "Pending")):
        times = range(0, 3000, STEP_S) if name == "gone" else every
        who = {"namespace": "lab", "pod": name, "uid": f"u-{name}"}
        found += [
            series("kube_pod_status_phase", float(one == phase), times, phase=one, **who)
            for one in ("Pending", "Running", "Succeeded")
        ]
    found.append(series("kube_pod_status_unschedulable", 1, namespace="lab", pod="waits", uid="u-waits"))
    for kind, value in (("hard", 8), ("used", 3)):
        quota = {"namespace": "lab", "resourcequota": "gpus", "resource": "requests.nvidia.com/gpu", "type": kind}
        found.append(series("kube_resourcequota", value, **quota))
    return found


def answers(url: str) -> bool:
    """Whether a server answers, be it with a question for a password."""
    try:
        urllib.request.urlopen(url, timeout=PATIENCE_S).close()
    except urllib.error.HTTPError as error:
        return error.code == 401
    except OSError:
        return False
    return True


def listens(address: str) -> bool:
    """Whether a server takes connections at host:port."""
    try:
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), PATIENCE_S).close()
    except OSError:
        return False
    return True


@contextmanager
def running(command: list[str], ready: str | None, log: Path) -> Iterator[None]:
    """A server until the end of the block."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        if ready:
            wait_until(lambda: answers(ready) or process.poll() is not None, ready)
        assert process.poll() is None, log.read_text()[-2000:]
        yield
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def needs(*programs: str) -> None:
    """Skips where a program is not installed."""
    if missing := [name for name in programs if shutil.which(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")


@contextmanager
def prometheus(directory: Path, series: list[Series], *options: str, scheme: str = "http") -> Iterator[str]:
    """A Prometheus whose blocks hold the series; its address."""
    needs("prometheus", "promtool")
    text, tsdb = directory / "history.om", directory / "tsdb"
    by_name: dict[str, list[Series]] = {}
    for one in series:
        by_name.setdefault(one[0]["__name__"], []).append(one)
    lines = []
    for name, members in sorted(by_name.items()):
        lines.append(f"# TYPE {name} gauge")
        for labels, samples in members:
            inside = ",".join(f'{key}="{value}"' for key, value in labels.items() if key != "__name__")
            lines += [f"{name}{{{inside}}} {value!r} {at / 1000:.3f}" for at, value in samples]
    text.write_text("\n".join([*lines, "# EOF", ""]))
    tsdb.mkdir()
    made = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "-q", text, tsdb],
        check=False,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    (directory / "prometheus.yml").write_text("global: {scrape_interval: 1m}\n")
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={directory / 'prometheus.yml'}", f"--storage.tsdb.path={tsdb}"]
    command += [f"--web.listen-address={address}", "--storage.tsdb.retention.time=10y", *options]
    ready = f"http://{address}/-/ready" if scheme == "http" else None
    with running(command, ready, directory / "prometheus.log"):
        wait_until(lambda: listens(address), "Prometheus listens")
        yield f"{scheme}://{address}"


@contextmanager
def victoria(
    directory: Path, series: list[Series], *options: str, headers: dict[str, str] | None = None
) -> Iterator[str]:
    """A VictoriaMetrics that was given the series; its address."""
    needs("victoria-metrics")
    url = f"http://127.0.0.1:{free_port()}"
    command = ["victoria-metrics", f"-storageDataPath={directory / 'vm'}", "-retentionPeriod=100y"]
    command += [f"-httpListenAddr={url.removeprefix('http://')}", *options]
    with running(command, f"{url}/health", directory / "vm.log"):
        lines = [
            json.dumps({"metric": labels, "timestamps": [t for t, _ in samples], "values": [v for _, v in samples]})
            for labels, samples in series
        ]
        for path, body in (("/api/v1/import", "\n".join(lines).encode()), ("/internal/force_flush", b"")):
            request = urllib.request.Request(url + path, data=body, headers=headers or {})
            urllib.request.urlopen(request, timeout=PATIENCE_S).close()
        yield url


SERVERS: dict[str, Callable[..., AbstractContextManager[str]]] = {"prometheus": prometheus, "victoria": victoria}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Servers without special options, each started once for all tests: address by kind, and whether it has pods."""
    with ExitStack() as until_end:

        @functools.cache
        def started(kind: str, pods: bool = False) -> str:
            series = fleet() + (pod_series() if pods else [])
            return until_end.enter_context(SERVERS[kind](tmp_path_factory.mktemp(kind), series))

        yield started


def command(url: str, data: Path, *options: str) -> list[str]:
    """A backfill of the two hours."""
    start = ["backfill", "--prometheus", url, *SPAN, "--data", str(data)]
    return [*start, "--cluster", CLUSTER, "--format", "json", *options]


def backfill(url: str, data: Path, *options: str) -> tuple[int, dict[str, int], str]:
    """(exit code, the row that it prints, stderr)."""
    done = processes.run(command(url, data, *options))
    return done.returncode, json.loads(done.stdout)["items"][0] if done.stdout else {}, done.stderr


def stored(data: Path) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Every reading in the store by (GPU, column), as (milliseconds, value)."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    with Store.open(data, create=False) as store:
        for column in FIELDS.values():
            rows = store.sql(
                f"select gpu, observed_us // 1000, {column} from sample join context using (context_id)"
                f" where {column} is not null order by 1, 2"
            )
            for gpu, at, value in rows:
                found.setdefault((gpu, column), []).append((at, value))
    return found


def expected() -> dict[tuple[str, str], list[tuple[int, float]]]:
    """What was put in, as stored() tells it."""
    return {
        (labels["UUID"], FIELDS[labels["__name__"]]): samples
        for labels, samples in fleet()
        if labels["__name__"] in FIELDS
    }


COUNT = sum(len(samples) for samples in expected().values())


@pytest.mark.parametrize(
    ("server", "options", "asked"),
    [
        pytest.param("prometheus", (), (), id="Prometheus gives everything"),
        pytest.param("victoria", (), (), id="VictoriaMetrics gives everything"),
        pytest.param("prometheus", ("--query.max-samples=1000",), (), id="Prometheus with a low limit of samples"),
        pytest.param("victoria", ("-search.maxSamplesPerQuery=1000",), (), id="VictoriaMetrics with one of samples"),
        pytest.param("victoria", ("-search.maxUniqueTimeseries=7",), (), id="VictoriaMetrics with one of series"),
        pytest.param("prometheus", (), ("--max-samples", "100"), id="no more at a time than the user allows"),
    ],
)
def test_everything_comes_once(
    servers: Callable[..., str], server: str, options: tuple[str, ...], asked: tuple[str, ...], tmp_path: Path
) -> None:
    own = SERVERS[server](tmp_path, fleet(), *options) if options else nullcontext(None)
    with own as limited:
        url = limited or servers(server)
        code, row, entry = backfill(url, tmp_path / "data", *asked)
        again = backfill(url, tmp_path / "data", *asked)

    assert (0, COUNT, 0) == (code, row.get("samples"), row.get("incomplete")), entry
    assert (0, 0, 0) == (again[0], again[1]["samples"], again[1]["spans"])
    assert expected() == stored(tmp_path / "data")


@pytest.mark.parametrize("server", ["prometheus", "victoria"])
def test_of_many_samples_the_latest_of_each_minute_is_read(
    servers: Callable[..., str], server: str, tmp_path: Path
) -> None:
    latest: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for subject, samples in expected().items():
        by_minute = {-(-at // 60_000) * 60_000: (at, value) for at, value in samples}  # the later one stays
        latest[subject] = [(at, value) for at, (_, value) in by_minute.items() if at < (T0_S + LENGTH_S) * 1000]
    history = open_history({"url": servers(server)}, CLUSTER)
    start_us, end_us = T0_S * 1_000_000, (T0_S + LENGTH_S) * 1_000_000
    with Store.open(tmp_path / "data") as store:
        plan = plan_backfill(history, start_us, end_us, end_us + HOUR_S * 1_000_000)
        first = run_backfill(store, history, plan, cluster=CLUSTER, thin_above=COUNT // 2)
        again = run_backfill(store, history, plan, cluster=CLUSTER, thin_above=COUNT // 2)
    history.close()

    assert (60, 60) == (first.step_s, again.step_s)
    assert any("one every 60 s was read" in note for note in first.notes)
    assert latest == stored(tmp_path / "data")
    assert (sum(map(len, latest.values())), 0) == (first.samples, again.samples)


@pytest.mark.parametrize("server", ["prometheus", "victoria"])
def test_killed_at_any_time_and_run_again_gives_the_same(
    servers: Callable[..., str], server: str, tmp_path: Path
) -> None:
    data, url = tmp_path / "data", servers(server)
    wal = data / "gpuwatch.duckdb.wal"
    with Store.open(data):
        pass  # what is killed is the backfill, not the making of its tables
    last = 0
    for _ in range(KILLS):
        process = processes.start(command(url, data, "--chunk", "1m", "--jobs", "2"))
        sizes = {last}

        def committed(sizes: set[int] = sizes, process: processes.Child = process) -> bool:
            size = wal.stat().st_size if wal.exists() else 0
            if size > max(sizes) and size > 3000:
                sizes.add(size)
            return len(sizes) > 4 or process.poll() is not None

        wait_until(committed, "a few commits", poll_s=0.01)
        last = max(sizes)
        process.kill()
        process.wait(PATIENCE_S)
    code, row, entry = backfill(url, data, "--chunk", "1m")

    assert 0 == code, entry
    assert 120 == row["spans"] + row["repeated"]
    assert row["repeated"] > 0
    assert expected() == stored(data)
    with Store.open(data, create=False) as store:
        assert [(120, 120, COUNT)] == store.sql(
            "select count(*), count(distinct digest), sum(records) from import_file where digest like '%:samples:%'"
        )


@pytest.mark.parametrize("server", ["prometheus", "victoria"])
def test_kube_state_metrics_become_scheduler_records(servers: Callable[..., str], server: str, tmp_path: Path) -> None:
    code, row, entry = backfill(servers(server, pods=True), tmp_path / "data")

    assert 0 == code, entry
    assert COUNT == row["samples"]
    with Store.open(tmp_path / "data", create=False) as store:
        claims = store.sql(
            "select distinct kind, job_id, run_key, pod_uid, node, device_count, start_us // 1000000 - $t0,"
            " end_us // 1000000 - $t0, state, queue from claim order by job_id",
            t0=T0_S,
        )
        waiting = store.sql(
            "select distinct job_id, device_count, reason, submit_us // 1000000 - $t0 from pending", t0=T0_S
        )
        nodes = store.sql(
            "select distinct state, since_us // 1000000 - $t0, gpu_model, devices from node order by 1 desc, 2", t0=T0_S
        )
        queues = store.sql("select distinct kind, namespace, name, quota_max, used, detail from queue order by kind")

    assert [
        ("ksm", "lab/fit", "Job/lab/fit", "u-done", "n1", 2, -20, 1000, "Succeeded", "q1"),
        ("ksm", "lab/web", "u-gone", "u-gone", "n1", 1, -20, 2970, "Running", "q1"),
    ] == claims
    assert [("lab/web", 4, "Unschedulable", -60)] == waiting
    assert [
        ("up", None, "NVIDIA-H100-80GB-HBM3", '{"":8}'),
        ("drain", 3600, "NVIDIA-H100-80GB-HBM3", '{"":8}'),
    ] == [node for node in nodes if node[0] != "drain" or node[1] is not None]
    assert [
        ("namespace", "lab", "lab", None, None, '{"team":"physics"}'),
        ("resource_quota", "lab", "gpus", '{"":8}', '{"":3}', None),
    ] == queues


def test_a_server_that_is_not_there_is_exit_code_3(tmp_path: Path) -> None:
    code, row, entry = backfill(f"http://127.0.0.1:{free_port()}", tmp_path / "data")

    assert (3, {}, 1) == (code, row, entry.count("\n"))
    assert "connection refused" in entry
    assert not (tmp_path / "data").exists()


def test_a_server_with_nothing_of_gpus_says_so(tmp_path: Path) -> None:
    with victoria(tmp_path, [({"__name__": "up"}, [(T0_S * 1000, 1.0)])]) as url:
        code, _, entry = backfill(url, tmp_path / "data")

    assert 2 == code
    assert "has no DCGM metric" in entry


def test_user_and_password(tmp_path: Path) -> None:
    secret, wrong = tmp_path / "secret", tmp_path / "wrong"
    secret.write_text("hunter2-secret\n")
    wrong.write_text("hunter3-secret\n")
    basic = {"Authorization": "Basic Ym9iOmh1bnRlcjItc2VjcmV0"}
    options = ("-httpAuth.username=bob", "-httpAuth.password=hunter2-secret")
    with victoria(tmp_path, fleet(), *options, headers=basic) as url:
        none = backfill(url, tmp_path / "data")
        bad = backfill(url, tmp_path / "data", "--username", "bob", "--password-file", str(wrong))
        good = backfill(url, tmp_path / "data", "--username", "bob", "--password-file", str(secret))

    assert [3, 3, 0] == [none[0], bad[0], good[0]]
    assert "401" in none[2]
    assert "hunter" not in none[2] + bad[2] + good[2]
    assert COUNT == good[1]["samples"]


def test_own_ca_and_client_certificate(tmp_path: Path) -> None:
    needs("openssl")
    pem = {name: str(tmp_path / name) for name in ("ca.pem", "ca.key", "own.pem", "own.key", "own.csr", "san")}
    (tmp_path / "san").write_text("subjectAltName=IP:127.0.0.1\n")
    for text in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout {ca.key} -out {ca.pem}",
        "req -newkey rsa:2048 -nodes -subj /CN=own -keyout {own.key} -out {own.csr}",
        "x509 -req -days 2 -in {own.csr} -CA {ca.pem} -CAkey {ca.key} -CAcreateserial -extfile {san} -out {own.pem}",
    ):
        words = [pem.get(word[1:-1], word) if word[0] == "{" else word for word in text.split()]
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    web = tmp_path / "web.yml"
    web.write_text(
        f"tls_server_config: {{cert_file: {pem['own.pem']}, key_file: {pem['own.key']}, "
        f"client_auth_type: RequireAndVerifyClientCert, client_ca_file: {pem['ca.pem']}}}\n"
    )
    mine = ("--cert-file", pem["own.pem"], "--key-file", pem["own.key"])
    with prometheus(tmp_path, fleet(), f"--web.config.file={web}", scheme="https") as url:
        stranger = backfill(url, tmp_path / "data", *mine)
        unknown = backfill(url, tmp_path / "data", "--ca-file", pem["ca.pem"])
        good = backfill(url, tmp_path / "data", "--ca-file", pem["ca.pem"], *mine)

    assert [3, 3, 0] == [stranger[0], unknown[0], good[0]]
    assert "not trusted" in stranger[2]
    assert COUNT == good[1]["samples"], good[2]


def test_a_data_directory_that_a_server_uses_is_named(servers: Callable[..., str], tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Store.open(data):
        code, _, entry = backfill(servers("victoria"), data)

    assert 3 == code
    assert str(os.getpid()) in entry
