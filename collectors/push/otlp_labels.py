"""Attributes of OTLP to the labels that dcgm-exporter's series have, and metric names to DCGM's.

A resource is what was scraped or what sends: its attributes say where, those of a data point say which device. What a
collector's `prometheus` receiver scraped carries `service.instance.id`, the address of the exporter: the pod of such a
resource is the exporter's own and holds no GPU. Elsewhere the pod of the resource is the workload.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuwatch.collectors.shared.device_labels import field_of
from gpuwatch.core.fields import Field

INSTANCE = "service.instance.id"
ALWAYS = {INSTANCE: "instance", "k8s.node.name": "node", "host.name": "exported_hostname"}
"""Attributes of a resource by the label they are. host.name is asked last: it may be the collector's own host."""
WORKLOAD = {
    "k8s.namespace.name": "namespace",
    "k8s.pod.name": "pod",
    "k8s.pod.uid": "pod_uid",
    "k8s.container.name": "container",
}
DEVICE = {"gpu.uuid": "UUID", "gpu.number": "gpu", "gpu.index": "gpu", "gpu.model": "modelName"}
"""Names that pipelines give to labels of a device, with dots."""
_OWNERS = frozenset(WORKLOAD.values()) | {f"exported_{label}" for label in WORKLOAD.values()}


def dcgm_field(name: str) -> Field | str:
    """The stored field of a metric name, which may have dots and lower case; or the reason why it has none."""
    return field_of(name.replace(".", "_") if "." in name else name)


def labels_of(resource: Mapping[str, str], point: Mapping[str, str]) -> dict[str, str]:
    """The labels of a series. Those of the data point come first; a workload is taken from one of the two, not mixed."""
    found: dict[str, str] = {}
    for key, value in point.items():
        label = DEVICE.get(key) or ALWAYS.get(key) or WORKLOAD.get(key) or key.replace(".", "_")
        found.setdefault(label, value)
    owned = any(found.get(label) for label in _OWNERS) or INSTANCE in resource
    for key, value in resource.items():
        label = DEVICE.get(key) or ALWAYS.get(key) or WORKLOAD.get(key) or key.replace(".", "_")
        if not (owned and label in _OWNERS):
            found.setdefault(label, value)
    return found
