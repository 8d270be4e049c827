"""The GPU model of nodes that only jobs name: from the type of their allocations."""

from __future__ import annotations

import pytest

from tests.worlds.world import BUSY, H100, HOUR, Gpu, World, claim, minutes, node, samples


def models(world: World) -> dict[str, tuple[str | None, str | None]]:
    """(model, pool) by device."""
    world.book()
    return {
        gpu: (model, pool) for gpu, model, pool in world.store.sql("select gpu, model, pool from device order by gpu")
    }


def test_the_type_of_a_job_is_the_model_of_its_node() -> None:
    world = World().add(
        claim("1", 0, HOUR, node="typed", gpu_type="h100"),
        claim("2", HOUR, 2 * HOUR, node="typed"),
        claim("3", 0, HOUR, node="untyped"),
        claim("4", 0, HOUR, node="two", gpu_type="h100"),
        claim("5", HOUR, 2 * HOUR, node="two", gpu_type="a100"),
        claim("6", 0, HOUR, node="listed", gpu_type="h100"),
        claim("7", 0, HOUR, node="bare", gpu_type="h100"),
        node("listed", {"": 1}, gpu_model="h200", pool="gpu"),
        node("bare", {"": 1}, pool="gpu"),
    )

    assert {
        "bare/gpu0": ("h100", "gpu"),
        "listed/gpu0": ("h200", "gpu"),
        "two/gpu0": (None, None),
        "typed/gpu0": ("h100", "h100"),
        "untyped/gpu0": (None, None),
    } == models(world)


def test_it_takes_the_name_of_the_exporter_where_one_fits() -> None:
    world = World().add(
        samples(Gpu(node="measured"), minutes(0, HOUR), BUSY),
        claim("1", 0, HOUR, node="dark", gpu_type="h100"),
    )

    assert (H100, H100) == models(world)["dark/gpu0"]


NVL = "NVIDIA H100 NVL"


@pytest.mark.parametrize(
    ("measured", "type_of_measured", "dark", "expected"),
    [
        # Names that only look alike.
        ("NVIDIA L40S", None, "l4", "l4"),
        ("NVIDIA L40S", None, "l40", "l40"),
        ("NVIDIA A100-SXM4-80GB", None, "a10", "a10"),
        ("NVIDIA GB200", None, "b200", "b200"),
        (NVL, None, "h100", "h100"),
        (NVL, "h100_nvl", "h100", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100_80g", "a100", "a100"),
        ("NVIDIA RTX 6000 Ada Generation", None, "rtx6000", "rtx6000"),
        ("NVIDIA GeForce GTX 1080 Ti", None, "gtx1080", "gtx1080"),
        # Names of one model.
        (NVL, "h100", "h100", NVL),
        (NVL, None, "h100_nvl", NVL),
        (H100, None, "h100", H100),
        (H100, "NVIDIA-H100-80GB-HBM3", "h100", H100),
        ("NVIDIA A100-SXM4-80GB", None, "nvidia_a100-sxm4-80gb", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA A100-SXM4-80GB", None, "a100_80gb", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA A100-SXM4-80GB", "big", "big", "NVIDIA A100-SXM4-80GB"),
        ("Quadro RTX 6000", None, "rtx6000", "Quadro RTX 6000"),
        ("NVIDIA GeForce GTX 1080 Ti", None, "gtx1080ti", "NVIDIA GeForce GTX 1080 Ti"),
    ],
)
def test_a_part_of_a_word_names_no_model(measured: str, type_of_measured: str | None, dark: str, expected: str) -> None:
    world = World().add(
        samples(Gpu(node="measured", model=measured), minutes(0, HOUR), BUSY),
        claim("1", 0, HOUR, node="dark", gpu_type=dark),
    )
    if type_of_measured:
        world.add(node("measured", {"": 1}, gpu_model=type_of_measured))

    assert expected == models(world)["dark/gpu0"][0]


def test_a_type_of_two_measured_models_names_neither() -> None:
    world = World().add(
        samples(Gpu(node="m1", model=H100), minutes(0, HOUR), BUSY),
        samples(Gpu("GPU-b", node="m2", model=NVL), minutes(0, HOUR), BUSY),
        node("m1", {"": 1}, gpu_model="h100"),
        node("m2", {"": 1}, gpu_model="h100"),
        claim("1", 0, HOUR, node="dark", gpu_type="h100"),
    )

    assert "h100" == models(world)["dark/gpu0"][0]
