"""The fleet as a drawing: GPUs in their places, and the parts of the pages Topology and Capacity around it."""
