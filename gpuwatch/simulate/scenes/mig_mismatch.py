"""MIG slices that are too large or too small for what runs on them."""

from __future__ import annotations

from gpuwatch.simulate.loads import HOUR
from gpuwatch.simulate.models import A100, H100
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "mig-mismatch"
MINUTE = 60


@scene(DETECTOR, "oversized", rank=1, gpus=2, hours=40)
def oversized(s: Stage) -> None:
    """A small model on 3g.40gb for a day and a half; beside it slices that are filled, or full once an hour."""
    node = s.node(A100, "kubernetes", gpus=2, layouts=[("3g.40gb", "4g.40gb"), ("3g.40gb", "2g.20gb")], every=2)
    small, burst, filled, right = node.devices
    s.pod((small,), s.ago(39), None, "slice-small", "embed", "ReplicaSet", "chat-prod")
    s.plant(
        "oversized",
        "5 GiB and two fifths of the SMs of a 3g.40gb: 2g.20gb would do",
        ("slice", small.id),
        devices=(small,),
    )
    cycle = (("slice-small", 54 * MINUTE), ("slice-spike", 6 * MINUTE))
    s.pod((burst,), s.ago(39), None, cycle, "burst", "ReplicaSet", "chat-prod")
    s.decoy("bursts", "needs the whole slice for six minutes of every hour", ("slice", burst.id))
    s.pod((filled,), s.ago(39), None, "slice-filled", "vllm", "ReplicaSet", "chat-prod")
    s.decoy("filled-by-its-cache", "its allocator takes all memory it finds", ("slice", filled.id))
    s.pod((right,), s.ago(38), None, "slice-serve", "rerank", "ReplicaSet", "chat-prod")
    s.decoy("fits", "memory and SMs of its slice in use", ("slice", right.id))


@scene(DETECTOR, "too-small", rank=2, gpus=2, hours=8)
def too_small(s: Stage) -> None:
    """A model that does not fit starts again and again; another is killed by the host's memory limit."""
    node = s.node(H100, "kubernetes", gpus=2, layouts=[("1g.10gb",) * 3, ("1g.10gb",) * 2])
    tight, host = node.devices[0], node.devices[3]
    for attempt in range(5):
        start = s.ago(7) + attempt * HOUR
        s.pod((tight,), start, start + 38 * MINUTE, "slice-full", "crash", "Job", state="FAILED", exit_code=1)
    s.plant(
        "out-of-memory",
        "five attempts that fill 1g.10gb and fail",
        ("slice", tight.id),
        devices=(tight,),
        since_s=s.ago(7),
        until_s=s.ago(7) + 4 * HOUR + 38 * MINUTE,
    )
    for attempt in range(3):
        start = s.ago(7) + attempt * HOUR
        s.pod((host,), start, start + 40 * MINUTE, "slice-small", "oomkilled", "Job", state="FAILED", exit_code=137)
    s.decoy("host-memory", "137: the host's memory, the slice is nearly empty", ("slice", host.id), devices=(host,))
