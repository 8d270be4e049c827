"""The records that collectors produce and the store keeps.

Collectors turn input into Arrow tables with the schemas below, one per store table. Times are integer microseconds since
the Unix epoch (UTC) in columns that end in `_us`; ratios are 0..1; a missing value is NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

import pyarrow as pa

from gpuwatch.core.bill import BILL, BILL_FILE
from gpuwatch.core.queue_model import QUEUE, RESERVATION, WORKLOAD

WHOLE_GPU = -1
"""`gi` of a row about the whole GPU: MIG GPU-instance ids start at 0."""

RUN_US_MAX = 5 * 366 * 86_400_000_000
"""A record of a run longer than five years is invalid: its hours would flood the ledger."""

CONTEXT = pa.schema(
    [
        ("context_id", pa.int64()),  # hash of all the other columns: see context_key
        ("device_id", pa.int64()),  # hash of (cluster, gpu, gi): see device_key
        ("cluster", pa.string()),
        ("gpu", pa.string()),  # UUID of the physical GPU, also on rows of a MIG instance
        ("gi", pa.int32()),  # NVML GPU-instance id, WHOLE_GPU for the GPU itself
        ("profile", pa.string()),  # MIG profile as the exporter prints it ("1g.10gb"), NULL for a GPU
        ("node", pa.string()),
        ("gpu_index", pa.int32()),  # label gpu="0"
        ("pci_bus_id", pa.string()),
        ("model", pa.string()),  # label modelName
        ("driver", pa.string()),
        ("namespace", pa.string()),
        ("pod", pa.string()),
        ("pod_uid", pa.string()),
        ("container", pa.string()),
        ("job", pa.string()),  # label hpc_job
    ]
)
"""The labels of samples: one row per distinct set of labels, referenced by every sample."""

CLAIM = pa.schema(
    [
        ("cluster", pa.string()),
        ("scheduler", pa.string()),  # slurm | kubernetes | ray
        ("kind", pa.string()),  # origin: scontrol has devices by node, sacct totals spread over nodes, k8s-json pods
        ("job_id", pa.string()),  # the id of a finding's subject
        ("run_key", pa.string()),  # one run of the job, which findings refer to; unique with job_id
        ("pod_uid", pa.string()),
        ("pod", pa.string()),
        ("namespace", pa.string()),
        ("node", pa.string()),  # one row per node
        ("gpu_type", pa.string()),  # gres type or product, NULL when untyped
        ("profile", pa.string()),  # MIG profile, NULL for whole GPUs
        ("device_count", pa.int32()),  # devices of that type held on that node
        ("device_indexes", pa.string()),  # "0,1,2": scheduler indexes on the node, NULL unknown
        ("gpus", pa.string()),  # comma-separated GPU or MIG UUIDs, NULL unknown
        ("submit_us", pa.int64()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),  # NULL: not ended when the record was written
        ("evidence_us", pa.int64()),  # last instant that this record covers (start + elapsed of a running job)
        ("state", pa.string()),  # the scheduler's name: COMPLETED, RUNNING, Succeeded, ...
        ("user_name", pa.string()),
        ("account", pa.string()),
        ("queue", pa.string()),  # Slurm partition, Kueue/Volcano/YuniKorn queue
        ("qos", pa.string()),
        ("name", pa.string()),
        ("labels", pa.string()),  # JSON object of pod labels, or Slurm comment keys
        ("suspended_us", pa.int64()),  # total time suspended, NULL unknown
        ("fraction", pa.float64()),  # GPUs held if not a whole number (Ray: 0.5), NULL: device_count
        ("naive_us", pa.int64()),  # start as it was printed, as if it were UTC; NULL: the source gave the offset
        ("naive_zone", pa.string()),  # IANA name of the zone in which that time was read
        ("cpu_milli", pa.int64()),  # thousandths of CPUs that it was given on the node, NULL unknown
        ("memory_bytes", pa.int64()),  # the same of memory
        ("node_rule", pa.string()),  # as in PENDING, NULL none or unknown
    ]
)
"""A scheduler's record that a run held devices of one type on one node during [start_us, end_us)."""

PENDING = pa.schema(
    [
        ("cluster", pa.string()),
        ("scheduler", pa.string()),
        ("job_id", pa.string()),
        ("submit_us", pa.int64()),
        ("start_us", pa.int64()),  # NULL while waiting
        ("evidence_us", pa.int64()),
        ("device_count", pa.int32()),
        ("profile", pa.string()),
        ("gpu_type", pa.string()),
        ("node_count", pa.int32()),
        ("user_name", pa.string()),
        ("account", pa.string()),
        ("namespace", pa.string()),
        ("queue", pa.string()),
        ("reason", pa.string()),
        ("message", pa.string()),  # why the scheduler placed none of its pods, NULL unknown
        (
            "node_rule",
            pa.string(),
        ),  # JSON: the labels and tolerations that its pods name, or {"constraint": that of Slurm}
        ("naive_us", pa.int64()),  # submission as it was printed, see CLAIM
        ("naive_zone", pa.string()),
        ("cpu_milli", pa.int64()),  # thousandths of CPUs that the whole request asks for, NULL unknown
        ("memory_bytes", pa.int64()),  # the same of memory
    ]
)
"""A request for GPUs that had not started when its record was written."""

NODE = pa.schema(
    [
        ("cluster", pa.string()),
        ("scheduler", pa.string()),
        ("node", pa.string()),
        ("observed_us", pa.int64()),  # when the record was written, NULL unknown
        ("state", pa.string()),  # up | drain | down
        ("since_us", pa.int64()),  # start of that state, NULL unknown
        ("reason", pa.string()),
        ("gpu_model", pa.string()),  # product label or gres type of the whole GPUs
        ("devices", pa.string()),  # JSON {"": 8} or {"1g.10gb": 7, "": 2}: count by MIG profile, "" = whole GPUs
        ("sharing", pa.string()),  # none | time-slicing | mps
        ("replicas", pa.int32()),  # per shared GPU
        ("mig_strategy", pa.string()),
        ("pool", pa.string()),  # first Slurm partition, or node-pool label
        ("labels", pa.string()),  # JSON
        ("created_us", pa.int64()),  # boot (Slurm) or creation (Kubernetes), NULL unknown
        ("taints", pa.string()),  # JSON: [[key, value, effect]] of those that keep pods away, NULL unknown or none
        ("cpu_milli", pa.int64()),  # thousandths of CPUs that jobs may have, NULL unknown
        ("memory_bytes", pa.int64()),  # the same of memory
        ("cpu_milli_used", pa.int64()),  # of these, what all jobs had when the record was written, NULL unknown
        ("memory_bytes_used", pa.int64()),
    ]
)
"""A scheduler's record of a node at one instant."""

POD_LIST = pa.schema(
    [
        ("cluster", pa.string()),
        ("at_us", pa.int64()),  # when the list was written
        ("namespace", pa.string()),  # whose pods it has, NULL: those of all
        ("node", pa.string()),  # the same of nodes
    ]
)
"""A complete list of pods in a file: one that was running before and is not in it was gone by then."""

JOB_LIST = pa.schema(
    [
        ("cluster", pa.string()),
        ("at_us", pa.int64()),  # when the list was written
        ("user_name", pa.string()),  # whose jobs it has, NULL: those of all
        ("account", pa.string()),  # the same of accounts
        ("queue", pa.string()),  # and of partitions
    ]
)
"""A complete list of Slurm's jobs in a file: one that was running before and is not in it was gone by then."""

EVENT = pa.schema(
    [
        ("cluster", pa.string()),
        ("event_id", pa.string()),  # natural key: uid of the Kubernetes event
        ("object_kind", pa.string()),
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("reason", pa.string()),
        ("message", pa.string()),
        ("count", pa.int32()),
        ("first_us", pa.int64()),
        ("last_us", pa.int64()),
    ]
)

LINK = pa.schema(
    [
        ("cluster", pa.string()),
        ("observed_us", pa.int64()),
        ("node", pa.string()),
        ("a", pa.string()),  # GPU0, NIC1, or a node or switch name
        ("b", pa.string()),
        ("level", pa.string()),  # NV18 PIX PXB PHB NODE SYS, or SWITCH, BLOCK
        ("detail", pa.string()),  # JSON: NUMA node, CPU affinity, real NIC name
    ]
)

TABLES: dict[str, pa.Schema] = {
    "context": CONTEXT,
    "claim": CLAIM,
    "pending": PENDING,
    "node": NODE,
    "pod_list": POD_LIST,
    "job_list": JOB_LIST,
    "event": EVENT,
    "link": LINK,
    "queue": QUEUE,
    "workload": WORKLOAD,
    "reservation": RESERVATION,
    "bill": BILL,
    "bill_file": BILL_FILE,
}
"""Store tables with a fixed schema. `sample` has the columns of its batches (see fields.py)."""


def hash64(*parts: str) -> int:
    """A signed 64-bit hash of strings that is the same on every machine and run."""
    digest = blake2b("\x1f".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def device_key(cluster: str, gpu: str, gi: int = WHOLE_GPU) -> int:
    """`device_id` of a GPU (gi = WHOLE_GPU) or of a MIG GPU instance.

    It is a hash and not a counter, so that processes need no coordination and the order of ingest does not matter.
    """
    return hash64(cluster, gpu, str(gi))


def context_key(row: dict[str, object]) -> int:
    """`context_id` of a context row: a hash of its label columns in schema order."""
    names = CONTEXT.names[2:]
    return hash64(*("\x00" if row.get(n) is None else str(row[n]) for n in names))


@dataclass(frozen=True)
class Records:
    """A batch of rows for one store table."""

    table: str
    rows: pa.Table


@dataclass
class Rejects:
    """Rejected input, counted by reason, with the first example of each: at most MAX_REASONS, of MAX_EXAMPLE characters."""

    MAX_REASONS = 200
    MAX_EXAMPLE = 200
    IGNORED = "ignored: "  # begins the reasons of what was left out on purpose

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    naive_times: bool = False
    """Whether the input has local times without an offset, which were read in the source's time zone."""

    def add(self, reason: str, file: str, line: int, text: str = "", count: int = 1) -> None:
        """Counts `count` rejections for a reason; keeps file, line and text of the first."""
        if reason not in self.counts and len(self.counts) >= self.MAX_REASONS:
            reason = "other reasons"
        self.counts[reason] = self.counts.get(reason, 0) + count
        self.first.setdefault(reason, (file, line, text[: self.MAX_EXAMPLE]))

    @property
    def total(self) -> int:
        """The number of rejected records over all reasons."""
        return sum(self.counts.values())

    @property
    def faults(self) -> dict[str, int]:
        """The counts without what was left out on purpose."""
        return {reason: count for reason, count in self.counts.items() if not reason.startswith(self.IGNORED)}


@dataclass(frozen=True)
class Source:
    """The input of a collector: a file, and information that its content lacks."""

    path: str
    cluster: str
    """The cluster of its rows."""
    timezone: str = "UTC"
    """The IANA time zone of naive local times."""
    observed_us: int | None = None
    """When the file was written, for formats without times of their own."""
    beside: tuple[str, ...] = ()
    """All files of this kind and cluster that are imported together, including this one: objects may refer to others."""
    cluster_given: bool = True
    """Whether the user named the cluster. Otherwise a file that names the cluster of a row decides."""


SERIES = pa.schema(
    [("series", pa.int32()), ("device_id", pa.int64()), ("context_id", pa.int64()), ("field", pa.string())]
)
"""The meaning of a series number: a context and a column of fields.py."""

POINT = pa.schema([("series", pa.int32()), ("observed_us", pa.int64()), ("value", pa.float64())])
"""A reading, with unit and range as in fields.py. The store pivots points into wide rows of `sample`."""


@dataclass(frozen=True)
class Points:
    """A batch of readings in long form. `series` has all series numbers that `rows` uses."""

    series: pa.Table
    rows: pa.Table


Rows = Iterator[Records | Points]
