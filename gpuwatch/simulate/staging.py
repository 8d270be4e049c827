"""A scene under construction: its nodes, jobs, pods, and planted cases."""

from __future__ import annotations

import hashlib
import uuid
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from gpuwatch.simulate.courses import Load, course_of
from gpuwatch.simulate.fleet import NODE_GPUS, WHOLE, Device, Node, gpu_uuid, mig_devices
from gpuwatch.simulate.loads import HOUR, Course
from gpuwatch.simulate.models import H100, Model
from gpuwatch.simulate.moments import Epoch
from gpuwatch.simulate.owners import QUEUE_LABEL, SLURM_OWNERS, TEAM_LABEL, team_of
from gpuwatch.simulate.patches import Patch
from gpuwatch.simulate.runs import Owner, Run
from gpuwatch.simulate.scene import Scene
from gpuwatch.simulate.truth import Allowed, Case

Json = dict[str, object]

FIRST_NUMBER = 500_000
NUMBERS_A_SCENE, NUMBERS_A_SERIES = 1_000, 100_000
SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
SHORTER_MAX = 0.06
"""By how much a seed shortens the times of a scene."""
SPREAD = 0.04
"""By how much a seed makes a run more or less active than its levels."""


class Stage:
    """A scene under construction. Times are whole seconds of the window; `ago(hours)` counts back from its end. `series`
    above 0: the scene is shown again on the same nodes, with other runs."""

    def __init__(self, made: Scene, number: int, epoch: Epoch, step_s: int, seed: int, series: int = 0) -> None:
        self.made, self.epoch, self.step_s, self.seed = made, epoch, step_s, seed
        self.tag, self.window_s = f"s{number:02d}", epoch.window_s
        key = [seed, 7, zlib.crc32(f"{made.detector}/{made.name}".encode())]
        self.rng = np.random.default_rng([*key, series] if series else key)
        self._pace = 1.0 - SHORTER_MAX * float(self.rng.random())
        self.runs: list[Run] = []
        self.objects: list[Json] = []
        self.planted, self.decoys = list[Case](), list[Case]()
        self.allowed: list[Allowed] = []
        self._nodes: list[Node] = []
        self._patches: dict[str, list[Patch]] = defaultdict(list)
        self._next = FIRST_NUMBER + number * NUMBERS_A_SCENE + series * NUMBERS_A_SERIES

    def ago(self, hours: float) -> int:
        """The second that is `hours` before the end, shortened by up to SHORTER_MAX, equally for the whole scene."""
        return max(0, self.window_s - int(hours * HOUR * self._pace))

    def node(
        self,
        model: Model = H100,
        scheduler: str = "slurm",
        gpus: int = NODE_GPUS,
        counters: str = "training",
        pool: str = "",
        layouts: Sequence[tuple[str, ...]] = (),
        every: int = 1,
        hours: float = 0.0,
        **more: object,
    ) -> Node:
        """Adds a node that joins `hours` (by default those of the scene) before the end; with `layouts` it is a MIG node."""
        name = f"{self.tag}-{model.short}-{len(self._nodes) + 1:02d}"
        spacing = self.step_s * every
        if self.window_s % spacing:
            every, spacing = 1, self.step_s
        joined = self.window_s - int((hours or self.made.hours) * HOUR) // spacing * spacing
        if layouts:
            counters, devices = "mig", mig_devices(name, model, layouts, gpus, self.seed)
        else:
            devices = tuple(
                Device(name, at, gpu_uuid(self.seed, name, at), model, WHOLE, "", Fraction(1), counters != "none")
                for at in range(gpus)
            )
        self._nodes.append(
            Node(
                name,
                scheduler,
                model,
                pool or f"{self.tag}-{scheduler[:4]}",
                counters,
                gpus,
                devices,
                max(0, joined),
                every,
                **more,  # type: ignore[arg-type]
            )
        )
        return self._nodes[-1]

    def swap(self, old: Device, out_s: int, in_s: int) -> tuple[Device, Device]:
        """Takes a GPU out of its slot at `out_s` and puts another in at `in_s`; both as whole samples. Returns both."""
        at, node = next((at, node) for at, node in enumerate(self._nodes) if node.name == old.node)
        spacing = self.step_s * node.every
        out_s, in_s = (node.from_s + (second - node.from_s) // spacing * spacing for second in (out_s, in_s))
        gone = replace(old, until_s=out_s)
        new = replace(old, gpu=gpu_uuid(self.seed, f"{node.name}/new", old.index), since_s=in_s)
        self._nodes[at] = replace(node, devices=(*(d for d in node.devices if d != old), gone, new))
        return gone, new

    def patch(self, device: Device, code: str, start_s: int, end_s: int | None = None, **how: float) -> None:
        """Changes a reading of the GPU of a device; `scale`, `first` and `last` as Patch has them."""
        made = Patch(device.index, code, start_s, end_s, instance=-1 if device.gi == WHOLE else device.gi, **how)
        self._patches[device.node].append(made)

    def job(
        self,
        devices: Sequence[Device],
        start_s: int | None,
        end_s: int | None = None,
        load: Load = "train",
        name: str = "pretrain",
        owner: Owner | None = None,
        loads: Sequence[Load] = (),
        pool: str = "",
        gpus: int = 0,
        submit_s: int | None = None,
        state: str = "",
        number: int = 0,
        **more: object,
    ) -> Run:
        """A Slurm job; without a start it waits for `gpus` GPUs of `pool`. A reused `number` means another run of a job."""
        number = number or self._number()
        owner = owner or SLURM_OWNERS[int(self.rng.integers(len(SLURM_OWNERS)))]
        return self._add(
            Run(
                number,
                str(number),
                name,
                "slurm",
                owner,
                "training",
                gpus or len(devices),
                self._submit(submit_s, start_s),
                start_s,
                end_s,
                state or self._state(start_s, end_s),
                tuple(devices),
                self._courses(devices, start_s, end_s, load, loads),
                profile=devices[0].profile if devices else "",
                pool=pool or self._pool(devices),
                **more,  # type: ignore[arg-type]
            )
        )

    def pod(
        self,
        devices: Sequence[Device],
        start_s: int | None,
        end_s: int | None = None,
        load: Load = "train",
        workload: str = "finetune",
        controller: str = "Job",
        namespace: str = "ml-train",
        team: str = "",
        queue: str = "",
        labels: Sequence[tuple[str, str]] = (),
        loads: Sequence[Load] = (),
        gpus: int = 0,
        profile: str = "",
        pool: str = "",
        submit_s: int | None = None,
        state: str = "",
        **more: object,
    ) -> Run:
        """A pod; pods of one workload and controller Job (or another gang kind) are one job."""
        number = self._number()
        digest = hashlib.blake2b(f"{self.seed}/{self.tag}/{number}".encode(), digest_size=16).digest()
        suffix = "".join(SUFFIX[byte % len(SUFFIX)] for byte in digest[:5])
        hashed = "".join(SUFFIX[byte % len(SUFFIX)] for byte in hashlib.blake2b(workload.encode()).digest()[:9])
        workload = f"{self.tag}-{workload}"
        pod = {"ReplicaSet": f"{workload}-{hashed}-{suffix}", "StatefulSet": f"{workload}-0", "": workload}.get(
            controller, f"{workload}-{suffix}"
        )
        labels = (*labels, *(((TEAM_LABEL, team),) if team else ()), *(((QUEUE_LABEL, queue),) if queue else ()))
        return self._add(
            Run(
                number,
                f"{namespace}/{workload}",
                workload,
                "kubernetes",
                Owner(namespace=namespace, queue=queue, labels=labels),
                "training",
                gpus or len(devices),
                self._submit(submit_s, start_s),
                start_s,
                end_s,
                state or self._state(start_s, end_s),
                tuple(devices),
                self._courses(devices, start_s, end_s, load, loads),
                profile=profile or (devices[0].profile if devices else ""),
                pool=pool or self._pool(devices),
                controller=controller,
                pod=pod,
                pod_uid=str(uuid.UUID(bytes=digest)),
                **more,  # type: ignore[arg-type]
            )
        )

    def labelled(self, *labels: tuple[str, str]) -> Owner:
        """A Slurm owner with these labels in the comment of the job."""
        owner = SLURM_OWNERS[int(self.rng.integers(len(SLURM_OWNERS)))]
        return replace(owner, labels=labels)

    def plant(self, shape: str, why: str, about: Run | tuple[str, str], **more: object) -> None:
        """A case that the scene's detector (or `detector`) must report about a run or a (kind, id)."""
        self.planted.append(self._case(shape, why, about, **more))  # type: ignore[arg-type]

    def decoy(self, shape: str, why: str, about: Run | tuple[str, str], **more: object) -> None:
        """A case that must not be reported."""
        self.decoys.append(self._case(shape, why, about, **more))  # type: ignore[arg-type]

    def allow(self, detector: str, about: Run | tuple[str, str], why: str) -> None:
        """A case that another detector may or may not report."""
        kind, subject = about if isinstance(about, tuple) else ("job", about.job_id)
        self.allowed.append(Allowed(detector, kind, subject, why))

    def finished(self) -> list[Node]:
        """The nodes with their patches."""
        return [replace(node, patches=tuple(self._patches[node.name])) for node in self._nodes]

    def _case(
        self,
        shape: str,
        why: str,
        about: Run | tuple[str, str],
        devices: Sequence[Device] = (),
        since_s: int | None = None,
        until_s: int | None = None,
        detector: str = "",
        needs: tuple[str, ...] = (),
    ) -> Case:
        start, end, job_id, team, user = self._nodes[0].from_s, self.window_s, "", "", ""
        kind, subject = about if isinstance(about, tuple) else ("job", about.job_id)
        if isinstance(about, Run):
            start, end = (about.submit_s, end) if about.start_s is None else about.held(end)
            job_id, team, user = about.job_id, team_of(about.owner), about.owner.user
            devices = devices or about.devices
        low, high = start if since_s is None else since_s, end if until_s is None else until_s
        return Case(
            detector or self.made.detector,
            shape,
            job_id,
            team,
            user,
            tuple(device.id for device in devices),
            tuple(dict.fromkeys(device.node for device in devices)),
            True,
            ((self.epoch.rfc3339(low), self.epoch.rfc3339(high)),),
            self.epoch.rfc3339(start),
            None if high >= self.window_s else self.epoch.rfc3339(end),
            why,
            kind,
            subject,
            self.made.name,
            needs,
        )

    def _courses(
        self, devices: Sequence[Device], start_s: int | None, end_s: int | None, load: Load, loads: Sequence[Load]
    ) -> tuple[Course, ...]:
        """One course for all devices, or one for each of them."""
        if start_s is None:
            return ()
        length = (self.window_s if end_s is None else end_s) - start_s
        if not loads:
            return (course_of(load, length, self.rng),) * len(devices)
        made: dict[int, Course] = {}
        return tuple(made.setdefault(id(each), course_of(each, length, self.rng)) for each in loads)

    def _add(self, run: Run) -> Run:
        run = replace(run, factor=1.0 + SPREAD * float(self.rng.uniform(-1, 1)))
        self.runs.append(run)
        return run

    def _number(self) -> int:
        self._next += 1
        return self._next

    def _submit(self, submit_s: int | None, start_s: int | None) -> int:
        if submit_s is not None:
            return submit_s
        return max(0, (self.window_s - HOUR if start_s is None else start_s) - int(self.rng.integers(2, 240)))

    def _pool(self, devices: Sequence[Device]) -> str:
        names = {device.node for device in devices}
        return next((node.pool for node in self._nodes if not names or node.name in names), "")

    @staticmethod
    def _state(start_s: int | None, end_s: int | None) -> str:
        return "PENDING" if start_s is None else "RUNNING" if end_s is None else "COMPLETED"
