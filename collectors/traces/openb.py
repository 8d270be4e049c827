"""Import kind `trace-openb`: nodes and pods of Alibaba's GPU-sharing cluster of 2023."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gpuwatch.collectors.shared.json_fields import compact_json
from gpuwatch.collectors.shared.records import Row, batches
from gpuwatch.collectors.traces.first_fit import FirstFit
from gpuwatch.collectors.traces.trace_table import header, seconds_us, table_rows, whole
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = (
    *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase"),
    *("creation_time", "deletion_time", "scheduled_time"),
)
NODE_FILES, POD_FILES = "openb_node_list*.csv*", "openb_pod_list*.csv*"
USUAL_PODS = "openb_pod_list_default"
"""The pod list to use if a directory has several: the others are variants with the same pods."""
MAX_NODES = 100_000
MAX_PODS = 2_000_000
MAX_GPUS = 1024
NAMESPACE = "openb"
WHOLE_MILLI = 1000


class Pod(NamedTuple):
    """A pod that held GPUs; times in microseconds from the start of the trace."""

    start_us: int
    name: str
    end_us: int | None
    row: dict[str, str]


@importer("trace-openb", "openb trace: the directory of openb_node_list*.csv and openb_pod_list*.csv(.gz), or one file")
def read_openb_trace(source: Source, rejects: Rejects) -> Rows:
    """Yields `node` rows, `claim` rows of scheduled pods, and `pending` rows of pods that were never scheduled.

    Times start at the epoch, because the trace has no date. `gpu_milli` is kept as a label, and a pod with a fraction
    of a GPU holds the whole GPU, because the trace does not contain which pods shared one. It has no placements either:
    pods get the first free GPUs of the nodes in the same directory, or of stand-ins if there is only a pod list. An
    invalid row is rejected with its line. Raises UnreadableInput.
    """
    yield from batches(_rows(source, rejects))


def _rows(source: Source, rejects: Rejects) -> Iterator[Row]:
    nodes: list[tuple[str, int]] = []
    node_file, pod_file = _files(Path(source.path), rejects)
    if node_file is not None:
        for name, gpus, row in _nodes(node_file, source.cluster, rejects):
            nodes.append((name, gpus))
            yield row
    if pod_file is not None:
        yield from _pods(pod_file, source.cluster, nodes, rejects)


def _files(path: Path, rejects: Rejects) -> tuple[str | None, str | None]:
    """The node list and the pod list of a directory, or the one of them that a single file is, by its header."""
    if not path.is_dir():
        names = set(header(str(path)))
        if names >= set(NODE_COLUMNS):
            return str(path), None
        if names >= set(POD_COLUMNS):
            return None, str(path)
        raise UnreadableInput(f"{path}: line 1: neither the columns of the node list nor those of a pod list of openb")
    nodes, pods = sorted(path.glob(NODE_FILES)), sorted(path.glob(POD_FILES))
    if not nodes and not pods:
        raise UnreadableInput(f"{path}: neither {NODE_FILES} nor {POD_FILES} is here")
    usual = next((file for file in pods if file.name.startswith(f"{USUAL_PODS}.")), pods[0] if pods else None)
    for file in [*nodes[1:], *(file for file in pods if file != usual)]:
        rejects.add("ignored: another list of the same pods or nodes; pass the file to import it", str(file), 0)
    return (str(nodes[0]) if nodes else None), (str(usual) if usual else None)


def _nodes(path: str, cluster: str, rejects: Rejects) -> Iterator[tuple[str, int, Row]]:
    for line, row in table_rows(path, NODE_COLUMNS, rejects, MAX_NODES):
        try:
            gpus = whole(row, "gpu", MAX_GPUS)
            if not row["sn"]:
                raise ValueError("no sn")
        except ValueError as error:
            rejects.add(str(error), path, line, ",".join(row.values()))
            continue
        yield (
            row["sn"],
            gpus,
            (
                "node",
                {
                    "cluster": cluster,
                    "scheduler": "kubernetes",
                    "node": row["sn"],
                    "state": "up",
                    "gpu_model": row["model"] or None,
                    "devices": compact_json({"": gpus} if gpus else {}),
                    "sharing": "none",
                    "labels": compact_json({"cpu_milli": row["cpu_milli"], "memory_mib": row["memory_mib"]}),
                },
            ),
        )


def _pods(path: str, cluster: str, nodes: list[tuple[str, int]], rejects: Rejects) -> Iterator[Row]:
    fleet = FirstFit(lambda number: f"{NAMESPACE}-unplaced-{number:04d}", nodes)
    held: list[Pod] = []
    for line, row in table_rows(path, POD_COLUMNS, rejects, MAX_PODS):
        try:
            if not _asks(row):
                continue
            if not row["scheduled_time"]:
                yield "pending", _pending(row, cluster)
                continue
            start_us = seconds_us(row, "scheduled_time")
            end_us = seconds_us(row, "deletion_time") if row["deletion_time"] else None
            seconds_us(row, "creation_time")
            if end_us is not None and end_us < start_us:
                raise ValueError("deletion_time precedes scheduled_time")
        except ValueError as error:
            rejects.add(str(error), path, line, ",".join(row.values()))
            continue
        held.append(Pod(start_us, row["name"], end_us, row))
    last_us = max((pod.end_us or pod.start_us for pod in held), default=0)
    for pod in sorted(held, key=lambda pod: (pod.start_us, pod.name)):
        ((node, gpus),) = fleet.place(pod.start_us, pod.end_us or last_us, int(pod.row["num_gpu"]), one_node=True)
        yield "claim", _claim(pod, cluster, node, gpus)


def _asks(row: dict[str, str]) -> int:
    """GPUs that a pod requests, 0 for a pod without GPUs. Raises ValueError for an invalid row."""
    if not row["name"]:
        raise ValueError("no name")
    gpus, milli = whole(row, "num_gpu", MAX_GPUS), whole(row, "gpu_milli", WHOLE_MILLI)
    if gpus and not milli:
        raise ValueError("gpu_milli is 0 for a pod with GPUs")
    return gpus


def _claim(pod: Pod, cluster: str, node: str, gpus: int) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "scheduler": "kubernetes",
        "kind": "trace-openb",
        "job_id": f"{NAMESPACE}/{pod.name}",
        "run_key": f"{pod.name}@{pod.start_us}",
        "pod_uid": pod.name,
        "pod": pod.name,
        "namespace": NAMESPACE,
        "node": node,
        "gpu_type": pod.row["gpu_spec"] or None,
        "device_count": gpus,
        "submit_us": seconds_us(pod.row, "creation_time"),
        "start_us": pod.start_us,
        "end_us": pod.end_us,
        "evidence_us": pod.end_us if pod.end_us is not None else pod.start_us,
        "state": pod.row["pod_phase"] or None,
        "qos": pod.row["qos"] or None,
        "name": pod.name,
        "labels": compact_json({"gpu_milli": pod.row["gpu_milli"], "placement": "estimated"}),
    }


def _pending(row: dict[str, str], cluster: str) -> dict[str, Any]:
    """The row of a pod that was deleted before it was scheduled; it waited from its creation to its deletion."""
    submit_us = seconds_us(row, "creation_time")
    return {
        "cluster": cluster,
        "scheduler": "kubernetes",
        "job_id": f"{NAMESPACE}/{row['name']}",
        "submit_us": submit_us,
        "evidence_us": max(submit_us, seconds_us(row, "deletion_time")) if row["deletion_time"] else submit_us,
        "device_count": int(row["num_gpu"]),
        "gpu_type": row["gpu_spec"] or None,
        "node_count": 1,
        "namespace": NAMESPACE,
    }
