"""Slices that were made for a demand that did not come, while another waits."""

from __future__ import annotations

from gpuwatch.simulate.models import A100, H200
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "mig-speculative"
WEEK_H = 7.3 * 24


@scene(DETECTOR, "wrong-profile", rank=1, gpus=2, hours=WEEK_H)
def wrong_profile(s: Stage) -> None:
    """A 3g.40gb stands empty for a week, and pods wait for 1g.10gb."""
    node = s.node(A100, "kubernetes", gpus=2, every=4, layouts=[("3g.40gb", "3g.40gb"), ("1g.10gb",) * 7])
    used, empty = node.devices[:2]
    s.pod((used,), s.ago(WEEK_H - 1), None, "slice-serve", "large", "ReplicaSet", "chat-prod")
    for at, device in enumerate(node.devices[2:]):
        s.pod((device,), s.ago(WEEK_H - 2), None, "slice-serve", f"small-{at}", "ReplicaSet", "chat-prod")
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb. no preemption victims found."
    for at in range(3):
        s.pod((), None, workload=f"wants-{at}", controller="ReplicaSet", namespace="chat-prod", gpus=1,
              profile="1g.10gb", queue=node.pool, submit_s=s.ago(5 + at), reason=message, pool=node.pool)  # fmt: skip
    s.plant("wrong-profile", "empty for a week while pods wait for 1g.10gb", ("gpu", empty.gpu), devices=(empty,))
    full = node.devices[2].gpu
    s.decoy("in-use", "all seven slices in use for the whole week", ("gpu", full))


@scene(DETECTOR, "used-now-and-then", rank=2, gpus=1, hours=WEEK_H)
def used_now_and_then(s: Stage) -> None:
    """Slices that are used a quarter of the time."""
    node = s.node(H200, "kubernetes", gpus=1, every=4, layouts=[("3g.71gb", "3g.71gb")])
    for at, device in enumerate(node.devices):
        for day in range(7):
            start = s.ago(WEEK_H - 1 - at - 24 * day)
            s.pod((device,), start, start + 6 * 3600, "slice-busy", f"nightly-{at}-{day}", "Job")
    s.decoy("a-quarter-of-the-time", "both used for six hours of each day", ("gpu", node.devices[0].gpu))


@scene(DETECTOR, "whole-gpu-wanted", rank=2, gpus=2, hours=WEEK_H)
def whole_gpu_wanted(s: Stage) -> None:
    """All slices of a GPU stand empty for a week, and a pod waits for a whole GPU."""
    pool = f"{s.tag}-kube"
    cut = s.node(H200, "kubernetes", gpus=1, every=4, layouts=[("1g.18gb",) * 7], pool=pool)
    whole = s.node(H200, "kubernetes", gpus=1, every=4, pool=pool)
    s.pod(whole.devices, s.ago(WEEK_H - 1), None, "train-lean", "whole")
    message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: no preemption victims found."
    s.pod((), None, workload="wants-whole", gpus=1, submit_s=s.ago(4), reason=message, pool=pool, queue=pool)
    s.plant("whole-gpu-wanted", "seven empty slices, and a pod waits for a GPU", ("gpu", cut.devices[0].gpu))
    s.allow("mig-mixed-pool", ("pool", pool), "slices and whole GPUs in one pool while a pod waits")
