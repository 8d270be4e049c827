"""Readings of a GPU node through NVML, for nodes without DCGM: every GPU, every MIG instance, processes, topology."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuwatch.collectors.nvml.fields import GpuGone, Readings, asked, done, fabric, memory, text, whole_gpu
from gpuwatch.collectors.nvml.gpm import RATES, RATIOS, WHOLE, Gpm, Key
from gpuwatch.collectors.nvml.mig import Instance, instances, mig_on
from gpuwatch.collectors.nvml.page import Labels, Node, Row
from gpuwatch.collectors.nvml.processes import PROC, Process, processes
from gpuwatch.collectors.nvml.topology import SYS, Matrix, matrix
from gpuwatch.collectors.nvml.xid_events import XidWatch
from gpuwatch.core.errors import SourceUnreachable

MAX_GPUS = 64
MAX_JOBS = 64
"""Jobs of one device in the job mapping directory."""
MAX_JOB_FILE_BYTES = 64 * 1024
TOPOLOGY_NS = 600_000_000_000
"""Links are read again after this, or when other GPUs are there."""

_WHAT_LACKS = {
    "NVML_ERROR_LIBRARY_NOT_FOUND": "no NVIDIA driver on this machine (libnvidia-ml.so.1 is not there): install it, or "
    "give the container the GPUs and the driver's utility libraries (docker: --gpus all; Kubernetes: runtimeClassName: nvidia)",
    "NVML_ERROR_DRIVER_NOT_LOADED": "the NVIDIA driver is installed but not loaded: run `modprobe nvidia` and look at "
    "`dmesg`",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": "the NVIDIA library and the loaded driver differ, as after an update: reboot, "
    "or unload and load the nvidia modules",
    "NVML_ERROR_NO_PERMISSION": "this user may not ask the NVIDIA driver: check the rights of /dev/nvidiactl",
    "NVML_ERROR_GPU_NOT_FOUND": "the NVIDIA driver sees no GPU: check `lspci` and `dmesg`",
}


def open_library(library: Any = None) -> Any:
    """NVML, initialised. Raises SourceUnreachable with what is missing and how to mend it."""
    if library is None:
        library = importlib.import_module("pynvml")
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise SourceUnreachable(f"agent: {_lack(library, error)}") from error
    if not _count(library):
        library.nvmlShutdown()
        raise SourceUnreachable(f"agent: {_WHAT_LACKS['NVML_ERROR_GPU_NOT_FOUND']}")
    return library


class NodeReader:
    """Reads every GPU of this node; keeps what a rate or an average needs from one round to the next."""

    def __init__(
        self,
        library: Any,
        host: str,
        jobs: Path | None = None,
        proc: Path = PROC,
        sys: Path = SYS,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`library` is what open_library gave; `jobs` the directory of the job mapping files."""
        self._library = library
        self._host = host
        self._jobs = jobs
        self._proc, self._sys = proc, sys
        self._clock_ns = clock_ns
        self._gpm = Gpm(library)
        self._xid = XidWatch(library)
        self._driver = str(asked(library, "nvmlSystemGetDriverVersion") or "")
        self._matrix: Matrix | None = None
        self._matrix_of: tuple[list[str], int] = ([], 0)

    def read(self) -> Node:
        """One round. A GPU that does not answer is counted and left out; the others stay."""
        start_ns = self._clock_ns()
        rows: list[Row] = []
        held: list[tuple[Labels, Process]] = []
        fabrics: list[tuple[Labels, str, int]] = []
        known: list[tuple[int, Any, str, str]] = []
        alive: set[Key] = set()
        count = _count(self._library)
        for index in range(min(count, MAX_GPUS)):
            try:
                gpu = _Gpu.of(self._library, index, self._host, self._driver)
                parts = instances(self._library, gpu.handle) if gpu.mig else []
                mine, who, where = self._read(gpu, parts, alive)
            except GpuGone:
                continue
            rows += mine
            held += who
            fabrics += where
            known.append((index, gpu.handle, gpu.uuid, gpu.pci))
        self._gpm.keep(alive)
        self._follow_links(known, start_ns)
        seconds = (self._clock_ns() - start_ns) / 1e9
        return Node(self._host, rows, held, fabrics, self._matrix, count, count - len(known), seconds)

    def close(self) -> None:
        """Ends the wait for XIDs, frees what is kept, and leaves NVML."""
        self._xid.stop()
        self._gpm.close()
        try:
            done(self._library, "nvmlShutdown")
        except GpuGone:
            return

    def _read(
        self, gpu: _Gpu, parts: list[Instance], alive: set[Key]
    ) -> tuple[list[Row], list[tuple[Labels, Process]], list[tuple[Labels, str, int]]]:
        library, handle = self._library, gpu.handle
        card = whole_gpu(library, handle, gpu.mig, self._driver)
        health, cluster = fabric(library, handle)
        card |= health
        self._xid.watch(handle, gpu.uuid)
        profiled = self._gpm.supported(handle)
        if profiled:
            alive.add((gpu.uuid, WHOLE))
            card |= self._gpm.read(handle, gpu.uuid, WHOLE, self._clock_ns(), RATES if gpu.mig else RATIOS + RATES)
        rows: list[Row] = []
        if not parts:
            card |= memory(library, handle)
            rows += self._rows(gpu.labels(), gpu.jobs_key(None), card, self._xid.last(gpu.uuid))
        for part in parts:
            own = memory(library, part.device) if part.device is not None else {}
            if profiled and part.device is not None:
                alive.add((gpu.uuid, part.gi))
                own |= self._gpm.read(handle, gpu.uuid, part.gi, self._clock_ns(), RATIOS)
            labels = gpu.labels(part)
            rows += self._rows(labels, gpu.jobs_key(part.gi), card | own, self._xid.last(gpu.uuid, part.gi))
        by_gi = {part.gi: part for part in parts}
        who = [
            (gpu.labels(by_gi.get(process.gi) if process.gi is not None else None), process)
            for process in processes(library, handle, parts, self._proc)
        ]
        clique = health.get("DCGM_FI_DEV_FABRIC_CLIQUE_ID")
        where = [(gpu.labels(), cluster, int(clique))] if cluster is not None and clique is not None else []
        return rows, who, where

    def _rows(self, labels: Labels, jobs_key: str, readings: Readings, xid: int | None) -> list[Row]:
        """A row, or one a job where several share the device, as dcgm-exporter does."""
        said = readings if xid is None else readings | {"DCGM_FI_DEV_XID_ERRORS": xid}
        if not said:
            return []
        jobs = jobs_of(self._jobs, jobs_key)
        return [Row((*labels, ("hpc_job", job)), said) for job in jobs] or [Row(labels, said)]

    def _follow_links(self, known: list[tuple[int, Any, str, str]], now_ns: int) -> None:
        uuids = [uuid for _, _, uuid, _ in known]
        if self._matrix is not None and self._matrix_of[0] == uuids and now_ns - self._matrix_of[1] < TOPOLOGY_NS:
            return
        try:
            self._matrix, self._matrix_of = matrix(self._library, known, self._sys), (uuids, now_ns)
        except GpuGone:
            self._matrix = None


def jobs_of(directory: Path | None, key: str) -> list[str]:
    """Jobs of a device: the lines of the file that a prolog wrote, named after the GPU ("0") or instance ("0.1").

    A line may have a user after the job. No file, no job.
    """
    if directory is None:
        return []
    try:
        with open(directory / key, "rb") as file:
            lines = file.read(MAX_JOB_FILE_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return list(dict.fromkeys(line.split()[0] for line in lines if line.strip()))[:MAX_JOBS]


class _Gpu:
    """Who a GPU is."""

    def __init__(self, handle: Any, index: int, uuid: str, pci: str, model: str, host: str, driver: str) -> None:
        self.handle, self.index, self.uuid, self.pci = handle, index, uuid, pci
        self.mig = False
        self._model, self._host, self._driver = model, host, driver

    @classmethod
    def of(cls, library: Any, index: int, host: str, driver: str) -> _Gpu:
        """The GPU of an index. Raises GpuGone where it does not answer."""
        handle = asked(library, "nvmlDeviceGetHandleByIndex", index)
        uuid = asked(library, "nvmlDeviceGetUUID", handle) if handle is not None else None
        if uuid is None:
            raise GpuGone(f"GPU {index} has no UUID")
        pci = asked(library, "nvmlDeviceGetPciInfo", handle)
        model = asked(library, "nvmlDeviceGetName", handle) or ""
        gpu = cls(handle, index, uuid, text(pci.busId) if pci is not None else "", model, host, driver)
        gpu.mig = mig_on(library, handle)
        return gpu

    def labels(self, part: Instance | None = None) -> Labels:
        """dcgm-exporter's labels, in its order."""
        instance = (("GPU_I_PROFILE", part.profile), ("GPU_I_ID", str(part.gi))) if part is not None else ()
        return (
            ("gpu", str(self.index)),
            ("UUID", self.uuid),
            ("pci_bus_id", self.pci),
            ("device", f"nvidia{self.index}"),
            ("modelName", self._model),
            *instance,
            ("Hostname", self._host),
            ("DCGM_FI_DRIVER_VERSION", self._driver),
        )

    def jobs_key(self, gi: int | None) -> str:
        """The name of its file in the job mapping directory."""
        return str(self.index) if gi is None else f"{self.index}.{gi}"


def host_name() -> str:
    """What the node calls itself: NODE_NAME, as a DaemonSet passes it, else the host name."""
    return os.environ.get("NODE_NAME") or os.uname().nodename


def _count(library: Any) -> int:
    try:
        return int(asked(library, "nvmlDeviceGetCount") or 0)
    except GpuGone:
        return 0


def _lack(library: Any, error: Any) -> str:
    for name, sentence in _WHAT_LACKS.items():
        if error.value == getattr(library, name):
            return sentence
    return f"NVML cannot start ({error}): look at `nvidia-smi` and `dmesg`"
