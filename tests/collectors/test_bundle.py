"""What a bundle directory holds, what it lacks, and a bundle.toml that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.collectors.bundle import BundlePlan, plan
from gpuwatch.core.errors import UnreadableInput, UsageError


def bundle(root: Path, *names: str, toml: str | None = 'cluster = "c1"') -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    if toml is not None:
        (root / "bundle.toml").write_text(toml)
    return root


def parts(found: BundlePlan, root: Path) -> list[tuple[str, str]]:
    return [(kind, file.relative_to(root).as_posix()) for kind, file in found.parts]


FULL = (
    "metrics/b.prom.gz", "metrics/a.prom", "metrics/day2/c.prom.zst", "topo/n2.txt", "topo/n1.txt",
    "slurm/topology.conf", "slurm/sacct.txt", "slurm/squeue.json", "slurm/scontrol_job.txt", "slurm/scontrol_node.txt",
    "k8s/pods.json", "k8s/nodes.json.gz", "ray/jobs.json", "ray/nodes.json.gz", "ray/day/tasks.json", "yunikorn/queues.json", "ray/note.txt",
    "rates.csv", "teams.csv", "truth.json", "notes.doc", "slurm/other.txt", ".git/x",
)  # fmt: skip


def test_every_part_has_its_kind_in_a_fixed_order(tmp_path: Path) -> None:
    found = plan(bundle(tmp_path, *FULL))

    assert [
        ("k8s-json", "k8s/nodes.json.gz"),
        ("k8s-json", "k8s/pods.json"),
        ("sacct", "slurm/sacct.txt"),
        ("slurm-json", "slurm/squeue.json"),
        ("scontrol", "slurm/scontrol_node.txt"),
        ("scontrol", "slurm/scontrol_job.txt"),
        ("slurm-topology", "slurm/topology.conf"),
        ("yunikorn-json", "yunikorn/queues.json"),
        ("ray-json", "ray"),
        ("topo", "topo/n1.txt"),
        ("topo", "topo/n2.txt"),
        ("openmetrics", "metrics/a.prom"),
        ("openmetrics", "metrics/b.prom.gz"),
        ("openmetrics", "metrics/day2/c.prom.zst"),
    ] == parts(found, tmp_path)
    assert (tmp_path / "rates.csv", tmp_path / "teams.csv") == (found.rates, found.teams)
    assert () == found.missing
    assert ("notes.doc", "ray/note.txt", "slurm/other.txt") == found.unknown


PODS = '{\n  "apiVersion": "v1",\n  "items": [{"apiVersion": "v1", "kind": "Pod"}], "kind": "List"}'
OTHER = '{"jobs": [], "kind": "Pod", "apiVersion": "v1"}'


def test_files_beside_bundle_toml_are_read_if_it_is_plain_what_they_are(tmp_path: Path) -> None:
    root = bundle(tmp_path, "gpus.prom", "sacct.txt", "deep/pods.json", "pods.txt")
    for name, text in {
        "pods.json": PODS,
        "jobs.json": OTHER,
        "list.json": '{"apiVersion": "v1", "kind": "Secret"}',
    }.items():
        (root / name).write_text(text)
    found = plan(root)

    assert [("k8s-json", "pods.json"), ("sacct", "sacct.txt"), ("openmetrics", "gpus.prom")] == parts(found, root)
    assert ("deep/pods.json", "jobs.json", "list.json", "pods.txt") == found.unknown
    assert [] == [text for text in found.missing if text.startswith(("k8s", "metrics", "slurm/sacct"))]


def test_an_empty_bundle_names_all_that_is_missing(tmp_path: Path) -> None:
    found = plan(bundle(tmp_path, toml=None))

    assert ("default", None, None, (), None, None) == (
        found.cluster,
        found.scrape_interval_us,
        found.timezone,
        found.parts,
        found.rates,
        found.teams,
    )
    assert [
        "bundle.toml",
        "metrics/*.prom",
        "k8s/*.json, slurm/sacct.txt",
        "topo/<node>.txt",
        "rates.csv",
        "teams.csv",
    ] == [text.split(":")[0] for text in found.missing]


@pytest.mark.parametrize("name", ["ray/jobs.json", "yunikorn/queues.json", "slurm/sacct.txt"])
def test_one_scheduler_is_enough_and_the_others_are_not_mentioned(tmp_path: Path, name: str) -> None:
    found = plan(bundle(tmp_path, name, "metrics/a.prom"))

    assert [] == [text for text in found.missing if text.startswith(("k8s", "ray", "yunikorn"))]


def test_the_files_of_slurm_are_found_beside_their_folder_too(tmp_path: Path) -> None:
    root = bundle(tmp_path, "scontrol_nodes.txt", "scontrol_job.txt", "sacct.txt", "topology.conf", "topology.yaml")
    found = plan(root)

    assert [
        ("sacct", "sacct.txt"),
        ("scontrol", "scontrol_nodes.txt"),
        ("scontrol", "scontrol_job.txt"),
        ("slurm-topology", "topology.conf"),
    ] == parts(found, root)
    assert [] == [text for text in found.missing if text.startswith("slurm/")]
    assert ("topology.yaml",) == found.unknown


def test_a_slurm_bundle_names_the_slurm_files_that_are_missing(tmp_path: Path) -> None:
    found = plan(bundle(tmp_path, "slurm/sacct.txt", "metrics/a.prom", "topo/n.txt", "rates.csv", "teams.csv"))

    assert ["slurm/scontrol_job.txt", "slurm/scontrol_node.txt", "slurm/topology.conf"] == [
        text.split(":")[0] for text in found.missing
    ]


@pytest.mark.parametrize(
    ("toml", "cluster", "interval", "timezone"),
    [
        pytest.param('cluster = "c1"', "c1", None, None, id="the least"),
        pytest.param('cluster = "c1"\nscrape_interval_s = 15', "c1", 15_000_000, None, id="whole seconds"),
        pytest.param("scrape_interval_s = 0.1", "default", 100_000, None, id="a fraction of a second"),
        pytest.param('timezone = "Europe/Berlin"', "default", None, "Europe/Berlin", id="a time zone"),
    ],
)
def test_settings(tmp_path: Path, toml: str, cluster: str, interval: int | None, timezone: str | None) -> None:
    found = plan(bundle(tmp_path, toml=toml))

    assert (cluster, interval, timezone) == (found.cluster, found.scrape_interval_us, found.timezone)


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        pytest.param("cluster = ", "not TOML", id="torn"),
        pytest.param("cluster = 7", "key cluster", id="a number for a name"),
        pytest.param('cluster = " "', "key cluster", id="a blank name"),
        pytest.param('scrape_interval_s = "15"', "key scrape_interval_s", id="text for seconds"),
        pytest.param("scrape_interval_s = 0", "key scrape_interval_s", id="zero seconds"),
        pytest.param("scrape_interval_s = nan", "key scrape_interval_s", id="not a number"),
        pytest.param("scrape_interval_s = true", "key scrape_interval_s", id="a truth value"),
        pytest.param('timezone = "Mars/Base"', "key timezone", id="a zone that is none"),
        pytest.param('timezone = "../../etc/passwd"', "key timezone", id="a path for a zone"),
        pytest.param("timezone = 1", "key timezone", id="a number for a zone"),
    ],
)
def test_a_wrong_setting_names_file_and_key(tmp_path: Path, toml: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        plan(bundle(tmp_path, toml=toml))
    assert str(tmp_path / "bundle.toml") in str(error.value)


def test_an_unknown_key_is_shown(tmp_path: Path) -> None:

    assert ("bundle.toml: key 'clutser'",) == plan(bundle(tmp_path, toml='clutser = "c1"')).unknown


def test_a_bundle_that_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="not a directory"):
        plan(tmp_path / "gone")
