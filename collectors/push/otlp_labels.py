"""Maps OTLP attributes to the labels of dcgm-exporter, and metric names to those of DCGM.

A resource is a scrape target or a sender: its attributes give the location, those of a data point the device. Metrics
scraped by a collector's `prometheus` receiver have `service.instance.id`, the address of the exporter; the pod of such a
resource is the exporter itself and holds no GPU. Otherwise the pod of the resource is the workload.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuwatch.collectors.shared.device_labels import field_of
from gpuwatch.core.fields import Field

INSTANCE = "service.instance.id"
ALWAYS = {INSTANCE: "instance", "k8s.node.name": "node", "host.name": "exported_hostname"}
"""Resource attributes and their labels. host.name has the lowest priority: it may be the collector's host."""
WORKLOAD = {
    "k8s.namespace.name": "namespace",
    "k8s.pod.name": "pod",
    "k8s.pod.uid": "pod_uid",
    "k8s.container.name": "container",
}
DEVICE = {"gpu.uuid": "UUID", "gpu.number": "gpu", "gpu.index": "gpu", "gpu.model": "modelName"}
"""Dotted names that pipelines use for device labels."""
_OWNERS = frozenset(WORKLOAD.values()) | {f"exported_{label}" for label in WORKLOAD.values()}


def dcgm_field(name: str) -> Field | str:
    """The stored field of a metric name, which may have dots and lower case; or the reason why there is none."""
    return field_of(name.replace(".", "_") if "." in name else name)


def series_labels(resource: Mapping[str, str], point: Mapping[str, str]) -> dict[str, str]:
    """The labels of a series. The data point takes precedence; the workload comes entirely from one of the two."""
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
