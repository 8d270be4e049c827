"""The simulated bundle: same seed, same bytes; texts that look like the tools that print them."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

from gpuwatch.core.errors import UsageError
from gpuwatch.simulate import Truth, simulate

SAMPLE = re.compile(r'^(DCGM_FI_[A-Z0-9_]+)\{((?:\w+="[^"]*",?)+)\} (\S+) (\d{13})$')


def digests(folder: Path) -> dict[str, str]:
    """File name to content hash and modification time."""
    return {
        str(path.relative_to(folder)): f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """32 GPUs for two days at four-minute steps."""
    out = tmp_path_factory.mktemp("bundle")
    return out, simulate(out, gpus=32, days=2, seed=7, step_s=240)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({"gpus": 3}, "3 GPUs", id="too few GPUs are refused by number"),
        pytest.param({"days": 0.1}, "0.1 days", id="a window too short for any case is refused"),
        pytest.param({"step_s": 0}, "a step of 0 s", id="a step of nothing is refused"),
    ],
)
def test_refuses(tmp_path: Path, options: dict[str, int], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        simulate(tmp_path, **options)  # type: ignore[arg-type]

    assert [] == list(tmp_path.iterdir())


def test_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        simulate(tmp_path / name, gpus=8, days=0.5, seed=seed, step_s=60)

    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    different = [name for name, value in digests(tmp_path / "c").items() if digests(tmp_path / "a").get(name) != value]
    assert {"truth.json", "slurm/sacct.txt", "k8s/pods.json"} <= set(different)


def test_samples_are_exporter_lines_on_half_steps_that_span_the_window(world: tuple[Path, Truth]) -> None:
    out, truth = world
    start_ms, end_ms, step_ms = truth.epoch.us(0) // 1000, truth.epoch.us(truth.epoch.window_s) // 1000, 240_000
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    total = 0
    for path in sorted((out / "metrics").iterdir()):
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            if line.startswith("#"):
                continue
            match = SAMPLE.match(line)
            assert match, line
            labels = dict(pair.split("=", 1) for pair in match[2].split(","))
            device = labels["UUID"].strip('"')
            if "GPU_I_ID" in labels:
                device += f"/GI-{labels['GPU_I_ID']}".replace('"', "")
                assert match[1] != "DCGM_FI_DEV_GPU_UTIL"
            stamp = int(match[4])
            first[device] = min(stamp, first.get(device, stamp))
            last[device] = max(stamp, last.get(device, stamp))
            total += 1

    exported = {device.id for device in truth.fleet.devices() if device.exported}
    assert exported == set(first)
    assert {start_ms + step_ms // 2} == set(first.values())
    assert {end_ms - step_ms // 2} == set(last.values())
    assert truth.samples == total


def test_only_the_node_with_default_counters_lacks_sm_active(world: tuple[Path, Truth]) -> None:
    out, _ = world
    without = {
        path.name.rsplit("-", 1)[0]
        for path in (out / "metrics").iterdir()
        if b"DCGM_FI_PROF_SM_ACTIVE" not in gzip.decompress(path.read_bytes())
    }

    assert {"gpu-a100-lite-01"} == without


def test_sacct_rows_agree_with_the_truth(world: tuple[Path, Truth]) -> None:
    out, truth = world
    rows = list(csv.DictReader((out / "slurm/sacct.txt").read_text().splitlines(), delimiter="|"))
    slurm = {run.job_id: run for run in truth.runs if run.scheduler == "slurm"}

    assert set(slurm) == {row["JobID"] for row in rows}
    assert len(rows) == len({row["JobIDRaw"] for row in rows})
    for row in rows:
        run = slurm[row["JobID"]]
        if run.start_s is None:
            assert ("PENDING", "Unknown", "None assigned") == (row["State"], row["Start"], row["NodeList"])
            continue
        start, end = run.held(truth.epoch.window_s)
        assert str(end - start) == row["ElapsedRaw"]
        assert truth.epoch.naive(start) == row["Start"]
        assert ("Unknown" if run.end_s is None else truth.epoch.naive(end)) == row["End"]
        assert f"gres/gpu={len(run.devices)}," in row["AllocTRES"]


def test_scontrol_knows_the_gpu_indexes_of_running_jobs(world: tuple[Path, Truth]) -> None:
    out, truth = world
    text = (out / "slurm/scontrol_job.txt").read_text()
    running = [run for run in truth.runs if run.scheduler == "slurm" and run.state == "RUNNING"]

    assert len(running) == text.count("JobState=RUNNING")
    hidden = next(run for run in running if run.scenario.endswith("hidden-gpu-slurm"))
    block = next(block for block in text.split("\n\n") if block.strip().startswith(f"JobId={hidden.number} "))
    assert "(IDX:0-3)" in block
    assert "gpu-a100-dark-01" in (out / "slurm/scontrol_node.txt").read_text()


def test_pods_and_nodes_say_what_was_held(world: tuple[Path, Truth]) -> None:
    out, truth = world
    pods = {item["metadata"]["uid"]: item for item in json.loads((out / "k8s/pods.json").read_text())["items"]}
    nodes = json.loads((out / "k8s/nodes.json").read_text())["items"]

    assert {run.pod_uid for run in truth.runs if run.pod} == set(pods)
    for run in truth.runs:
        if run.pod and run.start_s is not None:
            pod = pods[run.pod_uid]
            limits = pod["spec"]["containers"][0]["resources"]["limits"]
            resource = f"nvidia.com/mig-{run.profile}" if run.profile else "nvidia.com/gpu"
            assert {resource: str(len(run.devices))} == limits
            assert truth.epoch.rfc3339(run.start_s) == pod["status"]["startTime"]
            assert run.nodes[0] == pod["spec"]["nodeName"]
    for item in nodes:
        name, capacity = item["metadata"]["name"], item["status"]["capacity"]
        node = next(node for node in truth.fleet.nodes if node.name == name)
        slices = sum(int(count) for key, count in capacity.items() if key.startswith("nvidia.com/mig-"))
        assert len(node.devices) == slices + int(capacity["nvidia.com/gpu"])


def test_truth_file_is_what_simulate_returns(world: tuple[Path, Truth]) -> None:
    out, truth = world

    assert truth.plain() == json.loads((out / "truth.json").read_text())
