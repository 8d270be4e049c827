"""Gangs of which only a part runs, and gangs that only look so."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.simulate.fleet import Device
from gpuwatch.simulate.kubernetes import uid
from gpuwatch.simulate.models import A100
from gpuwatch.simulate.runs import Run
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Json, Stage

DETECTOR = "gang-partial"
NAMESPACE, TEAM = "gangs", "nlp"
NO_ROOM = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: no preemption victims found."


@scene(DETECTOR, "five-of-eight", rank=1, gpus=8, hours=7)
def five_of_eight(s: Stage) -> None:
    """Volcano without all-or-nothing: five of eight workers hold GPUs and wait for three that find none."""
    nodes = [s.node(A100, "kubernetes", gpus=4) for _ in range(2)]
    gpus = [device for node in nodes for device in node.devices]
    for at in range(3):
        s.pod(gpus[at : at + 1], s.ago(6.9), None, "train", f"steady-{at}", authority="volcano")
    members = gang(s, "ranks", gpus[3:], 8, 8, s.ago(3.2))
    s.plant(
        "five-of-eight", "five of eight members hold GPUs since hours, three find none", members[0], devices=gpus[3:]
    )
    s.allow("idle-hoarding", members[0], "its GPUs are idle because the gang is not complete")


@scene(DETECTOR, "deadlock", rank=2, gpus=4, hours=7)
def deadlock(s: Stage) -> None:
    """Two gangs of three, each with two of the four GPUs: neither can start, either could if the other let go."""
    node = s.node(A100, "kubernetes", gpus=4)
    before = s.pod(node.devices, s.ago(6.9), s.ago(4.2), "train", "before", authority="volcano")
    assert before.end_s is not None
    for name, devices in (("left", node.devices[:2]), ("right", node.devices[2:])):
        members = gang(s, name, devices, 3, 3, s.ago(4))
        s.plant("deadlock", "two gangs hold half of what each of them needs", members[0], devices=devices)
        s.allow("idle-hoarding", members[0], "its GPUs are idle because the gang is not complete")


@scene(DETECTOR, "will-be-complete", rank=3, gpus=8, hours=6)
def will_be_complete(s: Stage) -> None:
    """Members that pull their image, and an elastic job that runs with fewer than it may have."""
    nodes = [s.node(A100, "kubernetes", gpus=4) for _ in range(2)]
    pulling = gang(s, "pulling", nodes[0].devices[:2], 4, 4, s.ago(0.07), creating=nodes[0].name)
    s.decoy("image-pull", "two members pull their image since four minutes", pulling[0])
    elastic = gang(s, "elastic", nodes[1].devices[:3], 4, 2, s.ago(5.5), load="train")
    s.decoy("elastic", "needs two members, has three, and takes a fourth if it comes", elastic[0])


def gang(
    s: Stage,
    name: str,
    devices: Sequence[Device],
    size: int,
    least: int,
    start_s: int,
    load: str = "waiting",
    creating: str = "",
) -> list[Run]:
    """A Volcano Job of `size` pods of one GPU that needs `least`; those beyond `devices` wait, or pull on `creating`."""
    shared = {
        "workload": name,
        "namespace": NAMESPACE,
        "team": TEAM,
        "authority": "volcano",
        "controller": "VolcanoJob",
        "annotations": (("scheduling.k8s.io/group-name", f"{s.tag}-{name}"),),
        "submit_s": start_s - 20,
    }
    members = [s.pod((device,), start_s, None, load, **shared) for device in devices]  # type: ignore[arg-type]
    for _ in range(size - len(devices)):
        late = {"creating": creating} if creating else {"reason": NO_ROOM}
        pool = members[0].pool
        members.append(s.pod((), None, gpus=1, pool=pool, **shared, **late))  # type: ignore[arg-type]
    pulling = bool(creating)
    s.objects.append(pod_group(s, f"{s.tag}-{name}", NAMESPACE, size, least, len(devices), start_s, pulling=pulling))
    return members


def pod_group(
    s: Stage,
    name: str,
    namespace: str,
    size: int,
    least: int,
    running: int,
    start_s: int,
    pulling: bool = False,
    queue: str = "default",
    gpus: int = 1,
) -> Json:
    """The PodGroup of a Volcano Job of `size` pods with `gpus` GPUs each."""
    made = s.epoch.rfc3339(start_s - 20)
    whole = running >= least
    condition = {
        "type": "Scheduled" if whole or pulling else "Unschedulable",
        "status": "True",
        "reason": "tasks in gang are ready to be scheduled" if whole or pulling else "NotEnoughResources",
        "message": "" if whole or pulling else f"{size - running}/{size} tasks in gang unschedulable",
        "lastTransitionTime": s.epoch.rfc3339(start_s + 30),
    }
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid("podgroup", s.tag, name, str(s.seed)),
            "creationTimestamp": made,
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcano.sh/v1alpha1",
                    "kind": "Job",
                    "name": name,
                    "uid": uid(namespace, "VolcanoJob", name),
                    "controller": True,
                }
            ],
        },
        "spec": {"minMember": least, "queue": queue, "minResources": {"nvidia.com/gpu": str(least * gpus)}},
        "status": {
            "phase": "Running" if whole else "Unknown" if running else "Inqueue",
            "running": running,
            "conditions": [condition],
        },
    }
