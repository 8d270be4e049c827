"""GPU models and MIG profiles: their names, sizes and limits."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Model:
    """A GPU model: its names in telemetry, Kubernetes and Slurm, and the parameters of its readings.

    `nvlink_bytes_s` 0: it has no NVLink.
    """

    name: str
    product: str
    gres: str
    family: str
    short: str
    tdp_w: float
    idle_w: float
    fb_mib: int
    boost_mhz: int
    idle_mhz: int
    nvlink_bytes_s: float
    nvlink_label: str


H100 = Model(
    "NVIDIA H100 80GB HBM3",
    "NVIDIA-H100-80GB-HBM3",
    "nvidia_h100_80gb_hbm3",
    "hopper",
    "h100",
    700.0,
    68.0,
    81_008,
    1980,
    345,
    900e9,
    "NV18",
)
A100 = Model(
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA-A100-SXM4-80GB",
    "nvidia_a100-sxm4-80gb",
    "ampere",
    "a100",
    400.0,
    54.0,
    81_251,
    1410,
    210,
    600e9,
    "NV12",
)
H200 = Model(
    "NVIDIA H200", "NVIDIA-H200", "nvidia_h200", "hopper", "h200", 700.0, 76.0, 143_156, 1980, 345, 900e9, "NV18"
)
L40S = Model("NVIDIA L40S", "NVIDIA-L40S", "nvidia_l40s", "ada-lovelace", "l40s", 350.0, 33.0, 45_466, 2520, 210, 0, "")
A30 = Model("NVIDIA A30", "NVIDIA-A30", "nvidia_a30", "ampere", "a30", 165.0, 28.0, 24_011, 1440, 210, 0, "")
B200 = Model(
    "NVIDIA B200", "NVIDIA-B200", "nvidia_b200", "blackwell", "b200", 1000.0, 140.0, 183_359, 1965, 120, 1800e9, "NV18"
)
L4 = Model("NVIDIA L4", "NVIDIA-L4", "nvidia_l4", "ada-lovelace", "l4", 72.0, 13.0, 22_491, 2040, 210, 0, "")


@dataclass(frozen=True)
class Profile:
    """A MIG profile: slices it takes of `slices` compute and `memory_slices` memory slices of its GPU, its memory, and
    the GPU-instance ids NVML gives it."""

    name: str
    compute: int
    memory: int
    fb_mib: int
    instance_ids: tuple[int, ...]
    slices: int = 7
    memory_slices: int = 8

    @property
    def dominant(self) -> Fraction:
        """The larger of its compute and memory fraction of the GPU."""
        return max(Fraction(self.compute, self.slices), Fraction(self.memory, self.memory_slices))


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("1g.10gb", 1, 1, 9_728, tuple(range(7, 14))),
        Profile("1g.20gb", 1, 2, 19_968, tuple(range(15, 19))),
        Profile("2g.20gb", 2, 2, 19_968, (3, 5, 4)),
        Profile("3g.40gb", 3, 4, 40_192, (2, 1)),
        Profile("4g.40gb", 4, 4, 40_192, (1,)),
        Profile("1g.18gb", 1, 1, 16_384, tuple(range(7, 14))),
        Profile("2g.35gb", 2, 2, 33_280, (3, 5, 4)),
        Profile("3g.71gb", 3, 4, 71_424, (2, 1)),
        Profile("4g.71gb", 4, 4, 71_424, (1,)),
        Profile("1g.6gb", 1, 1, 5_952, (3, 4, 5, 6), 4, 4),
        Profile("2g.12gb", 2, 2, 11_968, (1, 2), 4, 4),
    )
}

LAYOUTS: tuple[tuple[str, ...], ...] = (
    ("1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"),
    ("4g.40gb", "3g.40gb"),
    ("1g.10gb",) * 7,
    ("2g.20gb", "3g.40gb"),
    ("4g.40gb", "3g.40gb"),
    ("1g.20gb",) * 4,
    ("1g.10gb", "2g.20gb", "2g.20gb", "2g.20gb"),
    ("3g.40gb",),
)
"""MIG layouts in the order GPUs of a MIG node get them; dominant shares sum to more than, exactly or less than 1."""
