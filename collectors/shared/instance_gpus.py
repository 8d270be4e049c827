"""Number and model of the GPUs in the instance types and SKUs of clouds.

From the vendors' documentation of instance types (AWS EC2 accelerated computing, Azure NC/ND/NV sizes, Google Cloud GPU
machine types, OCI GPU shapes). Instances with a fraction of a GPU (NV6ads, g6f) are not listed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

MAX_TEXTS = 65_536
"""The number of distinct texts whose result is cached."""


@dataclass(frozen=True)
class Gpus:
    """GPUs per billed unit; a count of 0 means the processors or memory of an instance with GPUs."""

    instance_type: str | None
    count: int
    model: str


_V100, _A100, _A100_80, _T4, _A10, _L4 = "V100", "A100-40GB", "A100-80GB", "T4", "A10", "L4"

_AWS: dict[str, tuple[str, dict[str, int]]] = {
    "p3": (_V100, {"2xlarge": 1, "8xlarge": 4, "16xlarge": 8}),
    "p3dn": (_V100, {"24xlarge": 8}),
    "p4d": (_A100, {"24xlarge": 8}),
    "p4de": (_A100_80, {"24xlarge": 8}),
    "p5": ("H100", {"4xlarge": 1, "48xlarge": 8}),
    "p5e": ("H200", {"48xlarge": 8}),
    "p5en": ("H200", {"48xlarge": 8}),
    "p6-b200": ("B200", {"48xlarge": 8}),
    "p6-b300": ("B300", {"48xlarge": 8}),
    "p6e-gb200": ("GB200", {"36xlarge": 4}),
    "g4dn": (
        _T4,
        {"xlarge": 1, "2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "16xlarge": 1, "12xlarge": 4, "metal": 8},
    ),
    "g5g": ("T4G", {"xlarge": 1, "2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "16xlarge": 2, "metal": 2}),
    "gr6": (_L4, {"4xlarge": 1, "8xlarge": 1}),
    **{
        family: (
            model,
            dict.fromkeys(("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"), 1)
            | {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
        )
        for family, model in (("g5", "A10G"), ("g6", _L4), ("g6e", "L40S"))
    },
}
_AZURE = {
    "nc6s_v3": (1, _V100),
    "nc12s_v3": (2, _V100),
    "nc24s_v3": (4, _V100),
    "nc24rs_v3": (4, _V100),
    "nc4as_t4_v3": (1, _T4),
    "nc8as_t4_v3": (1, _T4),
    "nc16as_t4_v3": (1, _T4),
    "nc64as_t4_v3": (4, _T4),
    "nc24ads_a100_v4": (1, _A100_80),
    "nc48ads_a100_v4": (2, _A100_80),
    "nc96ads_a100_v4": (4, _A100_80),
    "nc40ads_h100_v5": (1, "H100-NVL"),
    "nc80adis_h100_v5": (2, "H100-NVL"),
    "ncc40ads_h100_v5": (1, "H100-NVL"),
    "nd40rs_v2": (8, _V100),
    "nd96asr_v4": (8, _A100),
    "nd96asr_a100_v4": (8, _A100),
    "nd96amsr_a100_v4": (8, _A100_80),
    "nd96isr_h100_v5": (8, "H100"),
    "nd96isr_h200_v5": (8, "H200"),
    "nd96isr_mi300x_v5": (8, "MI300X"),
    "nd128isr_ndr_gb200_v6": (4, "GB200"),
    "nd128isr_gb200_v6": (4, "GB200"),
    "nv12s_v3": (1, "M60"),
    "nv24s_v3": (2, "M60"),
    "nv48s_v3": (4, "M60"),
    "nv36ads_a10_v5": (1, _A10),
    "nv36adms_a10_v5": (1, _A10),
    "nv72ads_a10_v5": (2, _A10),
}
_GCP = {
    "a2-megagpu-16g": (16, _A100),
    "a3-megagpu-8g": (8, "H100"),
    "a3-edgegpu-8g": (8, "H100"),
    "a3-ultragpu-8g": (8, "H200"),
    "a4-highgpu-8g": (8, "B200"),
    "a4x-highgpu-4g": (4, "GB200"),
    **{f"a2-highgpu-{n}g": (n, _A100) for n in (1, 2, 4, 8)},
    **{f"a2-ultragpu-{n}g": (n, _A100_80) for n in (1, 2, 4, 8)},
    **{f"a3-highgpu-{n}g": (n, "H100") for n in (1, 2, 4, 8)},
    **{f"g2-standard-{size}": (n, _L4) for size, n in ((4, 1), (8, 1), (12, 1), (16, 1), (24, 2), (32, 1), (48, 4), (96, 8))},
    **{f"g4-standard-{size}": (n, "RTX PRO 6000") for size, n in ((48, 1), (96, 2), (192, 4), (384, 8))},
}  # fmt: skip
_GCP_SERIES = {"A2": _A100, "A3": "H100", "A4": "B200", "A4X": "GB200", "G2": _L4, "G4": "RTX PRO 6000"}
_OCI_SHAPES = {
    "2": "P100",
    "3": _V100,
    "4": _A100,
    "B4": _A100,
    "A100-V2": _A100_80,
    "GM4": _A100_80,
    "GU1": _A10,
    **{model: model for model in ("A10", "L40S", "H100", "H200", "B200", "GB200")},
}
_MODELS = (
    *("GB300", "GB200", "B300", "B200", "GH200", "H200", "H100", "MI300X", "MI355X", "L40S", "A10G", "RTX PRO 6000"),
    *("V100", "P100", "L4", "T4", "A10", "P4", "K80"),
)

_SIZES: dict[str, tuple[int, str]] = {
    **{f"{family}.{size}": (n, model) for family, (model, sizes) in _AWS.items() for size, n in sizes.items()},
    **_AZURE,
    **_GCP,
}
_SIZE = re.compile(
    r"(?<![a-z0-9-])(?:" + "|".join(re.escape(name) for name in sorted(_SIZES, key=len, reverse=True)) + r")(?![a-z0-9])"
)  # fmt: skip
_SHAPE = re.compile(r"\b(?:bm|vm)\.gpu\.?([a-z0-9]+(?:-v[0-9])?)\.([0-9]{1,2})\b")
_GPU_SKU = re.compile(r"\bgpus?\d?\b")
_MACHINE_PART = re.compile(r"\b(a2|a3|a4|a4x|g2|g4)(?:plus|ultra|mega|edge|high)? instance (?:core|ram)\b")
_A100_MEMORY = re.compile(r"a100[ -]?(?:80 ?gb|v2|- v2)|80 ?gb[ -]?a100|a100 - v2")


@lru_cache(MAX_TEXTS)
def gpus_of_instance(name: str) -> Gpus | None:
    """The GPUs of a whole instance of this type or shape; None for what is not exactly a known one."""
    plain = name.strip().lower().removeprefix("standard_")
    if plain in _SIZES:
        return Gpus(plain, *_SIZES[plain])
    shape = _SHAPE.fullmatch(plain)
    if shape is None or shape[1].upper() not in _OCI_SHAPES:
        return None
    return Gpus(plain.upper(), int(shape[2]), _OCI_SHAPES[shape[1].upper()])


@lru_cache(MAX_TEXTS)
def gpus_of(text: str) -> Gpus | None:
    """The GPUs named by an instance type, SKU or description, None if there are none.

    An instance type or shape has the GPUs of one instance; a SKU such as `Nvidia H100 80GB GPU running in Iowa` is
    billed per GPU, so it counts as 1.
    """
    lower = text.lower()
    plain = re.sub(r"standard_|low priority|spot", "", lower)
    for form in (plain, re.sub(r"[ ]+", "_", plain)):
        if found := _SIZE.search(form):
            return Gpus(found[0], *_SIZES[found[0]])
    if shape := _SHAPE.search(lower):
        model = _OCI_SHAPES.get(shape[1].upper(), shape[1].upper())
        return Gpus(shape[0].upper(), int(shape[2]), model)
    if part := _MACHINE_PART.search(lower):
        return Gpus(None, 0, _GCP_SERIES[part[1].upper()])
    if not _GPU_SKU.search(lower):
        return None
    if re.search(r"\ba100\b", lower):
        return Gpus(None, 1, _A100_80 if _A100_MEMORY.search(lower) else _A100)
    words = lower.upper()
    return next((Gpus(None, 1, m) for m in _MODELS if re.search(rf"(?<![A-Z0-9]){m}(?![A-Z0-9])", words)), None)
