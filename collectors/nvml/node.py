"""Reads a GPU node through NVML, for nodes without DCGM: all GPUs, MIG instances, processes and the topology."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuwatch.collectors.nvml.calls import GpuGone, Readings, query, succeeds, text
from gpuwatch.collectors.nvml.fields import memory, whole_gpu
from gpuwatch.collectors.nvml.gpm import RATES, RATIOS, WHOLE, Gpm, Key
from gpuwatch.collectors.nvml.mig import Instance, instances, mig_on
from gpuwatch.collectors.nvml.nvlink import fabric
from gpuwatch.collectors.nvml.page import Labels, Node, Row
from gpuwatch.collectors.nvml.processes import PROC, Process, processes
from gpuwatch.collectors.nvml.topology import SYS, Matrix, matrix
from gpuwatch.collectors.nvml.xid_events import XidWatch
from gpuwatch.core.errors import SourceUnreachable

MAX_GPUS = 64
MAX_JOBS = 64
"""The most jobs per device in the job mapping directory."""
MAX_JOB_FILE_BYTES = 64 * 1024
TOPOLOGY_NS = 600_000_000_000
"""Links are read again after this time, or when the list of GPUs changes."""

_FIXES = {
    "NVML_ERROR_LIBRARY_NOT_FOUND": "no NVIDIA driver on this machine (libnvidia-ml.so.1 is not there): install it, or "
    "give the container the GPUs and the driver's utility libraries (docker: --gpus all; Kubernetes: runtimeClassName: nvidia)",
    "NVML_ERROR_DRIVER_NOT_LOADED": "the NVIDIA driver is installed but not loaded: run `modprobe nvidia` and look at "
    "`dmesg`",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": "the NVIDIA library and the loaded driver differ, as after an update: reboot, "
    "or unload and load the nvidia modules",
    "NVML_ERROR_NO_PERMISSION": "this user may not use the NVIDIA driver: check the permissions of /dev/nvidiactl",
    "NVML_ERROR_GPU_NOT_FOUND": "the NVIDIA driver sees no GPU: check `lspci` and `dmesg`",
}


def open_library(library: Any = None) -> Any:
    """Initialises NVML. Raises SourceUnreachable with what is missing and the fix."""
    if library is None:
        library = importlib.import_module("pynvml")
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise SourceUnreachable(f"agent: {_fix(library, error)}") from error
    if not _count(library):
        library.nvmlShutdown()
        raise SourceUnreachable(f"agent: {_FIXES['NVML_ERROR_GPU_NOT_FOUND']}")
    return library


class NodeReader:
    """Reads all GPUs of this node; keeps what rates and averages need between rounds."""

    def __init__(
        self,
        library: Any,
        host: str,
        jobs: Path | None = None,
        proc: Path = PROC,
        sys: Path = SYS,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`library` comes from open_library; `jobs` is the directory of the job mapping files."""
        self._library = library
        self._host = host
        self._jobs = jobs
        self._proc, self._sys = proc, sys
        self._clock_ns = clock_ns
        self._gpm = Gpm(library)
        self._xid = XidWatch(library)
        self._driver = str(query(library, "nvmlSystemGetDriverVersion") or "")
        self._matrix: Matrix | None = None
        self._matrix_of: tuple[list[str], int] = ([], 0)

    def read(self) -> Node:
        """One round. A GPU that does not respond is counted and omitted."""
        start_ns = self._clock_ns()
        rows: list[Row] = []
        all_processes: list[tuple[Labels, Process]] = []
        fabrics: list[tuple[Labels, str, int]] = []
        known: list[tuple[int, Any, str, str]] = []
        alive: set[Key] = set()
        count = _count(self._library)
        for index in range(min(count, MAX_GPUS)):
            try:
                gpu = _Gpu.of(self._library, index, self._host, self._driver)
                parts = instances(self._library, gpu.handle) if gpu.mig else []
                gpu_rows, gpu_processes, gpu_fabrics = self._read(gpu, parts, alive)
            except GpuGone:
                continue
            rows += gpu_rows
            all_processes += gpu_processes
            fabrics += gpu_fabrics
            known.append((index, gpu.handle, gpu.uuid, gpu.pci))
        self._gpm.keep(alive)
        self._update_links(known, start_ns)
        seconds = (self._clock_ns() - start_ns) / 1e9
        return Node(self._host, rows, all_processes, fabrics, self._matrix, count, count - len(known), seconds)

    def close(self) -> None:
        """Stops waiting for XIDs, frees all samples and shuts NVML down."""
        self._xid.stop()
        self._gpm.close()
        try:
            succeeds(self._library, "nvmlShutdown")
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
        labelled = [
            (gpu.labels(by_gi.get(process.gi) if process.gi is not None else None), process)
            for process in processes(library, handle, parts, self._proc)
        ]
        clique = health.get("DCGM_FI_DEV_FABRIC_CLIQUE_ID")
        fabrics = [(gpu.labels(), cluster, int(clique))] if cluster is not None and clique is not None else []
        return rows, labelled, fabrics

    def _rows(self, labels: Labels, jobs_key: str, readings: Readings, xid: int | None) -> list[Row]:
        """One row, or one per job if several share the device, like dcgm-exporter."""
        values = readings if xid is None else readings | {"DCGM_FI_DEV_XID_ERRORS": xid}
        if not values:
            return []
        jobs = jobs_of(self._jobs, jobs_key)
        return [Row((*labels, ("hpc_job", job)), values) for job in jobs] or [Row(labels, values)]

    def _update_links(self, known: list[tuple[int, Any, str, str]], now_ns: int) -> None:
        uuids = [uuid for _, _, uuid, _ in known]
        if self._matrix is not None and self._matrix_of[0] == uuids and now_ns - self._matrix_of[1] < TOPOLOGY_NS:
            return
        try:
            self._matrix, self._matrix_of = matrix(self._library, known, self._sys), (uuids, now_ns)
        except GpuGone:
            self._matrix = None


def jobs_of(directory: Path | None, key: str) -> list[str]:
    """The jobs of a device: the lines of the file that a prolog wrote, named after the GPU ("0") or instance ("0.1").

    A line may have a user after the job. Without a file there are no jobs.
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
    """The identity of a GPU."""

    def __init__(self, handle: Any, index: int, uuid: str, pci: str, model: str, host: str, driver: str) -> None:
        self.handle, self.index, self.uuid, self.pci = handle, index, uuid, pci
        self.mig = False
        self._model, self._host, self._driver = model, host, driver

    @classmethod
    def of(cls, library: Any, index: int, host: str, driver: str) -> _Gpu:
        """The GPU at an index. Raises GpuGone if it does not respond."""
        handle = query(library, "nvmlDeviceGetHandleByIndex", index)
        uuid = query(library, "nvmlDeviceGetUUID", handle) if handle is not None else None
        if uuid is None:
            raise GpuGone(f"GPU {index} has no UUID")
        pci = query(library, "nvmlDeviceGetPciInfo", handle)
        model = query(library, "nvmlDeviceGetName", handle) or ""
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
        """The file name in the job mapping directory."""
        return str(self.index) if gi is None else f"{self.index}.{gi}"


def host_name() -> str:
    """The node's name: NODE_NAME, which a DaemonSet sets, else the host name."""
    return os.environ.get("NODE_NAME") or os.uname().nodename


def _count(library: Any) -> int:
    try:
        return int(query(library, "nvmlDeviceGetCount") or 0)
    except GpuGone:
        return 0


def _fix(library: Any, error: Any) -> str:
    for name, message in _FIXES.items():
        if error.value == getattr(library, name):
            return message
    return f"NVML cannot start ({error}): look at `nvidia-smi` and `dmesg`"
