"""Which pods a dump lists: all of the cluster, those of one namespace, those of one node; or a choice that says nothing of others."""

from __future__ import annotations

from gpuwatch.collectors.shared.json_fields import Object, mapping, string

Scope = dict[str, str | None]


class PodList:
    """Takes the pods of one file, those without GPUs too.

    `kubectl get pods` does not print what it was asked for, so that is seen from the pods: a list of several namespaces has those of
    all (names can be given within one namespace only), pods of one node may be those of a field selector, and pods that have a
    label in common may be those of a label selector.
    """

    def __init__(self) -> None:
        self._pods = 0
        self._namespaces: set[str] = set()
        self._nodes: set[str] = set()
        self._labels: set[tuple[str, str]] | None = None
        self._complete = True

    def take(self, pod: Object) -> None:
        """Takes a pod. Raises Malformed."""
        metadata = mapping(pod, "metadata")
        self._pods += 1
        self._namespaces.add(string(metadata, "namespace") or "default")
        node = string(mapping(pod, "spec"), "nodeName")
        if node is not None:
            self._nodes.add(node)
        if self._labels is None or self._labels:
            labels = {(name, str(value)) for name, value in mapping(metadata, "labels").items()}
            self._labels = labels if self._labels is None else self._labels & labels

    def lacks(self, kind: str) -> None:
        """Notes that an object could not be read: a pod that is missing may be that one."""
        self._complete = self._complete and kind != "Pod"

    def scope(self, alone: bool) -> Scope | None:
        """The namespace and the node whose pods are all listed (None: any); no scope where that is not certain.

        `alone`: the file has no nodes, so that its pods may have been asked for by name.
        """
        one_namespace = len(self._namespaces) == 1
        if not self._pods or not self._complete or self._labels or (one_namespace and alone and self._pods < 2):
            return None
        return {
            "namespace": next(iter(self._namespaces)) if one_namespace else None,
            "node": next(iter(self._nodes)) if len(self._nodes) == 1 else None,
        }
