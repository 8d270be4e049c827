"""What the labels of GKE, EKS, AKS and OKE say of a node's GPUs, in the words of GPU feature discovery, where that does not run."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwatch.collectors.shared.instance_gpus import Gpus, gpus_of_instance
from gpuwatch.collectors.shared.resource_lists import MIG_PREFIX, profile_of

PRODUCT, COUNT, REPLICAS = "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.replicas"
SHARING = "nvidia.com/gpu.sharing-strategy"
GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"
GKE_COUNT = "cloud.google.com/gke-accelerator-count"
GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
INSTANCE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
CLOUD_LABELS = (GKE_ACCELERATOR, GKE_COUNT, GKE_PARTITION, GKE_SHARING, GKE_CLIENTS, *INSTANCE_LABELS)

_GKE_MODELS = {
    "nvidia-tesla-k80": "K80",
    "nvidia-tesla-p4": "P4",
    "nvidia-tesla-p100": "P100",
    "nvidia-tesla-v100": "V100",
    "nvidia-tesla-t4": "T4",
    "nvidia-l4": "L4",
    "nvidia-tesla-a100": "A100-40GB",
    "nvidia-a100-80gb": "A100-80GB",
    "nvidia-h100-80gb": "H100",
    "nvidia-h100-mega-80gb": "H100",
    "nvidia-h200-141gb": "H200",
    "nvidia-b200": "B200",
    "nvidia-gb200": "GB200",
    "nvidia-rtx-pro-6000": "RTX PRO 6000",
}
_PRODUCTS = {
    **{model: f"Tesla-{model}" for model in ("K80", "M60", "P4", "P100", "V100", "T4")},
    **{
        model: f"NVIDIA-{model}"
        for model in ("T4G", "A10", "A10G", "L4", "L40S", "H100-NVL", "H200", "B200", "B300", "GB200")
    },
    "A100-40GB": "NVIDIA-A100-SXM4-40GB",
    "A100-80GB": "NVIDIA-A100-SXM4-80GB",
    "H100": "NVIDIA-H100-80GB-HBM3",
    "RTX PRO 6000": "NVIDIA-RTX-PRO-6000",
}
"""The label of GPU feature discovery, or how it begins. Clouds have A100 and H100 on SXM boards, except what `_product` says."""
_STRATEGIES = {"time-sharing": "time-slicing", "mps": "mps"}


def with_cloud_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of a node, with those of GPU feature discovery that the cloud's own ones imply. Unknown instances add none."""
    if labels.get(PRODUCT):
        return dict(labels)
    found: dict[str, str] = {}
    strategy = _STRATEGIES.get(labels.get(GKE_SHARING, ""))
    if strategy and labels.get(GKE_CLIENTS):
        found |= {SHARING: strategy, REPLICAS: labels[GKE_CLIENTS]}
    gpus, size = _gpus(labels), labels.get(GKE_PARTITION)
    if gpus is not None and (product := _product(gpus)):
        if not size:
            found |= {PRODUCT: product, COUNT: str(gpus.count)} if gpus.count else {PRODUCT: product}
        elif profile_of(MIG_PREFIX + size):  # a node's capacity counts its slices
            found[PRODUCT] = f"{product}-MIG-{size}"
    return found | dict(labels)


def model_asked(selector: Mapping[str, object]) -> str | None:
    """The model that the node selector of a pod asks for, as far as a label of GKE names it."""
    model = _GKE_MODELS.get(str(selector.get(GKE_ACCELERATOR)))
    return _PRODUCTS.get(model) if model else None


def _gpus(labels: Mapping[str, str]) -> Gpus | None:
    if model := _GKE_MODELS.get(labels.get(GKE_ACCELERATOR, "")):
        count = labels.get(GKE_COUNT, "")
        return Gpus(None, int(count) if count.isdecimal() and len(count) < 4 else 0, model)
    named = (labels[label] for label in INSTANCE_LABELS if labels.get(label))
    return next((gpus for name in named if (gpus := gpus_of_instance(name)) is not None), None)


def _product(gpus: Gpus) -> str | None:
    if gpus.model == "A100-80GB" and (gpus.instance_type or "").startswith("nc"):
        return "NVIDIA-A100-80GB-PCIe"
    return _PRODUCTS.get(gpus.model)
