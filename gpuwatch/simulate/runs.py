"""Runs: one job or pod that holds devices from a start to an end."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuwatch.simulate.fleet import Device
from gpuwatch.simulate.loads import Course


@dataclass(frozen=True)
class Owner:
    """The requester: a Slurm user and account, or a Kubernetes namespace with pod labels. Empty = unknown."""

    user: str = ""
    account: str = ""
    namespace: str = ""
    queue: str = ""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Run:
    """A run. Times are whole seconds since the window's start; `end_s` None = still running at its end.

    `start_s` None = still pending. `courses` has one course a device, in the order of `devices`.
    """

    number: int
    job_id: str
    name: str
    scheduler: str
    owner: Owner
    kind: str
    gpus: int
    submit_s: int
    start_s: int | None = None
    end_s: int | None = None
    state: str = "PENDING"
    devices: tuple[Device, ...] = ()
    courses: tuple[Course, ...] = ()
    scenario: str = ""
    profile: str = ""
    pool: str = ""
    controller: str = ""
    pod: str = ""
    pod_uid: str = ""
    array: tuple[int, int] | None = None
    restarted_s: int | None = None
    reason: str = ""
    """The scheduler's reason why it waits; for a Kubernetes pod the message of its condition."""
    priority: int = 1
    workload: str = ""
    """Name of its controller if it differs from `name`."""
    authority: str = "default-scheduler"
    """schedulerName of a pod."""
    exit_code: int | None = None
    taken: str = ""
    """Reason of the disruption that ended a pod: PreemptionByScheduler, EvictionByEvictionAPI."""
    creating: str = ""
    """Node on which a pod is still pulling its image, so that it does not hold devices yet."""
    blocked: str = ""
    """Why the container of a pod does not run: ImagePullBackOff, CreateContainerConfigError, CrashLoopBackOff."""
    restarts: int = 0
    factor: float = 1.0
    """Factor for the activity, power and traffic of its levels."""
    annotations: tuple[tuple[str, str], ...] = ()
    placement: dict[str, object] = field(default_factory=dict, hash=False)
    """Fields of a pod's spec that limit its nodes: nodeSelector, affinity, tolerations."""
    events_kept: bool = True
    """Whether the pod's events were still there when the cluster was dumped."""

    def held(self, window_s: int) -> tuple[int, int]:
        """[start, end) in seconds, within the window."""
        if self.start_s is None:
            raise ValueError(f"run {self.job_id} has not started")
        return self.start_s, window_s if self.end_s is None else self.end_s

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its nodes, each once, in order."""
        return tuple(dict.fromkeys(device.node for device in self.devices))
