"""Accelerators other than NVIDIA's that Kubernetes pods hold: their kinds, and what they are called where no source gives a model.

No source measures them. The kind stands in the column `profile` of claims and in the inventory of nodes, where NVIDIA devices
have their MIG profile: it contains a slash, which no MIG profile does. Requests for shares of GPUs have such a kind too (SHARES):
no rule counts them as requests for GPUs.
"""

from __future__ import annotations

AMD, INTEL, GAUDI, NEURON, NEURON_CORE, TPU = (
    "amd.com/gpu",
    "gpu.intel.com/gpu",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "google.com/tpu",
)
NAMES = {
    AMD: "AMD GPU",
    INTEL: "Intel GPU",
    GAUDI: "Intel Gaudi",
    NEURON: "AWS Neuron device",
    NEURON_CORE: "AWS Neuron core",
    TPU: "Google TPU",
}
"""Vendor and model in words, by kind."""
SHARD, MPS, REPLICA = SHARES = ("gres/shard", "gres/mps", "nvidia.com/gpu.shared")
"""Kinds of requests for shares of GPUs: shards and percents of Slurm, replicas of a shared GPU in Kubernetes."""
