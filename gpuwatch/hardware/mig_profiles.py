"""MIG profiles of every GPU model we know: slices, SMs, legal starts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType


@dataclass(frozen=True)
class Profile:
    """One MIG profile of one GPU memory model.

    `compute_slices` is of the geometry's compute slices, `memory_slices` (also the placement size) of its memory
    slices; `starts` are the legal first memory slices. `sms` and `memory_gib` are None if unknown.
    `verified`: printed by a driver on real hardware.
    """

    name: str
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    max_count: int
    sms: int | None
    memory_gib: Fraction | None
    media: bool
    verified: bool

    @property
    def memory_gb(self) -> int:
        """The gigabytes of the profile's name."""
        return int(self.name.split("g.", 1)[1].split("gb", 1)[0])


@dataclass(frozen=True)
class Geometry:
    """How one GPU memory model is cut: its profiles by name, smallest first."""

    key: str
    compute_slices: int
    memory_slices: int
    sms: int | None
    """SMs of the whole GPU outside MIG mode, None unknown."""
    profiles: MappingProxyType[str, Profile]

    @property
    def memory_gb(self) -> int:
        """Gigabytes of the whole GPU, as its largest profile is named."""
        return max(p.memory_gb for p in self.profiles.values())

    @property
    def mig_sms(self) -> int | None:
        """SMs that MIG mode exposes: those of the largest profile (98 of 108 on A100), None unknown."""
        return max(self.profiles.values(), key=lambda p: p.compute_slices).sms


# Shape of the seven-slice GPUs: (compute slices, memory slices, legal starts, how many at most), one row a profile:
# 1g, 1g with double memory, 2g, 3g, 4g, 7g. Memory slice 7 is reached only by the double 1g at 6, 3g at 4, and 7g.
_SEVENTHS = (
    (1, 1, (0, 1, 2, 3, 4, 5, 6), 7),
    (1, 2, (0, 2, 4, 6), 4),
    (2, 2, (0, 2, 4), 3),
    (3, 4, (0, 4), 2),
    (4, 4, (0,), 1),
    (7, 8, (0,), 1),
)
_QUARTERS = ((1, 1, (0, 1, 2, 3), 4), (2, 2, (0, 2), 2), (4, 4, (0,), 1))

_NO_SMS = (None,) * len(_SEVENTHS)
_NO_GIB = ("",) * len(_SEVENTHS)


def _geometry(
    key: str,
    memory_gb: tuple[int, ...],
    sms: tuple[int | None, ...] = _NO_SMS,
    gpu_sms: int | None = None,
    gib: tuple[str, ...] = _NO_GIB,
    verified: tuple[int, ...] = (),
    media: tuple[int, ...] = (0,),
    media_sms: bool = True,
) -> Geometry:
    """Builds a geometry from columns in the order of its shape rows.

    `verified` and `media` are row numbers: printed by a driver, and also offered once a GPU with media extensions.
    """
    shape = _SEVENTHS if len(memory_gb) == len(_SEVENTHS) else _QUARTERS
    profiles: dict[str, Profile] = {}
    for row, (compute, memory, starts, count) in enumerate(shape):
        for with_media in (False, True) if row in media else (False,):
            name = f"{compute}g.{memory_gb[row]}gb" + ("+me" if with_media else "")
            profiles[name] = Profile(
                name,
                compute,
                memory,
                starts,
                1 if with_media else count,
                None if with_media and not media_sms else sms[row],
                Fraction(gib[row]) if gib[row] else None,
                with_media,
                row in verified,
            )
    whole = shape[-1]
    return Geometry(key, whole[0], whole[1], gpu_sms, MappingProxyType(profiles))


_A100_SMS = (14, 14, 28, 42, 56, 98)

_ALL = (
    _geometry(
        "H100-80GB",
        (10, 20, 20, 40, 40, 80),
        (16, 26, 32, 60, 64, 132),
        132,
        ("9.75", "19.62", "19.62", "39.5", "39.5", "79.25"),
        verified=(0, 1, 2, 3, 4, 5),
    ),
    _geometry(
        "A100-40GB",
        (5, 10, 10, 20, 20, 40),
        _A100_SMS,
        108,
        ("4.75", "9.62", "9.62", "19.5", "19.5", "39.25"),
        verified=(0, 1, 2, 3, 4),
    ),
    _geometry("A100-80GB", (10, 20, 20, 40, 40, 80), _A100_SMS, 108),
    # Only a node label of an NVL card is known: 16 SMs on the smallest profile.
    _geometry("H100-94GB", (12, 24, 24, 47, 47, 94), (16, None, None, None, None, None), 132, media_sms=False),
    # GH200 (96 GB of HBM) and H20.
    _geometry("H100-96GB", (12, 24, 24, 48, 48, 96)),
    # Users report 32, 60 and 64; the 26 SMs of the double-memory 1g were reported once, so they stay unknown.
    _geometry("H200-141GB", (18, 35, 35, 71, 71, 141), (16, None, 32, 60, 64, 132), 132),
    _geometry("B200-180GB", (23, 45, 45, 90, 90, 180)),
    _geometry("GB200-186GB", (23, 47, 47, 93, 93, 186)),
    _geometry("B300-269GB", (34, 67, 67, 135, 135, 269)),
    _geometry("A30-24GB", (6, 12, 24), (14, 28, 56), 56, ("",) * 3, media=(0, 1)),
    # The graphics variants (+gfx, +me.all, -me) hold the same slices and resolve to these.
    _geometry("RTX-PRO-6000-96GB", (24, 48, 96), (None,) * 3, None, ("",) * 3),
)

GEOMETRIES: MappingProxyType[str, Geometry] = MappingProxyType({g.key: g for g in _ALL})
"""Every known GPU memory model by key. The same profile name means different slices on different models."""
