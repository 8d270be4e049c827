"""The rights in deploy/kubernetes are those that reading needs: not one less, not one more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.feeds import Events, Nodes, Pods
from gpuwatch.collectors.kubernetes.rbac import main, manifests
from gpuwatch.collectors.kubernetes.source import all_feeds

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy" / "kubernetes"
LISTED = [{"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]}]
"""What the scraper's discovery looks for, which is no kind of record."""
Right = tuple[str, str]


def rights(*paths: Path) -> set[Right]:
    """(API group, collection) of every rule of every ClusterRole in files; each with exactly the verbs of looking."""
    rules = [r for path in paths for o in documents(path) if o["kind"] == "ClusterRole" for r in o["rules"]]
    assert [] == [rule for rule in rules if rule["verbs"] != (["list"] if rule in LISTED else ["get", "list", "watch"])]
    assert [] == [rule for rule in rules if set(rule) - {"apiGroups", "resources", "verbs"}]
    return {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def test_the_rules_are_the_registered_kinds() -> None:
    book = ClusterChanges()
    read = {(feed.group, feed.plural) for feed in all_feeds(book) if feed.versions}
    read.add(("discovery.k8s.io", "endpointslices"))

    assert read == rights(*(DEPLOY / "access").glob("*.yaml")), (
        "write them anew: python -m gpuwatch.collectors.kubernetes.rbac deploy/kubernetes/access"
    )


def test_pods_nodes_and_events_are_in_the_role_that_is_always_applied() -> None:
    book = ClusterChanges()

    assert {(f.group, f.plural) for f in (Pods(book), Nodes(book), Events(book))} == rights(DEPLOY / "10-access.yaml")


def test_each_group_can_be_left_out() -> None:
    """A role and a binding to the same account a file, and a file a group."""
    groups = []
    for path in sorted((DEPLOY / "access").glob("*.yaml")):
        role, binding = documents(path)
        groups.append(role["rules"][0]["apiGroups"])

        assert ["ClusterRole", "ClusterRoleBinding"] == [role["kind"], binding["kind"]]
        assert 1 == len(role["rules"])
        assert role["metadata"]["name"] == binding["roleRef"]["name"] == f"gpuwatch-{path.stem}"
        assert [{"kind": "ServiceAccount", "name": "gpuwatch", "namespace": "gpuwatch"}] == binding["subjects"]
    assert len(groups) == len({tuple(names) for names in groups})


def test_the_files_are_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "gone.example.yaml").write_text("old")
    main(str(tmp_path))

    assert manifests() == {path.name: path.read_text() for path in tmp_path.iterdir()}


def test_the_page_names_every_group() -> None:
    page = (ROOT / "docs" / "connect" / "kubernetes.md").read_text("utf-8")

    assert [] == [name for name in manifests() if f"`{name.removesuffix('.yaml')}`" not in page]
