"""The GPU model of nodes that only jobs name: from the type of their allocations."""

from __future__ import annotations

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
