"""The agent: NVML readings of a node without DCGM."""
