"""RBAC manifests for reading each kind: `python -m gpuwatch.collectors.kubernetes.rbac FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from gpuwatch.collectors.kubernetes.dra import GROUP as DRA_GROUP
from gpuwatch.collectors.kubernetes.kinds import kinds

VERBS = ("get", "list", "watch")
DISCOVERY = "discovery.k8s.io"
"""Group of the EndpointSlices that `[[dcgm]] kubernetes` finds its targets in; they are only listed."""
CORE = "core"
"""File and role of the core group's other kinds; pods, nodes and events are in the role `gpuwatch`."""

_MANIFEST = """\
# {about}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {name}
  labels:
    app.kubernetes.io/name: gpuwatch
rules:
  - apiGroups: ["{group}"]
    resources: [{resources}]
    verbs: [{verbs}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {name}
  labels:
    app.kubernetes.io/name: gpuwatch
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {name}
subjects:
  - kind: ServiceAccount
    name: gpuwatch
    namespace: gpuwatch
"""


def resources() -> dict[str, tuple[str, ...]]:
    """Names of the collections that are read live, by API group, without pods, nodes and events."""
    found: dict[str, set[str]] = {
        DRA_GROUP: {"resourceclaims", "resourceslices"},
        DISCOVERY: {"endpointslices"},
    }
    for kind in kinds().values():
        if kind.versions:
            found.setdefault(kind.group, set()).add(kind.plural)
    return {group: tuple(sorted(found[group])) for group in sorted(found)}


def manifests() -> dict[str, str]:
    """Manifest texts by file name: one role and binding per group, so that each can be left out."""
    texts = {}
    for group, names in resources().items():
        stem = group or CORE
        about = f"Read access to {group or 'other kinds of the core group'}. Leave this file out if you do not use it."
        verbs = ("list",) if group == DISCOVERY else VERBS
        texts[f"{stem}.yaml"] = _MANIFEST.format(
            about=about, name=f"gpuwatch-{stem}", group=group, resources=_quoted(names), verbs=_quoted(verbs)
        )
    return texts


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def main(folder: str) -> None:
    """Writes every manifest and deletes those of groups that are no longer read."""
    texts = manifests()
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for old in place.glob("*.yaml"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (place / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
