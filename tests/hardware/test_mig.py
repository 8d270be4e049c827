"""MIG arithmetic: names, shares, layouts and what still fits."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.hardware.mig_profiles import GEOMETRIES, Profile

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[3] / "shared"))


def published(name: str) -> list[dict[str, str]]:
    """Rows of a published table beside the checkout; skips the test where it is absent."""
    path = SHARED / "data" / name
    if not path.exists():
        pytest.skip(f"{path} is absent: set GPUWATCH_SHARED")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("expected", "name"),
    [
        pytest.param(None, "Tesla T4", id="a GPU without MIG"),
        pytest.param(None, "", id="no name"),
        pytest.param(None, "a100", id="a gres type that may be 40 or 80 GB"),
        pytest.param(None, "NVIDIA H100 64GB HBM2", id="a memory size nobody has published"),
        pytest.param(None, "NVIDIA GH200 144G HBM3e", id="the larger superchip is cut otherwise"),
        pytest.param(None, "NVIDIA A10", id="A10 is not A100"),
        pytest.param("H100-80GB", "NVIDIA H100 80GB HBM3", id="driver name"),
        pytest.param("H100-80GB", "NVIDIA-H100-80GB-HBM3", id="product label"),
        pytest.param("H100-80GB", "nvidia_h100_80gb_hbm3", id="gres type of autodetection"),
        pytest.param("H100-80GB", "NVIDIA H100 PCIe", id="size left out where there is one size"),
        pytest.param("H100-80GB", "h100", id="gres type"),
        pytest.param("H100-80GB", "h100sxm", id="gres type with the board"),
        pytest.param("H100-94GB", "NVIDIA H100 NVL", id="the NVL card has 94 GB"),
        pytest.param("H100-96GB", "NVIDIA GH200 480GB", id="480 GB is the superchip's CPU memory"),
        pytest.param("A100-40GB", "NVIDIA A100-SXM4-40GB", id="A100 of 40 GB"),
        pytest.param("A100-80GB", "A100-PCIE-80GB", id="A100 of 80 GB without the vendor"),
        pytest.param("A100-40GB", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", id="label of the single strategy"),
        pytest.param("A100-80GB", "NVIDIA-A100-SXM4-80GB-SHARED", id="label of a shared GPU"),
        pytest.param("A30-24GB", "NVIDIA A30", id="A30"),
        pytest.param("H200-141GB", "NVIDIA H200", id="H200"),
        pytest.param("B200-180GB", "NVIDIA B200", id="B200"),
        pytest.param("GB200-186GB", "NVIDIA GB200", id="GB200"),
        pytest.param("B300-269GB", "B300", id="B300"),
        pytest.param("H100-80GB", "H100-80GB", id="a key is its own key"),
    ],
)
def test_model_names_lead_to_a_geometry(expected: str | None, name: str) -> None:
    assert expected == hardware_shares.model_key(name)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param(None, "nvidia.com/gpu", id="a whole GPU"),
        pytest.param(None, "11g.5gb", id="two digits of g"),
        pytest.param(None, "0g.5gb", id="no slices"),
        pytest.param("1g.10gb+me", "nvidia.com/mig-1g.10gb.me", id="resource name with media extensions"),
        pytest.param("1g.10gb+me", "1g.10gb+me", id="driver name with media extensions"),
        pytest.param("3g.40gb", "1c.3g.40gb", id="a compute instance lies in its GPU instance"),
        pytest.param("1g.5gb", "MIG 1g.5gb", id="print-out of the driver"),
        pytest.param("3g.20gb", "nvidia_a100-sxm4-40gb_3g.20gb", id="gres type"),
        pytest.param("1g.24gb", "1g.24gb-me", id="without media extensions"),
        pytest.param("1g.24gb", "1g.24gb+gfx", id="with graphics"),
    ],
)
def test_profile_spellings(expected: str | None, text: str) -> None:
    assert expected == hardware_shares.profile_name(text)


def test_every_published_geometry_row_is_in_the_table() -> None:
    names = {"H100-96GB (GH200) and H20": "H100-96GB"}
    differing = []
    for row in published("mig_geometry.csv"):
        geometry = GEOMETRIES[names.get(row["gpu_model"], row["gpu_model"])]
        profile = geometry.profiles[row["profile"]]
        ours = {
            "gpu_memory_slices": str(geometry.memory_slices),
            "compute_slices": str(profile.compute_slices),
            "memory_slices": str(profile.memory_slices),
            "sms": str(profile.sms or ""),
            "sms_of": str(geometry.sms or ""),
            "placement_starts": ";".join(map(str, profile.starts)),
            "placement_size": str(profile.memory_slices),
            "max_count": str(profile.max_count),
            "memory_gib": f"{float(profile.memory_gib):.2f}" if profile.memory_gib else "",
            "media_extensions": "yes" if profile.media else "no",
            "verified": "yes" if profile.verified else "no",
        }
        differing += [(row["gpu_model"], row["profile"], n, row[n], ours[n]) for n in ours if row[n] != ours[n]]

    assert [] == differing


def test_what_nobody_published_is_not_marked_verified() -> None:
    verified = {key for key, geometry in GEOMETRIES.items() if any(p.verified for p in geometry.profiles.values())}

    assert {"H100-80GB", "A100-40GB"} == verified


@pytest.mark.parametrize(
    ("expected", "model", "profile", "method"),
    [
        pytest.param(8, "H100-80GB", "1g.10gb", "dominant", id="a seventh of compute is more than an eighth of memory"),
        pytest.param(14, "H100-80GB", "1g.20gb", "dominant", id="double memory pays by memory"),
        pytest.param(16, "H100-80GB", "2g.20gb", "dominant", id="2g pays by compute"),
        pytest.param(28, "H100-80GB", "3g.40gb", "dominant", id="3g pays by memory"),
        pytest.param(32, "H100-80GB", "4g.40gb", "dominant", id="4g pays by compute"),
        pytest.param(56, "H100-80GB", "7g.80gb", "dominant", id="7g is the GPU"),
        pytest.param(56, "H100-80GB", None, "dominant", id="no profile is the GPU"),
        pytest.param(8, "H100-80GB", "1g.20gb", "compute", id="compute only"),
        pytest.param(14, "H100-80GB", "1g.20gb", "memory", id="memory only"),
        pytest.param(Fraction(56 * 26, 132), "H100-80GB", "1g.20gb", "sm", id="SMs are not sevenths on Hopper"),
        pytest.param(8, "A100-40GB", "1g.5gb", "sm", id="SMs of those MIG mode exposes on A100"),
        pytest.param(14, "A30-24GB", "1g.6gb", "dominant", id="A30 has quarters"),
        pytest.param(14, "A100-40GB", "1g.10gb", "dominant", id="1g.10gb is double memory on A100 of 40 GB"),
        pytest.param(8, "A100-80GB", "1g.10gb", "dominant", id="1g.10gb is plain on A100 of 80 GB"),
        pytest.param(8, "a100", "1g.5gb", "dominant", id="the profile tells which A100"),
        pytest.param(8, "NVIDIA H100 NVL", "1g.11gb", "dominant", id="a misprinted size is the nearest of the same g"),
        pytest.param(28, "NVIDIA H100 80GB HBM3", "1c.3g.40gb", "dominant", id="a compute instance pays its instance"),
        pytest.param(8, "NVIDIA H100 80GB HBM3", "1g.10gb.me", "dominant", id="media extensions cost nothing"),
    ],
)
def test_shares_of_known_profiles(
    expected: int | Fraction, model: str, profile: str | None, method: hardware_shares.ShareMethod
) -> None:
    assert hardware_shares.Share(expected, False) == hardware_shares.share(model, profile, method)


@pytest.mark.parametrize(
    ("expected", "model", "profile", "method"),
    [
        pytest.param(16, None, "2g.20gb", "dominant", id="an unknown model counts sevenths"),
        pytest.param(8, "a100", "1g.10gb", "dominant", id="a profile that both A100 have counts sevenths"),
        pytest.param(28, "NVIDIA A100 64GB", "3g.32gb", "dominant", id="a stated memory size gives eighths"),
        pytest.param(8, "B200-180GB", "1g.23gb", "sm", id="unknown SMs count as compute"),
        pytest.param(8, "H100-80GB", "1g.40gb", "compute", id="a size the model does not have"),
        pytest.param(40, "H100-80GB", "5g.40gb", "dominant", id="a g the model does not have"),
    ],
)
def test_shares_of_unknown_profiles_are_marked(
    expected: int, model: str | None, profile: str, method: hardware_shares.ShareMethod
) -> None:
    assert hardware_shares.Share(expected, True) == hardware_shares.share(model, profile, method)


def test_what_is_no_profile_has_no_share() -> None:
    assert hardware_shares.share("H100-80GB", "gpu") is None
    with pytest.raises(ValueError, match="'gpu' is not a MIG profile"):
        hardware_shares.share_units("H100-80GB", "gpu")


@pytest.mark.parametrize(
    ("shares", "remainder", "profiles"),
    [
        pytest.param([], (56, 56), [], id="no slice leaves the whole GPU"),
        pytest.param([(8, 56)] * 7, (0, 56), ["1g.10gb"] * 7, id="seven small ones fill it"),
        pytest.param([(32, 60), (28, 60)], (0, 60), ["4g.40gb", "3g.40gb"], id="15/14 is scaled down"),
        pytest.param([(8, 60), (8, 60), (16, 60), (28, 60)], (0, 60), ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"],
                     id="a mixed layout above one GPU"),
        pytest.param([(28, 56)], (28, 56), ["3g.40gb"], id="half a GPU leaves half"),
        pytest.param([(14, 56)] * 4, (0, 56), ["1g.20gb"] * 4, id="four double-memory ones fill it"),
    ],
)  # fmt: skip
def test_layouts_sum_to_one_gpu(shares: list[tuple[int, int]], remainder: tuple[int, int], profiles: list[str]) -> None:
    assert (shares, remainder) == hardware_shares.layout_shares("H100-80GB", profiles)


@given(
    st.sampled_from(sorted(GEOMETRIES)).flatmap(
        lambda key: st.tuples(st.just(key), st.lists(st.sampled_from(sorted(GEOMETRIES[key].profiles)), max_size=9))
    ),
    st.sampled_from(["dominant", "compute", "memory", "sm"]),
)
def test_any_layout_by_any_method_closes(case: tuple[str, list[str]], method: hardware_shares.ShareMethod) -> None:
    shares, (rest, den) = hardware_shares.layout_shares(*case, method)

    assert den == sum(num for num, _ in shares) + rest
    assert rest >= 0
    assert {den} >= {d for _, d in shares}


def test_free_profiles_match_every_published_row() -> None:
    differing = []
    for row in published("mig_free_profiles_h100.csv"):
        placed = [(p.split("@")[0], int(p.split("@")[1])) for p in row["existing"].split(";") if p]
        free = hardware_shares.free_profiles("H100-80GB", placed)
        ours = {f"free_{name}": str(count) for name, count in free.items()}
        differing += [(row["existing"], n, row[n], ours[n]) for n in row if n != "existing" and row[n] != ours[n]]

    assert [] == differing


VECTORS: dict[tuple[tuple[str, int], ...], list[int]] = {
    (): [7, 4, 3, 2, 1, 1],
    **{(("1g.10gb", start),): [6, 3, 2, 1, 0, 0] for start in (0, 1, 2, 3)},
    **{(("1g.10gb", start),): [6, 3, 2, 1, 1, 0] for start in (4, 5)},
    (("1g.10gb", 6),): [6, 3, 3, 1, 1, 0],
    (("1g.20gb", 6),): [6, 3, 3, 1, 1, 0],
    **{(("2g.20gb", start),): [5, 3, 2, 1, 0, 0] for start in (0, 2)},
    (("2g.20gb", 4),): [5, 3, 2, 1, 1, 0],
    (("3g.40gb", 0),): [3, 2, 1, 1, 0, 0],
    (("3g.40gb", 4),): [4, 2, 2, 1, 1, 0],
    (("3g.40gb", 0), ("1g.10gb", 4)): [2, 1, 0, 0, 0, 0],
    (("4g.40gb", 0),): [3, 2, 1, 1, 0, 0],
    (("7g.80gb", 0),): [0, 0, 0, 0, 0, 0],
}
"""What stands on an H100 of 80 GB -> how many more 1g, 1g of double memory, 2g, 3g, 4g, 7g fit."""


@pytest.mark.parametrize(
    ("expected", "placed"),
    [
        pytest.param(
            free, list(placed), id=" and ".join(f"{name} at {start}" for name, start in placed) or "an empty GPU"
        )
        for placed, free in VECTORS.items()
    ],
)
def test_what_still_fits(expected: list[int], placed: list[tuple[str, int]]) -> None:
    free = hardware_shares.free_profiles("NVIDIA H100 80GB HBM3", placed)

    assert expected == [count for name, count in free.items() if not name.endswith("+me")]


def most(key: str, name: str, placed: Sequence[tuple[str, int]]) -> int:
    """How many more of a profile fit, by trying every set of its places: no order, no greed."""
    profiles = GEOMETRIES[key].profiles
    wanted = profiles[name]

    def cells(profile: Profile, start: int) -> set[int]:
        return set(range(start, start + profile.memory_slices))

    used = set().union(*(cells(profiles[other], start) for other, start in placed))
    if wanted.media and any(profiles[other].media for other, _ in placed):
        return 0
    room = [start for start in wanted.starts if not cells(wanted, start) & used]
    return max(
        count
        for count in range(min(wanted.max_count, len(room)) + 1)
        for chosen in combinations(room, count)
        if len(set().union(*(cells(wanted, start) for start in chosen))) == count * wanted.memory_slices
    )


@pytest.mark.parametrize("key", sorted(GEOMETRIES))
def test_what_fits_beside_any_slice_of_any_model_is_what_trying_all_places_finds(key: str) -> None:
    places = [(p.name, start) for p in GEOMETRIES[key].profiles.values() for start in p.starts]

    for placed in [[], *([place] for place in places)]:
        expected = {name: most(key, name, placed) for name in GEOMETRIES[key].profiles}
        assert expected == hardware_shares.free_profiles(key, placed), placed
        for name, count in expected.items():
            assert bool(count) == bool(hardware_shares.legal_starts(key, name, placed)), (placed, name)


def test_every_published_profile_is_legal_where_it_is_published_to_be() -> None:
    for row in published("mig_geometry.csv"):
        key = row["gpu_model"].split(" ")[0]
        starts = tuple(int(start) for start in row["placement_starts"].split(";"))
        assert starts == hardware_shares.legal_starts(key, row["profile"]), row
        assert int(row["max_count"]) == hardware_shares.free_profiles(key, [])[row["profile"]], row
        for start in range(8):
            if start not in starts:
                with pytest.raises(ValueError, match="cannot start at"):
                    hardware_shares.free_profiles(key, [(row["profile"], start)])


@given(st.data())
def test_what_fits_beside_any_layout_is_what_trying_all_places_finds(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(GEOMETRIES)))
    placed: list[tuple[str, int]] = []
    for _ in range(data.draw(st.integers(0, 5))):
        room = [
            (name, at) for name in GEOMETRIES[key].profiles for at in hardware_shares.legal_starts(key, name, placed)
        ]
        if room:
            placed.append(data.draw(st.sampled_from(room)))

    assert {name: most(key, name, placed) for name in GEOMETRIES[key].profiles} == hardware_shares.free_profiles(
        key, placed
    )


@pytest.mark.parametrize(
    ("expected", "model", "profile", "placed"),
    [
        pytest.param(1, "H100-80GB", "1g.10gb+me", [("1g.10gb", 0)], id="the media extensions are free"),
        pytest.param(0, "H100-80GB", "1g.10gb+me", [("1g.10gb.me", 0)], id="the media extensions are taken"),
        pytest.param(6, "H100-80GB", "1g.10gb", [("1g.10gb+me", 0)], id="plain slices do not need them"),
        pytest.param(0, "A30-24GB", "2g.12gb+me", [("1g.6gb+me", 3)], id="one holder over all profiles"),
        pytest.param(3, "A30-24GB", "1g.6gb", [("1g.6gb", 0)], id="A30 has four slices"),
    ],
)
def test_media_extensions_exist_once(expected: int, model: str, profile: str, placed: list[tuple[str, int]]) -> None:
    assert expected == hardware_shares.free_profiles(model, placed)[profile]


@pytest.mark.parametrize(
    ("message", "model", "placed"),
    [
        pytest.param("no known MIG geometry", "Tesla T4", [], id="a GPU without MIG"),
        pytest.param("has no MIG profile '1g.5gb'", "H100-80GB", [("1g.5gb", 0)], id="another model's profile"),
        pytest.param("cannot start at 1", "H100-80GB", [("2g.20gb", 1)], id="an illegal start"),
        pytest.param("overlaps", "H100-80GB", [("3g.40gb", 0), ("1g.10gb", 3)], id="an overlap"),
        pytest.param("media extensions", "H100-80GB", [("1g.10gb+me", 0), ("1g.10gb+me", 1)], id="two with media"),
    ],
)
def test_impossible_placements_are_named(message: str, model: str, placed: list[tuple[str, int]]) -> None:
    with pytest.raises(ValueError, match=message):
        hardware_shares.free_profiles(model, placed)


def test_legal_starts_are_those_not_covered() -> None:
    assert (4,) == hardware_shares.legal_starts("H100-80GB", "3g.40gb", [("1g.10gb", 0)])
    assert () == hardware_shares.legal_starts("H100-80GB", "1g.10gb+me", [("1g.10gb+me", 6)])


def test_maximal_layouts_by_enumeration() -> None:
    assert (38, 14) == (
        len(hardware_shares.maximal_layouts("H100-80GB")),
        len(hardware_shares.maximal_layouts("H100-80GB", False)),
    )
