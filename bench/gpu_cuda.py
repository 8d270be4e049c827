"""The CUDA driver through ctypes, and the known loads on it: `python -m bench.gpu_cuda LOAD SECONDS`.

A load prints `ready` when it starts to work and ends by itself after its seconds, or when it is terminated.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench import gpu_kernels
from gpuwatch.core.errors import SourceUnreachable

LIBRARY = "libcuda.so.1"
MIB = 1 << 20
COPY_BYTES = 1024 * MIB
CHASE_BYTES = 256 * MIB
"""Larger than any second-level cache."""
CHASE_STRIDE = 1_048_583
PARK_BYTES = 8 * 1024 * MIB
SLICE_S = 0.02
"""Kernels of a steady load last about so long."""
SPIN_NS = 20_000
SPINS_QUEUED = 500
LOADER_WORK_S, LOADER_WAIT_S = 0.3, 0.7
GEMM_SIZE = 8192
MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT


class Cuda:
    """One GPU through the driver API."""

    def __init__(self, index: int = 0) -> None:
        """Raises SourceUnreachable where there is no driver or no such GPU."""
        try:
            self._driver = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise SourceUnreachable(f"gpu loads: no CUDA driver on this machine ({LIBRARY} is not there)") from error
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), index)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        count = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(count), MULTIPROCESSORS, device)
        self.multiprocessors = count.value

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the driver. Raises SourceUnreachable with its number where it fails."""
        code = getattr(self._driver, name)(*arguments)
        if code:
            raise SourceUnreachable(f"gpu loads: {name} failed with CUDA error {code}")

    def load(self, ptx: bytes) -> ctypes.c_void_p:
        """A module of PTX text."""
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ptx)
        return module

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        """A kernel of a module."""
        found = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
        return found

    def memory(self, size: int) -> int:
        """An address of `size` bytes on the card."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def put(self, address: int, values: np.ndarray[Any, Any]) -> None:
        """Copies an array to the card."""
        self.call(
            "cuMemcpyHtoD_v2",
            ctypes.c_uint64(address),
            ctypes.c_void_p(values.ctypes.data),
            ctypes.c_size_t(values.nbytes),
        )

    def launch(self, kernel: ctypes.c_void_p, blocks: int, threads: int, *values: int) -> None:
        """Starts a kernel whose parameters are all 64-bit; does not wait."""
        held = [ctypes.c_uint64(value) for value in values]
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(value) for value in held))
        self.call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)

    def wait(self) -> None:
        """Until every kernel has ended."""
        self.call("cuCtxSynchronize")


Work = Callable[[], None]


def copying(cuda: Cuda) -> Work:
    """Memory bandwidth."""
    kernel = cuda.function(cuda.load(gpu_kernels.basic()), "copy")
    to, source = cuda.memory(COPY_BYTES), cuda.memory(COPY_BYTES)

    def work() -> None:
        for _ in range(8):
            cuda.launch(kernel, 8 * cuda.multiprocessors, 512, to, source, COPY_BYTES // 16)
        cuda.wait()

    return work


def chasing(cuda: Cuda) -> Work:
    """One thread that follows pointers."""
    kernel = cuda.function(cuda.load(gpu_kernels.basic()), "chase")
    count = CHASE_BYTES // 8
    start, out = cuda.memory(CHASE_BYTES), cuda.memory(8)
    cuda.put(start, pointers(start, count))

    def work() -> None:
        cuda.launch(kernel, 1, 1, start, 50_000, out)
        cuda.wait()

    return work


def pointers(start: int, count: int) -> np.ndarray[Any, Any]:
    """`count` addresses from `start` on, each of the next one to visit; one circle through all (count is a power of 2)."""
    order = (np.arange(count, dtype=np.uint64) + np.uint64(CHASE_STRIDE)) % np.uint64(count)
    return np.uint64(start) + np.uint64(8) * order


def spinning(cuda: Cuda) -> Work:
    """Tiny kernels of one block, one after another."""
    kernel = cuda.function(cuda.load(gpu_kernels.basic()), "spin")

    def work() -> None:
        for _ in range(SPINS_QUEUED):
            cuda.launch(kernel, 1, 32, SPIN_NS)
        cuda.wait()

    return work


def multiplying(cuda: Cuda) -> Work:
    """Dense bf16 products: a library's where there is one, else our own on the tensor cores."""
    if importlib.util.find_spec("torch") is not None:
        return _torch()
    kernel = cuda.function(cuda.load(gpu_kernels.products()), "products")
    out, blocks = cuda.memory(4), 8 * cuda.multiprocessors
    rounds = 1_000
    while True:
        start_s = time.perf_counter()
        cuda.launch(kernel, blocks, 256, rounds, out)
        cuda.wait()
        if (taken_s := time.perf_counter() - start_s) >= SLICE_S or rounds >= 1 << 40:
            break
        rounds = round(rounds * min(8.0, 1.5 * SLICE_S / max(taken_s, 1e-6)))

    def work() -> None:
        for _ in range(4):
            cuda.launch(kernel, blocks, 256, rounds, out)
        cuda.wait()

    return work


def _torch() -> Work:
    torch: Any = importlib.import_module("torch")
    a, b = (torch.randn(GEMM_SIZE, GEMM_SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)

    def work() -> None:
        for _ in range(8):
            torch.matmul(a, b, out=out)
        torch.cuda.synchronize()

    return work


def parking(cuda: Cuda) -> Work:
    """Memory that is held and not used."""
    cuda.memory(PARK_BYTES)
    return lambda: time.sleep(SLICE_S)


def loading(cuda: Cuda) -> Work:
    """Work that waits for its data most of the time."""
    busy = multiplying(cuda)

    def work() -> None:
        end_s = time.perf_counter() + LOADER_WORK_S
        while time.perf_counter() < end_s:
            busy()
        time.sleep(LOADER_WAIT_S)

    return work


LOADS: dict[str, Callable[[Cuda], Work]] = {
    "gemm": multiplying,
    "copy": copying,
    "chase": chasing,
    "spin": spinning,
    "parked": parking,
    "loader": loading,
}
"""What can run, by name. `idle` is none of them: nothing runs."""


def main(arguments: Sequence[str]) -> int:
    """Runs one load for some seconds."""
    name, seconds = arguments[0], float(arguments[1])
    try:
        work = LOADS[name](Cuda())
        work()
    except SourceUnreachable as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print("ready", flush=True)
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        work()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
