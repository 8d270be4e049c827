"""Teams of Kubernetes namespaces, by their label gpuwatch.io/team."""

from __future__ import annotations

from gpuwatch.collectors.kubernetes.kinds import Rows, object_kind
from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, string
from gpuwatch.collectors.shared.resource_lists import json_or_none

TEAM_LABEL = "gpuwatch.io/team"


@object_kind("Namespace", "", "namespaces", ("v1",), namespaced=False)
def namespace(item: Object, observed_us: int | None) -> Rows:
    """The queue row of a namespace with its team, None without the label. Raises Malformed."""
    metadata = mapping(item, "metadata")
    name = string(metadata, "name")
    if not name:
        raise Malformed("metadata has no name")
    team = string(mapping(metadata, "labels"), TEAM_LABEL)
    yield (
        "queue",
        {
            "scheduler": "kubernetes",
            "kind": "namespace",
            "name": name,
            "namespace": name,
            "observed_us": observed_us,
            "state": string(mapping(item, "status"), "phase") or "Active",
            "detail": json_or_none({"team": team} if team else {}),
        },
    )
