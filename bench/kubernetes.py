"""A cluster's watch events through the live source into a store: events a second, and the memory that they take.

Run with `python -m bench.kubernetes [PODS [JOBS]]`. A server of this program's own, in a process of its own, lists nothing and
then plays the life of every pod (made, bound, started, labelled, ended, deleted) and of the job that it belongs to, as fast as the
source takes it. The clock stops when the last end is on disk.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from aiohttp import web

from gpuwatch.core.clock import SECOND_US, rfc3339
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings

PODS, JOBS = 10_000, 10_000
GPUS_A_NODE = 8
T0_US = 1_793_577_600_000_000
WAIT_S = 300.0
LOOK_S = 0.1
PIECE = 256 << 10

Json = dict[str, Any]


def events(pods: int, jobs: int) -> tuple[dict[str, list[bytes]], int]:
    """Lines of each watch by path, and how many pods end."""
    every: list[Json] = []
    version = 100
    steps = ("made", "bound", "started", "labelled", "ended")
    for step in (*steps, "gone"):
        for number in range(pods):
            version += 1
            word = {"made": "ADDED", "gone": "DELETED"}.get(step, "MODIFIED")
            every.append(
                {"type": word, "object": pod(number, min(steps.index(step) if step in steps else 4, 4), version)}
            )
    work = [{"type": "ADDED" if k == 0 else "MODIFIED", "object": job(n, k, n)} for k in range(3) for n in range(jobs)]
    nodes = [{"type": "ADDED", "object": node(n)} for n in range(-(-pods // GPUS_A_NODE))]
    found = {"/api/v1/pods": every, "/apis/batch/v1/jobs": work, "/api/v1/nodes": nodes}
    return {path: [json.dumps(e).encode() + b"\n" for e in lines] for path, lines in found.items()}, pods


def pod(number: int, step: int, version: int) -> Json:
    """A pod as a real server prints it, managed fields and all: about 4 KB."""
    name = f"train-{number // 8}-{number % 8}"
    made, started, ended = (rfc3339(T0_US + (number % 3600 + s) * SECOND_US) for s in (0, 30, 900))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-{number // 8}", "uid": f"job-{number // 8}"}
    labels = {"app": "train", "batch.kubernetes.io/job-name": owner["name"], "team": f"team-{number % 40}"}
    fields: Json = {f"f:field-{k}": {"f:value": {}, f'k:{{"type":"{k}"}}': {}} for k in range(40)}
    metadata = {
        "name": name,
        "namespace": f"team-{number // 8 % 40}",
        "uid": f"0000{number:08d}-aaaa-bbbb-cccc",
        "resourceVersion": str(version),
        "creationTimestamp": made,
        "labels": labels | ({"phase": "warm"} if step >= 3 else {}),
        "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
        "managedFields": [
            {"manager": "kube-controller-manager", "operation": "Update", "time": made, "fieldsV1": fields}
        ],
    }
    variables = [{"name": f"NCCL_OPTION_{k}", "value": f"value-{k}"} for k in range(20)]
    limits = {"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": "main",
        "image": "registry/train:1",
        "env": variables,
        "resources": {"limits": limits, "requests": limits},
    }
    spec: Json = {"containers": [container], "restartPolicy": "Never", "schedulerName": "default-scheduler"}
    status: Json = {"phase": "Pending", "qosClass": "Guaranteed", "conditions": []}
    if step >= 1:
        spec["nodeName"] = f"gpu-node-{number // GPUS_A_NODE:05d}"
        status["conditions"] = [
            {"type": kind, "status": "True", "lastTransitionTime": made, "lastProbeTime": None}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
    if step >= 2:
        state: Json = {"running": {"startedAt": started}}
        if step == 4:
            state = {"terminated": {"startedAt": started, "finishedAt": ended, "exitCode": 0, "reason": "Completed"}}
        told = {
            "name": "main",
            "state": state,
            "lastState": {},
            "ready": step < 4,
            "restartCount": 0,
            "image": "registry/train:1",
        }
        status |= {"phase": "Succeeded" if step == 4 else "Running", "startTime": made, "containerStatuses": [told]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def job(number: int, step: int, version: int) -> Json:
    """A Job of eight pods that is made, runs and completes."""
    made, ended = (rfc3339(T0_US + (number % 3600 + s) * SECOND_US) for s in (0, 900))
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    status: Json = {} if step == 0 else {"startTime": made, "active": 8}
    if step == 2:
        done = {"type": "Complete", "status": "True", "lastTransitionTime": ended}
        status = {"startTime": made, "completionTime": ended, "succeeded": 8, "conditions": [done]}
    metadata = {
        "name": f"train-{number}",
        "namespace": f"team-{number % 40}",
        "uid": f"job-{number}",
        "creationTimestamp": made,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata | {"resourceVersion": str(version)},
        "spec": {"parallelism": 8, "completions": 8, "template": {"spec": {"containers": [container]}}},
        "status": status,
    }


def node(number: int) -> Json:
    """A node of eight GPUs."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": str(GPUS_A_NODE)}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(T0_US)}
    return {
        "metadata": {"name": f"gpu-node-{number:05d}", "uid": f"node-{number}", "labels": labels},
        "status": {"capacity": {"nvidia.com/gpu": str(GPUS_A_NODE)}, "conditions": [ready]},
    }


def serve(port: Connection, pods: int, jobs: int) -> None:
    """The API server: tells its port once its lines are made; plays when it is told to go on; then stays open."""
    lines, _ = events(pods, jobs)
    go = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await go.wait()
            with suppress(ConnectionError):  # the source went: all is on disk
                for piece in _pieces(lines.get(request.path, [])):
                    await response.write(piece)
                await asyncio.Event().wait()
        if request.path == "/apis":
            return web.json_response({"groups": [{"name": "batch", "versions": [{"version": "v1"}]}]})
        if request.path == "/apis/batch/v1":
            return web.json_response({"resources": [{"name": "jobs", "verbs": ["list", "watch"]}]})
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [], "resources": []})

    async def play() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port.send(runner.addresses[0][1])
        await asyncio.to_thread(port.recv)
        go.set()
        await asyncio.Event().wait()

    asyncio.run(play())


def _pieces(lines: list[bytes]) -> Iterator[bytes]:
    """Lines in pieces as a busy server writes them."""
    joined = b"".join(lines)
    for at in range(0, len(joined), PIECE):
        yield joined[at : at + PIECE]


def measure(directory: Path, pods: int = PODS, jobs: int = JOBS) -> dict[str, float]:
    """Events a second from the first line to the last end on disk, and the largest memory of this process in MB."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, pods, jobs), daemon=True)
    server.start()
    try:
        table = {"cluster": "bench", "server": f"http://127.0.0.1:{ours.recv()}"}
        before_mb = _peak_mb()
        service = Service.open(directory, Settings(), {"kubernetes": [table]}, now_us=lambda: T0_US + 7200 * SECOND_US)
        service.start()
        time.sleep(2)  # every watch is open
        ours.send("go")
        wall, processor = time.perf_counter(), time.process_time()
        deadline = wall + WAIT_S
        while not _done(service, pods, jobs):
            if time.perf_counter() > deadline:
                raise TimeoutError(f"the ends of {pods} pods and {jobs} jobs are not on disk after {WAIT_S:g} s")
            time.sleep(LOOK_S)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        service.stop()
    finally:
        server.kill()
        server.join()
    count = 6 * pods + 3 * jobs + -(-pods // GPUS_A_NODE)
    return {
        "pods": pods,
        "jobs": jobs,
        "events": count,
        "events_per_s": count / wall,
        "events_per_processor_s": count / processor,
        "seconds": wall,
        "rss_before_mb": before_mb,
        "rss_mb": _peak_mb(),
    }


def _done(service: Service, pods: int, jobs: int) -> bool:
    with service.reader() as store:
        ended = store.sql("select count(distinct pod_uid) from claim where end_us is not null")[0][0]
        over = store.sql("select count(distinct uid) from workload where end_us is not null")[0][0]
    return bool(ended == pods and over == jobs)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main() -> None:
    """Prints the figures."""
    sizes = [int(text) for text in sys.argv[1:3]]
    with tempfile.TemporaryDirectory(prefix="gpuwatch-kubernetes-") as folder:
        print(json.dumps(measure(Path(folder), *sizes), indent=1))


if __name__ == "__main__":
    main()
